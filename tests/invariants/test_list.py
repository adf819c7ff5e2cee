"""docs/invariants.md and the tests say the same: every invariant stated has its test, every test is stated."""

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from tests.invariants.harness import COMMIT, holds_for, read_examples, write_examples
from tests.invariants.strategies import data
from tests.oracle import Raw

TESTS = Path(__file__).parents[1]
PAGE = TESTS.parent / "docs" / "invariants.md"
LOCAL = 100  # examples of a test that says nothing else


def stated():
    """The rows of the first table: number, statement, origin, examples, test."""
    rows = re.findall(r"^\| (\d+) \|(.*)\|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    return [(int(n), *(cell.strip() for cell in rest.split(" | "))) for n, rest in rows]


def functions(file):
    """The functions of a test file, by name."""
    tree = ast.parse((TESTS / file).read_text(encoding="utf-8"))
    return {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}


def drawn(function):
    """How many examples a test draws in a repeatable run; None where it draws none."""
    calls = {
        getattr(call.func, "id", ""): {
            k.arg: getattr(k.value, "value", None) for k in call.keywords
        }
        for call in function.decorator_list
        if isinstance(call, ast.Call)
    }
    if "holds_for" in calls:
        return round(COMMIT * calls["holds_for"].get("share", 1))
    if "given" in calls:
        return calls.get("settings", {}).get("max_examples", LOCAL)
    return None


def files():
    return sorted(f"invariants/{path.name}" for path in Path(__file__).parent.glob("test_*.py"))


def test_the_list_is_numbered_and_long_enough():
    rows = stated()
    assert [n for n, *_ in rows] == list(range(1, len(rows) + 1))
    assert len(rows) >= 25
    for _, statement, origin, _, _ in rows:
        assert statement
        assert origin


def test_every_invariant_stated_has_its_test_with_as_many_examples():
    for n, _, _, examples, test in stated():
        file, name = test.strip("`").split("::")
        function = functions(file).get(name)
        assert function is not None, (n, test)
        assert drawn(function) == int(examples), (n, test)


def test_every_invariant_tested_is_stated_once():
    tested = [
        f"`{file}::{name}`"
        for file in files()
        for name, function in functions(file).items()
        if drawn(function) is not None
    ]
    named = [test for *_, test in stated() if "`invariants/" in test]
    assert sorted(named) == sorted(tested)


def test_every_control_is_listed_and_there_are_enough():
    controls = {
        f"`{name}`"
        for file in files()
        for name in functions(file)
        if name.startswith("test_control_")
    }
    listed = re.findall(r"^\| .* \| (`test_control_\w+`) \|$", PAGE.read_text(), re.MULTILINE)
    assert set(listed) == controls
    assert len(listed) == len(controls) >= 8


# What is kept of an invariant that broke


@pytest.fixture
def random_run():
    """A profile like `nightly`, but short."""
    settings.register_profile(
        "short", settings.get_profile("nightly"), max_examples=50, database=None
    )
    before = settings.get_current_profile_name()
    settings.load_profile("short")
    yield
    settings.load_profile(before)


def test_what_breaks_an_invariant_is_kept_shrunk_and_tried_first(tmp_path, random_run):
    def law(raw, n):
        assert len(raw.rows) < 5 or n < 7

    broken = holds_for(data(), st.integers(0, 100), folder=tmp_path)(law)
    with pytest.raises(AssertionError):
        broken()
    ((raw, n),) = read_examples(tmp_path / "law.json")
    assert (len(raw.rows), n) == (5, 7)

    tried = []

    def law(raw, n):  # the same invariant, mended
        tried.append((raw, n))

    holds_for(data(), st.integers(0, 100), folder=tmp_path)(law)()
    assert tried[0] == (raw, n)
    assert read_examples(tmp_path / "law.json") == [[raw, n]]


def test_a_repeatable_run_keeps_nothing(tmp_path):
    def law(n):
        assert n < 7

    with pytest.raises(AssertionError):
        holds_for(st.integers(0, 100), folder=tmp_path)(law)()
    assert not list(tmp_path.iterdir()) or not settings().derandomize


def test_examples_are_plain_and_survive_the_file(tmp_path):
    raw = Raw(3, ((0, 1), (2,)), (1, 2), (0.5, 2.0))
    examples = [[raw, 3, 0.1, float("inf"), [1, "a"], True]]
    write_examples(tmp_path / "x.json", examples)
    assert read_examples(tmp_path / "x.json") == examples
    assert json.loads((tmp_path / "x.json").read_text())[0][0]["rows"] == [[0, 1], [2]]


def test_a_ci_changes_no_profile():
    def profiles(**variables):
        say = "from tests import conftest; [print(conftest.settings.get_profile(n)) for n in ('commit', 'nightly')]"
        without = {name: value for name, value in os.environ.items() if name != "CI"}
        return subprocess.check_output(
            [sys.executable, "-c", say], env=without | variables, cwd=TESTS.parent, text=True
        )

    assert profiles(CI="true") == profiles()
    commit, nightly = profiles(CI="true").splitlines()
    assert "derandomize=True" in commit
    assert "derandomize=False" in nightly
