"""Many contexts at once: the answers, verdicts and reasons of one context at a time, to the last bit."""

import numpy as np
import pytest

from attomaton import Automaton, samples_from_sequences, solve_limit
from attomaton.errors import DataError
from attomaton.mechanics.synthetic import draw_samples
from attomaton.mechanics.theory import many as room
from attomaton.mechanics.theory.evidence import VERDICTS
from attomaton.mechanics.theory.many import REASONS


def drawn(seed):
    """A random limit (one in three with independent, one with dependent embeddings), and contexts to ask it."""
    rng = np.random.default_rng(seed)
    K = int(rng.integers(3, 12))
    samples = draw_samples(rng, K, int(rng.integers(2, 25)), int(rng.integers(2, 6)), repeats=True)
    width = (None, K + 2, max(2, K // 2))[seed % 3]
    limit = solve_limit(samples, None if width is None else rng.standard_normal((K, width)))
    labels = [*limit.graph.vocabulary.labels, "nobody", 99]
    rows = [rng.integers(0, len(labels), rng.integers(1, 9)) for _ in range(40)]
    return Automaton(limit), [[labels[i] for i in row] for row in rows]


def row(answers, i):
    """One row in words: its tokens with their probabilities, and their reasons."""
    at = slice(answers.start[i], answers.start[i + 1])
    words = [answers.limit.graph.vocabulary[x] for x in answers.token[at]]
    return words, answers.p[at], [REASONS[k] for k in answers.reason[at]]


def disagreements(automaton, contexts):
    """Rows that differ from the answer to one context alone."""
    answers = automaton.explain_many(contexts)
    # Products of matrices are rounded by their shape.
    exact = 0.0 if automaton.limit.embeddings is None else 1e-12
    found = []
    for i, context in enumerate(contexts):
        words, p, reasons = row(answers, i)
        alone, told = automaton.predict_proba(context), automaton.explain(context)
        reason = {fate.token: fate.reason for fate in told.fates}
        verdict = "undetermined" if told.undetermined or "lower score" in reasons else "determined"
        if not alone.known_last or alone.unknown or alone.unseen:
            verdict = "unseen"
        fine = (
            answers.prediction[i] == told.prediction == automaton.predict(context)
            and (not alone or (list(alone) == words and np.abs(p - list(alone.values())).max() <= exact))
            and answers.unknown.get(i, ()) == alone.unknown
            and answers.known_last[i] == alone.known_last
            and tuple(x for x, k in zip(words, answers.pair[answers.start[i] :], strict=False) if k < 0) == alone.unseen
            and VERDICTS[answers.verdict[i]] == verdict
            and reasons == [reason[x] for x in words]
        )  # fmt: skip
        found += [] if fine else [context]
    return found


@pytest.mark.parametrize("seed", range(12))
def test_many_contexts_are_answered_as_each_of_them_alone(seed):
    assert disagreements(*drawn(seed)) == []


def test_control_an_answer_without_counts_disagrees(monkeypatch):
    honest = room.mixing_scores
    monkeypatch.setattr(
        room, "mixing_scores", lambda start, count, *rest: honest(start, count**0, *rest)
    )
    assert any(disagreements(*drawn(seed)) for seed in (0, 3, 6))


@pytest.mark.parametrize("radius", [0.0, 1.5])
def test_a_finite_radius_is_that_of_one_context(radius):
    automaton, contexts = drawn(3)
    answers = automaton.predict_many(contexts, radius)
    for i, context in enumerate(contexts):
        alone = list(automaton.predict_proba(context, radius).values())
        assert not alone or answers.p[answers.start[i] : answers.start[i + 1]].tolist() == alone


def test_places_in_the_vocabulary_are_asked_as_their_labels():
    automaton, _ = drawn(0)
    ids = np.random.default_rng(0).integers(0, len(automaton.limit.graph.vocabulary), (20, 5))
    labels = [[automaton.limit.graph.vocabulary[x] for x in x] for x in ids]
    one, two = automaton.predict_many(ids, ids=True), automaton.predict_many(iter(labels))
    assert one.prediction == two.prediction
    assert np.array_equal(one.p, two.p)
    assert automaton.predict_many(np.full((2, 3), -1), ids=True).prediction == [None, None]
    for wrong in (ids + 99, ids / 1, ids[0], ids - 9):
        with pytest.raises(DataError, match="ids: "):
            automaton.predict_many(wrong, ids=True)
    with pytest.raises(DataError, match="without a token"):
        automaton.predict_many([["a"], []])


def test_verdicts_and_reasons_by_hand():
    # After "q": a over b, c over d; the two chains are unrelated and as high as each other.
    limit = solve_limit(samples_from_sequences([["a", "b", "q"], ["c", "d", "q"]], ["a", "c"]))
    answers = Automaton(limit).explain_many(
        [["a", "b", "q"], ["a", "d", "c", "q"], ["q", "b"], ["nobody", "q", "a"]]
    )
    assert [VERDICTS[x] for x in answers.verdict] == [
        "determined", "undetermined", "unseen", "unseen",
    ]  # fmt: skip
    assert answers.prediction == ["a", "a", None, None]
    assert answers.many.tolist() == [1, 2, 0, 0]
    words, p, reasons = row(answers, 1)
    assert dict(zip(words, reasons, strict=True)) == {
        "a": "retrieved", "d": "outranked", "c": "retrieved", "q": "outranked",
    }  # fmt: skip
    assert p.tolist() == [0.5, 0.0, 0.5, 0.0]
    table = answers.to_arrow().to_pylist()
    assert table[1]["retrieval"] == "soft"
    assert table[0]["retrieval"] == "hard"
    assert table[3] == {
        "prediction": None, "probability": None, "retrieval": None, "status": "unseen",
        "known_last": False, "unseen": ["q", "a"], "unknown": ["nobody"],
    }  # fmt: skip
