"""Many contexts at once are what each of them is alone."""

import numpy as np
import pytest

from attomaton.corpus.reading import Reading
from attomaton.predictor import many
from attomaton.predictor.many import likeliest
from attomaton.predictor.tune import tune


@pytest.fixture(scope="module", params=[False, True], ids=["tuned", "stage"])
def predictor(request, text):
    made = tune(
        text(0, 900), text(1, 1300), reading=Reading(context=6), priors=["main+bigram"], lambdas=[1.0],
        thetas=[0.3], stage=request.param,
    )  # fmt: skip
    assert (made.stage is not None) == request.param
    return made


@pytest.mark.parametrize("backoff", [True, False])
def test_the_likeliest_are_those_of_one_context(predictor, backoff, monkeypatch):
    monkeypatch.setattr(many, "SOME", 7)
    monkeypatch.setattr(many, "SPARE", 1)  # often too few: the others are asked for then
    rng = np.random.default_rng(0)
    contexts = [
        rng.choice([*predictor.vocabulary.labels, "new", "newer"], n).tolist()
        for n in [1, 2, 5, 6, 9, 14, *rng.integers(1, 9, 14)]
    ]
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
