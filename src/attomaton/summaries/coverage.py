"""How far data carry what was learned from them: who was compared, how often, and what a new context finds."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from attomaton.base.face import Tabular
from attomaton.base.progress import Progress, quiet
from attomaton.corpus.samples import Samples
from attomaton.corpus.vocabulary import Label, Vocabulary
from attomaton.corpus.windows import Windows
from attomaton.errors import UsageError, counted, whole_number
from attomaton.mechanics.theory import evidence
from attomaton.mechanics.theory.automaton import NEVER_LAST, NEVER_TOGETHER
from attomaton.mechanics.theory.finite import finite_component
from attomaton.mechanics.theory.graph import PriorityGraph, build_graph
from attomaton.mechanics.theory.information import Interval, StandardErrors, luce_errors
from attomaton.mechanics.theory.limit import Limit
from attomaton.numerics import sum_by
from attomaton.summaries.rank import heaviest

UNRELATED = "never compared"
HELD_OUT = 10  # the last one in so many windows, or sequences, is kept as new contexts
JUDGED = 1 << 18  # contexts judged at a time
NAMED = 5  # tokens named of a group
STEPS = (1, 2, 5, 10, 100)  # samples behind an order, from which on they are counted together
QUANTILES = (0.1, 0.5, 0.9)
ERRORS = (
    0.0,
    0.1,
    0.25,
    0.5,
    1.0,
    1.5,
    2.0,
)  # standard errors from which on they are counted together


@dataclass(frozen=True)
class LastToken:
    """What is known after one last token: tokens seen with it, those that came next, and orders between them.

    `groups` are the sets of tokens that came next and were never seen together; `orders` the strict priorities that
    samples show directly, `on_one` those of them that are gone without one sample.
    """

    last: Label
    samples: int
    tokens: int
    came_next: int
    tied: int
    groups: int
    orders: int
    on_one: int


@dataclass(frozen=True)
class Apart:
    """Tokens that came next after a last token, in groups never seen together: nothing is known across them."""

    last: Label
    groups: Sequence[Sequence[Label]]  # the first few of each, by how often they came next
    sizes: Sequence[int]


@dataclass(frozen=True)
class Row:
    """A sample: the tokens of its context, the last one last, and what comes next."""

    tokens: Sequence[Label]
    next: Label


@dataclass(frozen=True)
class Order:
    """A strict priority that rests on one sample, and the row that would turn it into a tie."""

    last: Label
    winner: Label
    loser: Label
    samples: int
    contrary: float  # the largest probability of the contrary that so many samples leave open
    tied_by: Row


@dataclass(frozen=True)
class Support:
    """Strict priorities by the number of samples behind them, and what the fewest of these leave open."""

    at_least: int
    orders: int
    contrary: float


@dataclass(frozen=True)
class Odds:
    """The log-odds of two tied tokens."""

    last: Label
    token: Label
    other: Label
    log_odds: Interval


@dataclass(frozen=True)
class Spread:
    """Log-odds by their standard errors, in nats."""

    at_least: float
    odds: int


@dataclass(frozen=True)
class Soft:
    """How sure the soft numbers are; `se` are quantiles of the log-odds' standard errors at 10, 50 and 90 %.

    With `sequences`, windows of one of them count as dependent; `unknown` log-odds then rest on one sequence alone.
    """

    tokens: int
    odds: int
    unknown: int
    se: Sequence[float] | None
    spread: Sequence[Spread]
    loss_floor: Interval
    sequences: int | None
    surest: Sequence[Odds]
    least_sure: Sequence[Odds]


@dataclass(frozen=True)
class Wanted:
    """Contexts worth collecting: those that end in `last` and hold `tokens`.

    They would bear on `contexts` of the new ones; in `decides` of these nothing else stands in the way.
    """

    why: str
    last: Label
    tokens: Sequence[Label]
    contexts: float
    decides: float


@dataclass(frozen=True)
class NewContexts:
    """New contexts by what the data say of them, as weights; `unseen_last` are those with an unseen last token."""

    source: str
    contexts: float
    determined: float
    undetermined: float
    unseen: float
    unseen_last: float
    collect: Sequence[Wanted]


@dataclass(frozen=True, repr=False)
class Coverage(Tabular):
    """How far data carry what was learned from them; as a table it has one row for each last token.

    >>> from attomaton import coverage, example_samples
    >>> found = coverage(example_samples())
    >>> found
    Coverage(3 last tokens, 39 samples, 18 orders, 2 on one sample)
    >>> found.to_arrow().select(["last", "came_next", "groups"]).to_pylist()[0]
    {'last': 'guest', 'came_next': 3, 'groups': 1}
    """

    subject: Literal["coverage"]
    samples: int
    last_tokens: Sequence[LastToken]
    tokens: int
    came_next: int
    orders: int
    on_one: int
    support: Sequence[Support]
    apart: Sequence[Apart]
    fragile: Sequence[Order]
    soft: Soft
    new: NewContexts | None

    def _in_short(self) -> str:
        return (
            f"{counted(len(self.last_tokens), 'last token')}, {counted(self.samples, 'sample')}, "
            f"{counted(self.orders, 'order')}, {self.on_one:,} on one sample"
        )

    def to_arrow(self) -> Any:
        """One row for each last token, as a `pyarrow.Table`."""
        import pyarrow as pa

        names = ("samples", "tokens", "came_next", "tied", "groups", "orders", "on_one")
        words = Vocabulary(x.last for x in self.last_tokens)
        rest = {name: [getattr(x, name) for x in self.last_tokens] for name in names}
        return pa.table({"last": words.column(np.arange(len(words))), **rest})


def coverage(
    data: Samples | Windows | Limit,
    new: Windows | None = None,
    *,
    windows: Windows | None = None,
    top: int = 20,
    progress: Progress = quiet,
) -> Coverage:
    """How far data carry what was learned from them, and what to collect next.

    `data` are samples, windows, or a limit fitted to them. `new` are the contexts to judge; of windows, the last tenth
    is judged by the others where none are given. Windows that come from more than one sequence make standard errors
    that count them as dependent, for a limit those it was fitted to (`windows`). `top` is the length of each list.

    >>> from attomaton import as_windows
    >>> log = [list("abcabca"), list("bcabcab"), list("cabcabd"), list("abdabca")] * 5
    >>> found = coverage(as_windows(log, context=3))
    >>> found.new.contexts, found.new.determined
    (12.0, 9.0)
    """
    return cover(data, new, windows=windows, top=top, progress=progress)[0]


def cover(
    data: Samples | Windows | Limit,
    new: Windows | None = None,
    *,
    windows: Windows | None = None,
    top: int = 20,
    progress: Progress = quiet,
) -> tuple[Coverage, StandardErrors]:
    """As `coverage`, and the standard errors of all log-odds."""
    top = whole_number("top", top, least=1)
    seen = data if isinstance(data, Windows) else windows
    source = "the contexts given"
    if isinstance(data, Limit):
        if data.dependent:
            raise UsageError(
                "coverage speaks of orders and ties that samples show; dependent embeddings tie more."
            )
        samples, graph, finite = data.samples, data.graph, data.finite
    else:
        if not isinstance(data, (Samples, Windows)):
            raise UsageError(
                f"data: {type(data).__name__} is neither Samples, Windows nor a Limit."
            )
        samples = data.samples() if isinstance(data, Windows) else data
        progress(1, 5, "graph")
        graph = build_graph(samples)
        progress(2, 5, "odds")
        finite = finite_component(graph, samples)
    progress(3, 5, "standard errors")
    clusters = seen if seen is not None and seen.documents > 1 else None
    errors = luce_errors(graph, samples, finite, clusters)
    judged, rows = graph, None
    if new is None and isinstance(data, Windows):
        first, rows = _last_part(data)
        if first is not None:
            progress(4, 5, "new contexts")
            judged, new = build_graph(data.samples(first)), data
            source = f"the last of {HELD_OUT} parts, judged by the others"
    told = None if new is None else _judge(judged, samples, new, rows, top, source)
    return _told(graph, samples, errors, clusters, told, top), errors


def _last_part(
    windows: Windows,
) -> tuple[Int[np.ndarray, " first"] | None, Int[np.ndarray, " rest"]]:
    """The realizable windows of the first parts, and all of the last; whole sequences where there are enough."""
    part = windows.sequence_of(windows.source)
    if windows.documents < HELD_OUT:
        part = np.arange(len(windows))
    late = part >= np.quantile(part, 1 - 1 / HELD_OUT, method="higher")
    first = np.flatnonzero(~late & windows.realizable)
    return first if len(first) else None, np.flatnonzero(late)


def _told(
    graph: PriorityGraph,
    samples: Samples,
    errors: StandardErrors,
    windows: Windows | None,
    new: NewContexts | None,
    top: int,
) -> Coverage:
    rows = evidence.edge_rows(graph, samples)
    strict = np.flatnonzero(graph.component[graph.edge_from] != graph.component[graph.edge_to])
    alone = evidence.resting_on_one(graph, rows)
    weight = evidence.label_weight(graph, samples)
    group = evidence.seen_together(graph, samples)
    lasts = graph.last_tokens

    def per_last(last: Int[np.ndarray, " n"], of: Any = None) -> Int[np.ndarray, " lasts"]:
        return np.bincount(np.searchsorted(lasts, last), of, len(lasts)).astype(np.int64)

    groups = np.zeros(len(lasts), np.int64)
    np.maximum.at(groups, np.searchsorted(lasts, graph.pair_last), group + 1)
    counts = (
        per_last(samples.last, samples.rows), per_last(graph.pair_last),
        per_last(graph.pair_last[group >= 0]), per_last(graph.pair_last[graph.cyclic]), groups,
        per_last(graph.pair_last[graph.edge_from[strict]]),
        per_last(graph.pair_last[graph.edge_from[alone]]),
    )  # fmt: skip
    order = np.argsort(-counts[0], kind="stable")
    word = graph.vocabulary
    table = [LastToken(word[lasts[i]], *(int(x[i]) for x in counts)) for i in order]
    cuts = np.searchsorted(np.sort(rows[strict]), [*STEPS, np.inf])
    return Coverage(
        "coverage",
        int(samples.rows.sum()),
        table,
        len(graph.pair_last),
        int((group >= 0).sum()),
        len(strict),
        len(alone),
        [
            Support(n, int(many), evidence.contrary_bound(n))
            for n, many in zip(STEPS, np.diff(cuts), strict=True)
        ],
        _apart(graph, group, weight, [int(lasts[i]) for i in order if groups[i] > 1][:top]),
        _fragile(graph, alone, rows, weight, top),
        _soft(errors, windows, top),
        new,
    )


def _apart(
    graph: PriorityGraph,
    group: Int[np.ndarray, " pairs"],
    weight: Float[np.ndarray, " pairs"],
    lasts: Sequence[int],
) -> list[Apart]:
    found = []
    for last in lasts:
        part = graph.pairs_of(last)
        of, names = group[part], []
        for g in np.argsort(-np.bincount(of[of >= 0]), kind="stable"):
            at = part.start + np.flatnonzero(of == g)
            names.append(
                [graph.vocabulary[graph.pair_token[p]] for p in at[heaviest(weight[at], NAMED)]]
            )
        sizes = np.sort(np.bincount(of[of >= 0]))[::-1].tolist()
        found.append(Apart(graph.vocabulary[last], names, sizes))
    return found


def _fragile(
    graph: PriorityGraph,
    alone: Int[np.ndarray, " alone"],
    rows: Int[np.ndarray, " edges"],
    weight: Float[np.ndarray, " pairs"],
    top: int,
) -> list[Order]:
    """Orders on one sample, those first whose loser came next most often elsewhere: the contrary is likeliest there."""
    found = []
    for e in alone[heaviest(weight[graph.edge_to[alone]], top)]:
        pairs = graph.edge_from[e], graph.edge_to[e]
        winner, loser = (graph.vocabulary[graph.pair_token[p]] for p in pairs)
        last = graph.vocabulary[graph.pair_last[pairs[0]]]
        row = Row([*(x for x in (winner, loser) if x != last), last], loser)
        n = int(rows[e])
        bound = evidence.contrary_bound(n)
        found.append(Order(last, winner, loser, n, bound, row))
    return found


def _soft(errors: StandardErrors, windows: Windows | None, top: int) -> Soft:
    table = errors.odds_table()
    se = table["se"].to_numpy()
    known = np.flatnonzero(np.isfinite(se))
    order = known[np.argsort(se[known], kind="stable")]
    cuts = np.searchsorted(se[order], [*ERRORS, np.inf])

    def odds(rows: Int[np.ndarray, " rows"]) -> list[Odds]:
        return [
            Odds(x["last"], x["token"], x["other"],
                 Interval(x["log_odds"], x["se"], x["low"], x["high"]))
            for x in table.take(rows).to_pylist()
        ]  # fmt: skip

    return Soft(
        len(errors.items),
        len(se),
        len(se) - len(known),
        np.quantile(se[known], QUANTILES).tolist() if len(known) else None,
        [Spread(float(x), int(n)) for x, n in zip(ERRORS, np.diff(cuts), strict=True)],
        errors.loss_floor,
        None if windows is None else windows.documents,
        odds(order[:top]),
        odds(order[::-1][:top]),
    )


# New contexts


class _Open(NamedTuple):
    """What stands in the way of answers: numbers of last tokens and of up to two others, and weights."""

    last: Int[np.ndarray, " n"]
    one: Int[np.ndarray, " n"]
    other: Int[np.ndarray, " n"]
    weight: Float[np.ndarray, " n"]
    only: Float[np.ndarray, " n"]  # the weight where nothing else does


def _judge(
    graph: PriorityGraph,
    samples: Samples,
    new: Windows,
    rows: Int[np.ndarray, " rows"] | None,
    top: int,
    source: str,
) -> NewContexts:
    """New contexts judged by a graph, block after block, and what would decide most of those that are open."""
    rows = np.arange(len(new)) if rows is None else rows
    words = new.vocabulary
    known = np.array([-1 if (i := graph.vocabulary.id_of(x)) is None else i for x in words.labels])
    reach, weight = evidence.Reach(graph), np.zeros(3)
    unseen_last = 0.0
    rivals, missing, lasts = [], [], []
    for block in np.split(rows, range(JUDGED, len(rows), JUDGED)):
        bags = new.samples(block)
        at = evidence.judge(graph, known[bags.last], bags.start, known[bags.token], reach)
        weight += sum_by(at.verdict, bags.weight, 3)
        w = bags.weight
        strange = ~np.isin(known[bags.last], graph.last_tokens)
        unseen_last += float(w[strange].sum())
        lasts.append(_open(bags.last, strange, w, np.diff(bags.start) == at.missing))
        rivals.append(_Open(
            *(x[at.rivals > 0] for x in (bags.last, at.top, at.rival, w, w * (at.rivals == 1)))
        ))  # fmt: skip
        of = bags.sample_of
        gap = (graph.pairs(known[bags.last][of], known[bags.token]) < 0) & ~strange[of]
        one = w[of[gap]] * (at.missing[of[gap]] == 1)
        missing.append(
            _Open(bags.last[of[gap]], bags.token[gap], np.full(gap.sum(), -1), w[of[gap]], one)
        )
    head = _heads(graph, samples)

    def token(i: int) -> Label:
        return words[i]

    def component(c: int) -> Label:
        return graph.vocabulary[graph.pair_token[head[c]]]

    found = [
        *_ranked(UNRELATED, rivals, component, words, top),
        *_ranked(NEVER_TOGETHER, missing, token, words, top),
        *_ranked(NEVER_LAST, lasts, token, words, top),
    ]
    found.sort(key=lambda x: (-x.decides, -x.contexts))
    determined, undetermined, unseen = weight.tolist()
    whole = float(weight.sum())
    return NewContexts(source, whole, determined, undetermined, unseen, unseen_last, found[:top])


def _open(
    last: Int[np.ndarray, " n"], strange: Any, w: Float[np.ndarray, " n"], all_missing: Any
) -> _Open:
    """Contexts whose last token never was one: nothing is known of the other tokens, either."""
    none = np.full(int(strange.sum()), -1)
    return _Open(last[strange], none, none, w[strange], (w * all_missing)[strange])


def _heads(graph: PriorityGraph, samples: Samples) -> Int[np.ndarray, " components"]:
    """The pair that stands for each component: the one that came next most often."""
    order = np.lexsort(
        (-evidence.label_weight(graph, samples)[: len(graph.pair_last)], graph.component)
    )
    return order[np.unique(graph.component[order], return_index=True)[1]]


def _ranked(
    why: str, parts: Sequence[_Open], name: Any, words: Vocabulary, top: int
) -> list[Wanted]:
    """What stands in the way of most answers, added up over all contexts."""
    last, one, other, weight, only = (np.concatenate(x) for x in zip(*parts, strict=True))
    if not len(last):
        return []
    low, high = np.minimum(one, other), np.maximum(one, other)
    if why != UNRELATED:
        low, high = one, other
    key, which = np.unique(np.stack([last, low, high]), axis=1, return_inverse=True)
    which = which.ravel()
    total, alone = (sum_by(which, x.astype(float), key.shape[1]) for x in (weight, only))
    best = np.lexsort((-total, -alone))[:top]
    return [
        Wanted(
            why,
            words[int(key[0, i])],
            [name(int(x)) for x in key[1:, i] if x >= 0],
            float(total[i]),
            float(alone[i]),
        )
        for i in best
    ]
