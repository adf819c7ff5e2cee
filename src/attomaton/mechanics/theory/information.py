r"""How sure soft odds are: standard errors and intervals of tied tokens, of mixed shares and of the loss floor.

The observed information of a component's Luce fit is the Hessian of its loss, the Laplacian
$H = \sum_n w_n (\mathrm{diag}\,p_n - p_n p_n^\top)$. On the space of centred scores its inverse $V = H^+$ is the
covariance of $\theta = \log\pi$, and the variance of the log-odds $\theta_i - \theta_j$ is the effective resistance
between i and j. A weight counts as that many repeats.

Windows of one sequence are not independent. With $g_s$ the sum of the scores $w_n(p_n - 1_{y_n})$ of sequence s, and G
sequences, the clustered covariance is $\frac{G}{G-p} V \big(\sum_s g_s g_s^\top\big) V$, where p = size − 1 is how many
numbers were fitted (at most G/2 are counted); its quantile is Student's with G − 1 degrees of freedom. No variance is
taken below that of the information: sums of few sequences are often too small by chance.

The log-odds $\log p_i/(1-p_i)$ of a token's share among others have the gradient $e_i - q$, where q are the shares of
the others among themselves (delta method); so the interval of a share stays between 0 and 1.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from attomaton.base.face import Tabular
from attomaton.base.lazily import pa
from attomaton.base.shapes import Bool, Float, Int
from attomaton.corpus.samples import Samples
from attomaton.corpus.vocabulary import Label
from attomaton.errors import DataError, UsageError, counted, visible
from attomaton.mechanics.theory.finite import (
    DENSE,
    Choices,
    Sparse,
    as_choices,
    dense_blocks,
    luce_loss,
    solve_sparse,
    square_root,
    tied_with_label,
)
from attomaton.mechanics.theory.graph import PriorityGraph
from attomaton.numerics import ragged_indices, row_pointer, sum_by

if TYPE_CHECKING:
    from attomaton.corpus.windows import Windows

LEVEL = 0.95  # of every interval
NORMAL = 1.959963984540054  # how many standard errors one reaches to either side: the normal quantile at 97.5 %
INVERTED = 8192  # tokens in a component up to which its covariance is written out (half a gigabyte)
SOLVED = 512  # tokens in a component above which a few odds are quicker by conjugate gradients
TOGETHER = 1 << 20  # entries of all covariances written out together
FOSTER = 1e-6  # relative defect of trace(H V) = size − 1 above which an inverse is not believed
EXACT = 1e8  # scale of a gradient that asks conjugate gradients for eight digits


@dataclass(frozen=True)
class Interval:
    """A number, its standard error, and the interval that holds the true one in 95 of 100 data sets like this.

    The error is NaN where it cannot be known: all that bears on it lies in one sequence, or beyond float64.
    """

    value: float
    se: float
    low: float
    high: float

    def put_on(self, share: Any) -> Any:
        """The record of a share with `low` and `high` filled in, where they are known."""
        return replace(share, low=self.low, high=self.high) if np.isfinite(self.se) else share


class Block(NamedTuple):
    """Components of one size: their items, and the covariances of their scores."""

    group: Int[np.ndarray, " groups"]
    items: Int[np.ndarray, "groups size"]
    information: Float[np.ndarray, "groups size size"]
    clustered: Float[np.ndarray, "groups size size"] | None

    def variance(
        self, contrast: Float[np.ndarray, "groups contrasts size"]
    ) -> Float[np.ndarray, "groups contrasts"]:
        """The variance of linear combinations of scores that sum to 0."""
        return self._largest(lambda V: ((contrast @ V) * contrast).sum(axis=2))

    def marginal(self) -> Float[np.ndarray, "groups size"]:
        """The variance of each centred score."""
        return self._largest(lambda V: np.einsum("gii->gi", V))

    def between(
        self, g: Int[np.ndarray, " n"], i: Int[np.ndarray, " n"], j: Int[np.ndarray, " n"]
    ) -> Float[np.ndarray, " n"]:
        """The variance of differences of two scores."""
        return self._largest(lambda V: V[g, i, i] + V[g, j, j] - 2 * V[g, i, j])

    def _largest(self, of: Any) -> Any:
        found = of(self.information)
        return found if self.clustered is None else np.maximum(found, of(self.clustered))


@dataclass(frozen=True, eq=False, repr=False)
class StandardErrors(Tabular):
    """How sure the soft numbers of a limit are; `Limit.standard_errors` makes it.

    As a table it has one row for each tied token: `last`, `token`, `log_pi` (log-odds against the geometric mean of its
    component), its `se`, and the interval from `low` to `high`. `odds_table` has the pairs that were seen together.
    """

    graph: PriorityGraph
    items: Int[np.ndarray, " items"]
    choices: Choices
    theta: Float[np.ndarray, " items"]
    sequence: Int[np.ndarray, " choices"] | None
    loss_floor: Interval

    @property
    def clustered(self) -> bool:
        """Whether choices of one sequence count as dependent."""
        return self.sequence is not None

    def _in_short(self) -> str:
        kind = ", clustered by sequence" if self.clustered else ""
        return f"{counted(len(self.items), 'tied token')}, {counted(len(self._size), 'component')}{kind}"

    def to_arrow(self) -> Any:
        """One row for each tied token of each last token, as a `pyarrow.Table`."""
        word, pair = self.graph.vocabulary.column, self.items
        se, group = self._all[0], self.choices.group
        reach = self._quantile[group] * se
        return pa.table(
            {
                "last": word(self.graph.pair_last[pair]),
                "token": word(self.graph.pair_token[pair]),
                "log_pi": self.theta,
                "se": se,
                "low": self.theta - reach,
                "high": self.theta + reach,
            }
        )

    def odds_table(self) -> Any:
        """One row for each two tied tokens that were seen together and one of which came next, as a `pyarrow.Table`."""
        word, (i, j), se = self.graph.vocabulary.column, self._edges, self._all[1]
        value, reach = self.theta[i] - self.theta[j], self._quantile[self.choices.group[i]] * se
        token = self.graph.pair_token[self.items]
        return pa.table(
            {
                "last": word(self.graph.pair_last[self.items[i]]),
                "token": word(token[i]),
                "other": word(token[j]),
                "log_odds": value,
                "se": se,
                "low": value - reach,
                "high": value + reach,
            }
        )

    def odds(self, last: Label, token: Label, other: Label) -> Interval:
        """The log-odds of two tied tokens; two that are not tied have none, which is a `UsageError`."""
        q = self.graph.last_token(last)
        at = []
        for word in (token, other):
            x = self.graph.vocabulary.id_of(word) if word in self.graph.vocabulary else None
            at.append(-1 if x is None else self._item(self.graph.pair(q, x)))
        i, j = at
        if i == j or min(at) < 0 or self.choices.group[i] != self.choices.group[j]:
            raise UsageError(
                f"after {visible(repr(last))} the tokens {visible(repr(token))} and {visible(repr(other))} are not "
                "two that tie: they have no finite odds."
            )
        contrast = np.zeros(self._size[self.choices.group[i]])
        first = self._first[self.choices.group[i]]
        contrast[i - first], contrast[j - first] = 1.0, -1.0
        se, reach = self._contrasts(int(self.choices.group[i]), contrast[None])
        value = float(self.theta[i] - self.theta[j])
        return Interval(value, float(se[0]), value - float(reach[0]), value + float(reach[0]))

    def shares(
        self, pairs: Int[np.ndarray, " mixed"], count: Int[np.ndarray, " mixed"]
    ) -> list[Interval]:
        """The shares of tied pairs of one component that are mixed, each `count` times in the context."""
        item = np.array([self._item(int(p)) for p in pairs])
        group = int(self.choices.group[item[0]])
        if not (self.choices.group[item] == group).all():
            raise UsageError("shares are those of tokens that are all tied.")
        mass = count * np.exp(self.theta[item] - self.theta[item].max())
        p = mass / mass.sum()
        contrast = np.zeros((len(item), self._size[group]))
        # By the others' own sum: 1 − p has no digits left where p is nearly 1.
        rest = np.array([np.delete(mass, k).sum() for k in range(len(item))])
        contrast[:, item - self._first[group]] = -mass / rest[:, None]
        contrast[np.arange(len(item)), item - self._first[group]] = 1.0
        se, reach = self._contrasts(group, contrast)
        odds = mass / rest
        low, high = odds * np.exp(-reach), odds * np.exp(reach)
        values = zip(p, se * p * rest / mass.sum(), low / (1 + low), high / (1 + high), strict=True)
        return [Interval(*map(float, row)) for row in values]

    def covariances(self) -> "Covariances":
        """What intervals of many shares are made of; not of clustered errors."""
        if self.clustered:
            raise UsageError("covariances: these errors are clustered by sequence.")
        start = row_pointer(np.where(self._size <= INVERTED, self._size**2, 0))
        V = np.empty(start[-1])
        for block in covariances(self.choices, self.theta):
            for group, found in zip(block.group.tolist(), block.information, strict=True):
                V[start[group] : start[group + 1]] = found.ravel()
        return Covariances(
            self._number, self.theta, self.choices.group, row_pointer(self._size), start, (V,)
        )

    def scores(self) -> list[Interval]:
        """The centred log π of every tied token, in the order of `items`."""
        reach = self._quantile[self.choices.group] * self._all[0]
        values = zip(self.theta, self._all[0], self.theta - reach, self.theta + reach, strict=True)
        return [Interval(*map(float, row)) for row in values]

    def some_scores(self, pairs: Int[np.ndarray, " some"]) -> list[Interval]:
        """The same of some pairs of one component, all of them tied: no others are looked at."""
        item = self._number[pairs]
        group = int(self.choices.group[item[0]])
        size = int(self._size[group])
        contrast = np.full((len(item), size), -1.0 / size)
        contrast[np.arange(len(item)), item - self._first[group]] += 1.0
        se, reach = self._contrasts(group, contrast)
        value = self.theta[item]
        rows = zip(value, se, value - reach, value + reach, strict=True)
        return [Interval(*map(float, row)) for row in rows]

    # Where things are

    @cached_property
    def _size(self) -> Int[np.ndarray, " groups"]:
        return np.bincount(self.choices.group)

    @cached_property
    def _first(self) -> Int[np.ndarray, " groups"]:
        return row_pointer(self._size)[:-1]

    @cached_property
    def _number(self) -> Int[np.ndarray, " pairs"]:
        number = np.full(len(self.graph.pair_last), -1)
        number[self.items] = np.arange(len(self.items))
        return number

    def _item(self, pair: int | None) -> int:
        return -1 if pair is None or pair < 0 else int(self._number[pair])

    @cached_property
    def _quantile(self) -> Float[np.ndarray, " groups"]:
        return quantiles(self.choices, self.sequence)

    @cached_property
    def _edges(self) -> tuple[Int[np.ndarray, " odds"], Int[np.ndarray, " odds"]]:
        """The items of which one won a choice that held the other, each two once, by component."""
        choices = self.choices
        a, b = choices.item, choices.winner[choices.choice_of]
        n = np.int64(len(self.items))
        key = np.unique((np.minimum(a, b) * n + np.maximum(a, b))[a != b])
        return key // n, key % n

    @cached_property
    def _all(self) -> tuple[Float[np.ndarray, " items"], Float[np.ndarray, " odds"]]:
        """The standard errors of all scores, and of the differences along `_edges`."""
        score, odds = np.full(len(self.items), np.nan), np.full(len(self._edges[0]), np.nan)
        i, j = self._edges
        of = row_pointer(np.bincount(self.choices.group[i], minlength=len(self._size)))
        for block in covariances(self.choices, self.theta, self.sequence):
            score[block.items] = block.marginal()
            many = of[block.group + 1] - of[block.group]
            at = ragged_indices(of[block.group], many)
            row = np.repeat(np.arange(len(block.group)), many)
            first = self._first[block.group][row]
            odds[at] = block.between(row, i[at] - first, j[at] - first)
        known = np.isfinite(self._quantile)
        score[~known[self.choices.group]] = np.nan
        odds[~known[self.choices.group[i]]] = np.nan
        return _root(score), _root(odds)

    def _contrasts(
        self, group: int, contrast: Float[np.ndarray, "contrasts size"]
    ) -> tuple[Float[np.ndarray, " contrasts"], Float[np.ndarray, " contrasts"]]:
        """Standard errors of linear combinations within one component, and how far intervals reach."""
        choices = self.choices
        rows = choices.group_of_choice == group
        part, items = choices.restrict(np.arange(len(self._size)) == group)
        sequence = None if self.sequence is None else self.sequence[rows]
        if len(items) > SOLVED:
            se = _root(_solved(part, self.theta[items], sequence, contrast))
        else:
            block = next(covariances(part, self.theta[items], sequence))
            se = _root(block.variance(contrast[None])[0])
        se = se if np.isfinite(self._quantile[group]) else np.full(len(se), np.nan)
        return se, self._quantile[group] * se


@dataclass(frozen=True, eq=False)
class Covariances:
    """The covariances of all components of a limit or a part of it, one after the other.

    `number` is the item of each pair (−1 where it is not tied), `theta` and `group` are those of items, `first` is the
    first item of each component and `start` where its covariance begins in `V`: one too large has no room there. `V`
    may be in pieces, each of whole components.
    """

    number: Int[np.ndarray, " pairs"]
    theta: Float[np.ndarray, " items"]
    group: Int[np.ndarray, " items"]
    first: Int[np.ndarray, " groups_and_one"]
    start: Int[np.ndarray, " groups_and_one"]
    V: tuple[Float[np.ndarray, " _"], ...]

    @classmethod
    def joined(cls, parts: Sequence["Covariances"]) -> "Covariances":
        """Those of parts that follow each other; `V` stays where it is."""
        item, group, entry = (
            row_pointer(np.array(x))[:-1].tolist()
            for x in zip(
                *((len(c.theta), len(c.first) - 1, c.start[-1]) for c in parts), strict=True
            )
        )
        return cls(
            np.concatenate([np.where(c.number < 0, -1, c.number + i) for c, i in zip(parts, item, strict=True)]),
            np.concatenate([c.theta for c in parts]),
            np.concatenate([c.group + i for c, i in zip(parts, group, strict=True)]),
            np.concatenate([[0], *(c.first[1:] + i for c, i in zip(parts, item, strict=True))]),
            np.concatenate([[0], *(c.start[1:] + i for c, i in zip(parts, entry, strict=True))]),
            tuple(piece for c in parts for piece in c.V),
        )  # fmt: skip

    def shares(
        self, pairs: Int[np.ndarray, "rows mixed"], count: Int[np.ndarray, "rows mixed"]
    ) -> tuple[Float[np.ndarray, "rows mixed"], Float[np.ndarray, "rows mixed"]]:
        """Where the intervals of `StandardErrors.shares` begin and end, for many contexts that mix as many tokens each.

        A row mixes tokens of one component. NaN where the error is not known, and in components without a covariance.
        """
        item, k = self.number[pairs], pairs.shape[1]
        group = self.group[item[:, 0]]
        theta = self.theta[item]
        mass = count * np.exp(theta - theta.max(axis=1, keepdims=True))
        # By the others' own sum, as for one context. Not by a matrix product: BLAS adds a single row in another order.
        rest = (mass[:, None, :] * (1.0 - np.eye(k))).sum(axis=2)
        contrast = -mass[:, None, :] / rest[:, :, None]
        contrast[:, np.arange(k), np.arange(k)] = 1.0
        at, size = item - self.first[group][:, None], np.diff(self.first)[group]
        written = self.written(group)
        inside = at[:, :, None] * size[:, None, None] + at[:, None, :]
        covariance = self._entries(group, np.where(written[:, None, None], inside, 0))
        se = _root(((contrast @ covariance) * contrast).sum(axis=2))
        reach = np.where(written[:, None], NORMAL * se, np.nan)
        odds = mass / rest
        low, high = odds * np.exp(-reach), odds * np.exp(reach)
        return low / (1 + low), high / (1 + high)

    def written(self, group: Int[np.ndarray, " rows"]) -> Bool[np.ndarray, " rows"]:
        """Whether the covariance of a component is there."""
        return self.start[group + 1] > self.start[group]

    def _entries(
        self, group: Int[np.ndarray, " rows"], inside: Int[np.ndarray, "rows mixed mixed"]
    ) -> Float[np.ndarray, "rows mixed mixed"]:
        """Entries of covariances, by where they are in those of their components."""
        begin = row_pointer(np.array([len(piece) for piece in self.V]))
        # A component without room may stand at the end of all.
        of = np.minimum(np.searchsorted(begin, self.start[group], "right") - 1, len(self.V) - 1)
        inside = (
            inside + np.where(self.written(group), self.start[group] - begin[of], 0)[:, None, None]
        )
        found = np.full(inside.shape, np.nan)
        for piece in np.unique(of).tolist():
            rows = of == piece
            if len(self.V[piece]):
                found[rows] = self.V[piece][inside[rows]]
        return found


@dataclass(frozen=True, eq=False)
class SoftErrors:
    """The standard errors of a limit in parts of whole last tokens, each made when it is first asked for.

    Part i holds the last tokens from `lasts[i]` on, and the pairs from `pairs[i]` on; `errors` makes what is known of
    it. `whole` are the covariances of all parts, where they were made before.
    """

    lasts: Int[np.ndarray, " parts"]
    pairs: Int[np.ndarray, " parts"]
    errors: Callable[[int], StandardErrors]
    whole: Covariances | None = None
    _made: dict[int, Covariances] = field(default_factory=dict)

    def intervals(
        self,
        last: Int[np.ndarray, " rows"],
        start: Int[np.ndarray, " rows_and_one"],
        pair: Int[np.ndarray, " mixed"],
        count: Int[np.ndarray, " mixed"],
    ) -> tuple[Float[np.ndarray, " mixed"], Float[np.ndarray, " mixed"]]:
        """Where the interval of each share begins and ends; a row mixes tied pairs of one component."""
        low, high = np.full(len(pair), np.nan), np.full(len(pair), np.nan)
        size = np.diff(start)
        part = np.searchsorted(self.lasts, last, "right") - 1
        key = size if self.whole else part * (int(size.max(initial=0)) + 1) + size
        order = np.argsort(key, kind="stable")
        for rows in np.split(order, np.flatnonzero(np.diff(key[order])) + 1) if len(key) else ():
            p, k = int(part[rows[0]]), int(size[rows[0]])
            made, first = (self.whole, 0) if self.whole else (self._of(p), int(self.pairs[p]))
            for some in np.split(rows, range(many := max(1, TOGETHER // k**2), len(rows), many)):
                at = start[some][:, None] + np.arange(k)
                pairs = pair[at] - first
                low[at], high[at] = made.shares(pairs, count[at])
                large = ~made.written(made.group[made.number[pairs[:, 0]]])
                for q in np.unique(part[some[large]]).tolist():
                    errors = self.errors(q)
                    for each in at[large & (part[some] == q)]:
                        found = errors.shares(pair[each] - self.pairs[q], count[each])
                        low[each], high[each] = [x.low for x in found], [x.high for x in found]
        return low, high

    def _of(self, p: int) -> Covariances:
        if p not in self._made:
            self._made[p] = self.errors(p).covariances()
        return self._made[p]


def quantiles(
    choices: Choices, sequence: Int[np.ndarray, " choices"] | None
) -> Float[np.ndarray, " groups"]:
    """How many standard errors an interval reaches, in each component; NaN where one sequence is all there is."""
    if sequence is None:
        return np.full(len(choices.group_weight), NORMAL)
    from scipy.special import stdtrit

    many = int(sequence.max(initial=0)) + 1
    known = np.unique(choices.group_of_choice * many + sequence) // many
    # SciPy gives NaN for no degree of freedom, which is what is wanted.
    return stdtrit(np.bincount(known) - 1.0, (1 + LEVEL) / 2)


def _root(variance: Float[np.ndarray, "*shape"]) -> Float[np.ndarray, "*shape"]:
    return np.sqrt(np.maximum(variance, 0.0))  # NaN stays NaN


def luce_errors(
    graph: PriorityGraph,
    samples: Samples,
    log_pi: Float[np.ndarray, " pairs"],
    windows: "Windows | None" = None,
) -> StandardErrors:
    """The standard errors of a limit, from what it is made of: see `Limit.standard_errors`."""
    if windows is not None:
        samples = _unmerged(samples, windows)
    cyclic = tied_with_label(graph, samples)
    items, choices = as_choices(graph, cyclic, cyclic.weight)
    theta = log_pi[items]
    look = luce_loss(choices, theta).loss
    if windows is None:
        sequence, floor = None, _mean(look, cyclic.weight, samples.total_weight)
    else:
        sequence = windows.sequence_of(cyclic.source)
        floor = _clustered_mean(look, sequence, samples.weight, windows.sequence_of(samples.source))
    return StandardErrors(graph, items, choices, theta, sequence, floor)


def _unmerged(samples: Samples, windows: "Windows") -> Samples:
    """The windows behind samples, one sample each."""
    from attomaton.corpus.windows import Windows

    if not isinstance(windows, Windows):
        raise UsageError(
            f"windows: {type(windows).__name__} is no Windows. Use read_windows(file)."
        )
    at = np.flatnonzero(windows.realizable & np.isin(windows.last, samples.last))
    same = windows.vocabulary.labels == samples.vocabulary.labels
    weight = float(windows.weight[at].sum())
    if not same or not np.isclose(weight, samples.total_weight, rtol=1e-9):
        raise DataError(
            f"the windows ({weight:,.6g} by weight) are not those the limit was fitted to "
            f"({samples.total_weight:,.6g}): pass the ones its samples were made of."
        )
    return windows.samples(at, merge=False)


def _mean(
    loss: Float[np.ndarray, " choices"], weight: Float[np.ndarray, " choices"], total: float
) -> Interval:
    """The mean of weighted losses over all samples; those that are no choice have none."""
    mean = float(loss.sum()) / total
    with np.errstate(over="ignore"):  # of a damaged model: infinitely unsure
        away = float((weight * (loss / weight - mean) ** 2).sum())
    away += (total - float(weight.sum())) * mean * mean  # a power would not end in infinity
    return mean_interval(mean, float(np.sqrt(max(0.0, away))) / total)


def _clustered_mean(
    loss: Float[np.ndarray, " choices"],
    sequence: Int[np.ndarray, " choices"],
    weight: Float[np.ndarray, " samples"],
    of: Int[np.ndarray, " samples"],
) -> Interval:
    """As `_mean`, by sums over sequences."""
    total = float(weight.sum())
    mean = float(loss.sum()) / total
    known, at = np.unique(of, return_inverse=True)
    away = sum_by(np.searchsorted(known, sequence), loss, len(known))
    away -= mean * sum_by(at, weight, len(known))
    n = len(known)
    se = np.sqrt(float((away**2).sum()) * n / (n - 1)) / total if n > 1 else np.nan
    return mean_interval(mean, float(se), n - 1.0)


def mean_interval(value: float, se: float, degrees: float = np.inf) -> Interval:
    """The interval of a mean, by Student's t where the error has few degrees of freedom."""
    if np.isinf(degrees):
        return Interval(value, se, value - NORMAL * se, value + NORMAL * se)
    from scipy.special import stdtrit

    reach = float(stdtrit(degrees, (1 + LEVEL) / 2)) * se if degrees > 0 else np.nan
    return Interval(value, se, value - reach, value + reach)


# Covariances


def covariances(
    choices: Choices,
    theta: Float[np.ndarray, " items"],
    sequence: Int[np.ndarray, " choices"] | None = None,
) -> Iterator[Block]:
    """The covariances of all components up to `INVERTED` tokens, those of one size together.

    With the `sequence` of each choice, the clustered ones, too. NaN where float64 cannot tell.
    """
    choices, scale = choices.scaled()
    size = np.bincount(choices.group)
    first = row_pointer(size)[:-1]
    p = luce_loss(choices, theta).p
    diagonal = sum_by(choices.item, choices.entry_weight * p, len(theta))
    if sequence is None and len(size) == 1 and len(choices.winner) * size[0] <= TOGETHER:
        # Of one small component, for a single answer: not worth loading a library of sparse matrices.
        M = np.zeros((len(choices.winner), size[0]))
        M[choices.choice_of, choices.item] = np.sqrt(choices.entry_weight) * p
        V = _inverse((np.diag(diagonal) - M.T @ M)[None]) * scale[:, None, None]
        yield Block(np.zeros(1, np.int64), np.arange(size[0])[None], V, None)
        return
    half = _Rows(square_root(choices, p), choices.group_of_choice)
    scores = None if sequence is None else _scores(choices, p, sequence)
    for s in np.unique(size[size <= INVERTED]):
        same = np.flatnonzero(size == s)
        many = max(1, TOGETHER // int(s) ** 2)
        for few in np.split(same, range(many, len(same), many)):
            items = first[few][:, None] + np.arange(s)
            H = -half.squares(few, items)
            H[:, np.arange(s), np.arange(s)] += diagonal[items]
            V = _inverse(H)
            # Score sums and information are in the same units: a sandwich of them has none.
            clustered = None
            if scores is not None:
                clustered = V @ scores.squares(few, items) @ V
                clustered *= _few_sequences(scores.many[few], int(s))[:, None, None]
            V *= scale[few][:, None, None]
            yield Block(few, items, V, clustered)


def _few_sequences(n: Int[np.ndarray, " groups"], size: int) -> Float[np.ndarray, " groups"]:
    """What makes up for a fit of size − 1 numbers to n sequences: what is left over is too small; at most 2."""
    return n / (n - np.minimum(size - 1, n / 2))


class _Rows:
    """A sparse matrix over items, each row of which belongs to one group."""

    def __init__(self, matrix: Sparse, group: Int[np.ndarray, " rows"]):
        self.matrix = matrix[np.argsort(group, kind="stable")]
        self.many = np.bincount(group)
        self.start = row_pointer(self.many)

    def squares(
        self, groups: Int[np.ndarray, " groups"], items: Int[np.ndarray, "groups size"]
    ) -> Float[np.ndarray, "groups size size"]:
        """MᵀM of the rows of each group, over its own items."""
        M = self.matrix[ragged_indices(self.start[groups], self.many[groups])]
        if len(groups) > 1:
            return dense_blocks((M.T @ M).tocsr(), items)
        M = M[:, items[0, 0] : items[0, -1] + 1]
        return (M.T @ M).toarray()[None]


def _scores(
    choices: Choices, p: Float[np.ndarray, " entries"], sequence: Int[np.ndarray, " choices"]
) -> _Rows:
    """The gradient of the loss summed over each sequence, component by component."""
    from scipy.sparse import csr_array

    own = choices.entry_weight * p
    own[choices.winner_at] -= choices.weight
    shape = (len(choices.winner), len(choices.group))
    of = choices.group_of_choice * (int(sequence.max(initial=0)) + 1) + sequence
    cluster, which = np.unique(of, return_inverse=True)
    adds = csr_array(
        (np.ones(len(which)), (which, np.arange(len(which)))), shape=(len(cluster), len(which))
    )
    summed = adds @ csr_array((own, choices.item, choices.start), shape=shape)
    return _Rows(summed, cluster // (int(sequence.max(initial=0)) + 1))


def _inverse(H: Float[np.ndarray, "groups size size"]) -> Float[np.ndarray, "groups size size"]:
    """H⁺ of Laplacians, NaN where `FOSTER` says that it is none."""
    groups, s, _ = H.shape
    trace = np.trace(H, axis1=1, axis2=2)
    fill = (trace / s**2)[:, None, None]  # the constant direction is filled in, and taken out again
    if s <= DENSE:
        try:
            V = np.linalg.inv(H + fill)
        except np.linalg.LinAlgError:
            V = np.full(H.shape, np.nan)
            for i in range(groups):
                with suppress(np.linalg.LinAlgError):
                    V[i] = np.linalg.inv(H[i] + fill[i])
    else:
        V = np.stack([_large_inverse(block + f) for block, f in zip(H, fill, strict=True)])
    V -= 1.0 / trace[:, None, None]
    # Foster 1949: conductances times resistances of all edges add up to size − 1.
    off = np.abs(np.einsum("gij,gij->g", H, V) - (s - 1))
    V[~(off <= FOSTER * (s - 1))] = np.nan
    return V


def _large_inverse(A: Float[np.ndarray, "size size"]) -> Float[np.ndarray, "size size"]:
    """The inverse of one positive definite matrix, in its place; NaN where it is not definite for float64."""
    from scipy.linalg.lapack import dpotrf, dpotri

    V, failed = dpotrf(A.T, lower=1, clean=0, overwrite_a=1)
    if not failed:
        V, failed = dpotri(V, lower=1, overwrite_c=1)
    if failed:
        return np.full(A.shape, np.nan)
    V = V.T  # its upper triangle holds the answer
    for lo in range(0, len(V), DENSE):
        hi = lo + DENSE
        V[hi:, lo:hi] = V[lo:hi, hi:].T
        V[lo:hi, lo:hi] = np.triu(V[lo:hi, lo:hi]) + np.triu(V[lo:hi, lo:hi], 1).T
    return V


def _solved(
    part: Choices,
    theta: Float[np.ndarray, " items"],
    sequence: Int[np.ndarray, " choices"] | None,
    contrast: Float[np.ndarray, "contrasts items"],
) -> Float[np.ndarray, " contrasts"]:
    """The variances of some combinations in one component too large to invert, by conjugate gradients."""
    part, scale = part.scaled()
    p = luce_loss(part, theta).p
    half = square_root(part, p)
    diagonal = sum_by(part.item, part.entry_weight * p, len(theta))
    x = np.stack([solve_sparse(half, diagonal, c, EXACT) for c in contrast])
    variance = (x * contrast).sum(axis=1) * scale[0]
    if sequence is None:
        return variance
    scores = _scores(part, p, sequence)
    clustered = ((scores.matrix @ x.T) ** 2).sum(axis=0) * _few_sequences(scores.many, len(theta))[
        0
    ]
    return np.maximum(variance, clustered)
