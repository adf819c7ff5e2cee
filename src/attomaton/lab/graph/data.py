"""The priority graph of one last token as arrays, and which part of it is looked at.

A picture holds at most `CAP` elements (nodes and edges). It shows all of a graph, what passes a filter, or the
neighbourhood of one token; nodes are tokens or, condensed, components.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from attomaton.base.shapes import Float, Int
from attomaton.corpus.vocabulary import Label
from attomaton.errors import UsageError, nearest
from attomaton.lab.kit.matches import matches
from attomaton.mechanics.theory.limit import Limit
from attomaton.numerics import sum_by
from attomaton.report.graphs import readable

CAP = 2000  # elements of one picture
TOP = 40  # tokens of a picture, unless more are asked for
EACH = 3  # edges for each of them
BRANCH = 8  # strongest edges in and out that are followed first, in a neighbourhood
NODE_SHARE = 4  # of a neighbourhood's elements one in so many is a node


@dataclass(frozen=True, eq=False)
class Net:
    """Nodes on levels with weighted edges between them: the tokens of one graph, or its components."""

    component: Int[np.ndarray, " nodes"]
    level: Int[np.ndarray, " nodes"]
    score: Float[np.ndarray, " nodes"]
    as_next: Float[np.ndarray, " nodes"]  # how often the label was this node
    source: Int[np.ndarray, " edges"]
    target: Int[np.ndarray, " edges"]
    weight: Float[np.ndarray, " edges"]

    def heaviest(self, edges: Int[np.ndarray, " some"]) -> Int[np.ndarray, " some"]:
        """Edges by weight."""
        return edges[np.argsort(-self.weight[edges], kind="stable")]

    def between(
        self, nodes: Int[np.ndarray, " inside"], edges: Int[np.ndarray, " some"]
    ) -> Int[np.ndarray, " between"]:
        """Those of the edges that join two of these nodes."""
        inside = np.zeros(len(self.level), bool)
        inside[nodes] = True
        return edges[inside[self.source[edges]] & inside[self.target[edges]]]

    def margin(self, edges: Int[np.ndarray, " some"]) -> Float[np.ndarray, " some"]:
        """Differences of svm scores along edges."""
        return self.score[self.source[edges]] - self.score[self.target[edges]]


class TokenGraph:
    """The priority graph of one last token as arrays, its tokens numbered from 0 as in `graph_view`."""

    def __init__(self, limit: Limit, last: int):
        self.limit, self.last = limit, last
        graph = limit.graph
        pairs, edges = graph.pairs_of(last), graph.edges_of(last)
        self.token = graph.pair_token[pairs]
        self.log_pi = limit.finite.log_pi[pairs]
        component = graph.component[pairs]
        lo, hi = np.searchsorted(limit.samples.last, [last, last + 1])
        self.first_sample, self.samples = int(lo), limit.samples.take(np.arange(lo, hi))
        self.labels = np.searchsorted(self.token, self.samples.label)
        weight = graph.edge_weight[edges]
        self.net = Net(
            component - component.min() if len(component) else component,
            graph.level[component], limit.svm.score[pairs],
            sum_by(self.labels, self.samples.weight, len(self.token)),
            graph.edge_from[edges] - pairs.start, graph.edge_to[edges] - pairs.start, weight,
        )  # fmt: skip

    def __len__(self) -> int:
        return len(self.token)

    def error(self, i: int) -> float | None:
        """The standard error of a token's log π; None where it is not tied, or nothing is known."""
        tied = (self.net.component == self.net.component[i]).sum() > 1
        if not tied or self.limit.dependent:
            return None
        se = self.limit.errors_after(self.last).some_scores(np.array([i]))[0].se
        return se if np.isfinite(se) else None

    @cached_property
    def word(self) -> list[Label]:
        """The tokens as they are."""
        words = self.limit.graph.vocabulary
        return [words[t] for t in self.token]

    @cached_property
    def name(self) -> list[str]:
        """The tokens as they are shown."""
        return [*map(readable(self.word).__getitem__, self.word)]

    @cached_property
    def present(self) -> Float[np.ndarray, " nodes"]:
        """The weight of the samples that hold each token: those it won, and the edges it lost."""
        return self.net.as_next + sum_by(self.net.target, self.net.weight, len(self))

    @cached_property
    def share(self) -> Float[np.ndarray, " nodes"]:
        """The soft odds: π of each token over that of its component, 1 where it is alone."""
        pi = np.exp(self.log_pi)
        return pi / sum_by(self.net.component, pi, len(self))[self.net.component]

    @cached_property
    def order(self) -> Int[np.ndarray, " nodes"]:
        """All tokens, component by component, in each the likeliest first."""
        return np.lexsort((-self.share, self.net.component))

    @cached_property
    def _begin(self) -> Int[np.ndarray, " components_and_one"]:
        return np.searchsorted(self.net.component[self.order], np.arange(self.components + 1))

    @property
    def components(self) -> int:
        """How many components there are."""
        return int(self.net.component.max(initial=-1)) + 1

    def members(self, component: int) -> Int[np.ndarray, " members"]:
        """The tokens of a component, the likeliest first."""
        return self.order[self._begin[component] : self._begin[component + 1]]

    def find(self, text: str) -> int:
        """The number of a token as typed; an error names the nearest where it is not in this graph."""
        words = self.limit.graph.vocabulary
        id = words.id_of(words.read(text))
        at = np.flatnonzero(self.token == (-1 if id is None else id))
        if not len(at):
            known = [str(w) for w in self.word] if len(self) <= 5000 else []
            raise UsageError(
                f"{text!r} is never seen together with the last token {words[self.last]!r}{nearest(text, known)}"
            )
        return int(at[0])

    def search(self, text: str, most: int = 12) -> list[int]:
        """Tokens by what is typed: exact, then beginning with it, then holding it; the commonest first."""
        return matches(self._folded, self._commonest, text, most)

    @cached_property
    def _commonest(self) -> list[int]:
        return np.lexsort((-self.present, -self.net.as_next)).tolist()

    @cached_property
    def _folded(self) -> list[str]:
        return [str(w).casefold() for w in self.word]

    def condensed(self, edges: Int[np.ndarray, " kept_edges"]) -> Net:
        """One node per component, one edge per pair of components related by these edges."""
        n, net = self.components, self.net
        a, b = net.component[net.source[edges]], net.component[net.target[edges]]
        key, which = np.unique((a * n + b)[a != b], return_inverse=True)
        weight = sum_by(which, net.weight[edges][a != b], len(key))
        first = self.order[self._begin[:-1]]
        as_next = sum_by(net.component, net.as_next, n)
        return Net(
            np.arange(n), net.level[first], net.score[first], as_next,
            key // max(n, 1), key % max(n, 1), weight,
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class Part:
    """What is drawn: some nodes and edges of a net (tokens, or components where `condensed`), the rest in counts.

    `passing` are nodes and edges of the token graph that the filter lets through; `centre` is the node whose
    neighbourhood is drawn, None where all that passes is.
    """

    net: Net
    condensed: bool
    nodes: Int[np.ndarray, " drawn"]
    edges: Int[np.ndarray, " drawn_edges"]
    passing: tuple[Int[np.ndarray, " kept"], Int[np.ndarray, " kept_edges"]]
    all: tuple[int, int]  # nodes and edges that would be drawn without cap and filter
    centre: int | None = None
    folded: tuple[tuple[int, int], ...] = ()  # levels, and how many of their nodes are not drawn

    def token(self, graph: TokenGraph, node: int) -> int:
        """A node as a token: of a component, its likeliest."""
        return int(graph.members(node)[0]) if self.condensed else int(node)


def top_part(
    graph: TokenGraph,
    least: float = 0.0,
    condensed: bool = False,
    top: int = TOP,
    always: tuple[int, ...] = (),
) -> Part:
    """The `top` nodes that came next most often, with the heaviest edges between them; the others folded, by level.

    Nodes that a page speaks of are drawn `always`. Of a graph without more nodes all is drawn.
    """
    all_ = _passed(graph, least, condensed)
    net, nodes = all_.net, all_.nodes
    if condensed:
        always = tuple(int(graph.net.component[i]) for i in always)
    if len(nodes) <= top and len(nodes) + len(all_.edges) <= CAP:
        return all_
    seen = net.as_next if condensed else graph.present
    ranked = nodes[np.lexsort((-seen[nodes], -net.as_next[nodes]))]
    asked = np.array([i for i in always if i in nodes and i not in ranked[:top]], np.int64)
    kept = np.sort(np.concatenate([ranked[:top], asked]))
    many = min(EACH * len(kept), CAP - len(kept))
    heaviest = net.heaviest(net.between(kept, all_.edges))[:many]
    levels, counts = np.unique(net.level[np.setdiff1d(nodes, kept)], return_counts=True)
    folded = tuple(zip(levels.tolist(), counts.tolist(), strict=True))
    return replace(all_, nodes=kept, edges=np.sort(heaviest), folded=folded)


def part_of(
    graph: TokenGraph,
    least: float = 0.0,
    condensed: bool = False,
    centre: int | None = None,
    most: int = CAP,
) -> Part:
    """The part of a graph with edges of weight `least` or more; above the cap, `most` elements around `centre`."""
    all_ = _passed(graph, least, condensed)
    if len(all_.nodes) + len(all_.edges) <= CAP:
        return all_
    if condensed and centre is not None:
        centre = int(graph.net.component[centre])
    if centre is None or centre not in all_.nodes:
        centre = int(all_.nodes[np.argmax(all_.net.as_next[all_.nodes])])
    nodes, edges = around(all_.net, all_.edges, centre, min(max(most, 3), CAP))
    return replace(all_, nodes=nodes, edges=edges, centre=centre)


def _passed(graph: TokenGraph, least: float, condensed: bool) -> Part:
    """All that passes the filter, however much it is."""
    nodes, edges = passed = passing(graph.net, least)
    every = len(graph.net.weight)
    if not condensed:
        return Part(graph.net, condensed, nodes, edges, passed, (len(graph), every))
    net = graph.condensed(edges)
    whole = graph.components, len(graph.condensed(np.arange(every)).weight)
    kept = np.unique(graph.net.component[nodes])
    return Part(net, condensed, kept, np.arange(len(net.weight)), passed, whole)


def passing(
    net: Net, least: float
) -> tuple[Int[np.ndarray, " kept"], Int[np.ndarray, " kept_edges"]]:
    """Edges of weight `least` or more, and the nodes they touch; all nodes where no edge is hidden."""
    edges = np.flatnonzero(net.weight >= least)
    if len(edges) == len(net.weight):
        return np.arange(len(net.level)), edges
    touched = np.zeros(len(net.level), bool)
    touched[net.source[edges]] = touched[net.target[edges]] = True
    return np.flatnonzero(touched), edges


def around(
    net: Net, edges: Int[np.ndarray, " kept"], centre: int, most: int
) -> tuple[Int[np.ndarray, " drawn"], Int[np.ndarray, " drawn_edges"]]:
    """A node with its strongest edges in and out, the nodes there with theirs, and so on: `most` elements at most.

    One element in `NODE_SHARE` may be a node. The edges that led to a node come first, then the heaviest between
    the nodes that were found.
    """
    room = max(most // NODE_SHARE, 2)
    ways = [_sorted_by(net.source, net, edges), _sorted_by(net.target, net, edges)]
    found, led, branch = {centre: None}, [], BRANCH
    while len(found) < room:
        before = len(found)
        reached = list(found)
        for node in reached:  # grows while it is walked: ring after ring
            for ordered, begin in ways:
                for e in ordered[begin[node] : min(begin[node] + branch, begin[node + 1])]:
                    other = int(net.target[e] if net.source[e] == node else net.source[e])
                    if other not in found and len(found) < room:
                        found[other] = None
                        reached.append(other)
                        led.append(int(e))
        branch *= 2
        if len(found) == before and branch > len(edges):
            break
    nodes = np.sort(np.array(list(found)))
    between = net.between(nodes, edges)
    ranked = between[np.lexsort((-net.weight[between], ~np.isin(between, led)))]
    return nodes, np.sort(ranked[: most - len(found)])


def _sorted_by(
    end: Int[np.ndarray, " edges"], net: Net, edges: Int[np.ndarray, " kept"]
) -> tuple[Int[np.ndarray, " kept"], Int[np.ndarray, " nodes_and_one"]]:
    """The edges by the node at one end, heaviest first, and where each node's begin."""
    ordered = edges[np.lexsort((-net.weight[edges], end[edges]))]
    return ordered, np.searchsorted(end[ordered], np.arange(len(net.level) + 1))


def thresholds(weight: Float[np.ndarray, " edges"], most: int = 40) -> list[float]:
    """Minimum counts worth trying, from none upwards: the weights there are, or some of them evenly on a log axis.

    >>> thresholds(np.array([1.0, 3.0, 1.0, 2.0]))
    [0.0, 2.0, 3.0]
    """
    distinct = np.unique(weight)[1:]
    if len(distinct) > most:
        wanted = np.geomspace(distinct[0], distinct[-1], most)
        distinct = np.unique(distinct[np.searchsorted(distinct, wanted * (1 - 1e-9))])
    return [0.0, *distinct.tolist()]
