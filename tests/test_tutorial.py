"""The tutorial runs from end to end, and the notebook that is kept was made from it."""

import ast
import contextlib
import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"
LARGEST = 1_500_000  # bytes of the notebook


def load(name):
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


CELLS = load("make_tutorial").cells((DOCS / "tutorial.py").read_text(encoding="utf-8"))


def evaluate(source, space):
    """Run a cell as a notebook does: the value of a last expression is what it shows."""
    body = ast.parse(source).body
    last = body.pop() if isinstance(body[-1], ast.Expr) else None
    exec(compile(ast.Module(body, []), "cell", "exec"), space)
    return (
        None if last is None else eval(compile(ast.Expression(last.value), "cell", "eval"), space)
    )


def draws(source):
    return source.splitlines()[-1].startswith("Picture(")


def test_cells_are_read_from_the_percent_file():
    cells = load("make_tutorial").cells
    text = "# %% [markdown]\n# # Title\n#\n# - words\n\n# %%\nx = 1\n\n\n# %%\n# why\nx\n"
    assert cells(text) == [
        ("markdown", "# Title\n\n- words"),
        ("code", "x = 1"),
        ("code", "# why\nx"),
    ]


@pytest.fixture
def said(monkeypatch, capsys, call):
    """All that is printed; of the commands, only the first gets a process of its own, as in the notebook."""
    kept, begin = [], subprocess.run

    def here(program, *, cwd, **options):
        if not kept:
            kept.append("")
            return begin(program, cwd=cwd, **options)
        assert program[:3] == [sys.executable, "-m", "attomaton"]
        kept.append(capsys.readouterr().out)
        with contextlib.chdir(cwd):
            return subprocess.CompletedProcess(program, *call(*program[3:]))

    monkeypatch.setattr(subprocess, "run", here)
    return lambda: "".join([*kept, capsys.readouterr().out])


def test_every_cell_runs_without_any_data_at_hand(monkeypatch, tmp_path, said):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ATTOMATON_DATA", raising=False)
    monkeypatch.setenv("ATTOMATON_CACHE", str(tmp_path))
    monkeypatch.setenv("ATTOMATON_OFFLINE", "1")
    space = {}
    for kind, source in CELLS:
        if kind == "code":
            value = evaluate(source, space)
            assert draws(source) == (value is not None), source
            assert value is None or "<svg" in value._repr_svg_()
    out = said()
    assert "the story of the harbour" in out
    assert "verdict:  holds · control: fails" in out
    assert list(tmp_path.iterdir()) == []  # it works in a folder of its own


@pytest.fixture(scope="module")
def notebook():
    return json.loads((DOCS / "tutorial.ipynb").read_text(encoding="utf-8"))


def outputs(notebook):
    return [o for c in notebook["cells"] if c["cell_type"] == "code" for o in c["outputs"]]


def test_the_notebook_is_made_from_the_file(notebook):
    kept = [(c["cell_type"], "".join(c["source"])) for c in notebook["cells"]]
    assert kept == CELLS, "run: python docs/make_tutorial.py"


def test_the_notebook_was_run_in_order_and_without_errors(notebook):
    code = [c for c in notebook["cells"] if c["cell_type"] == "code"]
    assert [c["execution_count"] for c in code] == list(range(1, len(code) + 1))
    assert {o["output_type"] for o in outputs(notebook)} == {"stream", "execute_result"}
    assert {o["name"] for o in outputs(notebook) if "name" in o} == {"stdout"}
    for cell in code:
        source = "".join(cell["source"])
        drawn = any("image/svg+xml" in o.get("data", {}) for o in cell["outputs"])
        assert drawn == draws(source)
        assert cell["outputs"] or "print(" not in source or "def " in source, source


def test_the_notebook_is_light_and_names_its_text_and_no_place(notebook):
    assert (DOCS / "tutorial.ipynb").stat().st_size < LARGEST
    said = "\n".join("".join(o.get("text", "")) for o in outputs(notebook))
    assert "text: valid.txt of WikiText-2" in said
    assert not re.search(r"(?:/tmp|/home|/root|/Users|[A-Z]:\\)", said)


def test_prose_holds_no_measured_number():
    """Numbers come from cells, or they go stale; prose may name whole ones that the data are made of."""
    for kind, source in CELLS:
        if kind == "markdown":
            assert not re.search(r"\d[.,]\d|\d\s?%|\d{2,}", re.sub(r"`[^`]*`", "", source)), source
