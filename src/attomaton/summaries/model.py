"""A whole fitted limit in numbers a person can use: how much is hard, how much soft, and what leads."""

from math import isfinite, nan

import numpy as np
from scipy.sparse import csr_array

from attomaton.base.shapes import Float, Int
from attomaton.corpus.vocabulary import Vocabulary
from attomaton.mechanics.theory.automaton import samples_behind
from attomaton.mechanics.theory.evidence import contrary_bound
from attomaton.mechanics.theory.graph import PriorityGraph
from attomaton.mechanics.theory.limit import Limit
from attomaton.numerics import heaviest, sum_by
from attomaton.summaries.outcomes import outcomes
from attomaton.summaries.records import (
    Component,
    Edge,
    KindShare,
    LastTokenRow,
    Level,
    Member,
    ModelSummary,
    Next,
    TokenPriority,
)

KINDS = ("hard", "soft", "mixed")
MEMBERS = 8  # tokens named of a component
NEXTS = 3  # labels named of a last token


def model_summary(limit: Limit, top: int = 20) -> ModelSummary:
    """What a model learned, in shares and in its strongest, largest and heaviest parts.

    A last token is *hard* when no two of its tokens are tied, *soft* when all of them are, else *mixed*.
    """
    samples, graph = limit.samples, limit.graph
    owner = samples.sample_of
    pair = graph.pairs(samples.last[owner], samples.token)
    label_pair = pair[samples.token == samples.label[owner]]  # one per sample
    result = outcomes(
        samples.start, samples.token, samples.count, samples.label,
        limit.svm.score[pair], limit.finite.score[pair],
    )  # fmt: skip
    label_weight = sum_by(label_pair, samples.weight, len(graph.pair_token))
    kind = last_token_kinds(graph)
    at = np.searchsorted(graph.last_tokens, samples.last)
    weight = sum_by(at, samples.weight, len(kind))
    hard = sum_by(at, samples.weight * (result.kind == 0), len(kind))

    def last_row(k: int) -> LastTokenRow:
        """A last token with its size, its kind and what follows it."""
        pairs = graph.pairs_of(int(graph.last_tokens[k]))
        component = graph.component[pairs]
        return LastTokenRow(
            last=graph.vocabulary[graph.last_tokens[k]],
            weight=float(weight[k]),
            share=float(weight[k] / weight.sum()),
            kind=KINDS[kind[k]],
            tokens=len(component),
            components=int(component.max() - component.min()) + 1,
            levels=int(graph.level[component].max()) + 1,
            hard_share=float(hard[k] / weight[k]),
            next=following(graph.vocabulary, graph.pair_token[pairs], label_weight[pairs]),
        )

    return ModelSummary(
        subject="model",
        counts=limit.summary(),
        last_token_kinds=[
            KindShare(
                name,
                int((kind == i).sum()),
                float((kind == i).mean()),
                float(weight[kind == i].sum()),
                float(weight[kind == i].sum() / weight.sum()),
            )
            for i, name in enumerate(KINDS)
        ],
        predictions=result.predictions(samples.weight, samples.set_aside.weight),
        levels=level_table(graph, label_weight),
        priorities=[
            edge_record(limit, int(e))
            for e in heaviest(np.where(graph.strict, graph.edge_weight, 0.0), top)
            if graph.strict[e]
        ],
        token_priorities=_token_priorities(graph, top),
        components=[
            component_record(limit, int(c), label_weight)
            for c in heaviest(np.where(graph.component_size > 1, graph.component_size, 0), top)
            if graph.component_size[c] > 1
        ],
        last_tokens=[last_row(int(k)) for k in heaviest(weight, top)],
    )


def last_token_kinds(graph: PriorityGraph) -> Int[np.ndarray, " lasts"]:
    """The kind of each last token, as a place in `KINDS`."""
    lasts = len(graph.last_tokens)
    of_component = np.searchsorted(graph.last_tokens, graph.component_last)
    components = np.bincount(of_component, minlength=lasts)
    tied = np.bincount(of_component[graph.component_size > 1], minlength=lasts)
    return np.where(tied == 0, 0, np.where(components == 1, 1, 2))


def level_table(graph: PriorityGraph, label_weight: Float[np.ndarray, " pairs"]) -> list[Level]:
    """Each level of priority: its components and tokens, and the weight of the samples whose label is there."""
    level = graph.level[graph.component]
    components = np.bincount(graph.level)
    tied = np.bincount(graph.level[graph.component_size > 1], minlength=len(components))
    return [
        Level(i, int(c), int(t), int(x), float(w))
        for i, (c, t, x, w) in enumerate(
            zip(components, tied, np.bincount(level), np.bincount(level, label_weight), strict=True)
        )
    ]


def component_record(
    limit: Limit, component: int, label_weight: Float[np.ndarray, " pairs"]
) -> Component:
    """One component in words: whose it is, how large, how often its tokens came next, its leaders by log π."""
    graph = limit.graph
    last = int(graph.component_last[component])
    part = graph.pairs_of(last)
    pairs = part.start + np.flatnonzero(graph.component[part] == component)
    leading = pairs[heaviest(limit.finite.log_pi[pairs], MEMBERS)]
    sure = [nan] * len(leading)
    if not limit.dependent:
        sure = [x.se for x in limit.errors_after(last).some_scores(leading - part.start)]
    return Component(
        graph.vocabulary[graph.component_last[component]],
        len(pairs),
        int(graph.level[component]),
        float(label_weight[pairs].sum()),
        [
            Member(
                graph.vocabulary[graph.pair_token[p]],
                float(limit.finite.log_pi[p]),
                float(label_weight[p]),
                se if isfinite(se) else None,
            )
            for p, se in zip(leading, sure, strict=True)
        ],
    )


def following(
    word: Vocabulary, token: Int[np.ndarray, " tokens"], weight: Float[np.ndarray, " tokens"]
) -> list[Next]:
    """What came next most often, of these tokens and how often each did."""
    return [
        Next(word[token[i]], float(weight[i])) for i in heaviest(weight, NEXTS) if weight[i] > 0
    ]


def edge_record(limit: Limit, edge: int) -> Edge:
    """One edge in words: the winner came next where the loser was there too, so often, with this margin."""
    graph = limit.graph
    a, b = int(graph.edge_from[edge]), int(graph.edge_to[edge])
    strict = graph.component[a] != graph.component[b]
    last, *pair = (int(x) for x in (graph.pair_last[a], *graph.pair_token[[a, b]]))
    behind = samples_behind(limit.samples, last, *pair)
    return Edge(
        graph.vocabulary[graph.pair_last[a]],
        graph.vocabulary[graph.pair_token[a]],
        graph.vocabulary[graph.pair_token[b]],
        float(graph.edge_weight[edge]),
        "strict" if strict else "tied",
        float(limit.svm.score[a] - limit.svm.score[b]),
        contrary_bound(int(limit.samples.rows[behind].sum())) if strict and len(behind) else None,
    )


def _token_priorities(graph: PriorityGraph, top: int) -> list[TokenPriority]:
    """Tokens i over j whatever the last token: the weight of strict edges i → j added over last tokens.

    `last_tokens` counts those where the edge is strict, `tied` where i and j are tied by an edge i → j, and
    `reversed` where the strict edge leads from j to i.
    """
    K = len(graph.vocabulary)
    i, j = graph.pair_token[graph.edge_from], graph.pair_token[graph.edge_to]
    strict = graph.strict
    total = csr_array((graph.edge_weight[strict], (i[strict], j[strict])), shape=(K, K))
    total.sum_duplicates()
    best = heaviest(total.data, top)
    winner, loser = np.repeat(np.arange(K), np.diff(total.indptr))[best], total.indices[best]
    key = i * np.int64(K) + j
    forth, back = winner * np.int64(K) + loser, loser * np.int64(K) + winner
    near = np.flatnonzero(np.isin(key, np.concatenate([forth, back])))  # few edges concern these
    key, strict = key[near], strict[near]
    return [
        TokenPriority(
            graph.vocabulary[winner[r]],
            graph.vocabulary[loser[r]],
            float(total.data[best[r]]),
            int((strict & (key == forth[r])).sum()),
            int((~strict & (key == forth[r])).sum()),
            int((strict & (key == back[r])).sum()),
        )
        for r in range(len(best))
    ]
