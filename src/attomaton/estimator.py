"""The fit / predict / explain face for practitioners: scikit-learn's manners, without scikit-learn.

`NextTokenClassifier` takes contexts (token sequences) as X and their next tokens as y. `fit` solves
for the exact end point of training one self-attention layer on them; no step of training is taken.
"""

import inspect
import math
import sys
import warnings
from collections.abc import Sequence
from itertools import chain
from numbers import Integral, Real
from typing import Any

import numpy as np
from jaxtyping import Float, Int, Shaped
from scipy.sparse import issparse

from attomaton.corpus.samples import SetAside, plain_label, samples_from_ids
from attomaton.corpus.vocabulary import Label, Vocabulary
from attomaton.errors import AssumptionError, DataError, NotFittedError, UsageError, listed, nearest
from attomaton.mechanics.automaton import TIE, Automaton, Explanation
from attomaton.mechanics.data import check_embeddings
from attomaton.mechanics.limit import Limit, solve_limit

# `Any`: data frames and other array-likes are welcome, and what is not gets an error of ours.
Context = Sequence[Label] | np.ndarray | Any
Contexts = Sequence[Context] | np.ndarray | Any
NextTokens = Sequence[Label] | np.ndarray | Any
Weights = Sequence[float] | np.ndarray | Any
RandomState = int | np.random.Generator | np.random.RandomState | None | Any
SET_ASIDE = ("warn", "error", "ignore")


class SetAsideWarning(UserWarning):
    """Samples were left out of a fit because their label is absent from their context."""


class NextTokenClassifier:
    """What one self-attention layer predicts next, in the limit of training on the given samples.

    - `radius` is ‖W‖ along W_svm: infinite for the limit of training, less for a softer layer on
      its way there (see `Automaton.predict_proba`). It acts on predictions only, not on `fit`.
    - `embeddings` is None (orthonormal tokens, strings or integers) or a matrix whose rows are
      independent; then tokens are integers that name its rows, and all of them are classes.
    - `set_aside` says what `fit` does about samples whose label is absent from their context, where
      the theorem is silent: leave them out and "warn", leave them out and "ignore" it, or "error".
    - `random_state` feeds `sample` where that is given none: an integer, a generator, or None.

    After `fit`, `classes_` holds every token read, integers before strings, ascending; `limit_` is
    the exact answer with its certificates, `loss_floor_` the loss that training tends to, and
    `n_features_in_` the width of X where X was an array rather than a list.

    >>> orders = [["tea", "soup", "bell"], ["soup", "bell"], ["tea", "bell"]]
    >>> model = NextTokenClassifier().fit(orders, ["tea", "soup", "tea"])
    >>> model.predict([["soup", "tea", "bell"]]).tolist()
    ['tea']
    """

    classes_: Shaped[np.ndarray, " classes"]
    limit_: Limit
    loss_floor_: float
    n_features_in_: int

    # Constructors in the manner of scikit-learn store and `fit` judges: hence `| Any` once more.
    def __init__(
        self,
        *,
        radius: float | Any = np.inf,
        embeddings: Float[np.ndarray, "vocab width"] | Any | None = None,
        set_aside: str | Any = "warn",
        random_state: RandomState = None,
    ):
        self.radius = radius
        self.embeddings = embeddings
        self.set_aside = set_aside
        self.random_state = random_state

    def fit(
        self, X: Contexts, y: NextTokens, sample_weight: Weights | None = None
    ) -> "NextTokenClassifier":
        """Solve for the limit of training on contexts `X`, next tokens `y` and positive weights.

        `X` is a list of token sequences of any lengths, or a 2-D array with one context per row.
        The last token of each context is the layer's query.
        """
        _check_radius(self.radius)
        _check_random_state(self.random_state)
        if not isinstance(self.set_aside, str) or self.set_aside not in SET_ASIDE:
            raise UsageError(f"set_aside must be one of {SET_ASIDE}, not {self.set_aside!r}.")
        tokens, length, width = _read_contexts(X)
        labels = _read_next_tokens(y, len(length))
        weight = _read_weights(sample_weight, len(length))
        embeddings = None if self.embeddings is None else check_embeddings(self.embeddings)
        vocabulary = Vocabulary(
            sorted({*tokens, *labels}, key=lambda x: (isinstance(x, str), x))
            if embeddings is None
            else range(len(embeddings.E))
        )
        ids, label = _ids(vocabulary, tokens), _ids(vocabulary, labels)
        if embeddings is not None:
            _refuse_outside([*tokens, *labels], np.concatenate([ids, label]), len(vocabulary))
        samples = samples_from_ids(vocabulary, ids, length, label, weight)
        self._report(samples.set_aside, samples.windows)
        limit = solve_limit(samples, embeddings)
        # From here on nothing can fail: a fit that raised leaves an earlier one as it was.
        self.classes_ = _as_array(vocabulary.labels)
        self.limit_ = limit
        self.loss_floor_ = limit.finite.loss_floor
        vars(self).pop("n_features_in_", None)
        if width is not None:
            self.n_features_in_ = width
        return self

    def predict(self, X: Contexts) -> Shaped[np.ndarray, " n"]:
        """The likeliest next token of each context (the first in `classes_` among equals)."""
        self._check_fitted()
        return self.classes_[self._best(X)]

    def predict_proba(self, X: Contexts) -> Float[np.ndarray, "n classes"]:
        """Probabilities of the next token, one row per context, one column per class.

        Only tokens of the context get mass. Tokens never seen in training cannot be classes: they
        are left out before the rest is mixed. Where nothing known is left, the row is uniform.
        """
        self._check_fitted()
        n, row, column, p = self._mix(X)
        answer = np.zeros((n, len(self.classes_)))
        answer[np.bincount(row, minlength=n) == 0] = 1 / len(self.classes_)
        answer[row, column] = p
        return answer

    def predict_log_proba(self, X: Contexts) -> Float[np.ndarray, "n classes"]:
        """Natural logarithms of `predict_proba`; −∞ where a token cannot come next."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def score(self, X: Contexts, y: NextTokens, sample_weight: Weights | None = None) -> float:
        """The (weighted) share of contexts whose next token is predicted."""
        self._check_fitted()
        best = self._best(X)
        truth = _ids(self.limit_.graph.vocabulary, _read_next_tokens(y, len(best)))
        return float(np.average(best == truth, weights=_read_weights(sample_weight, len(best))))

    def explain(self, context: Context, evidence: int = 3) -> Explanation:
        """Why each token of one context won or lost, in the limit of training (whatever `radius`).

        Tokens never seen in training are left out, as in `predict_proba`. `evidence` is the
        number of samples shown for each step of a path.

        >>> model = NextTokenClassifier().fit([[0, 1, 2], [1, 2]], [0, 1])
        >>> [(fate.token, fate.reason) for fate in model.explain([0, 2]).fates]
        [(0, 'retrieved'), (2, 'outranked')]
        """
        self._check_fitted()
        tokens, _, _ = _read_contexts([context])
        return _KnownTokens(self.limit_).explain(tokens, evidence)

    def sample(
        self, context: Context, length: int = 1, random_state: RandomState = None
    ) -> list[Label]:
        """A continuation of one context, drawn token by token from `predict_proba`."""
        self._check_fitted()
        if length < 1:
            raise UsageError(f"length must be at least 1, not {length}.")
        rng = _check_random_state(self.random_state if random_state is None else random_state)
        words, _, _ = _read_contexts([context])
        begin = len(words)
        for _ in range(length):
            drawn = rng.choice(len(self.classes_), p=self.predict_proba([words])[0])
            words.append(self.limit_.graph.vocabulary[drawn])
        return words[begin:]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The constructor's arguments by name (`deep` changes nothing: none is an estimator)."""
        return {name: getattr(self, name) for name in self._defaults()}

    def set_params(self, **params: Any) -> "NextTokenClassifier":
        """Set constructor arguments by name; all of them or, where a name is wrong, none."""
        names = list(self._defaults())
        for name in params:
            if name not in names:
                hint = nearest(name, names)
                hint = hint if hint != "." else f"; choose from {names}."
                raise UsageError(f"{type(self).__name__} has no parameter {name!r}{hint}")
        for name, value in params.items():
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        shown = []
        for name, default in self._defaults().items():
            value = getattr(self, name)
            if repr(value) != repr(default):
                array = isinstance(value, np.ndarray)
                shown.append(
                    f"{name}={f'<array of shape {value.shape}>' if array else repr(value)}"
                )
        return f"{type(self).__name__}({', '.join(shown)})"

    def __sklearn_tags__(self) -> Any:
        """What scikit-learn may assume; only scikit-learn asks, so only then is it imported."""
        from sklearn.utils import ClassifierTags, InputTags, Tags, TargetTags

        return Tags(
            estimator_type="classifier",
            target_tags=TargetTags(required=True),
            # Scores are judged there on Gaussian blobs, whose labels are no tokens of their rows.
            classifier_tags=ClassifierTags(poor_score=True),
            input_tags=InputTags(categorical=True, string=True),
        )

    @classmethod
    def _defaults(cls) -> dict[str, Any]:
        """The constructor's arguments and their defaults, read off its signature."""
        parameters = list(inspect.signature(cls.__init__).parameters.values())[1:]
        return {p.name: p.default for p in parameters}

    def _check_fitted(self) -> None:
        if "limit_" not in vars(self):
            raise _not_fitted(
                f"this {type(self).__name__} is not fitted yet; call fit(X, y) first."
            )

    def _report(self, aside: SetAside, windows: int) -> None:
        """Warn about samples set aside, refuse them or stay silent, as `set_aside` says."""
        if not aside.rows or self.set_aside == "ignore":
            return
        what = f"{aside.rows} of {windows} samples have a label absent from their own tokens"
        more = aside.rows - len(aside.examples)
        faults = [*aside.examples, *([f"… and {more} more"] if more else [])]
        if self.set_aside == "error":
            heading = f"{what},\nso the Graph-SVM theorem does not apply:"
            cure = 'Drop them, or have them left out: set_aside="warn" or "ignore".'
            raise AssumptionError(listed(heading, faults, cure, len(faults)))
        cure = 'Silence this: set_aside="ignore". Refuse such data: set_aside="error".'
        warnings.warn(
            listed(f"{what} and were left out:", faults, cure, len(faults)),
            SetAsideWarning,
            stacklevel=3,
        )

    def _best(self, X: Contexts) -> Int[np.ndarray, " n"]:
        """The predicted class of each context: `argmax` of a `predict_proba` never written out."""
        n, row, column, p = self._mix(X)
        order = np.lexsort((column, -p, row))
        first = order[np.flatnonzero(np.diff(row[order], prepend=-1))]
        best = np.zeros(n, np.int64)  # a uniform row has its first maximum at 0
        best[row[first]] = column[first]
        return best

    def _mix(
        self, X: Contexts
    ) -> tuple[
        int,
        Int[np.ndarray, " entries"],
        Int[np.ndarray, " entries"],
        Float[np.ndarray, " entries"],
    ]:
        """`Automaton.predict_proba` for many contexts at once: how many, then (row, class, mass).

        Entries are sorted by row, then class. A row without a known token has none.
        """
        radius = _check_radius(self.radius)
        tokens, length, width = _read_contexts(X)
        fitted = vars(self).get("n_features_in_")
        if None not in (width, fitted) and width != fitted:
            raise DataError(
                f"X has {width} features, but {type(self).__name__} is expecting {fitted} features "
                "as input. Contexts of other lengths are welcome as a list of sequences."
            )
        limit, K = self.limit_, len(self.classes_)
        ids = _ids(limit.graph.vocabulary, tokens)
        last = ids[np.cumsum(length) - 1]
        owner = np.repeat(np.arange(len(length)), length)
        key, count = np.unique((owner * K + ids)[ids >= 0], return_counts=True)
        row, column = key // K, key % K
        start = np.flatnonzero(np.diff(row, prepend=-1))
        size = np.diff(start, append=len(row))
        svm = limit.scores(limit.svm.coefficient, last[row], column)
        score = np.log(count) + limit.scores(limit.finite.coefficient, last[row], column)
        if np.isinf(radius):
            top = np.repeat(np.maximum.reduceat(svm, start), size)
            score = np.where(svm >= top - TIE, score, -np.inf)
        elif limit.svm.norm > 0:
            score = score + radius * svm / limit.svm.norm
        e = np.exp(score - np.repeat(np.maximum.reduceat(score, start), size))
        return len(length), row, column, e / np.repeat(np.add.reduceat(e, start), size)


class _KnownTokens(Automaton):
    """The automaton without the tokens it has never seen, the others in the order of classes."""

    def _look_up(
        self, context: Sequence[Label]
    ) -> tuple[
        list[Label],
        Int[np.ndarray, " distinct"],
        Int[np.ndarray, " distinct"],
        Float[np.ndarray, " distinct"],
        Float[np.ndarray, " distinct"],
    ]:
        words, tokens, count, svm, finite = super()._look_up(context)
        keep = np.argsort(tokens, kind="stable")[(tokens < 0).sum() :]
        if not len(keep):
            raise DataError(
                f"no token of the context {words} was seen in training: nothing to explain."
            )
        return [words[i] for i in keep], tokens[keep], count[keep], svm[keep], finite[keep]


def _ids(vocabulary: Vocabulary, tokens: list[Label]) -> Int[np.ndarray, " tokens"]:
    """The id of each token, −1 outside the vocabulary."""
    found = {x: vocabulary.id_of(x) for x in set(tokens)}
    known = {x: -1 if i is None else i for x, i in found.items()}
    return np.fromiter(map(known.__getitem__, tokens), np.int64, len(tokens))


def _as_array(labels: Sequence[Label]) -> Shaped[np.ndarray, " labels"]:
    """Labels as integers or as strings, as Python objects only where there are both."""
    kinds = set(map(type, labels))
    if kinds == {str}:
        return np.array(labels)
    if kinds == {int} and max(map(abs, labels)) < 2**63:  # type: ignore[arg-type]
        return np.array(labels, dtype=np.int64)
    return np.array(labels, dtype=object)


def _read_contexts(X: Contexts) -> tuple[list[Label], Int[np.ndarray, " n"], int | None]:
    """All tokens end to end, the length of each context, and the width where X is a 2-D array."""
    _refuse_sparse(X, "X")
    width = None
    if not isinstance(X, (list, tuple)):
        X = np.asarray(X)
        if X.ndim == 2:
            width = X.shape[1]
        elif X.ndim != 1:
            raise DataError(
                f"X has {X.ndim} dimensions; a list of sequences or a 2-D array is needed."
            )
        _refuse_kind(X, "X")
        if width == 0:
            raise DataError(
                f"X: found 0 feature(s) (shape={X.shape}) while a minimum of 1 is required."
            )
        X = X.tolist()
    if not len(X):
        raise DataError("X is empty: at least 1 sample is needed.")
    rows = [x.tolist() if isinstance(x, np.ndarray) and x.ndim else x for x in X]
    flat = [i for i, x in enumerate(rows) if isinstance(x, str) or not isinstance(x, Sequence)]
    if len(flat) == len(rows):
        raise DataError(
            "X is 1-D; a list of sequences is needed. Reshape your data: wrap one context in a "
            "list."
        )
    if flat:
        faults = [f"context {i}: {rows[i]!r}" for i in flat]
        raise DataError(listed("contexts that are no sequences:", faults, "Wrap them in lists."))
    length = np.array([len(row) for row in rows])
    empty = [f"context {i}" for i in np.flatnonzero(length == 0)]
    if empty:
        raise DataError(listed("contexts without a token:", empty, "Drop them or fill them."))
    places = np.repeat(np.arange(len(rows)), length)
    return _read_tokens(list(chain.from_iterable(rows)), "context", places), length, width


def _read_next_tokens(y: NextTokens, n: int) -> list[Label]:
    """The `n` next tokens as plain labels."""
    if y is None:
        raise DataError("this requires y to be passed, but the target y is None.")
    _refuse_sparse(y, "y")
    plain = isinstance(y, (list, tuple))
    if not plain or any(isinstance(x, (list, tuple, np.ndarray)) for x in y):
        y = np.asarray(y, dtype=object if plain else None)
        if y.ndim == 2 and y.shape[1] == 1:
            warnings.warn(
                "A column-vector y was passed when a 1d array was expected; it is read as one.",
                _sklearn("DataConversionWarning", UserWarning),
                stacklevel=3,
            )
            y = y[:, 0]
        if y.ndim != 1:
            raise DataError(f"y has shape {y.shape}; one next token per context is needed.")
        _refuse_kind(y, "y")
        y = y.tolist()
    if len(y) != n:
        raise DataError(f"{n} contexts but {len(y)} next tokens; one each is needed.")
    return _read_tokens(list(y), "Unknown label type: next token", np.arange(n))


def _read_tokens(tokens: list[Any], place: str, number: Int[np.ndarray, " tokens"]) -> list[Label]:
    """Tokens as plain strings and integers; all that are neither are named with their place."""
    if set(map(type, tokens)) <= {int, str}:
        return tokens
    answer: list[Label] = []
    faults = []
    for x, i in zip(tokens, number, strict=True):
        try:
            answer.append(plain_label(x))
        except DataError:
            nan = isinstance(x, float) and math.isnan(x)
            faults.append(f"{place} {i}: {'NaN' if nan else repr(x)}")
    if faults:
        heading = f"{len(faults)} tokens are neither strings nor integers:"
        raise DataError(listed(heading, faults, "Encode them as one of the two."))
    return answer


def _read_weights(weight: Weights | None, n: int) -> Float[np.ndarray, " n"] | None:
    """Positive, finite weights, one per sample, or None for equal ones."""
    if weight is None:
        return None
    _refuse_sparse(weight, "sample_weight")
    try:
        w = np.asarray(weight, dtype=np.float64)
    except (TypeError, ValueError):
        raise DataError("sample_weight holds something that is no number.") from None
    if w.shape != (n,):
        raise DataError(f"sample_weight has shape {w.shape}; ({n},), one per sample, is needed.")
    wrong = np.flatnonzero(~(np.isfinite(w) & (w > 0)))
    if len(wrong):
        heading = "sample_weight must be positive and finite, neither negative nor zero:"
        faults = [f"sample {i}: weight {w[i]:g}" for i in wrong]
        raise DataError(listed(heading, faults, "Drop these samples or mend their weights."))
    return w


def _refuse_outside(tokens: list[Label], ids: Int[np.ndarray, " tokens"], K: int) -> None:
    """With embeddings, tokens that name none of the `K` rows."""
    outside = list(dict.fromkeys(repr(tokens[i]) for i in np.flatnonzero(ids < 0)))
    if outside:
        heading = f"tokens that name no row of the {K} embeddings:"
        raise DataError(listed(heading, outside, f"Use integers from 0 to {K - 1}."))


def _refuse_sparse(x: object, name: str) -> None:
    if issparse(x):
        raise DataError(f"{name} is a sparse matrix; sparse input is not supported, pass lists.")


def _refuse_kind(x: np.ndarray, name: str) -> None:
    """Arrays of a type that can hold no tokens; floats and objects are judged one by one."""
    if x.dtype.kind == "c":
        raise DataError(f"{name}: Complex data not supported; tokens are strings or integers.")
    if x.dtype.kind not in "iufUTO":
        raise DataError(f"{name} has type {x.dtype}; tokens are strings or integers.")


def _check_radius(radius: object) -> float:
    if isinstance(radius, bool) or not isinstance(radius, Real) or not float(radius) >= 0:
        raise UsageError(f"radius must be a number, 0 or more (inf included), not {radius!r}.")
    return float(radius)


def _check_random_state(state: RandomState) -> np.random.Generator | np.random.RandomState:
    """A source of randomness: the one given, or a new one from a seed or from the system."""
    if isinstance(state, (np.random.Generator, np.random.RandomState)):
        return state
    if state is None:
        return np.random.default_rng()
    if isinstance(state, Integral) and not isinstance(state, bool) and int(state) >= 0:
        return np.random.default_rng(int(state))
    raise UsageError(
        "random_state must be None, an integer from 0, a numpy Generator or a RandomState, "
        f"not {state!r}."
    )


def _sklearn(name: str, otherwise: type) -> type:
    """A class of `sklearn.exceptions` where that is loaded; it is never imported for this."""
    return getattr(sys.modules.get("sklearn.exceptions"), name, otherwise)


def _not_fitted(message: str) -> NotFittedError:
    """Our error, which `except sklearn.exceptions.NotFittedError` catches, too."""
    theirs = _sklearn("NotFittedError", NotFittedError)
    if theirs is NotFittedError:
        return NotFittedError(message)
    # A class made here cannot be found by name in another process: it travels as this call.
    travel = {"__reduce__": lambda error: (_not_fitted, error.args)}
    return type("NotFittedError", (NotFittedError, theirs), travel)(message)
