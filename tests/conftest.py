"""What every test shares: repeatable Hypothesis runs, compiled programs, and WikiText-2 where it is at hand."""

import os
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import settings

# Repeatable by default; `nightly` looks further, at random, and keeps what it finds: see docs/invariants.md.
# Hypothesis takes another default where it finds a CI's variables; a profile is the same everywhere.
ORDINARY = settings.get_profile("default")
settings.register_profile("commit", ORDINARY, derandomize=True, deadline=None)
settings.register_profile("nightly", ORDINARY, max_examples=10_000, deadline=None, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "commit"))

# By far the longest files, the longest first: pages in a browser, processes that are killed, programs to compile.
LONGEST = (
    "tests/lab/test_scan_snap_screen.py",
    "tests/lab/test_training_screen.py",
    "tests/lab/test_start.py",
    "tests/transformer/test_train.py",
    "tests/claims/test_attention_entropy.py",
    "tests/claims/test_scan_snap_theorems.py",
    "tests/scan_snap/test_train.py",
    "tests/test_docs.py",
    "tests/lab/test_graph.py",
    "tests/lab/test_sweep_screen.py",
    "tests/lab/test_automaton_screen.py",
    "tests/scan_snap/test_limit.py",
    "tests/faults/test_kills.py",
    "tests/claims/test_long_sequences.py",
    "tests/mechanics/test_train.py",
    "tests/test_mutations.py",
    "tests/lab/test_lens_screen.py",
    "tests/engine/test_engine.py",
    "tests/test_dynamics.py",
    "tests/test_verify.py",
    "tests/scan_snap/test_reduced.py",
    "tests/mechanics/test_whole.py",
    "tests/claims/test_theorems.py",
    "tests/test_models.py",
    "tests/lab/test_claims_screen.py",
    "tests/claims/test_protocols.py",
    "tests/mechanics/test_svm.py",
    "tests/mechanics/test_finite.py",
    "tests/claims/test_text_attention.py",
    "tests/test_tutorial.py",
)


def pytest_configure(config):
    """Let all processes of a test run share what XLA and Python have compiled.

    The key of XLA's is the program itself. Where `.pyc` files beside the sources are forbidden they are kept apart:
    each of the many small processes would compile all that it imports anew.
    """
    if sys.dont_write_bytecode:
        sys.dont_write_bytecode = False
        sys.pycache_prefix = str(config.cache.mkdir("bytecode"))
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        os.environ["PYTHONPYCACHEPREFIX"] = sys.pycache_prefix
    # Files are handed out in the order below, not those of many tests first: many are mostly quick ones.
    config.option.loadscopereorder = False
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(config.cache.mkdir("jax")))
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.3")
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "0")


def pytest_collection_modifyitems(items):
    """Long files first, so that no process works on one while the others have nothing left to do."""
    place = {name: i for i, name in enumerate(LONGEST)}
    items.sort(key=lambda item: place.get(item.nodeid.split("::")[0], len(place)))


@pytest.fixture(scope="session")
def wikitext() -> Path:
    """The folder with `train.txt`, `valid.txt` and `test.txt` of WikiText-2."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get("ATTOMATON_DATA", beside)) / "wikitext-2"
    if not (folder / "valid.txt").is_file():
        pytest.skip(f"WikiText-2 is not at {folder}; set ATTOMATON_DATA to the folder above it")
    return folder


@pytest.fixture
def call(monkeypatch, capsys):
    """Run a command in this process: exit code, stdout, stderr."""

    from attomaton.cli import console
    from attomaton.cli import main as cli

    # What a slow machine says of its progress is no part of what tests read.
    monkeypatch.setattr(console, "FIRST_LINE", threading.TIMEOUT_MAX)

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["attomaton", *map(str, arguments)])
        code = 0
        try:
            cli.main()
        except SystemExit as stop:
            code = stop.code or 0
        out, err = capsys.readouterr()
        return code, out, err

    return run
