r"""Query–key scores of tokens in layer 0: the one place where a trained model's attention speaks of tokens themselves.

There the input of a head is a token's embedding (and position), and the norm in front of it can be computed exactly.
With $\hat u$ the normed embedding, the score of token x for last token q is $(W_Q^\top \hat u_q)^\top R_o\,
(W_K^\top \hat u_x)$, with $R_o$ the turn of o places where positions are turns; learned positions and sines are taken
at their mean over the context. Deeper heads read mixtures, so nothing of the kind is said of them: see `refuse_cosine`.
"""

from collections.abc import Sequence

import numpy as np

from attomaton.base.shapes import Bool, Float, Int
from attomaton.errors import AssumptionError
from attomaton.probe.orders import Orders
from attomaton.probe.records import FirstLayer, Offset, Share
from attomaton.probe.statistics import half_width, share
from attomaton.trained.forward import Network

NEAR = 0.02  # a head this close to the sum of all carries what they carry
ORDERED = 0.6  # agreement below which there is no order to carry


def refuse_cosine(layer: int | None = None) -> None:
    """Say why W_QK of a trained model is not compared with W_svm of a corpus by an angle."""
    deep = "the inputs of a deep head are mixtures, not tokens; " if layer is None or layer else ""
    raise AssumptionError(
        f"a cosine of W_QK with W_svm says nothing about a trained transformer: {deep}there are more tokens than "
        "dimensions, so many matrices have the same scores; values are not the identity, so what is attended to need "
        "not be what is predicted; and norms rescale every input. Compare orders instead: probe measures how far "
        "the model's odds, and the query–key scores of its first layer, rank tokens as the graph does."
    )


def scores_of(
    network: Network, asked: Orders, ids: Int[np.ndarray, " vocab"], length: int, offset: int
) -> Float[np.ndarray, "heads n"]:
    """By head: the score of one token minus that of the other, both `offset` places before the last token."""
    last, q = np.unique(ids[asked.last], return_inverse=True)
    tokens, where = np.unique(ids[np.concatenate([asked.one, asked.two])], return_inverse=True)
    one, two = np.split(where, 2)
    table = network.pair_scores(last, tokens, length, offset)
    return table[:, q, one] - table[:, q, two]


def first_layer(
    network: Network,
    asked: Orders,
    ids: Int[np.ndarray, " vocab"],
    length: int,
    copies: Sequence[Bool[np.ndarray, " n"]],
) -> FirstLayer:
    """Who carries the order of tokens in layer 0: one head, their sum, or none.

    `copies` says of every fresh copy which orders the sum of its heads has right, see `right_in_sum`.
    """
    turned = network.form.positions == "rotary"
    offsets = [1]
    while turned and offsets[-1] * 2 < length:
        offsets.append(offsets[-1] * 2)
    by_offset = {o: scores_of(network, asked, ids, length, o) for o in offsets}
    gap = np.mean([by_offset[o] for o in offsets], axis=0)
    heads = tuple(_share(x, asked) for x in gap)
    total = _share(gap.sum(axis=0), asked)
    untrained = share(np.mean(copies, axis=0), asked.last) if copies else None
    curve = tuple(
        Offset(o, max(float((x > 0).mean()) for x in found), float((found.sum(axis=0) > 0).mean()))
        for o, found in by_offset.items()
    )
    right = np.concatenate([gap, gap.sum(axis=0, keepdims=True)]) > 0
    return FirstLayer(
        heads, total, untrained, _verdict(right, heads, total, asked), curve if turned else ()
    )


def right_in_sum(
    network: Network, asked: Orders, ids: Int[np.ndarray, " vocab"], length: int
) -> Bool[np.ndarray, " n"]:
    """The orders that the sum of all heads of layer 0 has right, both tokens right before the last one."""
    return scores_of(network, asked, ids, length, 1).sum(axis=0) > 0


def _share(gap: np.ndarray, asked: Orders) -> Share:
    found = share(gap > 0, asked.last)
    assert found is not None
    return found


def _verdict(right: np.ndarray, heads: tuple[Share, ...], total: Share, asked: Orders) -> str:
    """Who carries the order; the best head and the sum are compared on the same orders.

    The question is about this model and these graphs, all of whose last tokens are asked about: what is uncertain is
    the draw of orders alone, so each order counts by itself.
    """
    best = max(range(len(heads)), key=lambda h: heads[h].value)
    if max(heads[best].value, total.value) < ORDERED:
        return "neither a head of layer 0 nor their sum carries the order"
    if heads[best].value >= total.value - NEAR:
        return f"head {best} of layer 0 carries the order"
    lead = right[-1].astype(float) - right[best]
    if lead.mean() > half_width(lead, np.arange(len(asked))):
        return "no single head of layer 0 carries the order; their sum does"
    return f"head {best} of layer 0 comes near the sum of all, and cannot be told apart from it"
