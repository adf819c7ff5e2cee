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
PLACES = r"(?:/tmp|/home|/root|/Users|[A-Z]:\\)"


def load(name):
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


CELLS, PROBING = (
    load("make_tutorial").cells((DOCS / f"{name}.py").read_text(encoding="utf-8"))
    for name in ("tutorial", "probing")
)


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


def test_a_transformer_is_trained_probed_and_snapped(monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    space = {}
    for kind, source in PROBING:
        if kind == "code":
            value = evaluate(source, space)
            assert draws(source) == (value is not None), source
    real, outranked, minimal = space["found"].behaviour
    assert min(real.agreement.value, minimal.agreement.value) > 0.9
    assert outranked.agreement.value < real.agreement.value
    assert abs(real.untrained.value - 0.5) < 0.2
    frozen = [x.frozen_at for x in space["course"].courses]
    assert all(x is None or x > space["learned"] for x in frozen)  # as its words say
    assert "nine in ten orders" in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(scope="module")
def notebook():
    return json.loads((DOCS / "tutorial.ipynb").read_text(encoding="utf-8"))


def outputs(notebook):
    return [o for c in notebook["cells"] if c["cell_type"] == "code" for o in c["outputs"]]


@pytest.fixture(scope="module")
def probing():
    return json.loads((DOCS / "probing.ipynb").read_text(encoding="utf-8"))


def test_the_notebooks_are_made_from_their_files(notebook, probing):
    for made, source in ((notebook, CELLS), (probing, PROBING)):
        kept = [(c["cell_type"], "".join(c["source"])) for c in made["cells"]]
        assert kept == source, "run: python docs/make_tutorial.py"


@pytest.mark.parametrize("name", ["notebook", "probing"])
def test_the_notebooks_were_run_in_order_and_without_errors(name, request):
    notebook = request.getfixturevalue(name)
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
    assert not re.search(PLACES, said)


def test_the_notebook_of_a_transformer_is_light_and_names_no_place(probing):
    assert (DOCS / "probing.ipynb").stat().st_size < 300_000
    assert not re.search(PLACES, json.dumps(probing))


def test_prose_holds_no_measured_number():
    """Numbers come from cells, or they go stale; prose may name whole ones that the data are made of."""
    for kind, source in [*CELLS, *PROBING]:
        if kind == "markdown":
            assert not re.search(r"\d[.,]\d|\d\s?%|\d{2,}", re.sub(r"`[^`]*`", "", source)), source
