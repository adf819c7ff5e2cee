r"""A hidden layer over attention, trained together with the scores of attention by gradient descent.

One query; token $l$ of class $n$ has the share $x_{nl}$ of its context. Attention is

$$b_n \propto x_n \circ e^{z/T} \text{ (softmax)}, \quad x_n \circ e^{z/T} \text{ (exp)}, \quad x_n \circ z
\text{ (linear)}.$$

With orthonormal embeddings the input of the hidden layer is $f_n = (b_n, 1)$: the last one is the query's own, by the
residual connection. The class is predicted from $h_n = \phi(W f_n)$, or from $C h_n$ with a trained $C$.
"""

from typing import Literal, NamedTuple

import numpy as np

from attomaton.base.shapes import Float
from attomaton.errors import UsageError, whole_number
from attomaton.joma.course import Attention, Course, check_attention
from attomaton.joma.data import Contexts

Activation = Literal["linear", "relu"]
START = 0.01  # deviation of the first weights and scores
SAMPLE = 200  # steps that are kept, at most


class Layer(NamedTuple):
    """Weights of hidden nodes, scores of attention, and the readout C (None: nodes are logits)."""

    W: Float[np.ndarray, "nodes inputs"]
    z: Float[np.ndarray, " tokens"]
    C: Float[np.ndarray, "classes nodes"] | None = None


class Setting(NamedTuple):
    """Which attention, its temperature, and the activation of hidden nodes."""

    attention: Attention = "softmax"
    temperature: float = 0.5
    activation: Activation = "linear"


AS_PUBLISHED = Setting()


def train(
    contexts: Contexts,
    *,
    setting: Setting = AS_PUBLISHED,
    nodes: int | None = None,
    lr: float = 0.1,
    steps: int = 2000,
    seed: int = 0,
    every: int | None = None,
) -> Course:
    """Gradient descent on the mean cross-entropy, as in Figure 2 of the paper, from small weights drawn by seed.

    With `nodes` hidden nodes a readout is trained too; without, there is a node for each class, and nodes are logits.
    """
    check_attention(setting.attention)
    whole_number("steps", steps, least=1)
    if not lr > 0 or not setting.temperature > 0:
        raise UsageError("lr and temperature must be positive.")
    layer = _start(contexts, setting, nodes, seed)
    kept = np.unique(np.append(np.arange(0, steps, every or max(1, steps // SAMPLE)), steps))
    found: list[tuple[np.ndarray, np.ndarray, float]] = []
    for step in range(steps + 1):
        loss, slope = loss_and_slope(contexts, setting, layer)
        if step == kept[len(found)]:
            found.append((layer.W, layer.z, loss))
        C = None if layer.C is None or slope.C is None else layer.C - lr * slope.C
        layer = Layer(layer.W - lr * slope.W, layer.z - lr * slope.z, C)
    T = 1.0 if setting.attention == "linear" else setting.temperature
    return Course(setting.attention, T, kept, *map(np.array, zip(*found, strict=True)))


def _start(contexts: Contexts, setting: Setting, nodes: int | None, seed: int) -> Layer:
    classes, tokens = contexts.share.shape
    rng = np.random.default_rng([whole_number("seed", seed, least=0), 1])
    wide = classes if nodes is None else whole_number("nodes", nodes, least=1)
    W = START * rng.standard_normal((wide, tokens + 1))
    # A score of 0 is where linear attention looks at nothing; 1 is where softmax and exp have 0.
    z = rng.normal(float(setting.attention == "linear"), START, size=(tokens,))
    if nodes is None:
        return Layer(W, z)
    # Small nodes on both sides would hardly move; ReLUs that begin near 0 need a readout that tells them apart.
    return Layer(W, z, rng.standard_normal((classes, wide)) / np.sqrt(wide))


def loss_and_slope(contexts: Contexts, setting: Setting, layer: Layer) -> tuple[float, Layer]:
    """The mean cross-entropy over classes, and its gradient."""
    x, (W, z, C) = contexts.share, layer
    classes, T = len(x), setting.temperature
    if setting.attention == "linear":
        b = x * z
    else:
        b = x * np.exp((z - (z.max() if setting.attention == "softmax" else 0.0)) / T)
        if setting.attention == "softmax":
            b = b / b.sum(axis=1, keepdims=True)
    f = np.hstack([b, np.ones((classes, 1))])
    h = f @ W.T
    active = np.ones_like(h) if setting.activation == "linear" else (h > 0).astype(float)
    logits = h * active if C is None else (h * active) @ C.T
    log_p = logits - logits.max(axis=1, keepdims=True)
    log_p = log_p - np.log(np.exp(log_p).sum(axis=1, keepdims=True))
    g = (np.exp(log_p) - np.eye(classes)) / classes
    back = (g if C is None else g @ C) * active
    to_b = back @ W[:, :-1]
    if setting.attention == "softmax":
        to_z = (b * (to_b - (b * to_b).sum(axis=1, keepdims=True))).sum(axis=0) / T
    else:
        to_z = ((x if setting.attention == "linear" else b / T) * to_b).sum(axis=0)
    loss = -float(np.trace(log_p)) / classes
    return loss, Layer(back.T @ f, to_z, None if C is None else g.T @ (h * active))
