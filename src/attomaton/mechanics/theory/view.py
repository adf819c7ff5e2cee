"""One last token's priority graph as plain data, for exports, figures and pages."""

from typing import Any

import numpy as np

from attomaton.mechanics.theory.limit import Limit


def graph_view(limit: Limit, last: int) -> dict[str, Any]:
    """The graph of one last token in node-link form, plain Python types throughout.

    Components are numbered from 0 within this graph, by level; `svm_score` and `log_pi` are the token's
    hard and soft scores. An edge's `weight` is that of the samples behind it, its `margin` the difference of
    svm scores (0 inside a component, at least 1 between components; 1 exactly where it is active).
    """
    graph, words = limit.graph, limit.graph.vocabulary
    pairs, edges = graph.pairs_of(last), graph.edges_of(last)
    component = graph.component[pairs]
    first = int(component.min()) if len(component) else 0
    nodes = [
        {
            "id": i,
            "token": words[graph.pair_token[p]],
            "component": int(graph.component[p]) - first,
            "level": int(graph.level[graph.component[p]]),
            "svm_score": float(limit.svm.score[p]),
            "log_pi": float(limit.finite.log_pi[p]),
        }
        for i, p in enumerate(range(pairs.start, pairs.stop))
    ]
    links = [
        {
            "source": int(a) - pairs.start,
            "target": int(b) - pairs.start,
            "weight": float(w),
            "margin": float(limit.svm.score[a] - limit.svm.score[b]),
        }
        for a, b, w in zip(
            graph.edge_from[edges], graph.edge_to[edges], graph.edge_weight[edges], strict=True
        )
    ]
    members: dict[int, list[Any]] = {}
    for node in nodes:
        members.setdefault(node["component"], []).append(node["token"])
    return {
        "schema_version": 1,
        "directed": True,
        "multigraph": False,
        "last": words[last],
        "nodes": nodes,
        "links": links,
        "components": [
            {
                "id": int(c) - first,
                "level": int(graph.level[c]),
                "tokens": members[int(c) - first],
            }
            for c in np.unique(component)
        ],
    }
