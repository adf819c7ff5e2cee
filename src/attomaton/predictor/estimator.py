"""The predictor for practitioners: fit / predict / score / explain on data frames and lists, nothing to choose."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from attomaton.base.parameters import Parameters
from attomaton.base.shapes import Float, Shaped
from attomaton.corpus.given import (
    Context,
    Contexts,
    NextTokens,
    as_windows,
    is_table,
    read_contexts,
    read_next_tokens,
    sequences_in,
)
from attomaton.corpus.reading import Reading
from attomaton.corpus.splits import Corpora, pair_up
from attomaton.corpus.vocabulary import Label, encode
from attomaton.corpus.windows import Windows, windows_from_ids
from attomaton.errors import NotFittedError, UsageError
from attomaton.predictor.many import likeliest
from attomaton.predictor.model import Predictor
from attomaton.predictor.reasons import Reasons
from attomaton.predictor.scoring import score_predictor
from attomaton.predictor.tune import tune


@dataclass(kw_only=True, eq=False, repr=False)
class NextTokenPredictor(Parameters):
    """The tuned predictor (`tune`) with scikit-learn's manners.

    Data are a table with one event a row (a pandas or polars data frame, an Arrow table, a dictionary of columns), a
    list of sequences, or contexts with their next tokens.

    - `context` is how many events before each are looked at. `sequence`, `item`, `order` and `dates` say which column
      of a table is what, as for `read_samples`; names that process mining gives them are known.
    - `backoff` says whether tokens outside the context may be answered.
    - `metric` is what settings are chosen by, `minutes` how long that may take, `history` whether sequences to
      validate on go on from those to learn from (by default where their order says so): see docs/predictor.md.
    - `grid` are other arguments of `tune` by name: `priors`, `lambdas`, `thetas`, `widen`.

    After `fit`, `predictor_` is the `Predictor`, `classes_` its vocabulary, and `said_` how the data were set apart.

    >>> log = {"guest": [1] * 6 + [2] * 6, "dish": ["tea", "cake"] * 3 + ["soup", "tea"] * 3}
    >>> small = {"priors": ["zero"], "lambdas": [1.0], "thetas": [1.0]}
    >>> model = NextTokenPredictor(context=3, sequence="guest", item="dish", grid=small).fit(log)
    >>> model.predict([["tea", "cake", "tea"]]).tolist()
    ['cake']
    >>> model.predict(log).tolist()  # what comes next for each guest
    ['tea', 'soup']
    """

    context: int | Any = 20
    sequence: str | Any | None = None
    item: str | Any | None = None
    order: str | Any | None = None
    dates: str | Any | None = None
    backoff: bool | Any = True
    metric: str | Any = "nats"
    minutes: float | Any | None = None
    history: bool | Any | None = None
    grid: Mapping[str, Any] | Any | None = None

    predictor_: Predictor = field(init=False)
    classes_: Shaped[np.ndarray, " classes"] = field(init=False)
    said_: tuple[str, ...] = field(init=False)
    # Contexts were given as such, so a table holds one a row
    given_: bool = field(init=False)

    def fit(
        self, X: Any, y: NextTokens | None = None, validate: Any | None = None
    ) -> "NextTokenPredictor":
        """Choose settings and fit: to a table or a list of sequences, or to contexts `X` and their next tokens `y`.

        `validate` is more of the same to choose settings on, a pair (X, y) where there is a y; without it some of
        the data are set apart (`said_` tells which).
        """
        pair = isinstance(validate, (tuple, list)) and len(validate) == 2
        if validate is not None and y is not None and not pair:
            raise UsageError("validate: a pair (X, y) is needed, as there is a y.")
        valid = None
        if validate is not None:
            valid = self._windows(*validate) if y is not None else self._windows(validate)
        found: Corpora = pair_up(
            self._windows(X, y), valid, None if y is not None else self.context, self.history
        )
        reading = self._reading if y is None else Reading()
        minutes = None if self.minutes is None else float(self.minutes)
        predictor = tune(
            found.train, found.valid, reading=reading, metric=self.metric, minutes=minutes,
            **(self.grid or {}),
        )  # fmt: skip
        # From here on nothing can fail: a fit that raised leaves an earlier one as it was.
        self.predictor_ = predictor
        self.classes_ = np.array(predictor.vocabulary.labels, dtype=object)
        self.said_, self.given_ = found.said, y is not None
        return self

    def predict(self, X: Contexts) -> Shaped[np.ndarray, " n"]:
        """The likeliest next token of each context, or of each sequence of a table as they first appear in it."""
        predictor, contexts = self._fitted, self._contexts(X)
        tokens, words = [x for context in contexts for x in context], predictor.vocabulary
        ids = words.ids_of(tokens)
        outside = {int(i): tokens[i] for i in np.flatnonzero(ids < 0)}
        length = np.array([len(context) for context in contexts])
        found = likeliest(predictor, ids, length, outside, 2, self.backoff)
        named = [*words.labels, None, *found.new]
        # *Any word never seen* is no answer: the next one is.
        best = np.where(found.token[:, 0] == len(words), found.token[:, -1], found.token[:, 0])
        return np.array([named[i] for i in best.tolist()], dtype=object)

    def predict_proba(self, X: Contexts) -> Float[np.ndarray, "n classes"]:
        """Probabilities of the next token, a row for each context, a column for each of `classes_`.

        What a row lacks of 1 belongs to words that training never saw.
        """
        predictor, contexts = self._fitted, self._contexts(X)
        answer = np.empty((len(contexts), len(self.classes_)))
        for row, context in zip(answer, contexts, strict=True):
            p = predictor.predict_proba(context, self.backoff)
            row[:] = [p.get(x, 0.0) for x in predictor.vocabulary.labels]
        return answer

    def score(self, X: Any, y: NextTokens | None = None) -> float:
        """The share of next tokens that are predicted: of all events after the first of each sequence, or `y` of `X`.

        Without `backoff`, of those whose token is in the context.
        """
        found = score_predictor(self._fitted, self._windows(X, y))
        table = found.all if self.backoff else found.realizable
        if table is None:
            raise UsageError(
                "no next token stands in its context, so without backoff there is nothing to score."
            )
        return table.rows[0].top1

    def explain(self, context: Context) -> Reasons:
        """Why one context is answered as it is: the branch that answered, every term of every score."""
        predictor = self._fitted
        return predictor.explain(self._contexts([context])[0], self.backoff)

    @property
    def _reading(self) -> Reading:
        return Reading(
            self.context, sequence=self.sequence, item=self.item, order=self.order, dates=self.dates
        )

    def _windows(self, X: Any, y: NextTokens | None = None) -> Windows:
        how: dict[str, Any] = self._reading.given
        if y is None:
            return as_windows(X, **how)
        tokens, length, _ = read_contexts(X)
        vocabulary, ids = encode([*tokens, *read_next_tokens(y, len(length))])
        return windows_from_ids(vocabulary, ids[: len(tokens)], length, ids[len(tokens) :])

    def _contexts(self, X: Contexts) -> Sequence[list[Label]]:
        """Contexts as they are, or the sequences of a table."""
        if is_table(X) and not self.given_:
            return list(sequences_in(X, self._reading).values())
        tokens, length, _ = read_contexts(X)
        ends = np.cumsum(length).tolist()
        return [tokens[a:b] for a, b in zip([0, *ends], ends, strict=False)]

    @property
    def _fitted(self) -> Predictor:
        if "predictor_" not in vars(self):
            raise NotFittedError(f"this {type(self).__name__} is not fitted yet; call fit first.")
        return self.predictor_
