r"""The letters of Scan and Snap read back from trained weights: Z, Y, and what common and distinct tokens receive.

The layer of the paper has $Z = U W_Q W_K^\top U^\top / \sqrt d$ and $Y = U W_V^\top U^\top$ with one embedding U. Here
the first layer sees $\sqrt d\, u_x$, has biases and an output projection, and the decoder has vectors of its own:
`attention_logits` and `decoder_logits` are the same matrices with these put in. Attention of the first layer is exactly
the softmax of Z in a model without positions; Y is the straight path from a value to the logits, past norms and
hidden units.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from attomaton.base.shapes import Float, Int

if TYPE_CHECKING:
    from attomaton.transformer.model import Params

KINDS = ("common", "distinct", "rare", "itself")


def attention_logits(
    params: "Params", tokens: Int[np.ndarray, " tokens"], heads: int = 1
) -> Float[np.ndarray, "heads tokens tokens"]:
    """Z of the first layer for chosen tokens: row m is the logits under query m, positions left out."""
    Q, K, _ = _projections(params, tokens)
    d = Q.shape[1]
    q, k = (x.reshape(len(tokens), heads, -1) for x in (Q, K))
    return np.einsum("mhe,lhe->hml", q, k) / np.sqrt(d // heads)


def decoder_logits(
    params: "Params", tokens: Int[np.ndarray, " tokens"], labels: Int[np.ndarray, " labels"]
) -> Float[np.ndarray, "tokens labels"]:
    """Y for chosen tokens: what the value of a token, fully attended to, adds to the logit of each label."""
    layer = params.layers[0]
    _, _, V = _projections(params, tokens)
    added = V @ np.asarray(layer.W_O, float) + np.asarray(layer.b_O, float)
    return added @ np.asarray(params.D, float)[labels].T


def _projections(
    params: "Params", tokens: Int[np.ndarray, " tokens"]
) -> Float[np.ndarray, "3 tokens width"]:
    """Query, key and value of each token in the first layer."""
    x = np.asarray(params.U, float)[tokens] * np.sqrt(params.U.shape[1])
    layer = params.layers[0]
    W, b = np.asarray(layer.W_QKV, float), np.asarray(layer.b_QKV, float)
    return np.einsum("td,dce->cte", x, W) + b[:, None]


class PairKinds(NamedTuple):
    """For each pair (query token, earlier token) met in a text, with how many next tokens it was met."""

    vocab: int
    pair: Int[np.ndarray, " pairs"]  # query · vocab + token, ascending
    contexts: Int[np.ndarray, " pairs"]  # positions that show the pair
    several: Int[np.ndarray, " pairs"]  # 1 where more than one next token followed, else 0

    def kind(
        self, query: Int[np.ndarray, "*shape"], token: Int[np.ndarray, "*shape"]
    ) -> Int[np.ndarray, "*shape"]:
        """The place in `KINDS` of each pair: common, distinct, or rare (met in fewer than two contexts)."""
        code = query.astype(np.int64) * self.vocab + token
        at = np.minimum(np.searchsorted(self.pair, code), len(self.pair) - 1)
        met = (self.pair[at] == code) & (self.contexts[at] > 1)
        return np.where(met, 1 - self.several[at], 2)


def pair_kinds(windows: Int[np.ndarray, "windows batch length_and_one"], vocab: int) -> PairKinds:
    """Pairs of a text as Scan and Snap sorts them, position by position inside the windows.

    Under query m, token l is *common* when contexts that hold it were followed by several next tokens, *distinct*
    when by one. One context says nothing either way.

    >>> kinds = pair_kinds(np.array([[[0, 1, 2, 3]], [[0, 1, 2, 4]], [[1, 1, 5, 1]], [[1, 1, 5, 0]]]), 6)
    >>> [KINDS[i] for i in kinds.kind(np.array([1, 2, 5, 0]), np.array([0, 0, 1, 1]))]
    ['distinct', 'common', 'common', 'rare']
    """
    rows = windows.reshape(-1, windows.shape[-1]).astype(np.int64)
    length = rows.shape[1] - 1
    pairs, labels = [], []
    for lag in range(1, length):
        token, query, label = rows[:, : length - lag], rows[:, lag:length], rows[:, lag + 1 :]
        # A context that holds a token twice shows the pair once: at the nearer place.
        again = np.zeros(token.shape, bool)
        for near in range(1, lag):
            again |= rows[:, lag - near : length - near] == token
        pairs.append((query * vocab + token)[~again])
        labels.append(label[~again])
    pair, label = np.concatenate(pairs), np.concatenate(labels)
    order = np.argsort(pair, kind="stable")
    pair, label = pair[order], label[order]
    start = np.flatnonzero(np.diff(pair, prepend=-1))
    contexts = np.diff(np.append(start, len(pair)))
    several = np.minimum.reduceat(label, start) != np.maximum.reduceat(label, start)
    return PairKinds(vocab, pair[start], contexts, several.astype(np.int64))


def attention_by_kind(
    maps: Float[np.ndarray, "*records probes heads length length"],
    probes: Int[np.ndarray, "probes length"],
    kinds: PairKinds,
) -> Mapping[str, Float[np.ndarray, "*records"]]:
    """The mean attention that common, distinct and rare earlier tokens receive, and the query itself.

    A mean over all positions that see more than one key; the four add up to 1.
    """
    length = probes.shape[1]
    query, token = np.broadcast_arrays(probes[:, :, None], probes[:, None, :])
    kind = kinds.kind(query, token)
    kind = np.where(np.tri(length, k=-1, dtype=bool), kind, -1)
    kind[:, np.arange(length), np.arange(length)] = KINDS.index("itself")
    positions = probes.shape[0] * maps.shape[-3] * (length - 1)
    share = {
        name: np.einsum("...phts,pts->...", maps[..., 1:, :], (kind[:, 1:] == i).astype(float))
        for i, name in enumerate(KINDS)
    }
    return {name: np.asarray(value / positions) for name, value in share.items()}
