"""Watch it learn: what is sent of a run, and the film that the browser plays of it."""

import base64
import json

import numpy as np
import pytest
from tests.lab.conftest import COUNTING

from attomaton import Automaton, open_model
from attomaton.errors import UsageError
from attomaton.folders.run import read_snapshots
from attomaton.jobs.fit import fit_run
from attomaton.jobs.train import train_run
from attomaton.lab.shelf import Item, Shelf, folder_id
from attomaton.lab.training import film as films
from attomaton.lab.training.film import film, limit_after, watchable
from attomaton.lab.training.runs import read_run

FILM = "getElement(+document.querySelector('.film').id.slice(1))"


def opened(path):
    return watchable(read_run(Item(folder_id(path), "run", path.name, path)))


def scores(shown):
    flat = np.frombuffer(base64.b64decode(shown.scores), "<f4")
    return flat.reshape(len(shown.steps), len(shown.tokens))


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("film")
    fit_run(Shelf(folder).find("example").path, folder / "model")
    train_run(folder / "model", folder / "run", steps=60, every="log", seeds=2, init="uniform")
    return folder / "run"


def test_a_film_holds_the_snapshots_and_what_theory_ends_with(run):
    seen, limit = opened(run), open_model(run.parent / "model")
    kept, automaton = read_snapshots(run), Automaton(limit)
    assert len(seen.names()) == 3
    for last, name in seen.names().items():
        shown = film(seen, limit_after(seen, int(last)), int(last))
        assert (shown.last, len(shown.steps)) == (name, 61)
        words = [limit.graph.vocabulary[t] for t in kept.token[kept.last == int(last)]]
        columns = [words.index(token.name) for token in shown.tokens]
        np.testing.assert_array_equal(
            scores(shown), kept.scores[:, kept.last == int(last)][:, columns]
        )
        for context in shown.contexts:
            bag = [shown.tokens[t].name for t, n in zip(context.tokens, context.counts, strict=True)
                   for _ in range(n)]  # fmt: skip
            bag.remove(name)
            answer = automaton.predict_proba([*bag, name])
            told = [answer.get(shown.tokens[t].name, 0.0) for t in context.tokens]
            np.testing.assert_allclose(context.end, told, atol=1e-9)
        for edge in shown.edges:
            ids = [
                limit.graph.vocabulary.id_of(shown.tokens[x].name) for x in (edge.above, edge.below)
            ]
            assert edge.tied == limit.graph.tied(int(last), *ids)
            assert edge.tied or limit.graph.outranks(int(last), *ids)
    assert shown.loss.end == pytest.approx(limit.finite.loss_floor)
    assert len(shown.loss.values) == 2


def test_a_large_graph_is_folded_and_says_so(run, monkeypatch):
    monkeypatch.setattr(films, "NODES", 3)
    monkeypatch.setattr(films, "CONTEXTS", 2)
    seen = opened(run)
    last = next(q for q, name in seen.names().items() if name == "bell")
    shown = film(seen, limit_after(seen, int(last)), int(last))
    assert sum(token.level is not None for token in shown.tokens) == 3
    assert len(shown.contexts) == 2
    assert "3 of 6 tokens are folded away" in shown.folded
    assert "2 contexts whose attention moves most" in shown.folded


def test_a_run_without_snapshots_and_one_whose_data_changed(run, tmp_path):
    train_run(run.parent / "model", tmp_path / "none", steps=5, snapshots=0)
    assert opened(tmp_path / "none") is None
    data = tmp_path / "data.jsonl"
    rows = [{"tokens": ["a", "b", "z"], "next": "a"}, {"tokens": ["b", "c", "z"], "next": "b"}]
    data.write_text("\n".join(map(json.dumps, rows)))
    train_run(data, tmp_path / "of_file", steps=5)
    seen = opened(tmp_path / "of_file")
    last = seen.lasts[0]
    assert len(film(seen, limit_after(seen, last), last).tokens) == 4
    data.write_text(json.dumps({"tokens": ["q", "b", "z"], "next": "q"}))
    with pytest.raises(UsageError, match="changed since"):
        limit_after(seen, last)
    data.unlink()
    with pytest.raises(UsageError, match="no longer there"):
        limit_after(seen, last)


def attention(scores, context):
    mass = np.array(context["counts"]) * np.exp(scores[context["tokens"]])
    return mass / mass.sum()


def test_the_film_is_scrubbed_and_played_in_the_browser(lab, tab, run):
    workspace = lab.folder / "workspace"
    fit_run(Shelf(lab.folder).find("example").path, workspace / "models" / "example")
    train_run(workspace / "models" / "example", workspace / "runs" / "watched", steps=30, every=1)
    tab.see(f"/training?on=example&run={folder_id(workspace / 'runs' / 'watched')}&at=7")
    tab.wait("document.querySelector('.film-step')?.textContent === 'step 7 of 30'")
    shown = tab.value(f"JSON.parse(JSON.stringify({FILM}.film))")
    values = np.frombuffer(base64.b64decode(shown["scores"]), "<f4").reshape(31, -1).astype(float)

    def agrees(step):
        drawn = tab.value(f"{FILM}.all")
        for context, row in zip(shown["contexts"], drawn, strict=True):
            np.testing.assert_allclose(row, attention(values[step], context), atol=1e-6)

    agrees(7)
    # Keys, also while the slider has the focus.
    for focus, presses, step in ((".film", ["ArrowRight", "ArrowRight"], 9), (".film-slider", ["ArrowLeft"], 8),
                                 (".film", ["End"], 30), (".film", ["Home"], 0)):  # fmt: skip
        tab.value(f"document.querySelector('{focus}').focus()")
        for key in presses:
            tab.press(key)
        tab.wait(f"document.querySelector('.film-step').textContent === 'step {step} of 30'")
        agrees(step)
    # Where one was is in the address; playing ends at the end, without a word with the server.
    tab.wait("location.search.includes('at=0')")
    tab.value(COUNTING)
    tab.value(f"{FILM}.go(5)")
    tab.value("document.querySelector('.film').focus()")
    tab.press(" ")
    tab.wait(f"!{FILM}.playing && {FILM}.at === 30")
    own, sent = tab.value("+document.querySelector('.film').id.slice(1)"), tab.value("window.sent")
    assert [what["args"] for _, what in sent if what["id"] == own] == [["30"]]  # where it ended
    assert len(sent) <= 3  # and that the key went down and up
    # All of it stands in one window.
    box = tab.value(
        "(({top, bottom}) => [top + scrollY, bottom - top])(document.querySelector('.watch').getBoundingClientRect())"
    )
    assert box[1] <= 700
    assert box[0] + box[1] <= 900
    assert not tab.errors


def test_theory_is_drawn_where_training_ends_and_the_page_is_wide_enough_on_a_phone(lab, tab, run):
    tab.see("/training?on=example", 390)
    tab.wait("!!document.querySelector('.film canvas')")
    assert tab.value("document.documentElement.scrollWidth") <= 390
    assert tab.value(
        "[...document.querySelectorAll('.film canvas')].every(c => c.clientWidth > 300 && c.clientHeight > 100)"
    )
    names = (
        "[...document.querySelectorAll('.film canvas, .film input, .film select, .film button')]"
    )
    assert tab.value(f"{names}.every(e => e.getAttribute('aria-label'))")
