"""The screen that lays two models side by side: the numbers of `attomaton diff`, in words, tables and one picture."""

import json
from math import inf

import pytest
from tests.chromium import eventually
from tests.lab.conftest import enter
from tests.lab.everything import LOG

from attomaton import read_samples, samples_from_sequences, solve_limit
from attomaton.corpus.reading import AS_NAMED
from attomaton.errors import UsageError
from attomaton.folders.differ.last_token import CHANGES, SAME, last_token_difference
from attomaton.lab.compare.picture import SAID, union_scene
from attomaton.lab.shelf import Shelf, _example, _file

CONTRARY = [{"tokens": ["cake", "soup", "bell"], "next": "cake"},
            {"tokens": ["tea", "bread", "bell"], "next": "bread"}]  # fmt: skip


def fitted(rows):
    return solve_limit(samples_from_sequences([list(x) for x, _ in rows], [y for _, y in rows]))


def test_every_change_of_an_edge_is_told_for_what_it_is():
    a = fitted([("ijq", "i"), ("klq", "k"), ("klq", "l"), ("mnq", "m"), ("opq", "o"), ("rq", "r")])
    b = fitted([("ijq", "i"), ("ijq", "j"), ("klq", "k"), ("mnq", "n"), ("rsq", "r"), ("oq", "o")])
    found = {(e.winner, e.loser): e for e in last_token_difference(a, b, "q").edges}
    told = {ends: e.change for ends, e in found.items() if "q" not in ends}
    assert told == {
        ("i", "j"): "tied", ("j", "i"): "gained", ("k", "l"): "apart", ("l", "k"): "lost",
        ("m", "n"): "reversed", ("n", "m"): "gained", ("o", "p"): "lost", ("r", "s"): "gained",
    }  # fmt: skip
    assert found["i", "q"].change == SAME
    assert found["i", "j"].weight == (1.0, 1.0)
    with pytest.raises(UsageError, match="neither"):
        last_token_difference(a, b, "nobody")


def test_a_model_differs_from_itself_in_nothing():
    limit = solve_limit(read_samples(_example().path))
    for last in ("bell", "phone"):
        found = last_token_difference(limit, limit, last)
        assert found.edges
        assert {e.change for e in found.edges} == {SAME}
        assert all(t.moved == 0 and t.came[0] == t.came[1] for t in found.tokens)


def test_back_and_forth_gained_is_lost():
    a, b = fitted([("ijq", "i"), ("jkq", "j")]), fitted([("ijq", "i"), ("ijq", "j")])
    there, back = last_token_difference(a, b, "q"), last_token_difference(b, a, "q")
    assert there.count("tied") == back.count("apart") == 1
    assert {(e.winner, e.loser) for e in there.edges if e.change == "gained"} == {
        (e.winner, e.loser) for e in back.edges if e.change == "lost"
    }


@pytest.fixture(scope="module")
def other(tmp_path_factory):
    path = tmp_path_factory.mktemp("other") / "other.jsonl"
    rows = [json.loads(x) for x in _example().path.read_text().splitlines()]
    path.write_text("".join(json.dumps(x) + "\n" for x in rows[:-3] + CONTRARY))
    return path


@pytest.fixture(scope="module")
def lab(start_lab, other):
    return start_lab(other)


def test_two_data_sets_are_compared_as_one_picture_and_side_by_side(tab, other):
    a, b = (solve_limit(read_samples(path)) for path in (_example().path, other))
    tab.see("/compare?on=example")
    tab.wait("!!document.querySelector('[aria-label=\"What to compare\"]')")
    assert not tab.value("document.querySelectorAll('.pg').length")
    id_ = _file(other, AS_NAMED).id
    tab.see(f"/compare?on=example&with={id_}&last=bell")
    tab.wait("document.querySelectorAll('.pg .node').length > 10")
    found = last_token_difference(a, b, "bell")
    drawn = union_scene(found)
    assert {change for change in CHANGES if found.count(change)} >= {"gained", "tied", "same"}
    for change in CHANGES:
        want = sum(line.kind == change for line in drawn.edges)
        eventually(
            want,
            tab.value,
            f"document.querySelector('.pg').querySelectorAll('.edge.{change}').length",
        )
        if found.count(change):
            tab.says(f"{found.count(change)} {SAID[change]}", "main")
    eventually(3, tab.value, "document.querySelectorAll('.pg').length")
    odds = tab.value(
        "[...document.querySelectorAll('[aria-label=\"Odds that changed\"] tbody tr')].map(r => r.cells[0].innerText)"
    )
    assert odds == [str(t.token) for t in sorted(found.tokens, key=lambda t: -t.moved) if t.moved]
    assert not tab.errors


def test_data_whose_reading_was_guessed_are_looked_at_before_they_are_compared(tab, lab):
    guessed = Shelf(lab.folder / "workspace").receive("log.csv", LOG.encode())
    assert not guessed.decided
    for one, other in (("example", guessed.id), (guessed.id, "example")):
        tab.see(f"/compare?on={one}&with={other}")
        tab.says("was guessed", ".cmp")
        assert tab.value("document.querySelector('.cmp a').search") == f"?on={guessed.id}"
    assert not (lab.folder / "workspace" / "models" / guessed.id).exists()
    assert not tab.errors


def test_a_fit_for_a_comparison_that_is_stopped_waits_to_be_taken_up(start_lab, browser, other):
    running = start_lab(held=inf)
    enter(browser, running)
    browser.wait("!!document.querySelector('.figures')")
    running.hold(0)
    dropped = Shelf(running.folder / "workspace").receive("other.jsonl", other.read_bytes())
    browser.see(f"/compare?on=example&with={dropped.id}")
    browser.click_text("Stop")
    browser.says("was stopped", ".cmp")
    running.hold(inf)
    browser.click_text("Go on")
    browser.wait("document.querySelectorAll('.pg .node').length > 10")
    assert not browser.errors
