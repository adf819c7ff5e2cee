"""One last token's priority graph as plain data, for exports, figures and pages."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from attomaton.corpus.vocabulary import Label
from attomaton.results import absent

if TYPE_CHECKING:  # whoever only shows a graph needs no solver
    from attomaton.mechanics.theory.limit import Limit


@dataclass(frozen=True)
class Node:
    """A token; `svm_score` and `log_pi` are its hard and soft scores."""

    id: int
    token: Label
    component: int
    level: int
    svm_score: float
    log_pi: float
    # The standard error of log π, where a token is tied and errors were asked for
    se: float | None = absent()


@dataclass(frozen=True)
class Link:
    """An edge; `weight` is that of the samples behind it, `margin` the difference of svm scores along it.

    The margin is 0 inside a component, at least 1 between components, and 1 exactly where it is active.
    """

    source: int
    target: int
    weight: float
    margin: float
    # The largest probability of the contrary left open, of a strict one
    contrary: float | None = absent()


@dataclass(frozen=True)
class Component:
    """Tokens that are tied: by cycles of the data or, where these do not join them all, by the embeddings."""

    id: int
    level: int
    tokens: tuple[Label, ...]
    linear: bool | None = absent()


@dataclass(frozen=True)
class GraphView:
    """The graph of one last token in node-link form, components numbered from 0 by level."""

    schema_version: int = field(default=1, init=False)
    directed: bool = field(default=True, init=False)
    multigraph: bool = field(default=False, init=False)
    last: Label
    nodes: tuple[Node, ...]
    links: tuple[Link, ...]
    components: tuple[Component, ...]

    @property
    def component_of(self) -> dict[int, int]:
        """The component of each node."""
        return {node.id: node.component for node in self.nodes}

    @property
    def members(self) -> dict[int, list[Node]]:
        """The nodes of each component."""
        found: dict[int, list[Node]] = {}
        for node in self.nodes:
            found.setdefault(node.component, []).append(node)
        return found


def graph_view(limit: "Limit", last: int, errors: bool = False) -> GraphView:
    """The graph of one last token, plain Python types throughout; with `errors`, how sure each number is."""
    graph, words = limit.graph, limit.graph.vocabulary
    pairs, edges = graph.pairs_of(last), graph.edges_of(last)
    component = graph.component[pairs]
    first = int(component.min()) if len(component) else 0
    se, contrary = _errors(limit, last) if errors else ({}, {})
    nodes = tuple(
        Node(
            id=i,
            token=words[graph.pair_token[p]],
            component=int(graph.component[p]) - first,
            level=int(graph.level[graph.component[p]]),
            svm_score=float(limit.svm.score[p]),
            log_pi=float(limit.finite.log_pi[p]),
            se=se.get(i),
        )
        for i, p in enumerate(range(pairs.start, pairs.stop))
    )
    links = tuple(
        Link(
            source=int(a) - pairs.start,
            target=int(b) - pairs.start,
            weight=float(w),
            margin=float(limit.svm.score[a] - limit.svm.score[b]),
            contrary=contrary.get(e),
        )
        for e, (a, b, w) in enumerate(
            zip(graph.edge_from[edges], graph.edge_to[edges], graph.edge_weight[edges], strict=True)
        )
    )
    members: dict[int, list[Label]] = {}
    for node in nodes:
        members.setdefault(node.component, []).append(node.token)
    linear = dict.fromkeys(graph.linear_components(last), True) if limit.dependent else {}
    components = tuple(
        Component(c, int(graph.level[c + first]), tuple(members[c]), linear.get(c))
        for c in (np.unique(component) - first).tolist()
    )
    return GraphView(words[last], nodes, links, components)


def _errors(limit: "Limit", last: int) -> tuple[dict[int, float], dict[int, float]]:
    """Standard errors of nodes, and what strict links leave open, by their places."""
    from attomaton.mechanics.theory.evidence import contrary_bound, edge_rows

    graph, samples = limit.graph.only(last), limit.samples
    rows = edge_rows(
        graph, samples.take(np.arange(*np.searchsorted(samples.last, [last, last + 1])))
    )
    strict = graph.strict
    contrary = {int(e): contrary_bound(int(rows[e])) for e in np.flatnonzero(strict) if rows[e]}
    if limit.dependent or not graph.cyclic.any():
        return {}, contrary
    sure = limit.errors_after(last)
    found = zip(sure.items.tolist(), sure.scores(), strict=True)
    return {i: x.se for i, x in found if np.isfinite(x.se)}, contrary
