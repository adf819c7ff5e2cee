# Every target makes its own virtual environment; nothing but Python ≥ 3.11 and make is needed.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
# Tests wait for browsers, processes and clocks for a third of their time: two more at work than there are cores.
JOBS ?= $(shell expr $$(getconf _NPROCESSORS_ONLN) + 2)
# Where Python is told not to write bytecode (most containers), every start would compile all it imports anew: what is
# first imported here leaves it behind for all later starts.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: run test again quick bench faults lint docs clean help

help:            ## what can be made
	@grep -E '^[a-z]+: .*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## */\t/'

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "attomaton needs Python >= 3.11; try: make PYTHON=python3.12"; exit 1; }
	$(PYTHON) -m venv $(VENV)

# One stamp per set of dependencies, renewed when pyproject.toml changes. Modules are compiled when they are first
# imported: most of what is installed never is, and compiling all of it takes longer than the rest.
$(VENV)/.installed-%: $(BIN)/python pyproject.toml
	@echo "installing attomaton[$*] into $(VENV) …"
	@$(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check --editable ".[$*]"
	@touch $@

run: $(VENV)/.installed-plot            ## the main job on embedded data
	$(BIN)/attomaton demo

test: $(VENV)/.installed-test           ## all tests
	$(BIN)/python -m pytest -n $(JOBS) --dist loadfile; code=$$?; echo $$code > $(VENV)/.tested; exit $$code

again: $(VENV)/.installed-test          ## the tests that failed last time, one after the other
	$(BIN)/python -m pytest --last-failed --last-failed-no-failures none

quick: $(VENV)/.installed-test          ## the tests that take seconds
	$(BIN)/python -m pytest -n $(JOBS) --dist loadfile -m "not slow"

bench: $(VENV)/.installed-bench         ## speed and memory, as ratios measured in one run
	$(BIN)/python -m benchmarks

faults: $(VENV)/.installed-test         ## kills, interrupts, full disks, bad input, odd command lines: what breaks is counted
	$(BIN)/python -m faults kills
	$(BIN)/python -m faults checkpoints
	$(BIN)/python -m faults inputs
	$(BIN)/python -m faults disks
	$(BIN)/python -m faults interrupts
	$(BIN)/python -m faults commands
	$(BIN)/python -m faults plantings
	$(BIN)/python -m faults encodings
	$(BIN)/python -m faults networks

lint: $(VENV)/.installed-lint           ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: $(VENV)/.installed-docs           ## commands page, figures, tutorial; all pages as a site in docs/_site
	rm -rf docs/_site
	$(BIN)/python docs/make_cli.py
	$(BIN)/python docs/make_figures.py
	$(BIN)/python docs/make_tutorial.py
	$(BIN)/python -m sphinx --quiet --fail-on-warning -d docs/_site/.doctrees docs docs/_site
	@echo "open docs/_site/index.html"

clean:                                  ## forget the virtual environment and caches
	rm -rf $(VENV) docs/_site .pytest_cache .ruff_cache .mypy_cache .hypothesis
