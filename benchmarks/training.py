"""A step of gradient descent: token space against the layer as the paper writes it.

The plain form keeps every context as a matrix X (T × d, one-hot embeddings) and differentiates
−log c_yᵀ Xᵀ softmax(X W x_T), in NumPy by hand and in JAX by autodiff; all in float64, same start, same
step, and the same W afterwards.
"""

from collections.abc import Iterator
from time import perf_counter

import jax
import jax.numpy as jnp
import numpy as np

from attomaton.corpus.vocabulary import Vocabulary
from attomaton.corpus.windows import windows_from_ids
from attomaton.mechanics.experiment.train import train
from benchmarks.table import Row, say

K, N, T, RATE = 200, 2000, 32, 0.5
PLAIN_STEPS, OUR_STEPS = 8, 200


def numpy_gradient(X: np.ndarray, y: np.ndarray, W: np.ndarray) -> np.ndarray:
    """The gradient of the plain form, by the chain rule."""
    z = np.einsum("ntd,nd->nt", X, X[:, -1] @ W.T)
    a = np.exp(z - z.max(1, keepdims=True))
    a /= a.sum(1, keepdims=True)
    own = np.take_along_axis(X, y[:, None, None].repeat(X.shape[1], 1), 2)[..., 0]
    p = (a * own).sum(1, keepdims=True)
    dz = a * (1 - own / p) / len(X)
    return np.einsum("nt,ntd->nd", dz, X).T @ X[:, -1]


def jax_loss(W: jax.Array, X: jax.Array, y: jax.Array) -> jax.Array:
    """The plain form as one writes it in JAX."""
    a = jax.nn.softmax(jnp.einsum("ntd,de,ne->nt", X, W, X[:, -1]), axis=1)
    f = jnp.einsum("nt,ntd->nd", a, X)
    return -jnp.log(f[jnp.arange(len(X)), y]).mean()


def rows() -> Iterator[Row]:
    rng = np.random.default_rng(0)
    contexts = rng.integers(K, size=(N, T))
    y = contexts[np.arange(N), rng.integers(T, size=N)]
    samples = windows_from_ids(Vocabulary(range(K)), contexts.ravel(), np.full(N, T), y).samples()
    X = np.eye(K)[contexts]

    say("training: plain NumPy")
    W, begin = np.zeros((K, K)), perf_counter()
    for _ in range(PLAIN_STEPS):
        W = W - RATE * numpy_gradient(X, y, W)
    seconds = {"numpy": (perf_counter() - begin) / PLAIN_STEPS}

    say("training: plain JAX")
    with jax.enable_x64(True):
        data = jnp.asarray(X), jnp.asarray(y)
        step = jax.jit(lambda W, X, y: W - RATE * jax.grad(jax_loss)(W, X, y))
        V = step(jnp.zeros((K, K)), *data).block_until_ready()
        begin = perf_counter()
        for _ in range(PLAIN_STEPS - 1):
            V = step(V, *data)
        V.block_until_ready()
        seconds["jax"] = (perf_counter() - begin) / (PLAIN_STEPS - 1)

    say("training: token space")
    apart = {}
    for space, E in (("pairs", None), ("dense", np.eye(K))):
        few = train(samples, embeddings=E, lr=RATE, steps=PLAIN_STEPS, every=PLAIN_STEPS)
        run = train(samples, embeddings=E, lr=RATE, steps=OUR_STEPS, every=OUR_STEPS)
        seconds[space] = run.seconds["run"] / OUR_STEPS
        if E is None:
            key = np.unique(contexts[:, -1:] * K + contexts)
            apart[space] = np.abs(few.scores[0] - W[key % K, key // K]).max()
        else:
            apart[space] = np.abs(few.W[0] - W).max()
    for plain in ("numpy", "jax"):
        for space in ("pairs", "dense"):
            yield Row(
                "training step",
                f"plain {plain} / {space} space (K=d={K}, n={N}, T={T})",
                seconds[plain] / seconds[space],
                f"scores {apart[space]:.0e} apart after {PLAIN_STEPS} steps",
                {"plain_s": seconds[plain], "ours_s": seconds[space]},
            )
