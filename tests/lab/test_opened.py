"""A model while it is looked at: counts of its last tokens, the search, one part at a time."""

import os
import shutil
from collections import Counter

import numpy as np
import pytest

from attomaton import example_samples, save_model, solve_limit
from attomaton.corpus.reading import Reading
from attomaton.disk import manifest
from attomaton.errors import DataError, UsageError
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
    words = [str(row.last) for row in model.search("W1", 100)]
    assert words[0] == "w1"
    assert set(words) == {f"w{i}" for i in range(90) if f"w{i}" in words and f"w{i}"[1] == "1"}
    weight = [row.weight for row in model.search("w1", 100)][1:]
    assert weight == sorted(weight, reverse=True)
    inner = [str(row.last) for row in model.search("2", 100)]
    assert inner
    assert all("2" in word for word in inner)
    assert model.search("nothing like it") == []
    assert len(model.search("", 7)) == 7
    assert model.search("", 1)[0].last == model.heaviest()


def test_a_part_answers_as_the_whole_and_is_opened_once(model, folder):
    last = model.heaviest()
    part = model.limit(last)
    assert model.limit(last) is part
    whole = open_model(folder)
    at = whole.graph.vocabulary.id_of(last)
    mine, theirs = part.graph.pairs_of(at), whole.graph.pairs_of(at)
    np.testing.assert_array_equal(part.svm.score[mine], whole.svm.score[theirs])
    for row in model.search("", KEPT + 5):
        model.limit(row.last)
    assert len(model._parts) == KEPT


@pytest.fixture
def hashed(monkeypatch):
    """How often the contents of each file are gone through."""
    counts, digest = Counter(), manifest._digest

    def counting(path):
        counts[path.name] += 1
        return digest(path)

    monkeypatch.setattr(manifest, "_digest", counting)
    return counts


def three_clicks(folder):
    seen = Opened(folder)
    for row in seen.search("", 3):
        assert len(seen.limit(row.last).graph.pair_last) > 0
    return seen


def test_three_last_tokens_are_shown_and_every_file_was_hashed_once(folder, hashed):
    three_clicks(folder)
    assert hashed == {"model.json": 1, "vocabulary.json": 1}


def test_a_model_of_wikitext_is_hashed_once_too(wikitext, tmp_path, hashed):
    fit_run(wikitext / "valid.txt", tmp_path / "m", reading=Reading(context=8))
    hashed.clear()
    three_clicks(tmp_path / "m")
    assert hashed == {"model.json": 1, "vocabulary.json": 1}


@pytest.mark.parametrize("name", ["model.json", "vocabulary.json", "pairs/000.parquet"])
def test_a_file_that_is_touched_after_a_model_was_opened_is_looked_at_again(
    folder, hashed, tmp_path, name
):
    shutil.copytree(folder, tmp_path / "m")
    seen, file = three_clicks(tmp_path / "m"), tmp_path / "m" / name
    others = [row.last for row in seen.search("", 9)[3:]]
    status, content = file.stat(), file.read_bytes()
    file.write_bytes(content)  # touched, and as it was
    seen.limit(others[0])
    assert hashed[file.name] == (0 if file.suffix == ".parquet" else 2)
    file.write_bytes(content[:-9])
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))  # with its clock set back
    with pytest.raises(DataError, match=f"{file.name}: was changed since it was written"):
        seen.limit(others[1])
    file.write_bytes(content[::-1])
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))  # and of the same size
    if file.suffix != ".parquet":  # which a reader checks page by page
        with pytest.raises(DataError, match=f"{file.name}: was changed since it was written"):
            seen.limit(others[2])


def test_another_model_in_the_place_of_one_that_is_open_is_told(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "m")
    seen = three_clicks(tmp_path / "m")
    assert not seen.model.files.replaced
    save_model(solve_limit(example_samples()), tmp_path / "m", {})
    assert seen.model.files.replaced
    with pytest.raises(DataError, match="was replaced since it was opened"):
        seen.limit("w3")


def test_what_is_never_a_last_token_is_said(model):
    with pytest.raises(UsageError, match=r"'w1x' is not a token.*did you mean 'w1"):
        model.last_id("w1x")
    assert len(model.limit("nobody").graph.pair_last) == 0
