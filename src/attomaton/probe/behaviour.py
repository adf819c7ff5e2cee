"""The behavioural priority graph: does a model order tokens after a last token as its corpus does?"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from attomaton.base.progress import Progress, quiet
from attomaton.corpus.windows import Windows
from attomaton.errors import AssumptionError
from attomaton.mechanics.theory.limit import Limit
from attomaton.numerics import named_rng
from attomaton.probe.asking import log_odds, minimal_contexts, real_contexts
from attomaton.probe.orders import (
    Orders,
    context_of,
    drawn,
    follow_counts,
    other_orders,
    permuted,
    retrieved_first,
    shuffled_graph,
    strict,
    ties,
)
from attomaton.probe.records import Band, Behaviour, Share, Wrong
from attomaton.probe.statistics import correlation, share
from attomaton.trained.forward import Network

FEW = 50  # strict orders that a graph of shuffled labels must have
WRONG = 20  # wrong orders that are told
FREQUENCIES = (0, 10, 100, 1000)
MARGINS = (0.0, 1.5, 2.5)
WEIGHTS = (0, 2, 5, 20)


@dataclass(frozen=True, eq=False)
class Questions:
    """What every network is asked: strict orders, ties and orders of shuffled labels, with a window for each."""

    strict: Orders
    ties: Orders
    shuffled: Orders
    other: Int[np.ndarray, " strict"]  # what another last token's graph says of the strict ones
    won: Bool[
        np.ndarray, " strict"
    ]  # whether the automaton retrieves the first token of the window
    windows_of: dict[str, Any]


def questions(
    windows: Windows,
    limit: Limit,
    rows: Int[np.ndarray, " rows"],
    usable: Bool[np.ndarray, " windows"],
    ids: Int[np.ndarray, " vocab"],
    most: int,
    seed: int,
) -> Questions:
    """Draw them, all from tokens the model knows and contexts it can read."""
    rng = named_rng("probe", seed)
    graph = limit.graph
    found = {
        "strict": drawn(graph, strict(graph), most, rng, limit),
        "ties": ties(limit, most, rng),
    }
    false = shuffled_graph(windows, rows, rng)
    left = strict(false)
    found["shuffled"] = drawn(false, left, most, rng)
    if len(left) < FEW:  # so many samples that labels drawn at random tie everything
        found["shuffled"] = permuted(graph, found["strict"], rng)
    where = {}
    for name, asked in found.items():
        known = (ids[asked.last] >= 0) & (ids[asked.one] >= 0) & (ids[asked.two] >= 0)
        kept = asked.rows(np.flatnonzero(known))
        place = context_of(windows, kept, usable, rng)
        found[name], where[name] = kept.rows(np.flatnonzero(place >= 0)), place[place >= 0]
    if not len(found["strict"]):
        raise AssumptionError(
            "the graph of the corpus has no strict order between tokens that the model knows, so there is nothing to "
            "compare it with. Use longer contexts, or a corpus read with the model's tokenizer."
        )
    won = retrieved_first(limit, windows, found["strict"], where["strict"])
    other = other_orders(graph, found["strict"], rng)
    return Questions(**found, other=other, won=won, windows_of=where)


Odds = dict[str, Float[np.ndarray, " n"]]  # of one against two, by what was asked


def asked_of(
    network: Network,
    asked: Questions,
    windows: Windows,
    ids: Int[np.ndarray, " vocab"],
    kind: str,
    progress: Progress = quiet,
    note: str = "",
    only: Sequence[str] = ("strict", "ties", "shuffled"),
) -> Odds:
    """The model's log-odds on every question, in real contexts or in minimal ones (the mean of both orders)."""
    odds: Odds = {}
    for name in only:
        orders: Orders = getattr(asked, name)
        one, two = ids[orders.one], ids[orders.two]
        if kind == "real":
            contexts = real_contexts(windows, asked.windows_of[name], ids)
            odds[name] = log_odds(network, contexts, one, two, progress, f"{note}{name}, {kind}")
            continue
        ways = [minimal_contexts(orders, ids, turned) for turned in (False, True)]
        both = log_odds(
            network,
            ways[0] + ways[1],
            np.tile(one, 2),
            np.tile(two, 2),
            progress,
            f"{note}{name}, {kind}",
        )
        odds[name] = (both[: len(one)] + both[len(one) :]) / 2
    return odds


def behaviour(
    asked: Questions,
    windows: Windows,
    ids: Int[np.ndarray, " vocab"],
    kind: str,
    odds: Odds,
    fresh: Sequence[Odds],
    seed: int,
) -> Behaviour:
    """What the answers come to; `fresh` are those of untrained copies."""
    orders = asked.strict
    right = odds["strict"] > 0
    agreement = _needed(share(right, orders.last))
    here = asked.other != 0
    first, second = follow_counts(windows, orders)
    count = np.bincount(windows.ids, minlength=len(windows.vocabulary))
    rarer = np.minimum(count[orders.one], count[orders.two])
    luce = _luce_odds(asked, windows, kind)
    return Behaviour(
        kind,
        agreement,
        share((right == (asked.other > 0))[here], orders.last[here]),
        share(odds["shuffled"] > 0, asked.shuffled.last),
        _copies([x["strict"] > 0 for x in fresh], orders.last),
        _needed(share(first > second, orders.last)),
        share(right[first <= second], orders.last[first <= second]),
        _bands(rarer, FREQUENCIES, right, orders.last, "occurrences of the rarer token"),
        _bands(orders.margin, MARGINS, right, orders.last, "margin"),
        _bands(orders.weight, WEIGHTS, right, orders.last, "samples"),
        _by_context(asked, right) if kind == "real" else (),
        correlation(luce, odds["ties"], asked.ties.last, seed),
        correlation(luce, fresh[0]["ties"], asked.ties.last, seed) if fresh else None,
        _wrong(asked, windows, kind, odds["strict"]),
    )


def _needed(found: Share | None) -> Share:
    assert found is not None  # there is a strict order, or nothing would have been asked
    return found


def _copies(right: Sequence[np.ndarray], last: np.ndarray) -> Share | None:
    """The mean share over copies."""
    return share(np.mean(right, axis=0), last) if len(right) else None


def _luce_odds(asked: Questions, windows: Windows, kind: str) -> Float[np.ndarray, " ties"]:
    """Luce's log-odds of tied tokens; in a real context each counts as often as it stands there."""
    orders = asked.ties
    if kind == "minimal":
        return orders.odds
    odds = orders.odds.copy()
    for i, row in enumerate(asked.windows_of["ties"]):
        tokens = windows.ids[windows.left[row] : windows.left[row] + windows.length[row]]
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


def _by_context(asked: Questions, right: np.ndarray) -> tuple[Band, ...]:
    """Where the first token is what a context calls for, and where a third one stands above both."""
    names = ("the first is retrieved there", "a third token outranks both there")
    last, ways = asked.strict.last, (asked.won, ~asked.won)
    found = [(name, share(right[at], last[at])) for name, at in zip(names, ways, strict=True)]
    return tuple(Band(name, one) for name, one in found if one is not None)


def _wrong(asked: Questions, windows: Windows, kind: str, odds: np.ndarray) -> tuple[Wrong, ...]:
    """Orders the model has the other way round, those with most samples behind them first."""
    orders, word = asked.strict, _namer(windows)
    at = np.flatnonzero(odds <= 0)
    at = at[np.lexsort((odds[at], -orders.weight[at]))][:WRONG]
    told = []
    for i in at:
        row = asked.windows_of["strict"][i]
        tokens = windows.ids[windows.left[row] : windows.left[row] + windows.length[row]]
        if kind == "minimal":
            tokens = np.array([orders.one[i], orders.two[i], orders.last[i]])
        names = (word(orders.last[i]), word(orders.one[i]), word(orders.two[i]))
        told.append(
            Wrong(*names, float(odds[i]), float(orders.weight[i]), tuple(word(x) for x in tokens))
        )
    return tuple(told)


def _namer(windows: Windows) -> Callable[[int], str]:
    return lambda token: str(windows.vocabulary[int(token)])
