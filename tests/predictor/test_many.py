"""Many contexts at once are what each of them is alone."""

import numpy as np
import pytest

from attomaton.corpus.reading import Reading
from attomaton.predictor import many
from attomaton.predictor.many import explained, likeliest
from attomaton.predictor.tune import tune
from attomaton.report.text.reasons import main_reason


@pytest.fixture(scope="module", params=[False, True], ids=["tuned", "stage"])
def predictor(request, text):
    made = tune(
        text(0, 900), text(1, 1300), reading=Reading(context=6), priors=["main+bigram"], lambdas=[1.0],
        thetas=[0.3], stage=request.param,
    )  # fmt: skip
    assert (made.stage is not None) == request.param
    return made


def drawn(predictor, rng):
    """Contexts of all lengths, words never seen among them."""
    return [
        rng.choice([*predictor.vocabulary.labels, "new", "newer"], n).tolist()
        for n in [1, 2, 5, 6, 9, 14, *rng.integers(1, 9, 14)]
    ]


@pytest.mark.parametrize("backoff", [True, False])
def test_the_likeliest_are_those_of_one_context(predictor, backoff, monkeypatch):
    monkeypatch.setattr(many, "SOME", 7)
    monkeypatch.setattr(many, "SPARE", 1)  # often too few: the others are asked for then
    rng = np.random.default_rng(0)
    contexts = drawn(predictor, rng)
    flat = [x for words in contexts for x in words]
    ids = np.array([-1 if (i := predictor.vocabulary.id_of(x)) is None else i for x in flat])
    outside = {i: x for i, x in enumerate(flat) if ids[i] < 0}
    length = np.array([len(words) for words in contexts])
    found = likeliest(predictor, ids, length, outside, 4, backoff)
    named = [*predictor.vocabulary.labels, None, *found.new]
    for i, words in enumerate(contexts):
        p = predictor.predict_proba(words, backoff)
        wanted = sorted(p.values(), reverse=True)[:4]
        there = found.token[i] >= 0
        assert found.p[i][there] == pytest.approx(wanted)
        assert there.sum() == len(wanted)
        for token, q, inside in zip(found.token[i], found.p[i], found.inside[i], strict=True):
            if token >= 0:
                assert p[named[token]] == pytest.approx(q)
                assert inside == (named[token] in words[-6:])
        if backoff:
            assert found.gate[i] == pytest.approx(predictor.explain(words).gate)
    assert "new" in found.new


@pytest.mark.parametrize("backoff", [True, False])
def test_many_are_explained_as_each_alone(predictor, backoff, monkeypatch):
    monkeypatch.setattr(many, "EXPLAINED", 9)
    monkeypatch.setattr(many, "SPARE", 1)
    rng = np.random.default_rng(1)
    contexts, kinds = [c for _ in range(4) for c in drawn(predictor, rng)], set()
    for words, told in zip(contexts, explained(predictor, contexts, backoff), strict=True):
        alone = predictor.explain(words, backoff, outside=0)
        assert (told.context, told.prediction) == (alone.context, alone.prediction)
        assert (told.inside, told.backoff, told.order) == (alone.inside, backoff, alone.order)
        assert told.p == pytest.approx(alone.p)
        assert told.gate == (pytest.approx(alone.gate) if backoff else None)
        assert told.gate_terms == pytest.approx(alone.gate_terms, abs=1e-9)
        assert main_reason(told) == main_reason(alone)
        mine, other = told.against, alone.against
        if other is None:
            assert mine is None
            continue
        assert mine.facts == other.facts
        assert mine.log_odds == pytest.approx(other.log_odds, abs=1e-10)
        assert (mine.winner, mine.runner_up) == (other.winner, other.runner_up)
        for a, b in zip(mine.shares, other.shares, strict=True):
            assert a.term == b.term
            assert (a.winner, a.runner_up) == pytest.approx((b.winner, b.runner_up), abs=1e-10)
        kinds.add((mine.winner_inside, mine.runner_up_inside))
        shown = {t.token: t.score for t in told.terms}
        full = {t.token: t.score for t in alone.terms if t.token in shown}
        assert shown == pytest.approx(full, abs=1e-10)
        assert set(shown) == {x for x in (mine.winner, mine.runner_up) if x in words[-6:]}
    # All that can stand beside each other was met.
    assert len(kinds) == (4 if backoff else 1)


def test_after_a_token_that_nothing_followed_the_unigram_speaks(predictor):
    orders = [predictor.explain(["w1", "w2", last]).order for last in ("new", "w2")]
    assert orders == (
        [1, 2] if predictor.stage is None else [predictor.stage.tables.ngrams.order] * 2
    )
