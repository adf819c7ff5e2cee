"""The transformer as a textbook has it: NumPy forward in float64, and plain JAX steps, one call for each.

Shares the names of weights and the start with attomaton.transformer, nothing else: attention goes query by query,
the loss is a log-softmax over all logits, gradients are dense and come from `jax.grad`, dropout draws Bernoulli
numbers. Runs on any device.
"""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np

from attomaton.transformer.model import Params, initial_params


def forward(params, tokens, settings):
    """Logits (batch, length, vocab) and maps [layer][batch][head][t][s], by loops, in float64."""
    p = jax.tree.map(lambda w: np.asarray(w, np.float64), params)
    d, heads = settings.width, settings.heads
    each = d // heads
    logits, maps = [], [[] for _ in p.layers]
    for row in tokens:
        x = np.array([p.U[token] for token in row]) * np.sqrt(d)
        if settings.positions:
            for t in range(len(row)):
                for i in range(d):
                    angle = t / 10_000 ** ((i - i % 2) / d)
                    x[t, i] += np.cos(angle) if i % 2 else np.sin(angle)
        for layer, kept in zip(p.layers, maps, strict=True):
            Q, K, V = (x @ layer.W_QKV[:, i] + layer.b_QKV[i] for i in range(3))
            mixed, seen = np.zeros_like(x), np.zeros((heads, len(row), len(row)))
            for h in range(heads):
                own = slice(h * each, (h + 1) * each)
                for t in range(len(row)):
                    weight = np.exp([Q[t, own] @ K[s, own] / np.sqrt(each) for s in range(t + 1)])
                    seen[h, t, : t + 1] = weight / weight.sum()
                    mixed[t, own] = seen[h, t] @ V[:, own]
            kept.append(seen)
            x = normed(x + mixed @ layer.W_O + layer.b_O, layer.scale_1, layer.shift_1)
            branch = np.maximum(x @ layer.W_1 + layer.b_1, 0) @ layer.W_2 + layer.b_2
            x = normed(x + branch, layer.scale_2, layer.shift_2)
        logits.append(x @ p.D.T + p.b)
    return np.array(logits), [np.array(kept) for kept in maps]


def normed(x, scale, shift):
    mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return (x - mean) / np.sqrt(variance + 1e-5) * scale + shift


def entropy(maps):
    """Mean entropy over positions with more than one key, in nats and as a share of the largest, by loops."""
    nats, share = [], []
    for t in range(1, maps.shape[-1]):
        for b in maps[..., t, : t + 1].reshape(-1, t + 1):
            nats.append(-sum(p * np.log(p) for p in b if p > 0))
            share.append(nats[-1] / np.log(t + 1))
    return np.mean(nats), np.mean(share)


def loss_of(params, tokens, target, key, settings):
    """The mean loss of a window in plain JAX; no dropout where the key is None."""
    d, heads = settings.width, settings.heads
    batch, length = tokens.shape
    keys = iter(jax.random.split(key, 64)) if key is not None else None

    def drop(x):
        if keys is None:
            return x
        keep = jax.random.bernoulli(next(keys), 1 - settings.dropout, x.shape)
        return jnp.where(keep, x / (1 - settings.dropout), 0)

    x = params.U[tokens] * jnp.sqrt(d).astype(params.U.dtype)
    if settings.positions:
        at, i = np.arange(length)[:, None], np.arange(d)
        angle = at / 10_000 ** ((i - i % 2) / d)
        x = x + np.where(i % 2, np.cos(angle), np.sin(angle)).astype(params.U.dtype)
    x = drop(x)
    for layer in params.layers:
        Q, K, V = (
            (x @ layer.W_QKV[:, i] + layer.b_QKV[i])
            .reshape(batch, length, heads, -1)
            .transpose(0, 2, 1, 3)
            for i in range(3)
        )
        scores = Q @ K.swapaxes(-1, -2) / np.sqrt(d // heads).astype(x.dtype)
        scores = jnp.where(jnp.tri(length, dtype=bool), scores, -jnp.inf)
        mixed = drop(jax.nn.softmax(scores)) @ V
        mixed = mixed.transpose(0, 2, 1, 3).reshape(batch, length, d)
        x = plain_norm(x + drop(mixed @ layer.W_O + layer.b_O), layer.scale_1, layer.shift_1)
        hidden = drop(jax.nn.relu(x @ layer.W_1 + layer.b_1))
        x = plain_norm(x + drop(hidden @ layer.W_2 + layer.b_2), layer.scale_2, layer.shift_2)
    log_alpha = jax.nn.log_softmax(x @ params.D.T + params.b)
    return -jnp.take_along_axis(log_alpha, target[..., None], axis=-1).mean()


def plain_norm(x, scale, shift):
    return (x - x.mean(-1, keepdims=True)) / jnp.sqrt(
        x.var(-1, keepdims=True) + 1e-5
    ) * scale + shift


def clip_gradient(gradient, clip):
    """The gradient, shortened to norm `clip` where it is longer."""
    norm = jnp.sqrt(sum((g**2).sum() for g in jax.tree.leaves(gradient)))
    return jax.tree.map(lambda g: g * jnp.minimum(1, clip / (norm + 1e-6)), gradient)


def sgd_step(params, tokens, target, key, settings, lr, clip):
    loss, gradient = jax.value_and_grad(loss_of)(params, tokens, target, key, settings)
    gradient = clip_gradient(gradient, clip)
    return jax.tree.map(lambda w, g: w - lr * g, params, gradient), loss


@cache
def compiled(step):
    return jax.jit(step, static_argnames=("settings",))


def train_plainly(
    windows, settings, lr, steps, clip=0.5, seed=0, index=0, dtype=np.float32, step=sgd_step
):
    """Weights and the loss of each step, one compiled call a step at the highest precision."""
    with jax.default_matmul_precision("highest"):
        one = compiled(step)
        params = jax.tree.map(jnp.asarray, initial_params(settings, seed, index, dtype))
        key = jax.random.key(1_000 * seed + index) if settings.dropout else None
        losses = []
        for i in range(steps):
            window = jnp.asarray(windows[i % len(windows)])
            own = None if key is None else jax.random.fold_in(key, i)
            params, loss = one(params, window[:, :-1], window[:, 1:], own, settings, lr, clip)
            losses.append(loss)
        return Params(*params), np.array([float(x) for x in losses])
