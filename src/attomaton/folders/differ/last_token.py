"""How two models differ after one last token: every token and every edge of either, and what became of it."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from attomaton.corpus.vocabulary import Label
from attomaton.errors import UsageError
from attomaton.mechanics.theory.evidence import label_weight
from attomaton.mechanics.theory.limit import Limit
from attomaton.numerics import sum_by

# What becomes of an edge from a to b: only b has it; only a has it; strict in a and tied in b; tied in a and strict in
# b; the other way round in b; as it was.
GAINED, LOST, TIED, APART, REVERSED, SAME = CHANGES = (
    "gained", "lost", "tied", "apart", "reversed", "same",
)  # fmt: skip


@dataclass(frozen=True)
class Token:
    """A token after the last one, in both models (None where one never saw it there): level, soft odds, came next."""

    token: Label
    level: tuple[int | None, int | None]
    odds: tuple[float | None, float | None]
    came: tuple[float, float]

    @property
    def moved(self) -> float:
        """How much its odds among the tied differ; nothing where one model does not have it."""
        a, b = self.odds
        return 0.0 if a is None or b is None else abs(a - b)


@dataclass(frozen=True)
class Edge:
    """An edge of either model: its weight in both, and what became of it (of `CHANGES`)."""

    winner: Label
    loser: Label
    weight: tuple[float, float]
    change: str


@dataclass(frozen=True)
class AfterOne:
    """The graphs of one last token in two models: tokens by how often they came next, edges by weight."""

    last: Label
    tokens: tuple[Token, ...]
    edges: tuple[Edge, ...]

    def count(self, change: str) -> int:
        """How many edges changed in this way."""
        return sum(edge.change == change for edge in self.edges)


class _One:
    """The graph of one last token in one model, by labels."""

    def __init__(self, limit: Limit, last: Label):
        graph = limit.graph
        words, k = graph.vocabulary, graph.vocabulary.id_of(last)
        pairs = graph.pairs_of(-1 if k is None else k)
        edges = graph.edges_of(-1 if k is None else k)
        token = graph.pair_token[pairs]
        component = graph.component[pairs]
        at = component - component.min() if len(component) else component
        pi = np.exp(limit.finite.log_pi[pairs])
        share = pi / sum_by(at, pi, int(at.max(initial=-1)) + 1)[at]
        came = label_weight(graph, limit.samples)[pairs]
        self.labels = [words[int(t)] for t in token]
        self.level = dict(zip(self.labels, graph.level[component].tolist(), strict=True))
        self.component = dict(zip(self.labels, component.tolist(), strict=True))
        self.odds = dict(zip(self.labels, share.tolist(), strict=True))
        self.came = dict(zip(self.labels, came.tolist(), strict=True))
        ends = (graph.edge_from[edges] - pairs.start, graph.edge_to[edges] - pairs.start)
        self.weight = {
            (self.labels[a], self.labels[b]): w
            for a, b, w in zip(*(x.tolist() for x in ends), graph.edge_weight[edges].tolist(), strict=True)
        }  # fmt: skip

    def tied(self, one: Label, other: Label) -> bool:
        """Whether it knows both, and ties them."""
        return one in self.component and self.component[one] == self.component.get(other)


def last_token_difference(a: Limit, b: Limit, last: Label) -> AfterOne:
    """The graphs of one last token in model `b` against those in model `a`.

    >>> from attomaton import samples_from_sequences, solve_limit
    >>> rows = [["i", "j", "q"]]
    >>> one, two = samples_from_sequences(rows, ["i"]), samples_from_sequences(rows * 2, ["i", "j"])
    >>> found = last_token_difference(solve_limit(one), solve_limit(two), "q")
    >>> [(e.winner, e.loser, e.change) for e in found.edges]
    [('i', 'j', 'tied'), ('i', 'q', 'same'), ('j', 'i', 'gained'), ('j', 'q', 'gained')]
    """
    x, y = _One(a, last), _One(b, last)
    if not x.labels and not y.labels:
        raise UsageError(f"{last!r} is a last token in neither of the two.")
    tokens = [
        Token(
            word, (x.level.get(word), y.level.get(word)), (x.odds.get(word), y.odds.get(word)),
            (x.came.get(word, 0.0), y.came.get(word, 0.0)),
        )
        for word in dict.fromkeys([*x.labels, *y.labels])
    ]  # fmt: skip
    edges = [
        Edge(*ends, (x.weight.get(ends, 0.0), y.weight.get(ends, 0.0)), _change(x, y, *ends))
        for ends in dict.fromkeys([*x.weight, *y.weight])
    ]
    return AfterOne(
        last,
        tuple(sorted(tokens, key=lambda t: -sum(t.came))),
        tuple(sorted(edges, key=lambda e: -sum(e.weight))),
    )


def _change(x: _One, y: _One, winner: Label, loser: Label) -> str:
    ends = winner, loser
    if ends not in x.weight:
        return GAINED
    strict = not x.tied(*ends)
    if strict and y.tied(*ends):
        return TIED
    if ends in y.weight:
        return APART if not strict and not y.tied(*ends) else SAME
    return REVERSED if strict and (loser, winner) in y.weight else LOST


def top_tokens(found: AfterOne, most: int) -> tuple[Sequence[Token], Sequence[Edge]]:
    """The tokens of the heaviest changes and those that came next most often; the edges between, changes first."""
    changed = [x for e in found.edges if e.change != SAME for x in (e.winner, e.loser)]
    first = [*dict.fromkeys(changed)][: most // 2]
    kept = [*dict.fromkeys([*first, *(t.token for t in found.tokens)])][:most]
    edges = [e for e in found.edges if e.winner in kept and e.loser in kept]
    edges.sort(key=lambda e: e.change == SAME)
    return [t for t in found.tokens if t.token in kept], edges
