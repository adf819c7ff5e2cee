"""The predictor: proper distributions, every answer explained, and the same after a round trip."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attomaton.corpus.reading import Reading
from attomaton.disk.storage import seal
from attomaton.errors import DataError, UsageError
from attomaton.predictor.bags import bags_of
from attomaton.predictor.model import Predictor
from attomaton.predictor.tune import tune

WORDS = [f"w{i}" for i in range(8)]


@pytest.fixture(scope="module")
def predictor(text) -> Predictor:
    return tune(
        text(0), text(1), reading=Reading(context=6), priors=["main+bigram+kin"], lambdas=[1.0],
        thetas=[0.3],
    )  # fmt: skip


contexts = st.lists(st.sampled_from([*WORDS, "unheard", 7]), min_size=1, max_size=9)


@given(contexts)
def test_distributions_add_up(predictor, context):
    inside = predictor.predict_proba(context, backoff=False)
    assert set(inside) == set(context[-6:])
    assert sum(inside.values()) == pytest.approx(1)
    whole = predictor.predict_proba(context)
    assert set(whole) == {*WORDS, None, *context[-6:]}
    assert sum(whole.values()) == pytest.approx(1)
    assert min(whole.values()) > 0
    # Back-off changes the share of the context, not the odds inside it.
    ratio = {x: whole[x] / inside[x] for x in inside}
    assert max(ratio.values()) == pytest.approx(min(ratio.values()))


@given(contexts)
def test_an_explanation_adds_up_to_the_answer(predictor, context):
    terms = predictor.explain(context).terms
    inside = predictor.predict_proba(context, backoff=False)
    mass = {t.token: np.exp(t.score) for t in terms}
    for t in terms:
        assert t.p == pytest.approx(inside[t.token])
        assert mass[t.token] / sum(mass.values()) == pytest.approx(t.p)
        assert t.count == context[-6:].count(t.token)
        assert t.count_term == pytest.approx(0.3 * np.log(t.count))
        assert t.seen or t.learned == 0
        assert set(t.prior) == {"main", "bigram", "kin"}
    assert [t.p for t in terms] == sorted((t.p for t in terms), reverse=True)
    assert terms[0].p == pytest.approx(inside[predictor.predict(context, backoff=False)])


@given(contexts, st.booleans())
def test_explain_speaks_about_the_answer_of_predict(predictor, context, backoff):
    p, told = predictor.predict_proba(context, backoff), predictor.explain(context, backoff)
    assert told.prediction == predictor.predict(context, backoff)
    assert told.p == p[told.prediction]
    assert told.inside == (told.prediction in context[-6:])
    assert told.context == tuple(context[-6:])
    gate = 1.0 if told.gate is None else told.gate
    assert (told.gate is None) == (not backoff)
    for term in told.terms:
        assert gate * term.p == pytest.approx(p[term.token])
    assert [p[x] for x, _ in told.outside] == [share for _, share in told.outside]
    assert not {x for x, _ in told.outside} & set(told.context)
    assert len(told.outside) == (min(5, 9 - len({*WORDS} & {*context[-6:]})) if backoff else 0)
    if not told.inside:
        assert told.prediction in [x for x, _ in told.outside]
    assert {x.token for x in told.unknown} == set(context[-6:]) - set(WORDS)
    assert bool(told.note) == bool(told.unknown)
    json.dumps(told.record())


def test_a_continuation_is_drawn_from_the_probabilities(predictor):
    context = ["w1", "w2", "w3"]
    rng = np.random.default_rng(0)
    drawn = [predictor.sample(context, rng)[0] for _ in range(400)]
    p = predictor.predict_proba(context)
    for word in WORDS:  # four standard deviations of a binomial share
        spread = 4 * np.sqrt(p[word] * (1 - p[word]) / 400) + p[None]
        assert abs(drawn.count(word) / 400 - p[word]) < spread
    again = [predictor.sample(context, np.random.default_rng(1), 9) for _ in "ab"]
    assert again[0] == again[1]
    assert len(again[0]) == 9
    alone = predictor.sample(["w1"], np.random.default_rng(1), 5, backoff=False)
    assert alone == ["w1"] * 5
    with pytest.raises(UsageError, match="length"):
        predictor.sample(context, rng, 0)


def test_one_context_is_what_many_are(predictor, text):
    asked = text(2, 60)
    bags = bags_of(asked, np.arange(len(asked)))
    p = bags.shares(predictor.log_weights(bags))
    for i in range(len(asked)):
        context = [WORDS[x] for x in asked.ids[asked.left[i] : asked.left[i] + 6]]
        part = slice(bags.start[i], bags.start[i + 1])
        alone = predictor.predict_proba(context, backoff=False)
        assert [alone[WORDS[x]] for x in bags.token[part]] == pytest.approx(p[part])


def test_a_word_never_seen_can_come_again(predictor):
    p = predictor.predict_proba(["unheard", "w1", "unheard", "w2"])
    assert p["unheard"] > p[None] / 100
    assert predictor.predict(["unheard"], backoff=False) == "unheard"
    assert predictor.predict(["unheard", "w1"]) is not None


@pytest.mark.parametrize("prior", ["zero", "odds", "main+bigram+kin"])
def test_round_trip(prior, text, tmp_path):
    made = tune(
        text(0), text(1), reading=Reading(context=6), priors=[prior], lambdas=[1.0], thetas=[0.3]
    )
    made.save(tmp_path / "predictor")
    opened = Predictor.open(tmp_path / "predictor")
    assert opened.vocabulary == made.vocabulary
    assert opened.prior.name == prior
    for context in (["w1", "w2", "w1"], ["w7"], ["unheard", "w3"]):
        assert opened.predict_proba(context) == made.predict_proba(context)
        assert opened.explain(context) == made.explain(context)
    # What is kept is plain JSON and equal in everything but the types of its numbers.
    assert opened.record == json.loads(json.dumps(made.record))


def test_refusals(predictor, tmp_path):
    with pytest.raises(DataError, match="context is empty"):
        predictor.predict_proba([])
    with pytest.raises(DataError, match="no such predictor folder"):
        Predictor.open(tmp_path / "nothing")
    predictor.save(tmp_path / "broken")
    record = json.loads((tmp_path / "broken" / "predictor.json").read_text())
    del record["chosen"]
    (tmp_path / "broken" / "predictor.json").write_text(json.dumps(record))
    seal(tmp_path / "broken")
    with pytest.raises(DataError, match=r"predictor\.json: chosen is missing"):
        Predictor.open(tmp_path / "broken")
