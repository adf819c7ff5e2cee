"""In which contexts a model is asked: where the automaton retrieves the first token, where a third, or all at once."""

import json

import numpy as np
import pytest

from attomaton.base.progress import quiet
from attomaton.corpus.reading import Reading
from attomaton.jobs import probe as jobs
from attomaton.jobs.probe import Asked, examined, prepared, probe_model
from attomaton.mechanics.theory.automaton import Automaton
from attomaton.probe.asking import batch_size
from attomaton.probe.behaviour import asked_of
from attomaton.report.text.probe import in_words
from attomaton.trained.folder import read_trained
from attomaton.trained.forward import Network, nothing

ASKED = Asked(pairs=120, contexts=30)


@pytest.fixture(scope="module")
def trained(models):
    return read_trained(models / "1", "float32")


def exam_of(models, trained, corpus):
    return prepared(models / "1", trained, corpus, Reading(), ASKED, quiet)


def test_real_contexts_call_for_the_first_token_and_the_others_for_a_third(models, trained, corpus):
    exam = exam_of(models, trained, corpus)
    real, outranked, minimal = exam.questions
    automaton, w = Automaton(exam.limit), exam.windows
    for asked, wanted in ((real, True), (outranked, False)):
        orders = asked.strict.orders
        for i, row in enumerate(asked.strict.rows[:40]):
            tokens = [w.vocabulary[x] for x in w.ids[w.left[row] : w.left[row] + w.length[row]]]
            one, two, last = (w.vocabulary[x[i]] for x in (orders.one, orders.two, orders.last))
            assert {one, two} <= set(tokens)
            assert tokens[-1] == last
            fates = {x.token: x.reason for x in automaton.explain(tokens).fates}
            assert (fates[one] == "retrieved") is wanted
    assert minimal.strict.rows is None
    assert len(minimal.strict.orders) == len(real.strict.orders)


def test_a_large_model_is_asked_in_the_contexts_of_its_heads_with_the_same_answers(
    models, trained, corpus, monkeypatch
):
    monkeypatch.setattr(jobs, "SMALL", 1)
    exam = exam_of(models, trained, corpus)
    assert exam.one_pass
    network = Network(trained)
    heads, odds = examined(network, exam)
    assert len(heads) == 1
    for asked, own in zip(exam.questions, odds, strict=True):
        again = asked_of(network, asked, exam.windows, exam.ids)
        for name, values in own.items():
            assert values == pytest.approx(again[name], abs=1e-4)
        if asked.strict.rows is not None:
            assert np.isin(asked.strict.rows, exam.rows).all()
    passes = []
    run = Network.logits_at

    def counting(network, tokens, place, keep=nothing):
        passes.append(len(tokens) if tokens.shape[1] == exam.length else 0)
        return run(network, tokens, place, keep)

    monkeypatch.setattr(Network, "logits_at", counting)
    found = probe_model(models / "1", corpus, asked=ASKED)
    assert sum(passes) == 2 * len(exam.contexts)  # once for the model, once for its untrained copy
    assert found.one_pass
    assert "asked in these contexts alone" in in_words(found)
    assert found.behaviour[0].agreement.value > 0.9
    assert found.behaviour[0].untrained is not None


def test_a_large_model_on_text_is_compiled_for_what_it_is_asked_before_it_is_asked(
    models, trained, corpus, monkeypatch, tmp_path
):
    monkeypatch.setattr(jobs, "SMALL", 1)
    rows = [json.loads(line) for line in corpus.read_text().splitlines()]
    text = tmp_path / "corpus.txt"
    text.write_text(" ".join(x for row in rows[:400] for x in (*row["tokens"], row["next"])))
    early, used = set(), set()
    compile_for, run = jobs.compile_for, Network.logits_at

    def compiling(model, size, length, keep):
        early.add((size, length, keep))
        compile_for(model, size, length, keep)

    def running(network, tokens, place, keep=nothing):
        used.add((*tokens.shape, keep))
        return run(network, tokens, place, keep)

    monkeypatch.setattr(jobs, "compile_for", compiling)
    monkeypatch.setattr(Network, "logits_at", running)
    probe_model(models / "1", text, Reading(context=5), ASKED)
    assert used == early
    assert len(used) == 3


def test_a_batch_of_a_large_model_fits_its_room(trained):
    assert batch_size(trained.form, 5) == 64
    large = trained.form.__class__(
        **{**vars(trained.form), "heads": 12, "width": 768, "hidden": 3072}
    )
    assert 1 <= batch_size(large, 256) < 64
