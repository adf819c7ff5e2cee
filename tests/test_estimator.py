"""The estimator: hand-solved answers, the automaton's answers, bad input, scikit-learn's checks."""

import copy
import doctest
import pickle
import subprocess
import sys
import warnings
from collections import deque
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from attomaton import estimator as module
from attomaton.errors import AssumptionError, DataError, NotFittedError, UsageError
from attomaton.estimator import NextTokenClassifier, SetAsideWarning, UnknownTokenWarning
from attomaton.mechanics.theory.automaton import Automaton

PAGE = Path(__file__).resolve().parents[1] / "docs" / "estimator.md"

NO_LABEL = "Gaussian data in which no row contains its own label: there is nothing to learn from"
EXCEPTIONS = {
    "check_estimators_overwrite_params": NO_LABEL,
    "check_estimators_fit_returns_self": NO_LABEL,
    "check_readonly_memmap_input": NO_LABEL,
    "check_classifiers_classes": "labels are words, rows numbers: no row contains its own label",
    "check_sample_weight_equivalence_on_dense_data": "tokens are fractions, and some weights are 0",
    "check_classifiers_one_label_sample_weights": "tokens are fractions, and some weights are 0",
    "check_classifiers_one_label": "only tokens of a context come next: [0, 0, 0] cannot give 1",
    "check_classifiers_train": "lists may have any lengths, and classes are all tokens, not labels",
}

CHAIN = ([[0, 1, 2], [1, 2]], [0, 1])
CYCLE = ([[0, 1]] * 4, [0, 0, 0, 1])
REPEATS = ([[0, 0, 1]] * 4, [0, 0, 0, 1])
MIXED = ([[0, 1, 2, 3], [0, 1, 3]], [0, 1])


def fitted(data, **parameters):
    return NextTokenClassifier(**parameters).fit(*data)


# Hand-solved answers


def test_chain_takes_the_highest_token():
    model = fitted(CHAIN)
    assert model.predict([[2, 1, 0, 2], [1, 1, 2], [2]]).tolist() == [0, 1, 2]
    assert model.predict_proba([[0, 1, 2]]).tolist() == [[1.0, 0.0, 0.0]]
    assert model.loss_floor_ == 0.0
    assert model.classes_.tolist() == [0, 1, 2]


def test_chain_at_a_finite_radius():
    # W_svm's row is (1, 0, −1) of norm √2, so at radius √2 the scores are (1, 0, −1) themselves.
    e = np.exp([1.0, 0.0, -1.0])
    p = fitted(CHAIN, radius=np.sqrt(2)).predict_proba([[0, 1, 2]])
    assert p == pytest.approx(e[None] / e.sum(), rel=1e-8)  # the quadratic program's residual


def test_radius_zero_leaves_counts_and_the_finite_part():
    assert fitted(CHAIN, radius=0).predict_proba([[0, 1, 1, 2]]).tolist() == [[0.25, 0.5, 0.25]]


def test_cycle_mixes_by_the_luce_odds():
    model = fitted(CYCLE)
    assert model.predict_proba([[0, 1]])[0] == pytest.approx([0.75, 0.25], rel=1e-9)
    assert model.predict_proba([[0, 0, 0, 1]])[0] == pytest.approx([0.9, 0.1], rel=1e-9)
    assert model.loss_floor_ == pytest.approx(0.5623351446188083, rel=1e-12)


def test_multiplicity_is_no_merit():
    odds = fitted(REPEATS).predict_proba([[0, 1]])[0]
    assert odds[0] / odds[1] == pytest.approx(3 / 2, rel=1e-9)


def test_mixed_keeps_the_tied_and_drops_the_rest():
    model = fitted(MIXED)
    assert model.predict_proba([[0, 1, 2, 3]])[0] == pytest.approx([0.5, 0.5, 0, 0], rel=1e-9)
    assert model.loss_floor_ == pytest.approx(np.log(2), rel=1e-12)


def test_weights_count_like_repeated_samples():
    weighted = NextTokenClassifier().fit([[0, 1], [0, 1]], [0, 1], sample_weight=[3, 1])
    assert weighted.predict_proba([[0, 1]]) == pytest.approx(
        fitted(CYCLE).predict_proba([[0, 1]]), rel=1e-9
    )


def test_log_probabilities_and_score():
    model = fitted(CHAIN)
    assert model.predict_log_proba([[1, 2]]).tolist() == [[-np.inf, 0.0, -np.inf]]
    X, y = [[0, 2], [1, 2], [1, 2]], [0, 1, "never seen"]
    assert model.score(X, y) == pytest.approx(2 / 3)
    assert model.score(X, y, sample_weight=[1, 1, 2]) == pytest.approx(1 / 2)


# Agreement with the automaton

TOKENS = st.one_of(st.integers(-3, 3), st.sampled_from(["a", "b", "3"]))


@st.composite
def realizable(draw, tokens=TOKENS):
    rows = draw(st.lists(st.lists(tokens, min_size=1, max_size=6), min_size=1, max_size=12))
    return rows, [draw(st.sampled_from(row)) for row in rows]


@given(
    realizable(),
    st.lists(st.lists(TOKENS, min_size=1, max_size=6), min_size=1, max_size=8),
    st.sampled_from([0.0, 0.7, 5.0, np.inf]),
)
def test_equal_to_the_automaton(data, contexts, radius):
    model = fitted(data, radius=radius)
    check_against_the_automaton(model, contexts, radius)


@given(
    realizable(st.integers(0, 4)),
    st.lists(st.lists(st.integers(0, 6), min_size=1, max_size=6), min_size=1, max_size=8),
    st.sampled_from([0.7, np.inf]),
    st.booleans(),
)
def test_equal_to_the_automaton_with_embeddings(data, contexts, radius, orthonormal):
    E = np.random.default_rng(0).normal(size=(6, 7))
    model = fitted(data, radius=radius, embeddings=np.eye(6) if orthonormal else E)
    assert model.classes_.tolist() == list(range(6))
    check_against_the_automaton(model, contexts, radius)


def quiet(ask, *arguments):
    """An answer about unknown tokens, without the warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnknownTokenWarning)
        return ask(*arguments)


def check_against_the_automaton(model, contexts, radius):
    P = quiet(model.predict_proba, contexts)
    assert P.sum(axis=1) == pytest.approx(1)
    classes = model.classes_.tolist()
    predicted = quiet(model.predict, contexts)
    assert [classes.index(x) for x in predicted.tolist()] == P.argmax(axis=1).tolist()
    automaton = Automaton(model.limit_)
    for context, p in zip(contexts, P, strict=True):
        known = [x for x in context if x in classes]
        answer = automaton.predict_proba(context, radius)
        if not known:
            expected = dict.fromkeys(classes, 1 / len(classes))
        elif answer:
            expected = answer
        else:  # nothing was learned about this last token, so the fallback counts
            expected = {x: known.count(x) / len(known) for x in known}
        assert model.has_answer([context])[0] == bool(answer)
        # Two orders of the same sums: a few units in the last place.
        assert p == pytest.approx([expected.get(x, 0.0) for x in classes], abs=1e-12)
        if answer and np.isinf(radius):
            explained = {fate.token: fate.probability for fate in model.explain(context).fates}
            assert {explained.pop(x) for x in set(context) - set(known)} <= {None}
            assert explained == pytest.approx({x: expected[x] for x in set(known)}, abs=1e-12)


def test_predictions_do_not_depend_on_company():
    model = fitted(MIXED, radius=1.5)
    rng = np.random.default_rng(1)
    X = [rng.integers(0, 5, size=rng.integers(1, 6)).tolist() for _ in range(50)]
    alone = np.concatenate([quiet(model.predict_proba, [x]) for x in X])
    assert quiet(model.predict_proba, X) == pytest.approx(alone, abs=1e-15)


# Tokens


def test_strings_and_integers_stay_apart():
    model = NextTokenClassifier().fit([["3", 3], [3, "x"]], [3, 3])
    assert model.classes_.dtype == object
    assert model.classes_.tolist() == [3, "3", "x"]
    assert model.predict([["3", 3]]).tolist() == [3]


@pytest.mark.parametrize(
    "X",
    [
        np.array([["b", "a", "q"], ["a", "a", "q"]]),
        np.array([["b", "a", "q"], ["a", "a", "q"]], dtype=object),
        [np.array(["b", "a", "q"]), np.array(["a", "a", "q"])],
        (("b", "a", "q"), deque(["a", "a", "q"])),
    ],
)
def test_containers_do_not_matter(X):
    model = NextTokenClassifier().fit(X, ["b", "a"])
    assert model.classes_.dtype.kind == "U"
    assert model.predict(X).tolist() == ["b", "a"]


def test_ragged_object_array_and_whole_floats():
    rows = np.empty(2, dtype=object)
    rows[:] = [[0, 1, 2], [1, 2]]
    assert NextTokenClassifier().fit(rows, np.array([0.0, 1.0])).predict([[0, 2]]).tolist() == [0]
    model = NextTokenClassifier().fit(np.array([[0.0, 1.0]]), [0])
    assert model.classes_.dtype.kind == "i"


def test_huge_integers():
    big = 2**70
    model = NextTokenClassifier().fit([[big, 1], [-(2**63), 2**63]], [big, 2**63])
    assert model.classes_.tolist() == [-(2**63), 1, 2**63, big]
    assert model.predict([[1, big, 1]]).tolist() == [big]


def test_width_is_remembered_for_arrays_only():
    model = NextTokenClassifier().fit(np.array([[0, 1], [2, 1]]), [0, 2])
    assert model.n_features_in_ == 2
    with pytest.raises(DataError, match="X has 3 features"):
        model.predict(np.zeros((4, 3), int))
    assert model.predict([[0, 1, 1]]).tolist() == [0]
    assert not hasattr(model.fit(*CHAIN), "n_features_in_")


def test_unseen_tokens():
    model = NextTokenClassifier().fit([["a", "b", "q"], ["b", "q"]], ["a", "b"])
    # Scores are a 1, b 0, q −1: an unseen token's 0 would beat q, were it not left out.
    with pytest.warns(UnknownTokenWarning, match=r"1 of 1 contexts hold .*: 'new'\.$"):
        assert model.predict([["new", "q"]]).tolist() == ["q"]
    explanation = model.explain(["b", "new", "q"])
    assert [fate.token for fate in explanation.fates] == ["b", "q", "new"]
    assert [x.token for x in explanation.unknown] == ["new"]
    assert explanation.prediction == "b"


def test_a_mistyped_token_is_named_with_the_nearest():
    model = NextTokenClassifier().fit([["tea", "bell"], ["soup", "bell"]], ["tea", "soup"])
    with pytest.warns(UnknownTokenWarning, match=r"left out: 'taa' \(nearest: 'tea'\)\.$"):
        model.predict([["taa", "bell"]])


def test_contexts_without_an_answer_get_a_fallback_and_a_warning():
    model = NextTokenClassifier().fit([["a", "b", "q"], ["b", "q"]], ["a", "b"])
    X = [["a", "a", "b", "new"], ["new", 7], ["a", "b"], ["a", "q"]]
    assert model.has_answer(X).tolist() == [False, False, False, True]
    with pytest.warns(UnknownTokenWarning, match="2 of 4 contexts hold.*3 of 4 contexts end"):
        P = model.predict_proba(X)
    assert pytest.approx(P) == np.array([[2 / 3, 1 / 3, 0], [1 / 3] * 3, [0.5, 0.5, 0], [1, 0, 0]])
    assert quiet(model.predict, X).tolist() == ["a", "a", "a", "a"]
    assert quiet(model.score, X, ["a"] * 4) == 1
    for context in X[:3]:
        assert model.explain(context).prediction is None
        assert model.sample(context, 3, 0) == []
    model.predict_proba(X[3:])  # control: nothing is said where all is known


def test_explanation_and_prediction_break_ties_alike():
    model = fitted(MIXED)
    assert model.explain([1, 0, 3]).prediction == model.predict([[1, 0, 3]])[0]


# Sampling


def test_sample_follows_the_probabilities():
    model = fitted(CYCLE)
    drawn = [model.sample([0, 1], random_state=rng)[0] for rng in [np.random.default_rng(5)] * 1000]
    # Four standard deviations of a binomial share, √(¾ · ¼ / 1000).
    assert np.mean(drawn) == pytest.approx(0.25, abs=4 * 0.0137)


ROUND = ([[0, 1], [0, 1], [0, 1, 0], [0, 1, 0]], [0, 1, 0, 1])  # both are last tokens


@pytest.mark.parametrize("state", [7, np.int64(7), None])
def test_sample_is_repeatable(state):
    model = fitted(ROUND, random_state=7)
    assert model.sample([0, 1], 20, state) == model.sample([0, 1], 20, 7)
    assert len(model.sample([0, 1], 20, 7)) == 20


def test_sample_takes_generators_and_knows_its_limits():
    model = fitted(ROUND)
    for source in (np.random.default_rng(0), np.random.RandomState(0)):
        drawn = model.sample(np.array([0, 1]), 5, source)
        assert len(drawn) == 5
        assert set(map(type, drawn)) == {int}
    assert model.sample(["new"], 3, 0) == []
    assert fitted(CYCLE).sample([0, 1], 40, 0)[-1] == 0  # never a last token: it ends there
    with pytest.raises(UsageError, match="length"):
        model.sample([0, 1], 0)
    with pytest.raises(UsageError, match="random_state"):
        model.sample([0, 1], 1, "seed")


# Samples the theorem is silent about

ASIDE = ([[0, 1], [0, 1], [2, 2, 0]], [0, 9, 4])


def test_set_aside_warns():
    with pytest.warns(SetAsideWarning, match="2 of 3 samples") as caught:
        model = fitted(ASIDE)
    assert "sample 1: label 9, tokens [0, 1]" in str(caught[0].message)
    assert model.classes_.tolist() == [0, 1, 2, 4, 9]


def test_set_aside_is_ignored_or_refused():
    fitted(ASIDE, set_aside="ignore")
    with pytest.raises(AssumptionError) as caught:
        fitted(ASIDE, set_aside="error")
    assert str(caught.value) == (
        "2 of 3 samples have a label absent from their own tokens,\n"
        "so the Graph-SVM theorem does not apply:\n"
        "  sample 1: label 9, tokens [0, 1]\n"
        "  sample 2: label 4, tokens [2, 2, 0]\n"
        'Drop them, or have them left out: set_aside="warn" or "ignore".'
    )
    with pytest.raises(AssumptionError, match="… and 3 more"):
        NextTokenClassifier(set_aside="error").fit([[0]] * 9, [0] + [1] * 8)
    with pytest.raises(DataError, match="none of the 1 contexts"):
        NextTokenClassifier().fit([[0, 1]], [2])


# Bad input


@pytest.mark.parametrize(
    ("X", "message"),
    [
        ([[0, 1], [np.nan, 1]], "context 1: NaN"),
        (np.array([[0, 1], [np.inf, 1]]), "context 1: inf"),
        ([[0.5, 1], [0, None]], "2 tokens are neither"),
        ([[True, 1], [0, 1]], "context 0: True"),
        (np.array([[b"a", b"b"]] * 2), "has type"),
        (np.array([[True, False]] * 2), "has type bool"),
        (np.array([[0, 1j]] * 2), "Complex data not supported"),
        (np.array([[{}, object()]] * 2), "4 tokens are neither"),
        ([], "X is empty"),
        (np.zeros((0, 3), int), "X is empty"),
        (np.zeros((2, 0), int), r"0 feature\(s\)"),
        ([[0, 1], []], "context 1"),
        ([0, 1], "X is 1-D"),
        (np.array([0, 1]), "wrap one context"),
        (["ab", "cd"], "X is 1-D"),
        ("ab", "0 dimensions"),
        ([[0, 1], 3], "context 1: 3"),
        (np.zeros((2, 2, 2), int), "3 dimensions"),
        ([[[0, 1]], [[1]]], r"context 0: \[0, 1\]"),
        (None, "0 dimensions"),
        (iter([[0, 1]]), "0 dimensions"),
        (csr_array(np.eye(2, dtype=int)), "sparse"),
    ],
)
def test_bad_contexts(X, message):
    with pytest.raises(DataError, match=message):
        NextTokenClassifier().fit(X, [0, 1])
    with pytest.raises(DataError, match=message):
        fitted(CHAIN).predict(X)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([0], "2 contexts but 1 next tokens"),
        ([0, np.nan], "next token 1: NaN"),
        (np.array([0, np.inf]), "next token 1: inf"),
        ([0, 0.5], "Unknown label type"),
        (None, "the target y is None"),
        ("ab", "has shape"),
        ([[0], [1, 0]], r"next token 1: \[1, 0\]"),
        (np.zeros((2, 2), int), "has shape"),
        (np.array([0, 1j]), "Complex"),
        (csr_array(np.eye(2, dtype=int)), "sparse"),
    ],
)
def test_bad_next_tokens(y, message):
    with pytest.raises(DataError, match=message):
        NextTokenClassifier().fit([[0, 1], [1, 0]], y)


def test_a_column_of_next_tokens_is_read_with_a_warning():
    with pytest.warns(UserWarning, match="column-vector"):
        model = NextTokenClassifier().fit(CHAIN[0], [[0], [1]])
    assert model.predict([[0, 2]]).tolist() == [0]


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        ([1], "shape"),
        ([[1], [1]], "shape"),
        ([1, 0], "sample 1: weight 0"),
        ([-1, 1], "sample 0: weight -1"),
        ([1, np.nan], "sample 1: weight nan"),
        (["a", "b"], "no number"),
        (csr_array(np.eye(2)), "sparse"),
    ],
)
def test_bad_weights(weight, message):
    with pytest.raises(DataError, match=message):
        NextTokenClassifier().fit(*CHAIN, sample_weight=weight)
    with pytest.raises(DataError, match=message):
        fitted(CHAIN).score(*CHAIN, sample_weight=weight)


@pytest.mark.parametrize(
    "parameters",
    [
        {"radius": -1},
        {"radius": np.nan},
        {"radius": "far"},
        {"radius": True},
        {"set_aside": "drop"},
        {"set_aside": np.array([1, 2])},
        {"random_state": -1},
        {"random_state": "x"},
    ],
)
def test_bad_parameters(parameters):
    with pytest.raises(UsageError, match=next(iter(parameters))):
        fitted(CHAIN, **parameters)


def test_bad_embeddings():
    with pytest.raises(DataError, match="no row of the 2 embeddings") as caught:
        fitted(([["a", 1], [1, 2]], [1, 2]), embeddings=np.eye(2))
    assert "'a'" in str(caught.value)
    with pytest.raises(DataError, match="not finite"):
        fitted(CHAIN, embeddings=np.full((3, 3), np.nan))


def test_more_tokens_than_dimensions():
    model = fitted(CHAIN, embeddings=np.ones((3, 2)))
    assert np.ptp(model.predict_proba([[0, 1, 2]])) == 0.0  # tokens of one vector are all tied


def test_a_fit_that_fails_leaves_the_last_one():
    model = fitted(CHAIN)
    with pytest.raises(DataError):
        model.fit(np.array([[0, 1]]), [2])
    assert model.classes_.tolist() == [0, 1, 2]
    assert not hasattr(model, "n_features_in_")


@pytest.mark.parametrize(
    "method", ["predict", "predict_proba", "predict_log_proba", "explain", "sample"]
)
def test_not_fitted(method):
    with pytest.raises(NotFittedError, match="call fit"):
        getattr(NextTokenClassifier(), method)([[0, 1]])
    with pytest.raises(NotFittedError):
        NextTokenClassifier().score([[0, 1]], [0])


# Manners


def test_parameters_are_kept_as_given():
    E = np.eye(3)
    model = NextTokenClassifier(radius=2, embeddings=E)
    assert model.get_params()["embeddings"] is E
    assert list(model.get_params()) == [
        "radius",
        "embeddings",
        "dimension",
        "set_aside",
        "random_state",
    ]
    assert model.set_params(radius=1.0, set_aside="error") is model
    assert repr(model) == (
        "NextTokenClassifier(radius=1.0, embeddings=<array of shape (3, 3)>, set_aside='error')"
    )
    assert repr(NextTokenClassifier()) == "NextTokenClassifier()"


def test_a_wrong_parameter_changes_nothing():
    model = NextTokenClassifier()
    with pytest.raises(UsageError, match="did you mean 'radius'"):
        model.set_params(set_aside="error", raduis=1)
    with pytest.raises(UsageError, match="choose from"):
        model.set_params(xyz=1)
    assert repr(model) == "NextTokenClassifier()"


def test_radius_may_change_after_the_fit():
    model = fitted(CHAIN)
    assert model.set_params(radius=0).predict_proba([[1, 2]]).tolist() == [[0.0, 0.5, 0.5]]
    with pytest.raises(UsageError, match="radius"):
        model.set_params(radius=-1).predict([[1, 2]])


def test_deep_copies_are_independent():
    model = fitted(MIXED)
    twin = copy.deepcopy(model)
    model.fit(*CHAIN)
    assert twin.classes_.tolist() == [0, 1, 2, 3]
    assert twin.predict([[2, 1, 3]]).tolist() == [1]


def test_neither_scikit_learn_nor_jax_is_needed():
    code = (
        "import sys; from attomaton.estimator import NextTokenClassifier as N\n"
        "N().fit([[0, 1]], [0]).predict([[0, 1]])\n"
        "try: N().predict([[0]])\n"
        "except AttributeError: pass\n"
        "assert not {'sklearn', 'jax'} & set(sys.modules)"
    )
    src = str(Path(module.__file__).parents[1])
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": src})


def test_examples_run():
    assert doctest.testmod(module).failed == 0


def test_the_page_runs_and_lists_the_exceptions():
    text = PAGE.read_text()
    blocks = [part.split("```")[0] for part in text.split("```python\n")[1:]]
    assert blocks
    for block in blocks:
        parsed = doctest.DocTestParser().get_doctest(block, {}, "page", str(PAGE), 0)
        assert parsed.examples
        assert doctest.DocTestRunner(verbose=False).run(parsed).failed == 0
    rows = [
        line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| `check_")
    ]
    assert {name.strip("`"): reason.strip() for name, reason in rows} == EXCEPTIONS


# scikit-learn


@pytest.fixture(scope="module")
def sklearn():
    return pytest.importorskip("sklearn")


# Its random integers are tokens only by chance, so rows without their own label are to be expected.
@pytest.mark.filterwarnings("ignore::attomaton.estimator.SetAsideWarning")
@pytest.mark.filterwarnings("ignore::attomaton.estimator.UnknownTokenWarning")
@pytest.mark.filterwarnings("ignore:Estimator NextTokenClassifier does not inherit:UserWarning")
@pytest.mark.usefixtures("sklearn")
def test_scikit_learns_checks():
    from sklearn.utils.estimator_checks import check_estimator

    results = check_estimator(
        NextTokenClassifier(), expected_failed_checks=EXCEPTIONS, on_fail=None, on_skip=None
    )
    by_status = {
        status: {r["check_name"] for r in results if r["status"] == status}
        for status in ("failed", "xfail", "passed")
    }
    failed = [(r["check_name"], r["exception"]) for r in results if r["status"] == "failed"]
    assert not failed
    # Every exception is needed: none is stale, and no variant of an excepted check would pass.
    assert by_status["xfail"] == set(EXCEPTIONS)
    assert not by_status["passed"] & set(EXCEPTIONS)
    assert len(by_status["passed"]) > 30


@pytest.mark.usefixtures("sklearn")
def test_what_the_excepted_checks_are_after_holds_on_tokens(tmp_path):
    import joblib

    X, y = np.array(MIXED[0][:1] * 3 + [[3, 1, 0, 3]]), np.array([0, 1, 1, 0])
    model = NextTokenClassifier(random_state=1)
    before = joblib.hash(model.get_params())
    assert model.fit(X, y) is model
    assert joblib.hash(model.get_params()) == before

    joblib.dump(X, tmp_path / "X")
    frozen = joblib.load(tmp_path / "X", mmap_mode="r")
    assert not frozen.flags.writeable
    probability = model.predict_proba(X)
    assert np.array_equal(NextTokenClassifier().fit(frozen, y).predict_proba(frozen), probability)

    weight = np.array([1, 2, 3, 4])
    weighted = NextTokenClassifier().fit(X, y, sample_weight=weight)
    repeated = NextTokenClassifier().fit(X.repeat(weight, axis=0), y.repeat(weight))
    assert weighted.predict_proba(X) == pytest.approx(repeated.predict_proba(X), rel=1e-9)
    assert weight.tolist() == [1, 2, 3, 4]

    only = NextTokenClassifier().fit(X, np.zeros(4, int))
    assert only.predict(X).tolist() == [0] * 4


@pytest.mark.usefixtures("sklearn")
def test_not_fitted_is_scikit_learns_error_too():
    from sklearn.exceptions import DataConversionWarning
    from sklearn.exceptions import NotFittedError as Theirs

    with pytest.raises(Theirs) as caught:
        NextTokenClassifier().predict([[0, 1]])
    assert isinstance(caught.value, NotFittedError)
    sent = pickle.loads(pickle.dumps(caught.value))  # as from a worker process
    assert isinstance(sent, Theirs)
    assert str(sent) == str(caught.value)
    with pytest.warns(DataConversionWarning):
        NextTokenClassifier().fit(CHAIN[0], np.array([[0], [1]]))


@pytest.mark.usefixtures("sklearn")
def test_clone_pipeline_and_grid_search():
    from sklearn.base import clone, is_classifier
    from sklearn.model_selection import GridSearchCV, KFold
    from sklearn.pipeline import make_pipeline

    E = np.eye(4)
    twin = clone(fitted(MIXED, radius=3, embeddings=E))
    assert twin.radius == 3
    assert np.array_equal(twin.embeddings, E)
    assert not hasattr(twin, "limit_")
    assert is_classifier(twin)

    rng = np.random.default_rng(3)
    X = [[*rng.permutation(4)[: rng.integers(2, 5)].tolist(), 4] for _ in range(60)]
    y = [min(row) if rng.random() < 0.8 else max(row[:-1]) for row in X]
    pipeline = make_pipeline(NextTokenClassifier())
    assert pipeline.fit(X, y).score(X, y) == NextTokenClassifier().fit(X, y).score(X, y)
    # Every pair of tokens may go either way, so all are tied: no radius, however chosen, harms.
    search = GridSearchCV(
        pipeline,
        {"nexttokenclassifier__radius": [0.0, 1.0, np.inf]},
        cv=KFold(3),
        error_score="raise",
    ).fit(X, y)
    assert search.best_params_["nexttokenclassifier__radius"] in (0.0, 1.0, np.inf)
    assert search.best_score_ > 0.6

    def mean_log(model, X, y):
        log_p = model.predict_log_proba(X)
        return log_p[np.arange(len(y)), np.searchsorted(model.classes_, y)].mean()

    by_loss = GridSearchCV(
        NextTokenClassifier(), {"radius": [0.0, 2.0]}, cv=KFold(3), scoring=mean_log
    )
    # On a chain the layer errs less the further it has gone.
    chain = [[0, 1, 2], [1, 2], [0, 2]] * 4
    assert by_loss.fit(chain, [0, 1, 0] * 4).best_params_ == {"radius": 2.0}
