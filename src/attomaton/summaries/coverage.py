"""How far data carry what was learned from them: who was compared, how often, and what a new context finds."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from attomaton.base.face import Tabular
from attomaton.base.lazily import pa
from attomaton.base.progress import Progress, quiet
from attomaton.base.shapes import Bool, Float, Int
from attomaton.corpus.samples import Samples
from attomaton.corpus.vocabulary import Label, Vocabulary
from attomaton.corpus.windows import Windows
from attomaton.errors import UsageError, counted, whole_number
from attomaton.mechanics.theory import evidence
from attomaton.mechanics.theory.automaton import NEVER_TOGETHER
from attomaton.mechanics.theory.finite import finite_component
from attomaton.mechanics.theory.graph import PriorityGraph, build_graph
from attomaton.mechanics.theory.information import Interval, luce_errors, mean_interval
from attomaton.mechanics.theory.limit import Limit
from attomaton.numerics import heaviest, sum_by

UNRELATED = "never compared"
NO_SAMPLE = "never the last token of a sample"
GIVEN = "the contexts given"
HELD_OUT = 10  # the last one in so many windows, or sequences, is kept as new contexts
JUDGED = 1 << 18  # contexts judged at a time
NAMED = 5  # tokens named of a group
STEPS = (1, 2, 5, 10, 100)  # samples behind an order, from which on they are counted together
QUANTILES = (0.1, 0.5, 0.9)
# Standard errors from which on they are counted together
ERRORS = (0.0, 0.1, 0.25, 0.5, 1.0, 1.5, 2.0)


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
    samples: int
    groups: Sequence[Sequence[Label]]  # the first few of each, by how often they came next
    sizes: Sequence[int]


@dataclass(frozen=True)
class Row:
    """A sample: the tokens of its context, the last one last, and what comes next."""

    tokens: Sequence[Label]
    next: Label


@dataclass(frozen=True)
class Order:
    """A strict priority that rests on one sample, and the row that would turn it into a tie.

    The loser came next `elsewhere` so often after the same last token, beside other tokens.
    """

    last: Label
    winner: Label
    loser: Label
    samples: int
    contrary: float  # the largest probability of the contrary that so many samples leave open
    tied_by: Row
    elsewhere: float


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
) -> tuple[Coverage, Any]:
    """As `coverage`, and the table of all log-odds with their standard errors."""
    top = whole_number("top", top, least=1)
    seen = data if isinstance(data, Windows) else windows
    clusters = seen if seen is not None and seen.documents > 1 else None
    if isinstance(data, Limit):
        return cover_parts([data], new, windows=clusters, top=top, progress=progress)
    if not isinstance(data, (Samples, Windows)):
        raise UsageError(f"data: {type(data).__name__} is neither Samples, Windows nor a Limit.")
    if new is None and isinstance(data, Windows):
        first, rows = _last_part(data)
        source = f"the last of {HELD_OUT} parts, judged by the others"
        asked = None if first is None else _Asked(data, rows, source)
    else:
        first, asked = None, None if new is None else _Asked(new, np.arange(len(new)), GIVEN)
    # Sequences run through all last tokens: errors by sequence are made of all of them at once.
    parts: list[Int[np.ndarray, " rows"] | None] = [None]
    if isinstance(data, Windows) and clusters is None:
        parts = [*data.parts()] or [None]

    def fitted() -> Iterator[_Fitted]:
        for rows in parts:
            samples = data.samples(rows) if isinstance(data, Windows) else data
            graph = build_graph(samples)
            # All of a part judges new contexts, or what is left of it where some were set apart.
            known: tuple[PriorityGraph, Samples] | None = graph, samples
            if first is not None and isinstance(data, Windows):
                left = first if rows is None else rows[np.isin(rows, first, assume_unique=True)]
                earlier = data.samples(left) if len(left) else None
                known = None if earlier is None else (build_graph(earlier), earlier)
            yield _Fitted(graph, samples, finite_component(graph, samples).log_pi, known)

    return _cover(fitted(), asked, clusters, top, len(parts), progress)


def cover_parts(
    limits: Iterable[Limit],
    new: Windows | None = None,
    *,
    windows: Windows | None = None,
    top: int = 20,
    total: int = 1,
    progress: Progress = quiet,
) -> tuple[Coverage, Any]:
    """As `cover`, of a limit that comes in parts, each of whole last tokens: one is held at a time."""

    def fitted() -> Iterator[_Fitted]:
        for limit in limits:
            if limit.dependent:
                raise UsageError(
                    "coverage speaks of orders and ties that samples show; dependent embeddings tie more."
                )
            graph, samples = limit.graph, limit.samples
            yield _Fitted(graph, samples, limit.finite.log_pi, (graph, samples))

    asked = None if new is None else _Asked(new, np.arange(len(new)), GIVEN)
    return _cover(fitted(), asked, windows, top, total, progress)


class _Fitted(NamedTuple):
    """Some whole last tokens, and the graph and samples that judge their new contexts, where there are any."""

    graph: PriorityGraph
    samples: Samples
    log_pi: Float[np.ndarray, " pairs"]
    known: tuple[PriorityGraph, Samples] | None


class _Asked(NamedTuple):
    """New contexts: these windows of some, and where they come from, in words."""

    new: Windows
    rows: Int[np.ndarray, " rows"]
    source: str


def _cover(
    parts: Iterable[_Fitted],
    asked: _Asked | None,
    windows: Windows | None,
    top: int,
    total: int,
    progress: Progress,
) -> tuple[Coverage, Any]:
    """What all parts tell, one held at a time."""
    pieces, told = [], []
    left = np.zeros(0, np.int64) if asked is None else asked.rows
    judges = None
    progress(0, total, "")
    for i, part in enumerate(parts):
        progress(i, total, f"part {i + 1} of {total}")
        pieces.append(_piece(part, windows, top))
        judges = part.known or judges
        if asked is not None and part.known is not None:
            graph, samples = part.known
            known = graph.vocabulary.ids_of(asked.new.vocabulary.labels)
            here = np.isin(known[asked.new.last[left]], graph.last_tokens)
            told += _judge(graph, samples, asked.new, left[here], top)
            left = left[~here]
    # What ends in no last token of any part.
    if asked is not None and judges is not None and len(left):
        told += _judge(*judges, asked.new, left, top)
    new = None if asked is None else _added(told, asked.source, top)
    return _told(pieces, new, windows, top)


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


class _Piece(NamedTuple):
    """What there is to tell of some last tokens."""

    weight: float
    last_tokens: list[LastToken]
    support: Int[np.ndarray, " steps"]
    apart: list[Apart]
    fragile: list[Order]
    tied: int
    loss_floor: Interval
    odds: Any  # the table of log-odds


def _piece(part: _Fitted, windows: Windows | None, top: int) -> _Piece:
    graph, samples, word = part.graph, part.samples, part.graph.vocabulary
    errors = luce_errors(graph, samples, part.log_pi, windows)
    rows = evidence.edge_rows(graph, samples)
    strict = np.flatnonzero(graph.strict)
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
    split = np.flatnonzero(groups > 1)
    split = split[heaviest(counts[0][split], top)]

    def apart(i: int) -> Apart:
        """The groups after one last token, the largest first."""
        pairs, names = graph.pairs_of(int(lasts[i])), []
        of = group[pairs]
        size = np.bincount(of[of >= 0])
        for g in np.argsort(-size, kind="stable"):
            at = pairs.start + np.flatnonzero(of == g)
            at = at[heaviest(weight[at], NAMED)]
            names.append([word[x] for x in graph.pair_token[at]])
        return Apart(word[lasts[i]], int(counts[0][i]), names, np.sort(size)[::-1].tolist())

    def order(e: int) -> Order:
        """An order on one sample."""
        a, b = graph.edge_from[e], graph.edge_to[e]
        winner, loser, last = (word[x] for x in (*graph.pair_token[[a, b]], graph.pair_last[a]))
        row = Row([*(x for x in (winner, loser) if x != last), last], loser)
        n = int(rows[e])
        return Order(last, winner, loser, n, evidence.contrary_bound(n), row, float(weight[b]))

    # First those whose loser came next most often elsewhere: the contrary is likeliest there.
    fragile = alone[heaviest(weight[graph.edge_to[alone]], top)]
    return _Piece(
        samples.total_weight,
        [LastToken(word[q], *map(int, row)) for q, row in zip(lasts, zip(*counts, strict=True), strict=True)],
        np.diff(np.searchsorted(np.sort(rows[strict]), [*STEPS, np.inf])),
        [apart(i) for i in split.tolist()],
        [order(e) for e in fragile.tolist()],
        len(errors.items),
        errors.loss_floor,
        errors.odds_table(),
    )  # fmt: skip


def _told(
    pieces: Sequence[_Piece], new: NewContexts | None, windows: Windows | None, top: int
) -> tuple[Coverage, Any]:
    """The whole from its pieces, and the table of all log-odds."""
    table = pa.concat_tables([x.odds for x in pieces]).unify_dictionaries()
    support = np.sum([x.support for x in pieces], axis=0)
    lasts = sorted((row for x in pieces for row in x.last_tokens), key=lambda row: -row.samples)
    names = ("samples", "tokens", "came_next", "orders", "on_one")
    samples, tokens, came_next, orders, on_one = (
        sum(getattr(row, name) for row in lasts) for name in names
    )
    return Coverage(
        "coverage",
        samples,
        lasts,
        tokens,
        came_next,
        orders,
        on_one,
        [Support(n, int(m), evidence.contrary_bound(n)) for n, m in zip(STEPS, support, strict=True)],
        sorted((a for x in pieces for a in x.apart), key=lambda a: -a.samples)[:top],
        sorted((o for x in pieces for o in x.fragile), key=lambda o: -o.elsewhere)[:top],
        _soft(table, sum(x.tied for x in pieces), _floor(pieces), windows, top),
        new,
    ), table  # fmt: skip


def _floor(pieces: Sequence[_Piece]) -> Interval:
    """The loss floor of the whole; of several pieces, from the means and errors of independent samples."""
    if len(pieces) == 1:
        return pieces[0].loss_floor
    total = sum(x.weight for x in pieces)
    mean = sum(x.weight * x.loss_floor.value for x in pieces) / total
    squares = sum(
        (x.weight * x.loss_floor.se) ** 2 + x.weight * x.loss_floor.value**2 for x in pieces
    )
    return mean_interval(mean, float(np.sqrt(max(0.0, squares - total * mean**2))) / total)


def _soft(table: Any, tied: int, floor: Interval, windows: Windows | None, top: int) -> Soft:
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
        tied,
        len(se),
        len(se) - len(known),
        np.quantile(se[known], QUANTILES).tolist() if len(known) else None,
        [Spread(float(x), int(n)) for x, n in zip(ERRORS, np.diff(cuts), strict=True)],
        floor,
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
    graph: PriorityGraph, samples: Samples, new: Windows, rows: Int[np.ndarray, " rows"], top: int
) -> list[NewContexts]:
    """New contexts judged by a graph, block after block, and what would decide most of those that are open."""
    words, known = new.vocabulary, graph.vocabulary.ids_of(new.vocabulary.labels)
    reach, head = evidence.Reach(graph), _heads(graph, samples)

    def token(i: int) -> Label:
        return words[i]

    def component(c: int) -> Label:
        return graph.vocabulary[graph.pair_token[head[c]]]

    # Contexts of one last token stay together, so that what is wanted is added up within a block.
    rows = rows[np.argsort(new.last[rows], kind="stable")]
    cuts = np.flatnonzero(np.diff(new.last[rows], prepend=-1))
    cuts = cuts[np.flatnonzero(np.diff(cuts // JUDGED, prepend=0))]
    told = []
    for block in np.split(rows, cuts):
        if not len(block):
            continue
        bags = new.samples(block)
        at = evidence.judge(graph, known[bags.last], bags.start, known[bags.token], reach)
        w, of, q = bags.weight, bags.sample_of, bags.last
        strange = ~np.isin(known[q], graph.last_tokens)
        lasts = _Open(q, np.full(len(q), -1), np.full(len(q), -1), w, w * (bags.size == at.missing))
        rivals = _Open(q, at.top, at.rival, w, w * (at.rivals == 1))
        gap = (graph.pairs(known[q][of], known[bags.token]) < 0) & ~strange[of]
        one = w[of] * (at.missing[of] == 1)
        missing = _Open(q[of], bags.token, np.full(len(of), -1), w[of], one)
        found = [
            *_ranked(UNRELATED, rivals, at.rivals > 0, component, words, top),
            *_ranked(NEVER_TOGETHER, missing, gap, token, words, top),
            *_ranked(NO_SAMPLE, lasts, strange, token, words, top),
        ]
        verdicts = sum_by(at.verdict, w, 3)
        determined, undetermined, unseen = verdicts.tolist()
        apart = float(w[strange].sum())
        told.append(NewContexts("", float(w.sum()), determined, undetermined, unseen, apart, found))
    return told


def _added(told: Sequence[NewContexts], source: str, top: int) -> NewContexts:
    """What was told of several blocks, together."""
    names = ("contexts", "determined", "undetermined", "unseen", "unseen_last")
    wanted = sorted((w for x in told for w in x.collect), key=lambda w: (-w.decides, -w.contexts))
    sums = {name: float(sum(getattr(x, name) for x in told)) for name in names}
    return NewContexts(source=source, collect=wanted[:top], **sums)


def _heads(graph: PriorityGraph, samples: Samples) -> Int[np.ndarray, " components"]:
    """The pair that stands for each component: the one that came next most often."""
    order = np.lexsort((-evidence.label_weight(graph, samples), graph.component))
    return order[np.unique(graph.component[order], return_index=True)[1]]


def _ranked(
    why: str,
    open_: _Open,
    which: Bool[np.ndarray, " n"],
    name: Callable[[int], Label],
    words: Vocabulary,
    top: int,
) -> list[Wanted]:
    """What stands in the way of most answers, added up over contexts."""
    last, one, other, weight, only = (x[which] for x in open_)
    if not len(last):
        return []
    # −1 stands for no token, so that numbers begin with it.
    low, high = np.minimum(one, other) + 1, np.maximum(one, other) + 1
    order = np.lexsort((high, low, last))
    parts = np.stack([last, low, high])[:, order]
    head = np.flatnonzero(np.r_[True, (parts[:, 1:] != parts[:, :-1]).any(axis=0)])
    total, alone = (np.add.reduceat(x[order], head) for x in (weight, only))
    best = np.lexsort((-total, -alone))[:top]
    return [
        Wanted(
            why,
            words[int(parts[0, at])],
            [name(int(x) - 1) for x in parts[1:, at] if x > 0],
            float(total[i]),
            float(alone[i]),
        )
        for i, at in zip(best, head[best], strict=True)
    ]
