"""A trained transformer as a textbook has it: NumPy, one context, one position and one head at a time."""

import numpy as np
from scipy.special import erf

from attomaton.trained.form import frequencies


def forward(form, weights, row):
    """Logits (length, vocab) and attention (layers, heads, length, length) of one context."""
    w = weights
    x = np.array([w.U[t] for t in row], float)
    if form.positions == "learned":
        x += w.P[: len(row)]
    maps = np.zeros((form.layers, form.heads, len(row), len(row)))
    for i in range(form.layers):
        own = {name: None if a is None else a[i] for name, a in w.blocks._asdict().items()}
        y = normed(form, x, own["scale_1"], own["shift_1"])
        out = np.zeros_like(x)
        for h in range(form.heads):
            g = h // (form.heads // form.key_heads)
            q = heads(form, y, own, "Q", h)
            k, v = heads(form, y, own, "K", g), heads(form, y, own, "V", g)
            for t in range(len(row)):
                first = 0 if form.window[i] is None else max(0, t - form.window[i] + 1)
                score = np.array([q[t] @ k[s] for s in range(first, t + 1)]) / form.divisor[i]
                a = np.exp(score - score.max())
                maps[i, h, t, first : t + 1] = a / a.sum()
                out[t] += maps[i, h, t] @ v @ own["W_O"][h]
        out += 0 if own["b_O"] is None else own["b_O"]
        read = x if form.parallel else x + out
        x = x + out + hidden(form, own, normed(form, read, own["scale_2"], own["shift_2"]))
    x = normed(form, x, w.scale, w.shift)
    return x @ (w.U if w.D is None else w.D).T + (0 if w.b is None else w.b), maps


def normed(form, x, scale, shift):
    if form.norm == "layer":
        x = x - x.mean(-1, keepdims=True)
    x = x / np.sqrt((x * x).mean(-1, keepdims=True) + form.epsilon)
    return x * (1 if scale is None else scale) + (0 if shift is None else shift)


def heads(form, x, own, letter, h):
    """Queries, keys or values of one head; turns as products of complex numbers."""
    y = x @ own[f"W_{letter}"][:, h]
    y = y + (0 if own[f"b_{letter}"] is None else own[f"b_{letter}"][h])
    if letter == "V":
        return y
    if form.query_key_norm:
        y = y / np.sqrt((y * y).mean(-1, keepdims=True) + form.epsilon) * own[f"scale_{letter}"]
    if form.rotary is not None:
        n = form.rotary.width // 2
        angle = np.arange(len(y))[:, None] * frequencies(form.rotary)
        turned = (y[:, :n] + 1j * y[:, n : 2 * n]) * np.exp(1j * angle)
        y = np.concatenate([turned.real, turned.imag, y[:, 2 * n :]], axis=1)
    return y


def hidden(form, own, x):
    y = x @ own["W_1"] + (0 if own["b_1"] is None else own["b_1"])
    gate = y
    if form.gated:
        gate = x @ own["W_G"] + (0 if own["b_G"] is None else own["b_G"])
    y = acted(form, gate) * (y if form.gated else 1)
    return y @ own["W_2"] + (0 if own["b_2"] is None else own["b_2"])


def acted(form, x):
    match form.activation:
        case "gelu":
            return x * (1 + erf(x / np.sqrt(2))) / 2
        case "gelu_tanh":
            return x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))) / 2
        case "silu":
            return x / (1 + np.exp(-x))
        case "relu":
            return np.maximum(x, 0)
    raise AssertionError(form.activation)
