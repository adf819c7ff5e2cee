"""The fit / predict / explain face for practitioners: scikit-learn's manners, without scikit-learn.

`NextTokenClassifier` takes contexts (token sequences) as X and their next tokens as y. `fit` solves
for the exact end point of training one self-attention layer on them; no step of training is taken.
"""

import inspect
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from numbers import Integral, Real
from typing import Any

import numpy as np

from attomaton.base.parameters import Parameters
from attomaton.base.shapes import Bool, Float, Int, Shaped
from attomaton.corpus.given import (
    Context,
    Contexts,
    NextTokens,
    Weights,
    read_contexts,
    read_next_tokens,
    read_weights,
    refuse_outside,
    sklearn_class,
)
from attomaton.corpus.samples import SetAside
from attomaton.corpus.vocabulary import Label, Vocabulary
from attomaton.corpus.windows import windows_from_ids
from attomaton.errors import (
    AssumptionError,
    DataError,
    NotFittedError,
    UsageError,
    listed,
    whole_number,
)
from attomaton.mechanics.data import check_embeddings
from attomaton.mechanics.theory.automaton import Automaton, Explanation
from attomaton.mechanics.theory.information import Interval
from attomaton.mechanics.theory.limit import Limit, solve_limit
from attomaton.mechanics.theory.many import Answers, answer_many

RandomState = int | np.random.Generator | np.random.RandomState | None | Any
SET_ASIDE = ("warn", "error", "ignore")
NAMED = 5  # unknown tokens that a warning names


class SetAsideWarning(UserWarning):
    """Samples were left out of a fit because their label is absent from their context."""


class UnknownTokenWarning(UserWarning):
    """Contexts hold tokens that training never saw, or end in one that it never saw as a last token."""


@dataclass(kw_only=True, eq=False, repr=False)
class NextTokenClassifier(Parameters):
    """What one self-attention layer predicts next, in the limit of training on the given samples.

    - `radius` is ‖W‖ along W_svm: infinite for the limit of training, less for a softer layer on
      its way there (see `Automaton.predict_proba`). It acts on predictions only, not on `fit`.
    - `embeddings` is None (orthonormal tokens, strings or integers) or a matrix, of any width;
      then tokens are integers that name its rows, and all of them are classes.
    - `dimension` draws embeddings instead, unit vectors in so many dimensions, for any tokens; the seed is
      `random_state` where that is an integer, else 0.
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

    # Constructors in the manner of scikit-learn store and `fit` judges: hence `| Any` once more.
    radius: float | Any = np.inf
    embeddings: Float[np.ndarray, "vocab width"] | Any | None = None
    dimension: int | Any | None = None
    set_aside: str | Any = "warn"
    random_state: RandomState = None

    classes_: Shaped[np.ndarray, " classes"] = field(init=False)
    limit_: Limit = field(init=False)
    loss_floor_: float = field(init=False)
    n_features_in_: int = field(init=False)

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
        if self.embeddings is not None and self.dimension is not None:
            raise UsageError("embeddings are given, dimension draws them: set one of the two.")
        tokens, length, width = read_contexts(X)
        labels = read_next_tokens(y, len(length))
        weight = read_weights(sample_weight, len(length))
        embeddings = None if self.embeddings is None else check_embeddings(self.embeddings)
        vocabulary = Vocabulary(
            sorted({*tokens, *labels}, key=lambda x: (isinstance(x, str), x))
            if embeddings is None
            else range(len(embeddings.E))
        )
        ids, label = vocabulary.ids_of(tokens), vocabulary.ids_of(labels)
        if embeddings is not None:
            refuse_outside([*tokens, *labels], np.concatenate([ids, label]), len(vocabulary))
        elif self.dimension is not None:
            from attomaton.mechanics.synthetic import drawn_embeddings

            seed = int(self.random_state) if isinstance(self.random_state, Integral) else 0
            embeddings = drawn_embeddings(len(vocabulary), self.dimension, seed)
        samples = windows_from_ids(vocabulary, ids, length, label, weight).samples()
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
        """The likeliest next token of each context (the first in `classes_` among equals).

        Where nothing was learned about the last token, that is of a fallback; see `predict_proba`.
        """
        self._check_fitted()
        return self.classes_[self._best(X)]

    def predict_proba(self, X: Contexts) -> Float[np.ndarray, "n classes"]:
        """Probabilities of the next token, one row per context, one column per class.

        Only tokens of the context get mass. Tokens never seen in training cannot be classes: they
        are left out before the rest is mixed. Where the last token was never one in training, nothing was
        learned (see `has_answer`) and the row is a fallback: attention as training found it, even over the
        known tokens of the context, and uniform where there is none. An `UnknownTokenWarning` counts both.
        """
        self._check_fitted()
        mixed = self._mix(X)
        answer = np.zeros((len(mixed), len(self.classes_)))
        answer[np.diff(mixed.start) == 0] = 1 / len(self.classes_)
        answer[mixed.owner, mixed.token] = mixed.p
        return answer

    def has_answer(self, X: Contexts) -> Bool[np.ndarray, " n"]:
        """Whether anything was learned about contexts with these last tokens, one entry per context."""
        self._check_fitted()
        tokens, length, _ = read_contexts(X)
        return self._learned(self.limit_.graph.vocabulary.ids_of(tokens)[np.cumsum(length) - 1])

    def predict_interval(self, X: Contexts) -> list[dict[Label, Interval]]:
        """The probabilities of mixed tokens with their 95 % intervals, for each context, in the limit of training.

        Empty where one token is retrieved alone, or where the data do not fix the odds.

        >>> model = NextTokenClassifier().fit([[0, 1]] * 4, [0, 0, 0, 1])
        >>> [round(x, 3) for x in (model.predict_interval([[0, 1]])[0][0].low, 0.75)]
        [0.238, 0.75]
        """
        self._check_fitted()
        tokens, length, _ = read_contexts(X)
        rows = np.split(np.arange(len(tokens)), np.cumsum(length)[:-1])
        automaton = Automaton(self.limit_)
        return [automaton.intervals([tokens[i] for i in row]) for row in rows]

    def predict_log_proba(self, X: Contexts) -> Float[np.ndarray, "n classes"]:
        """Natural logarithms of `predict_proba`; −∞ where a token cannot come next."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def score(self, X: Contexts, y: NextTokens, sample_weight: Weights | None = None) -> float:
        """The (weighted) share of contexts whose next token is predicted."""
        self._check_fitted()
        best = self._best(X)
        truth = self.limit_.graph.vocabulary.ids_of(read_next_tokens(y, len(best)))
        return float(np.average(best == truth, weights=read_weights(sample_weight, len(best))))

    def explain(self, context: Context, evidence: int = 3) -> Explanation:
        """Why each token of one context won or lost, in the limit of training (whatever `radius`).

        Tokens never seen in training are named (`unknown`) and left out, as in `predict_proba`; where
        nothing was learned about the last token, the prediction is None. `evidence` is the number of samples
        shown for each step of a path.

        >>> model = NextTokenClassifier().fit([[0, 1, 2], [1, 2]], [0, 1])
        >>> [(fate.token, fate.reason) for fate in model.explain([0, 2]).fates]
        [(0, 'retrieved'), (2, 'outranked')]
        """
        self._check_fitted()
        whole_number("evidence", evidence, least=0)
        tokens, _, _ = read_contexts([context])
        return _InOrderOfClasses(self.limit_).explain(tokens, evidence)

    def sample(
        self, context: Context, length: int = 1, random_state: RandomState = None
    ) -> list[Label]:
        """A continuation of one context, drawn token by token from `predict_proba`.

        It ends early, or is empty, where nothing was learned about what follows the last token.
        """
        self._check_fitted()
        whole_number("length", length, least=1)
        rng = _check_random_state(self.random_state if random_state is None else random_state)
        words, _, _ = read_contexts([context])
        begin = len(words)
        for _ in range(length):
            if not self.has_answer([words])[0]:
                break
            drawn = rng.choice(len(self.classes_), p=self.predict_proba([words])[0])
            words.append(self.limit_.graph.vocabulary[drawn])
        return words[begin:]

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

    def _learned(self, last: Int[np.ndarray, " n"]) -> Bool[np.ndarray, " n"]:
        """Whether the layer moved for contexts that end in these tokens; −1 is none of the vocabulary."""
        table = self.limit_.embeddings
        if table is not None and not table.orthonormal:
            return last >= 0
        return np.isin(last, self.limit_.graph.last_tokens)

    def _warn(
        self,
        tokens: list[Label],
        ids: Int[np.ndarray, " tokens"],
        length: Int[np.ndarray, " n"],
        blank: Bool[np.ndarray, " n"],
    ) -> None:
        """Count the contexts that hold unknown tokens, and those without an answer."""
        where = np.flatnonzero(ids < 0)
        if not len(where) and not blank.any():
            return
        n = len(length)
        said = []
        if len(where):
            rows = len(np.unique(np.repeat(np.arange(n), length)[where]))
            some = list(dict.fromkeys(tokens[i] for i in where))
            near = ((x, self.limit_.graph.vocabulary.nearest(x)) for x in some[:NAMED])
            names = [f"{x!r:.60}{'' if y is None else f' (nearest: {y!r:.60})'}" for x, y in near]
            more = ", …" if len(some) > NAMED else ""
            said.append(
                f"{rows} of {n} contexts hold tokens never seen in training, which are left out: "
                f"{', '.join(names)}{more}."
            )
        if blank.any():
            said.append(
                f"{blank.sum()} of {n} contexts end in a token that was never a last token in training: "
                "nothing was learned about them, even attention over their known tokens is given instead "
                "(has_answer tells which)."
            )
        warnings.warn(" ".join(said), UnknownTokenWarning, stacklevel=_outside())

    def _best(self, X: Contexts) -> Int[np.ndarray, " n"]:
        """The predicted class of each context: `argmax` of a `predict_proba` never written out."""
        mixed = self._mix(X)
        row = mixed.owner
        order = np.lexsort((mixed.token, -mixed.p, row))
        first = order[np.flatnonzero(np.diff(row[order], prepend=-1))]
        best = np.zeros(len(mixed), np.int64)  # a uniform row has its first maximum at 0
        best[row[first]] = mixed.token[first]
        return best

    def _mix(self, X: Contexts) -> Answers:
        """`Automaton.predict_proba` for many contexts at once.

        Entries are sorted by row, then class. A row without a known token has none.
        """
        radius = _check_radius(self.radius)
        tokens, length, width = read_contexts(X)
        fitted = vars(self).get("n_features_in_")
        if None not in (width, fitted) and width != fitted:
            raise DataError(
                f"X has {width} features, but {type(self).__name__} is expecting {fitted} features "
                "as input. Contexts of other lengths are welcome as a list of sequences."
            )
        limit = self.limit_
        ids = limit.graph.vocabulary.ids_of(tokens)
        self._warn(tokens, ids, length, ~self._learned(ids[np.cumsum(length) - 1]))
        return answer_many(limit, ids, length, radius, in_order=False)


class _InOrderOfClasses(Automaton):
    """The automaton with the tokens of a context in the order of classes, which breaks ties."""

    def _look_up(self, context: Sequence[Label]) -> Any:
        seen = super()._look_up(context)
        order = np.argsort(seen.tokens, kind="stable")
        arrays = {k: getattr(seen, k)[order] for k in ("tokens", "count", "pairs", "svm", "finite")}
        return replace(seen, words=[seen.words[i] for i in order], **arrays)


def _outside() -> int:
    """How many frames up a warning belongs: to the line that called this module."""
    frame, depth = inspect.currentframe(), 0
    while frame is not None and frame.f_globals.get("__name__") == __name__:
        frame, depth = frame.f_back, depth + 1
    return depth


def _as_array(labels: Sequence[Label]) -> Shaped[np.ndarray, " labels"]:
    """Labels as integers or as strings, as Python objects only where there are both."""
    kinds = set(map(type, labels))
    if kinds == {str}:
        return np.array(labels)
    if kinds == {int} and max(map(abs, labels)) < 2**63:  # type: ignore[arg-type]
        return np.array(labels, dtype=np.int64)
    return np.array(labels, dtype=object)


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


def _not_fitted(message: str) -> NotFittedError:
    """Our error, which `except sklearn.exceptions.NotFittedError` catches, too."""
    theirs = sklearn_class("NotFittedError", NotFittedError)
    if theirs is NotFittedError:
        return NotFittedError(message)
    # A class made here cannot be found by name in another process: it travels as this call.
    travel = {"__reduce__": lambda error: (_not_fitted, error.args)}
    return type("NotFittedError", (NotFittedError, theirs), travel)(message)
