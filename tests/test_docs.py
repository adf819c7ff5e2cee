"""What README and docs say, held against what the package does."""

import doctest
import importlib.util
import re
import shlex
import sys
from importlib import import_module
from pathlib import Path

import pytest

import attomaton
from attomaton import cli

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def modules():
    root = Path(attomaton.__file__).parent
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        yield ".".join(["attomaton", *(p for p in parts if p != "__init__")])


@pytest.mark.parametrize("name", list(modules()))
def test_examples_in_docstrings_run(name):
    module = import_module(name)
    assert doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE).failed == 0


def test_there_are_examples_to_run():
    found = [len(doctest.DocTestFinder().find(import_module(name))) for name in modules()]
    assert sum(found) > 20


def test_every_public_name_is_there_and_documented():
    for name in attomaton.__all__:
        thing = getattr(attomaton, name)
        assert name == "__version__" or thing.__doc__, name


def test_the_page_of_commands_is_up_to_date():
    spec = importlib.util.spec_from_file_location("make_cli", ROOT / "docs" / "make_cli.py")
    make_cli = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(make_cli)
    page = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    assert page == make_cli.text(), "run: python docs/make_cli.py"


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


def test_readme_python_runs_and_says_the_truth():
    assert len(blocks("python")) == 2
    space = {}
    for block in blocks("python"):
        exec(block, space)
    assert space["model"].predict([["soup", "tea", "cake", "bell"]]).tolist() == ["tea"]
    assert f"{space['limit'].finite.loss_floor:.10f}".startswith("0.4641576188")
    assert (space["run"].records["loss"][:, -1] - space["limit"].finite.loss_floor > 0).all()


def readme_commands():
    lines = [line.split("#")[0].strip() for block in blocks("") for line in block.splitlines()]
    return [shlex.split(line) for line in lines if line.startswith("attomaton ")]


def test_readme_commands_run(monkeypatch, tmp_path, capsys):
    """Each of them, on small files of the names and shapes that README uses."""
    monkeypatch.chdir(tmp_path)
    example = Path(attomaton.__file__).parent / "corpus" / "example.jsonl"
    Path("orders.jsonl").write_bytes(example.read_bytes())
    Path("corpus.txt").write_text("the cat and the dog and the cat saw the dog\n" * 5)
    Path("held_out.txt").write_text("the dog and the cat saw the cat and the dog\n" * 5)
    events = [f"u{i},{p},{t}" for i in range(3) for t, p in enumerate("abacab")]
    Path("log.csv").write_text("\n".join(["user,product,time", *events]) + "\n")
    commands = readme_commands()
    assert len(commands) >= 8
    # The models of the three `fit` lines share a name; the first one is what the later lines ask.
    ordered = [c for c in commands if "fit" in c][::-1] + [c for c in commands if "fit" not in c]
    for command in ordered:
        monkeypatch.setattr(sys, "argv", command)
        with pytest.raises(SystemExit) as stop:
            cli.main()
        assert not stop.value.code, (command, capsys.readouterr().err)
    assert Path("bell.svg").exists()
    assert Path("run/metrics.parquet").exists()


def test_links_lead_somewhere():
    for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_the_notation_page_names_real_things():
    page = (ROOT / "docs" / "notation.md").read_text(encoding="utf-8")
    source = "\n".join(p.read_text(encoding="utf-8") for p in (ROOT / "src").rglob("*.py"))
    for name in re.findall(r"`([A-Za-z_]{3,})`", page):
        assert re.search(rf"\b{name}\b", source), name
