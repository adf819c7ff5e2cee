"""Every public call × what programs pass by mistake: a typed error that names the argument, never an answer."""

import warnings
from functools import cache

import numpy as np
import pytest
from tests.unchecked import unchecked_types

import attomaton
from attomaton.errors import AttomatonError
from attomaton.estimator import UnknownTokenWarning

PAIRS = ([["a", "b"], ["b", "a"]], ["a", "b"])


@pytest.fixture(autouse=True)
def _as_a_program_meets_it():
    """A user's program has no checks of types before ours."""
    with unchecked_types(), warnings.catch_warnings():
        warnings.simplefilter("ignore", UnknownTokenWarning)
        yield


class Thing:
    """Of no use anywhere."""


CONTEXTS = {
    "a string": "ab", "None": None, "a number": 3, "a fraction": 2.5, "nothing": [], "bytes": b"ab",
    "a list of lists": [["a"]], "None in it": [None], "a fraction in it": [0.5], "NaN": [float("nan")],
    "a dictionary": {"a": 1}, "a set": {"a"}, "an object in it": [Thing()], "truth": [True],
    "two dimensions": np.array([["a"]]), "rows of a data set": [{"token": "a"}], "bytes in it": [b"a"],
}  # fmt: skip
MANY = {
    "a string": "ab", "None": None, "a number": 3, "nothing": [], "one context": ["a", "b"],
    "an empty one": [[]], "None in it": [None, ["a"]], "rows of a data set": [{"token": "a"}],
    "lists too deep": [[["a"]]], "NaN": [[float("nan")]], "a dictionary": {"x": ["a"]},
    "an object": Thing(), "three dimensions": np.zeros((2, 2, 2)), "no dimension": np.array(3),
    "bytes": np.array([[b"a"]]), "a generator of words": (x for x in ("ab",)),
}  # fmt: skip
NEXT = {
    "too few": ["a"], "None": None, "a string": "ab", "a number": 3, "lists": [["a", "b"], ["b"]],
    "fractions": [0.5, 1], "rows of a data set": [{"x": 1}] * 2, "an object": Thing(), "a set": {"a", "b"},
}  # fmt: skip
WEIGHTS = {
    "negative": [-1, 1], "NaN": [float("nan"), 1], "words": ["a", "b"], "numbers as words": ["1", "2"],
    "zero": [0, 1], "too few": [1], "a column": [[1], [1]], "a string": "ab", "a number": 3,
    "an object": Thing(),
}  # fmt: skip
COUNTS = {"negative": -1, "a fraction": 1.5, "a word": "x", "None": None, "truth": True}
OTHERS = {"None": None, "a word": "x", "a number": 3, "a list": [1], "an object": Thing()}
ASKED = ("predict", "predict_proba", "explain", "unknown")


def samples():
    return attomaton.samples_from_sequences(*PAIRS)


def automaton():
    return attomaton.Automaton(attomaton.solve_limit(samples()))


def model():
    return attomaton.NextTokenClassifier().fit(*PAIRS)


@cache
def predictor():
    windows = attomaton.as_windows([list("abbaab")], context=2)
    return attomaton.tune(windows, windows, priors=["zero"], lambdas=[1.0], thetas=[1.0], widen=0)


def rng():
    return np.random.default_rng(0)


def some(values, *but):
    return {k: v for k, v in values.items() if k not in but}


# The call, what it may be asked by mistake, and what the message names.
CALLS = [
    *((f"Automaton.{n}", lambda x, n=n: getattr(automaton(), n)(x), CONTEXTS, "context") for n in ASKED),
    ("Automaton.sample", lambda x: automaton().sample(x, rng()), CONTEXTS, "context"),
    ("Automaton.sample length", lambda x: automaton().sample(["a"], rng(), x), COUNTS, "length"),
    ("Automaton.sample rng", lambda x: automaton().sample(["a"], x), OTHERS, "rng"),
    ("Automaton.explain evidence", lambda x: automaton().explain(["a", "b"], x), COUNTS, "evidence"),
    ("Automaton.predict_proba radius", lambda x: automaton().predict_proba(["a"], x),
     some(COUNTS, "a fraction") | {"NaN": float("nan")}, "radius"),
    ("Automaton", attomaton.Automaton, OTHERS, "limit"),
    *((f"NextTokenClassifier.{n}", lambda x, n=n: getattr(model(), n)(x), MANY, "X|context|tokens")
      for n in ("predict", "predict_proba", "predict_log_proba", "has_answer")),
    ("NextTokenClassifier.fit", lambda x: attomaton.NextTokenClassifier().fit(x, ["a"]), MANY, "X|context|tokens"),
    ("NextTokenClassifier.score", lambda x: model().score(x, ["a"]), MANY, "X|context|tokens"),
    ("NextTokenClassifier.fit y", lambda x: attomaton.NextTokenClassifier().fit(PAIRS[0], x), NEXT,
     "y|next token|tokens"),
    ("NextTokenClassifier.score y", lambda x: model().score(PAIRS[0], x), NEXT, "y|next token|tokens"),
    ("NextTokenClassifier.fit weights",
     lambda x: attomaton.NextTokenClassifier().fit(*PAIRS, sample_weight=x), WEIGHTS, "weight"),
    ("NextTokenClassifier.score weights", lambda x: model().score(*PAIRS, sample_weight=x), WEIGHTS, "weight"),
    ("NextTokenClassifier.explain", lambda x: model().explain(x), CONTEXTS, "X|context|tokens"),
    ("NextTokenClassifier.explain evidence", lambda x: model().explain(["a", "b"], x), COUNTS, "evidence"),
    ("NextTokenClassifier.sample", lambda x: model().sample(x), CONTEXTS, "X|context|tokens"),
    ("NextTokenClassifier.sample length", lambda x: model().sample(["a"], x), COUNTS, "length"),
    ("NextTokenClassifier.sample random_state", lambda x: model().sample(["a"], 1, x),
     some(COUNTS, "None"), "random_state"),
    ("NextTokenClassifier radius", lambda x: attomaton.NextTokenClassifier(radius=x).fit(*PAIRS),
     some(OTHERS, "a number"), "radius"),
    ("NextTokenClassifier embeddings", lambda x: attomaton.NextTokenClassifier(embeddings=x).fit([[0, 1]], [0]),
     some(OTHERS, "None"), "embeddings"),
    *((f"Predictor.{n}", lambda x, n=n: getattr(predictor(), n)(x), CONTEXTS, "context") for n in ASKED),
    ("Predictor.sample", lambda x: predictor().sample(x, rng()), CONTEXTS, "context"),
    ("Predictor.sample length", lambda x: predictor().sample(["a"], rng(), x), COUNTS, "length"),
    ("Predictor.sample rng", lambda x: predictor().sample(["a"], x), OTHERS, "rng"),
    ("Predictor.explain outside", lambda x: predictor().explain(["a"], outside=x), COUNTS, "outside"),
    ("save_model", lambda x: attomaton.save_model(x, "nowhere", {}), OTHERS, "limit"),
    ("open_model", attomaton.open_model, OTHERS, "model folder"),
    ("as_samples", lambda x: attomaton.as_samples(x, context=2), some(MANY, "one context"),
     "data|sequence|window|column"),
    ("as_samples context", lambda x: attomaton.as_samples([["a", "b", "a"]], context=x), COUNTS, "context"),
    ("as_windows", lambda x: attomaton.as_windows(x, PAIRS[1]), some(MANY, "one context"), "sequence|data"),
    ("as_windows next_tokens", lambda x: attomaton.as_windows(PAIRS[0], x), some(NEXT, "None"), "next|label|token"),
    ("to_networkx", lambda x: attomaton.build_graph(samples()).to_networkx(x), some(OTHERS, "None"), "last token"),
    ("Limit.plot", lambda x: attomaton.solve_limit(samples()).plot(x), OTHERS, "last token"),
    ("simulate", attomaton.simulate, OTHERS, "family"),
    ("simulate level", lambda x: attomaton.simulate("syn-small", x), OTHERS, "level"),
    ("score", lambda x: attomaton.score(x, attomaton.as_windows(*PAIRS)), OTHERS, "limit"),
    ("check_claim", attomaton.check_claim, some(OTHERS, "a list", "None"), "claim"),
    ("build_graph", attomaton.build_graph, OTHERS, "samples"),
    ("solve_limit", attomaton.solve_limit, OTHERS, "samples"),
    ("solve_limit embeddings", lambda x: attomaton.solve_limit(samples(), x), some(OTHERS, "None"), "embeddings"),
    ("norm_path", lambda x: attomaton.norm_path(x, [1.0]), OTHERS, "samples"),
    ("norm_path radii", lambda x: attomaton.norm_path(samples(), x), some(OTHERS, "a list"), "radii"),
    ("penalty_path", lambda x: attomaton.penalty_path(x, [1.0]), OTHERS, "samples"),
    ("penalty_path lambdas", lambda x: attomaton.penalty_path(samples(), x), some(OTHERS, "a list"), "lambdas"),
    ("check_embeddings", attomaton.check_embeddings, OTHERS, "embeddings"),
    ("train", attomaton.train, OTHERS, "data|samples"),
    *((f"train {n}", lambda x, n=n: attomaton.train(samples(), **{"steps": 1, n: x}), some(OTHERS, "None"), n)
      for n in ("embeddings", "checkpoint")),
    *((f"train {n}", lambda x, n=n: attomaton.train(samples(), **{"steps": 1, n: x}), some(COUNTS, *but), n)
      for n, but in (("steps", ()), ("seeds", ()), ("seed", ()), ("every", ("None",)), ("lr", ("a fraction", "None")),
                     ("batch_size", ("None",)))),
    *((f"train {n}", lambda x, n=n: attomaton.train(samples(), **{"steps": 1, n: x}), OTHERS, n)
      for n in ("optimizer", "head", "loss", "init")),
]  # fmt: skip
CASES = [
    pytest.param(call, value, named, id=f"{name}: {kind}")
    for name, call, values, named in CALLS
    for kind, value in values.items()
]


@pytest.mark.parametrize(("call", "value", "named"), CASES)
def test_a_mistake_is_named_and_never_answered(call, value, named, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(AttomatonError, match=named):
        call(value)
    assert list(tmp_path.iterdir()) == []


def test_what_is_right_is_answered():
    """The control: the same calls with what they are made for."""
    assert automaton().predict(np.array(["a", "b"])) in ("a", "b")
    assert automaton().predict([np.array("a"), np.str_("b")]) in ("a", "b")
    assert len(model().predict(np.array(PAIRS[0], dtype=object))) == 2
    assert attomaton.train(samples(), steps=np.int64(2), seeds=np.int32(1)).status == ["finished"]
    assert attomaton.train(samples(), steps=2, lr=np.float32(0.5)).status == ["finished"]
    assert automaton().predict_proba(["a", "b"], 0)
