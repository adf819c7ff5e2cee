"""Two corpora mixed: which orders of each survive in both together, which turn into ties, and by which path back.

The priority graph of A + B has the edges of both, so a tie of A stays one, and a strict order i ⇒ j of A survives
exactly where B adds no path from j back to i. Edges decide all: an order that follows from several turns into a tie
only with each of them.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from attomaton.base.shapes import Bool, Int
from attomaton.corpus.samples import Samples, SetAside, expect_samples, joined, merge_samples
from attomaton.corpus.vocabulary import Label, Vocabulary
from attomaton.mechanics.theory.graph import PriorityGraph, build_graph


@dataclass(frozen=True)
class Step:
    """One edge of a path back, `winner` over `loser`, with the weight of its samples in its corpus, in the other."""

    winner: Label
    loser: Label
    own: float
    other: float

    def counts(self, name: str, other: str) -> str:
        """The weights in words, by the names of the two corpora."""
        parts = ((self.own, name), (self.other, other))
        return " and ".join(f"{weight:g} in {x}" for weight, x in parts if weight)


@dataclass(frozen=True)
class Turned:
    """A strict order of one corpus that the other turns into a tie: the weight behind it, and the path back."""

    last: Label
    winner: Label
    loser: Label
    weight: float
    path: tuple[Step, ...]


@dataclass(frozen=True)
class LastToken:
    """Strict orders after one last token, and how many of them turn into ties."""

    last: Label
    strict: int
    turn: int


@dataclass(frozen=True)
class Survival:
    """What becomes of one corpus in the mixture, its orders counted by edges.

    `by_last` are the last tokens with the most orders that turn, `turned` the orders with the most samples behind them.
    """

    strict: int
    survive: int
    turn: int
    tied: int  # edges that are ties already, and stay so
    components: int  # of several tokens
    last_tokens: int
    changed_last_tokens: int  # with an order that turns
    by_last: tuple[LastToken, ...]
    turned: tuple[Turned, ...]


@dataclass(frozen=True)
class Corpus:
    """One of the two corpora: its name, how much there is of it, what only it has, and what becomes of its orders."""

    name: str
    samples: int
    tokens: int
    only_tokens: int
    only: tuple[Label, ...]  # the first few
    orders: Survival


@dataclass(frozen=True)
class Mixed:
    """What becomes of A and of B in both together, in counts and examples."""

    a: Corpus
    b: Corpus
    common_tokens: int
    samples: int
    components: int  # of several tokens, in both together
    largest_component: int


@dataclass(frozen=True, eq=False)
class Mixture:
    """The graphs of two corpora and of both together, on one vocabulary."""

    a: PriorityGraph
    b: PriorityGraph
    both: PriorityGraph
    only_a: tuple[Label, ...]
    only_b: tuple[Label, ...]
    samples: Samples

    def turns(self, one: PriorityGraph) -> Bool[np.ndarray, " edges"]:
        """Of the edges of A or of B: which are strict there and tied in both together."""
        start, end = (self._pairs(one, x) for x in (one.edge_from, one.edge_to))
        return one.strict & (self.both.component[start] == self.both.component[end])

    def survival(self, one: PriorityGraph, most: int) -> Survival:
        """What becomes of the orders of A, or of B; `most` of those that turn, the heaviest first."""
        turns, strict = self.turns(one), one.strict
        at = np.flatnonzero(turns)
        at = at[np.argsort(-one.edge_weight[at], kind="stable")]
        lasts = one.pair_last[one.edge_from]
        K = len(one.vocabulary)
        per, changed = np.bincount(lasts[strict], minlength=K), np.bincount(lasts[at], minlength=K)
        first = np.argsort(-changed, kind="stable")[: min(most, (changed > 0).sum())].tolist()
        word = one.vocabulary
        return Survival(
            int(strict.sum()), int(strict.sum()) - len(at), len(at), int((~strict).sum()),
            int((one.component_size > 1).sum()), len(one.last_tokens), int((changed > 0).sum()),
            tuple(LastToken(word[k], int(per[k]), int(changed[k])) for k in first),
            tuple(self._back(one, at[:most])),
        )  # fmt: skip

    def _pairs(self, one: PriorityGraph, pair: Int[np.ndarray, " n"]) -> Int[np.ndarray, " n"]:
        """Pairs of one graph in the numbering of both together."""
        return self.both.pairs(one.pair_last[pair], one.pair_token[pair])

    def _back(self, one: PriorityGraph, edges: Int[np.ndarray, " some"]) -> Iterator[Turned]:
        other, word = self.b if one is self.a else self.a, self.both.vocabulary
        for e in edges.tolist():
            k = int(one.pair_last[one.edge_from[e]])
            i, j = (int(one.pair_token[x[e]]) for x in (one.edge_from, one.edge_to))
            way = self.both.path(k, j, i)
            assert way is not None  # they are tied
            steps = tuple(
                Step(word[x], word[y], _weight(one, k, x, y), _weight(other, k, x, y))
                for x, y in pairwise(way)
            )
            yield Turned(word[k], word[i], word[j], float(one.edge_weight[e]), steps)


def mixed(a: Samples, b: Samples, names: tuple[str, str], most: int) -> Mixed:
    """What becomes of two corpora in both together; of everything that is listed, the first `most`."""
    found = mix(a, b)

    def one(k: int, s: Samples, graph: PriorityGraph, only: tuple[Label, ...]) -> Corpus:
        many = int(s.rows.sum()), len(s.vocabulary), len(only)
        return Corpus(names[k], *many, only[:most], found.survival(graph, most))

    x, y = one(0, a, found.a, found.only_a), one(1, b, found.b, found.only_b)
    common, sizes = len(a.vocabulary) - len(found.only_a), found.both.component_size
    total = int(found.samples.rows.sum())
    return Mixed(x, y, common, total, int((sizes > 1).sum()), int(sizes.max(initial=0)))


def _weight(graph: PriorityGraph, last: int, i: int, j: int) -> float:
    """The weight of the samples behind an edge; 0 where there is none."""
    p, q = graph.pair(last, i), graph.pair(last, j)
    if p is None or q is None:
        return 0.0
    lo, hi = np.searchsorted(graph.edge_from, [p, p + 1])
    e = lo + int(np.searchsorted(graph.edge_to[lo:hi], q))
    return float(graph.edge_weight[e]) if e < hi and graph.edge_to[e] == q else 0.0


def mix(a: Samples, b: Samples) -> Mixture:
    """Two corpora and both together; tokens are the same where their labels are.

    >>> from attomaton import samples_from_sequences
    >>> tea = samples_from_sequences([["tea", "cake", "bell"]], ["tea"])
    >>> found = mix(tea, samples_from_sequences([["cake", "tea", "bell"]], ["cake"]))
    >>> found.survival(found.a, 1).turned[0].path
    (Step(winner='cake', loser='tea', own=0.0, other=1.0),)
    """
    expect_samples(a)
    expect_samples(b)
    words = Vocabulary(dict.fromkeys([*a.vocabulary.labels, *b.vocabulary.labels]))
    x, y = _on(words, a), _on(words, b)
    both = _joined(x, y)
    return Mixture(
        build_graph(x), build_graph(y), build_graph(both),
        tuple(w for w in a.vocabulary if w not in b.vocabulary),
        tuple(w for w in b.vocabulary if w not in a.vocabulary),
        both,
    )  # fmt: skip


def _on(words: Vocabulary, s: Samples) -> Samples:
    """The same samples with the ids of another vocabulary, in the order that these have."""
    if s.vocabulary == words:
        return s
    new = np.array([words.id_of(w) for w in s.vocabulary], np.int32)
    token = new[s.token]
    order = np.lexsort((token, s.sample_of))  # within each bag, ascending as before
    moved = replace(
        s, vocabulary=words, last=new[s.last], label=new[s.label], token=token[order], count=s.count[order]
    )  # fmt: skip
    return moved.take(np.lexsort((moved.source, moved.label, moved.last)))


def _joined(a: Samples, b: Samples) -> Samples:
    """Both, merged where they are the same bag with the same label; those of `b` are counted after those of `a`."""

    shift = int(a.source.max(initial=-1)) + 1
    rows, weight = (getattr(a.set_aside, x) + getattr(b.set_aside, x) for x in ("rows", "weight"))
    both = replace(
        joined([a, replace(b, source=b.source + shift)]), set_aside=SetAside(rows, weight),
        tokens=a.tokens + b.tokens, windows=a.windows + b.windows,
    )  # fmt: skip
    return merge_samples(both)
