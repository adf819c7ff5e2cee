"""The import drawing of docs/architecture.md, read off the source itself."""

import ast
from pathlib import Path

import pytest

import attomaton

ROOT = Path(attomaton.__file__).parent

BASE = {"doors", "errors", "formats", "ledger", "numerics", "pages", "programs", "results"}
# Each room and the rooms it may import from; a room may always import from itself.
ROOMS = {
    "errors": set(),
    "doors": {"errors"},
    "pages": {"doors", "errors"},
    "formats": {"doors", "errors", "pages"},
    "ledger": {"doors", "errors"},
    "numerics": set(),
    "programs": set(),
    "results": set(),
    "manifest": {"doors", "errors", "formats"},
    "holdings": {"errors", "ledger", "manifest"},
    "storage": BASE | {"holdings", "manifest"},
    "corpus": BASE | {"storage"},
    "mechanics": BASE | {"corpus"},
    "scan_snap": BASE,
    "transformer": BASE | {"corpus"},
    "estimator": BASE | {"corpus", "mechanics", "estimator_input"},
    "estimator_input": BASE | {"corpus"},
    "claims": BASE | {"corpus", "mechanics", "scan_snap", "transformer"},
    "predictor": BASE | {"corpus", "mechanics", "storage"},
    "report": BASE | {"storage"},
    "models": BASE | {"corpus", "mechanics", "storage"},
    "summaries": BASE | {"corpus", "mechanics"},
    "engine": BASE,
    "fits": BASE | {"corpus", "engine", "mechanics", "models", "runs", "storage"},
    "tunings": BASE | {"corpus", "predictor", "runs", "storage"},
    "estimates": BASE | {"corpus", "engine", "fits", "mechanics"},
    "runs": BASE | {"corpus", "mechanics", "claims", "models", "storage"},
    "reproduce": BASE | {"claims", "report", "runs", "storage"},
    "verify": BASE | {"claims", "corpus", "engine", "report", "runs", "storage"},
    "levels": BASE | {"scan_snap"},
    "sweeps": BASE | {"engine", "holdings", "levels", "scan_snap", "storage"},
    "dynamics": BASE | {"levels", "report", "runs", "scan_snap", "storage"},
    "demo": BASE | {"corpus", "mechanics", "models", "report", "runs", "storage"},
    "doctor": BASE | {"corpus", "mechanics", "runs"},
    "folders": BASE | {"holdings", "manifest", "models", "runs", "storage", "sweeps"},
    "interrupts": set(),
    "console": BASE | {"corpus", "interrupts", "storage"},
    "cli_dynamics": BASE | {"console", "dynamics", "engine", "report", "runs", "sweeps"},
    "cli_predictor": BASE
    | {"console", "corpus", "models", "predictor", "report", "storage", "tunings"},
    "cli_verify": BASE | {"console", "engine", "report", "verify"},
    "cli_runs": BASE | {"console", "folders", "report", "storage"},
    "cli_summary": BASE | {"console", "corpus", "models", "report", "runs", "storage", "summaries"},
    "lab": BASE
    | {"claims", "corpus", "dynamics", "fits", "folders", "levels", "mechanics", "models", "report", "runs",
       "scan_snap", "storage", "summaries", "sweeps", "verify"},
    "cli_lab": BASE | {"console", "interrupts", "lab"},
    "__main__": {"cli", "interrupts"},
    "cli": BASE
    | {"cli_dynamics", "cli_lab", "cli_predictor", "cli_runs", "cli_summary", "cli_verify", "console", "corpus",
       "demo", "doctor", "engine", "estimates", "fits", "mechanics", "models", "report", "reproduce", "runs",
       "storage", "summaries"},
}  # fmt: skip
# In each paper's room: theory, experiment, and what both may see.
WALLS = {
    "mechanics": (
        {"graph", "svm", "finite", "laplacian", "limit", "automaton", "view"},
        {"model", "whole", "train", "train_input", "path"},
        {"data", "synthetic"},
    ),
    "scan_snap": (
        {"decoder", "attention", "reduced", "phase"},
        {"draws", "model", "train", "population", "limit"},
        {"data", "families", "trajectory"},
    ),
}


def sources():
    return [p for p in sorted(ROOT.rglob("*.py")) if p != ROOT / "__init__.py"]


def imports(path):
    """Dotted names below `attomaton` that a file imports, wherever in the file it does so."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("attomaton"):
            below = node.module.removeprefix("attomaton").lstrip(".")
            found |= {f"{below}.{alias.name}".lstrip(".") for alias in node.names}
        if isinstance(node, ast.Import):
            found |= {
                a.name.removeprefix("attomaton.") for a in node.names if "attomaton." in a.name
            }
    return found


def room(dotted):
    return dotted.split(".")[0]


@pytest.mark.parametrize("path", sources(), ids=lambda p: str(p.relative_to(ROOT)))
def test_a_file_imports_only_from_the_rooms_it_may_see(path):
    own = path.relative_to(ROOT).parts[0].removesuffix(".py")
    assert own in ROOMS, f"{own} is not in the drawing"
    seen = {room(name) for name in imports(path)} - {own}
    assert seen <= ROOMS[own]


@pytest.mark.parametrize("paper", WALLS)
def test_theory_and_training_never_see_each_other(paper):
    theory, experiment, _ = WALLS[paper]
    for inside, outside in ((theory, experiment), (experiment, theory)):
        for name in inside:
            seen = imports(ROOT / paper / f"{name}.py")
            met = {n.split(".")[1] for n in seen if n.startswith(f"{paper}.")} & outside
            assert not met, f"{paper}.{name} imports {met}"


@pytest.mark.parametrize("paper", WALLS)
def test_every_file_of_a_paper_is_on_one_side_of_the_wall_or_neutral(paper):
    assert {p.stem for p in (ROOT / paper).glob("*.py")} == set().union({"__init__"}, *WALLS[paper])


def test_importing_changes_no_jax_setting():
    import subprocess
    import sys

    code = (
        "import sys, attomaton, attomaton.mechanics.train\n"
        "assert 'jax' not in sys.modules\n"
        "import jax\n"
        "s = attomaton.samples_from_sequences([[0, 1]] * 4, [0, 0, 0, 1])\n"
        "attomaton.train(s, steps=2)\n"
        "print(jax.numpy.ones(1).dtype, jax.config.jax_enable_x64)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["float32", "False"]


def test_the_drawing_in_the_docs_names_every_room():
    text = (ROOT.parents[1] / "docs" / "architecture.md").read_text(encoding="utf-8")
    assert all(f"`{name}" in text for name in ROOMS)
