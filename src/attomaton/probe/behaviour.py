"""The behavioural priority graph: does a model order tokens after a last token as its corpus does?"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from attomaton.base.progress import Progress, quiet
from attomaton.base.shapes import Bool, Float, Int
from attomaton.corpus.windows import Windows
from attomaton.errors import AssumptionError
from attomaton.mechanics.theory.graph import PriorityGraph
from attomaton.mechanics.theory.limit import Limit
from attomaton.probe.asking import difference, log_odds, minimal_contexts, real_contexts
from attomaton.probe.orders import (
    Orders,
    context_of,
    contexts_by_retrieval,
    drawn,
    follow_counts,
    held,
    other_orders,
    permuted,
    strict,
    tied,
)
from attomaton.probe.records import Band, Behaviour, Share, Wrong
from attomaton.probe.statistics import correlation, share
from attomaton.trained.forward import Network

KINDS = ("real", "outranked", "minimal")
MINIMAL = 500  # orders, ties and shuffled orders that a model asked in some windows alone meets in minimal contexts
FEW = 50  # strict orders that a graph of shuffled labels must have
WRONG = 20  # wrong orders that are told
FREQUENCIES = (0, 10, 100, 1000)
MARGINS = (0.0, 1.5, 2.5)
WEIGHTS = (0, 2, 5, 20)


@dataclass(frozen=True, eq=False)
class Asking:
    """Orders and the windows they are asked in; without windows, in minimal contexts of both orders."""

    orders: Orders
    rows: Int[np.ndarray, " n"] | None


@dataclass(frozen=True, eq=False)
class Questions:
    """What every network is asked in one kind of contexts: strict orders, ties, and orders of shuffled labels.

    Kinds: `real` are windows of the corpus in which the automaton retrieves the first of two ordered tokens,
    `outranked` those in which it retrieves a third one, `minimal` hold nothing but the two and the last token.
    """

    kind: str
    strict: Asking
    ties: Asking
    shuffled: Asking
    other: Int[np.ndarray, " strict"]  # what another last token's graph says of the strict ones


def questions(
    windows: Windows,
    limit: Limit,
    false: PriorityGraph,
    usable: Bool[np.ndarray, " windows"],
    ids: Int[np.ndarray, " vocab"],
    most: int,
    rng: np.random.Generator,
    only: Int[np.ndarray, " some"] | None = None,
) -> tuple[Questions, ...]:
    """Draw them, all from tokens the model knows and contexts it can read, by kind; `only` in some windows if given.

    `false` is the graph of shuffled labels.
    """
    graph = limit.graph
    if only is not None:
        usable = usable & np.isin(np.arange(len(windows)), only)

    def some(graph: PriorityGraph, edge: np.ndarray, fitted: Limit | None = None) -> Orders:
        if only is not None:
            edge = edge[held(graph, windows, only)[edge]]
        asked = drawn(graph, edge, most, rng, fitted)
        known = (ids[asked.last] >= 0) & (ids[asked.one] >= 0) & (ids[asked.two] >= 0)
        return asked.rows(np.flatnonzero(known))

    order, tie = (some(graph, edges(graph), limit) for edges in (strict, tied))
    left = strict(false)
    first, third = contexts_by_retrieval(limit, windows, order, usable, rng)
    # Of so many samples that labels drawn at random tie everything no strict order is left.
    mixed = some(false, left) if len(left) >= FEW else permuted(graph, order, rng)
    real = _with_rows(order, first)
    if not len(real.orders):
        raise AssumptionError(
            "the graph of the corpus has no strict order between tokens that the model knows, so there is nothing to "
            "compare it with. Use longer contexts, or a corpus read with the model's tokenizer."
        )
    outranked = _with_rows(order, third)
    ties = _with_rows(tie, context_of(windows, tie, usable, rng))
    shuffled = _with_rows(mixed, context_of(windows, mixed, usable, rng))
    none = Asking(tie.rows(np.arange(0)), np.zeros(0, np.int64))
    other = other_orders(graph, real.orders, rng)
    # Two minimal contexts for each would cost a large model more than all its windows.
    most = MINIMAL if only is not None else max(len(x.orders) for x in (real, ties, shuffled))
    fewer = [_some(len(x.orders), most, rng) for x in (real, ties, shuffled)]
    bare = [
        Asking(x.orders.rows(at), None) for x, at in zip((real, ties, shuffled), fewer, strict=True)
    ]
    return (
        Questions(KINDS[0], real, ties, shuffled, other),
        Questions(KINDS[1], outranked, none, none, other_orders(graph, outranked.orders, rng)),
        Questions(KINDS[2], bare[0], bare[1], bare[2], other[fewer[0]]),
    )


def _some(many: int, most: int, rng: np.random.Generator) -> Int[np.ndarray, " some"]:
    """All of so many places, or `most` of them drawn alike, ascending."""
    return np.arange(many) if many <= most else np.sort(rng.choice(many, most, replace=False))


def _with_rows(orders: Orders, rows: Int[np.ndarray, " n"]) -> Asking:
    """The orders for which there is a window."""
    return Asking(orders.rows(np.flatnonzero(rows >= 0)), rows[rows >= 0])


Odds = dict[str, Float[np.ndarray, " n"]]  # of one against two, by what was asked


@dataclass(frozen=True, eq=False)
class Known:
    """Logits behind windows that were answered already; windows ascend."""

    rows: Int[np.ndarray, " rows"]
    logits: Float[np.ndarray, "rows vocab"]


def asked_of(
    network: Network,
    asked: Questions,
    windows: Windows,
    ids: Int[np.ndarray, " vocab"],
    progress: Progress = quiet,
    note: str = "",
    only: Sequence[str] = ("strict", "ties", "shuffled"),
    known: Known | None = None,
) -> Odds:
    """The model's log-odds on every question; in minimal contexts the mean of both orders of the two tokens."""
    put: list[Asking] = [getattr(asked, name) for name in only]
    one, two = (
        np.concatenate([ids[getattr(x.orders, side)] for x in put]) for side in ("one", "two")
    )
    note = f"{note}{asked.kind} contexts"
    if asked.kind == KINDS[2]:
        ways = [
            c
            for turned in (False, True)
            for x in put
            for c in minimal_contexts(x.orders, ids, turned)
        ]
        both = log_odds(network, ways, np.tile(one, 2), np.tile(two, 2), progress, note)
        odds = both.reshape(2, -1).mean(axis=0)
    else:
        rows = np.concatenate([x.rows for x in put if x.rows is not None])
        if known is not None and np.isin(rows, known.rows).all():
            odds = difference(known.logits, np.searchsorted(known.rows, rows), one, two)
        else:
            odds = log_odds(network, real_contexts(windows, rows, ids), one, two, progress, note)
    parts = np.split(odds, np.cumsum([len(x.orders) for x in put])[:-1])
    return dict(zip(only, parts, strict=True))


def behaviour(
    asked: Questions, windows: Windows, odds: Odds, fresh: Sequence[Odds], seed: int
) -> Behaviour | None:
    """What the answers come to; `fresh` are those of untrained copies. None where nothing was asked."""
    orders = asked.strict.orders
    right = odds["strict"] > 0
    agreement = share(right, orders.last)
    if agreement is None:
        return None
    here = asked.other != 0
    first, second = follow_counts(windows, orders)
    count = np.bincount(windows.ids, minlength=len(windows.vocabulary))
    rarer = np.minimum(count[orders.one], count[orders.two])
    luce = _luce_odds(asked.ties, windows)
    return Behaviour(
        asked.kind,
        agreement,
        share((right == (asked.other > 0))[here], orders.last[here]),
        share(odds["shuffled"] > 0, asked.shuffled.orders.last),
        share(np.mean([x["strict"] > 0 for x in fresh], axis=0), orders.last) if fresh else None,
        _needed(share(first > second, orders.last)),
        share(right[first <= second], orders.last[first <= second]),
        _bands(rarer, FREQUENCIES, right, orders.last, "occurrences of the rarer token"),
        _bands(orders.margin, MARGINS, right, orders.last, "margin"),
        _bands(orders.weight, WEIGHTS, right, orders.last, "samples"),
        correlation(luce, odds["ties"], asked.ties.orders.last, seed),
        correlation(luce, fresh[0]["ties"], asked.ties.orders.last, seed) if fresh else None,
        _wrong(asked.strict, windows, odds["strict"]),
    )


def _needed(found: Share | None) -> Share:
    assert found is not None  # there is a strict order, or nothing would have been asked
    return found


def _luce_odds(asked: Asking, windows: Windows) -> Float[np.ndarray, " ties"]:
    """Luce's log-odds of tied tokens; in a real context each counts as often as it stands there."""
    orders = asked.orders
    if asked.rows is None:
        return orders.odds
    odds = orders.odds.copy()
    for i, row in enumerate(asked.rows):
        tokens = windows.context(row)
        odds[i] += np.log((tokens == orders.one[i]).sum() / (tokens == orders.two[i]).sum())
    return odds


def _bands(
    value: np.ndarray, edges: Sequence[float | int], right: np.ndarray, last: np.ndarray, noun: str
) -> tuple[Band, ...]:
    """The share of right ones between one edge and the next."""
    found = []
    for low, high in zip(edges, (*edges[1:], np.inf), strict=True):
        at = (value >= low) & (value < high)
        one = share(right[at], last[at])
        if one is not None:
            upto = f"from {low:g}" if np.isinf(high) else f"{low:g} to below {high:g}"
            found.append(Band(f"{noun} {upto}", one))
    return tuple(found)


def _wrong(asked: Asking, windows: Windows, odds: np.ndarray) -> tuple[Wrong, ...]:
    """Orders the model has the other way round, those with most samples behind them first."""
    orders = asked.orders
    at = np.flatnonzero(odds <= 0)
    at = at[np.lexsort((odds[at], -orders.weight[at]))][:WRONG]
    told = []
    for i in at:
        names = [orders.one[i], orders.two[i], orders.last[i]]
        tokens = np.array(names)
        if asked.rows is not None:
            tokens = windows.context(asked.rows[i])
        words = [str(windows.vocabulary[int(x)]) for x in (*names, *tokens)]
        above, below, last, *context = words
        told.append(
            Wrong(last, above, below, float(odds[i]), float(orders.weight[i]), tuple(context))
        )
    return tuple(told)
