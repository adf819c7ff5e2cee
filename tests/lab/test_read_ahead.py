"""What the lens wants of a large model is read before anybody asks for it, and is what a limit says of itself."""

import subprocess
import sys

import numpy as np
import pytest

from attomaton.corpus.reading import Reading
from attomaton.jobs.fit import fit_run
from attomaton.lab.lens import records
from attomaton.lab.shared import Lab
from attomaton.summaries.last_token import LastTokens


@pytest.fixture
def lab(tmp_path):
    """A lab that was started with a model of a text."""
    text = tmp_path / "text.txt"
    text.write_text(
        "= Tea =\ntea or cake or tea and cake\n= Sea =\nthe sea and the boat and the sea\n"
    )
    fit_run(text, tmp_path / "model", reading=Reading(context=4))
    made = Lab(tmp_path / "workspace")
    made.first = made.shelf.open(tmp_path / "model").id
    return made


def test_a_large_model_is_read_ahead_and_a_small_one_is_not(lab, monkeypatch):
    model = lab.fitted(lab.shelf.find(lab.first))
    read, tokens, documents = [], records._last_tokens, records._read
    monkeypatch.setattr(
        records, "_last_tokens", lambda *x: read.append("last tokens") or tokens(*x)
    )
    monkeypatch.setattr(records, "_read", lambda *x: read.append(x[1]) or documents(*x))
    records.read_ahead(lab)
    assert read == []
    monkeypatch.setattr(records, "LARGE", model.record.summary.pairs)
    records.read_ahead(lab)
    assert read == ["last tokens", "articles"]
    records.RECORDS.of(lab).documents(model, "articles")  # kept: not read again
    assert read == ["last tokens", "articles"]


def test_without_its_text_a_model_is_read_ahead_all_the_same(lab, monkeypatch, tmp_path):
    (tmp_path / "text.txt").unlink()
    monkeypatch.setattr(records, "LARGE", 0)
    records.read_ahead(lab)
    model = lab.fitted(lab.shelf.find(lab.first))
    found, limit = records.RECORDS.of(lab).last_tokens(model), model.whole
    graph = limit.graph
    assert found.lasts.tolist() == np.unique(graph.pair_last).tolist()
    for i, last in enumerate(found.lasts):
        mine = graph.pair_last == last
        for rows, scores in ((found.svm, limit.svm.score), (found.finite, limit.finite.score)):
            assert rows[[i]].indices.tolist() == graph.pair_token[mine].tolist()
            np.testing.assert_allclose(rows[[i]].data, scores[mine], rtol=0, atol=1e-12)
        samples = limit.samples
        own = samples.last == last
        came = np.bincount(samples.label[own], samples.weight[own], len(samples.vocabulary))
        assert found.labels[[i]].toarray()[0].tolist() == came.tolist()


def test_no_pairs_make_no_rows(lab):
    samples = lab.fitted(lab.shelf.find(lab.first)).whole.samples
    none, number = np.zeros(0, np.int64), np.zeros(0)
    assert len(LastTokens.made(samples.take(none), none, none, number, number).lasts) == 0


def test_parts_together_are_the_whole(lab):
    limit = lab.fitted(lab.shelf.find(lab.first)).whole
    graph, samples, whole = limit.graph, limit.samples, LastTokens.of(limit)
    middle = int(whole.lasts[len(whole.lasts) // 2])

    def of(chosen):
        pairs = np.flatnonzero(chosen(graph.pair_last))
        columns = graph.pair_last, graph.pair_token, limit.svm.score, limit.finite.score
        mine = samples.take(np.flatnonzero(chosen(samples.last)))
        return LastTokens.made(mine, *(x[pairs] for x in columns))

    found = LastTokens.together([of(lambda x: x < middle), of(lambda x: x >= middle)])
    assert found.lasts.tolist() == whole.lasts.tolist()
    assert found.weight == whole.weight
    for name in ("words", "labels", "svm", "finite"):
        assert (getattr(found, name) != getattr(whole, name)).nnz == 0
    text, known = found.text(), whole.text()
    assert text.document_count.tolist() == known.document_count.tolist()
    # A last token that no context holds twice is not in its own document.
    assert text.document_count.tolist() == (whole.words.toarray() > 0).sum(axis=0).tolist()
    np.testing.assert_allclose(text.words.toarray(), known.words.toarray(), rtol=0, atol=1e-15)
    lengths = (text.words.multiply(text.words) + text.pairs.multiply(text.pairs)).sum(axis=1)
    np.testing.assert_allclose(np.asarray(lengths), 1.0, rtol=0, atol=1e-14)


def test_reading_ahead_does_not_wait_for_the_library_of_the_browser():
    code = "import sys, attomaton.lab.lens.records as r; r.read_ahead; sys.exit('nicegui' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
