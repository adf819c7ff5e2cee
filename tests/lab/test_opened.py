"""A model while it is looked at: counts of its last tokens, the search, one part at a time."""

import numpy as np
import pytest

from attomaton.corpus.reading import Reading
from attomaton.errors import UsageError
from attomaton.folders.model import open_model
from attomaton.jobs import fit as fits
from attomaton.jobs.fit import fit_run
from attomaton.lab.opened import KEPT, Opened


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("opened")
    words = np.random.default_rng(1).integers(0, 90, 9000)
    (place / "t.txt").write_text(" ".join(f"w{i}" for i in words))
    size, fits.PART = fits.PART, 400
    try:
        assert fit_run(place / "t.txt", place / "m", reading=Reading(context=6))["parts"] > 5
    finally:
        fits.PART = size
    return place / "m"


@pytest.fixture(scope="module")
def model(folder):
    return Opened(folder)


def test_the_table_of_last_tokens_counts_what_the_whole_model_holds(model, folder):
    whole = open_model(folder)
    graph, samples, table = whole.graph, whole.samples, model.lasts
    assert table["last"].tolist() == graph.last_tokens.tolist()
    owner = graph.pair_last[graph.edge_from]
    for i, last in enumerate(table["last"]):
        assert table["tokens"][i] == (graph.pair_last == last).sum()
        assert table["edges"][i] == (owner == last).sum()
        assert table["rows"][i] == samples.rows[samples.last == last].sum()
        assert table["weight"][i] == samples.weight[samples.last == last].sum()


def test_the_search_puts_the_exact_word_first_then_beginnings_then_the_rest(model):
    words = [str(row["last"]) for row in model.search("W1", 100)]
    assert words[0] == "w1"
    assert set(words) == {f"w{i}" for i in range(90) if f"w{i}" in words and f"w{i}"[1] == "1"}
    weight = [row["weight"] for row in model.search("w1", 100)][1:]
    assert weight == sorted(weight, reverse=True)
    inner = [str(row["last"]) for row in model.search("2", 100)]
    assert inner
    assert all("2" in word for word in inner)
    assert model.search("nothing like it") == []
    assert len(model.search("", 7)) == 7
    assert model.search("", 1)[0]["last"] == model.heaviest()


def test_a_part_answers_as_the_whole_and_is_opened_once(model, folder):
    last = model.heaviest()
    part = model.limit(last)
    assert model.limit(last) is part
    whole = open_model(folder)
    at = whole.graph.vocabulary.id_of(last)
    mine, theirs = part.graph.pairs_of(at), whole.graph.pairs_of(at)
    np.testing.assert_array_equal(part.svm.score[mine], whole.svm.score[theirs])
    for row in model.search("", KEPT + 5):
        model.limit(row["last"])
    assert len(model._parts) == KEPT


def test_what_is_never_a_last_token_is_said(model):
    with pytest.raises(UsageError, match=r"'w1x' is not a token.*did you mean 'w1"):
        model.last_id("w1x")
    assert len(model.limit("nobody").graph.pair_last) == 0
