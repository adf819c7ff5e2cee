"""The layer in token space against the same layer written out with positions and matrices."""

import tracemalloc

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attomaton.corpus.vocabulary import Vocabulary
from attomaton.corpus.windows import samples_from_sequences
from attomaton.errors import DataError, UsageError
from attomaton.mechanics.experiment import model as room
from attomaton.mechanics.experiment.model import (
    attention,
    attention_of,
    log_residual,
    logits,
    loss_and_gradient,
    loss_value,
    sizes_of,
)
from attomaton.mechanics.experiment.path import norm_path
from attomaton.mechanics.experiment.train import train
from attomaton.mechanics.theory.finite import cyclic_samples
from attomaton.mechanics.theory.graph import build_graph
from attomaton.numerics import float64

EVERY = [("identity", "log")] + [
    (head, loss)
    for head in ("identity", "tied", "general")
    for loss in ("squared", "cross-entropy", "squared-score", "logistic-score")
]
LOSS = {
    "log": lambda u: -np.log(u),
    "squared-score": lambda u: (1 - u) ** 2,
    "logistic-score": lambda u: np.log(1 + np.exp(-u)),
    "squared": lambda p: (1 - p) ** 2,
    "cross-entropy": lambda p: -np.log(p),
}
HEAD = np.random.default_rng(9).normal(size=(5, 7))


value_of = jax.jit(loss_value, static_argnums=(2, 3))
both = jax.jit(loss_and_gradient, static_argnums=(2, 3))


def some_data(seed=0, K=5, d=7, n=8, T=6):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, K, size=(n, T))
    y = np.array([rng.choice(x) for x in X])
    weight = rng.uniform(0.5, 3.0, size=n)
    samples = samples_from_sequences(X, y, weight, Vocabulary(range(K)))
    return X, y, weight, samples, rng.normal(size=(K, d)), rng.normal(size=(d, d))


def problem_of(samples, E=None, head="identity", **larger):
    sizes = sizes_of([samples], whole=True)._replace(**larger)
    C = None
    if head == "general":
        C = np.zeros((sizes.tokens, 7 if E is not None else 5))
        C[:5] = HEAD[:, : C.shape[1]]
    return jax.tree.map(jnp.asarray, room.problem_of(samples, E, sizes, C=C))


def softmax(z):
    mass = np.exp(z - z.max())
    return mass / mass.sum()


def plain_loss(X, y, weight, E, W, head, loss):
    """One row of X per position, an explicit head matrix: nothing shared with the library."""
    C = {"tied": E, "general": HEAD}.get(head, np.linalg.pinv(E).T)
    total = 0.0
    for x, label, w in zip(X, y, weight, strict=True):
        f = E[x].T @ softmax(E[x] @ W @ E[x[-1]])
        u, p = C[label] @ f, softmax(C @ f)[label]
        total += w * LOSS[loss](p if loss in ("squared", "cross-entropy") else u)
    return total / weight.sum()


@pytest.mark.parametrize(("head", "loss"), EVERY)
def test_loss_is_that_of_the_layer_with_positions(head, loss):
    X, y, weight, samples, E, W = some_data()
    with float64():
        found = float(value_of(jnp.asarray(W), problem_of(samples, E, head), head, loss))
    # pinv(E) costs a few digits of its condition number, about 10 here.
    assert found == pytest.approx(plain_loss(X, y, weight, E, W, head, loss), rel=1e-12)


@pytest.mark.parametrize(
    ("head", "loss", "space"),
    [(*both, "dense") for both in EVERY]
    + [("identity", "log", "pairs"), ("tied", "squared", "pairs")]
    + [("general", "squared", "pairs"), ("general", "squared-score", "pairs")],
)
def test_gradient_against_finite_differences(head, loss, space):
    _, _, _, samples, E, W = some_data(1)
    rng = np.random.default_rng(2)
    with float64():
        problem = problem_of(samples, E if space == "dense" else None, head)
        P = int(problem.bags.score.max()) + 1
        at = jnp.asarray(W if space == "dense" else rng.normal(size=P))
        value, gradient = both(at, problem, head, loss)
        assert float(value) == pytest.approx(float(value_of(at, problem, head, loss)), rel=1e-14)
        for _ in range(5):
            u = rng.normal(size=at.shape)
            h = 1e-5  # error of the difference quotient: h² ≈ 1e-10, rounding 1e-16/h = 1e-11
            ahead, behind = (value_of(at + s * h * u, problem, head, loss) for s in (1, -1))
            slope = float(ahead - behind) / (2 * h)
            assert float((gradient * u).sum()) == pytest.approx(slope, abs=1e-6, rel=1e-6)


def test_closed_form_gradient_is_the_automatic_one():
    _, _, _, samples, E, W = some_data(3)
    with float64():
        problem = problem_of(samples, E, rows=11, slots=7)
        at = jnp.asarray(W)
        closed = both(at, problem)[1]
        automatic = jax.jit(jax.grad(loss_value))(at, problem)
        assert np.abs(np.asarray(closed - automatic)).max() < 1e-12
        z = logits(at, problem)
        mine = jax.nn.one_hot(problem.bags.label_slot, z.shape[1])
        p_minus_one = problem.bags.weight[:, None] * (jax.nn.softmax(z, -1) - mine)
        assert np.abs(np.asarray(log_residual(z, problem.bags) - p_minus_one)).max() < 1e-15


@pytest.mark.parametrize(("head", "loss"), EVERY)
def test_padding_changes_nothing_and_is_never_nan(head, loss):
    _, _, _, samples, E, W = some_data(4)
    with float64():
        tight = both(jnp.asarray(W), problem_of(samples, E, head), head, loss)
        loose = problem_of(samples, E, head, rows=20, slots=9, tokens=7, lasts=6)
        padded = both(jnp.asarray(W), loose, head, loss)
    for a, b in zip(tight, padded, strict=True):
        assert np.abs(np.asarray(a - b)).max() < 1e-12


@pytest.mark.parametrize(("head", "loss"), EVERY)
def test_huge_logits_stay_finite(head, loss):
    _, _, _, samples, _, _ = some_data(5)
    with float64():
        problem = problem_of(samples, head=head)
        P = int(problem.bags.score.max()) + 1
        scores = jnp.asarray(1e6 * np.random.default_rng(0).normal(size=P))
        value, gradient = both(scores, problem, head, loss)
        assert np.isfinite(float(value))
        assert np.isfinite(np.asarray(gradient)).all()


def test_small_losses_keep_their_digits():
    # One rival 200 below the label: −log p = log(1 + e^−200), far below the rounding of 1.
    samples = samples_from_sequences([[0, 1]], [0])
    with float64():
        value, gradient = both(jnp.array([200.0, 0.0]), problem_of(samples))
        assert float(value) == pytest.approx(np.exp(-200), rel=1e-13)
        assert np.asarray(gradient) == pytest.approx([-np.exp(-200), np.exp(-200)], rel=1e-13)


@pytest.mark.parametrize("head", ["identity", "tied", "general"])
def test_losses_of_a_score_keep_their_digits(head):
    # One rival 200 below the label, a = e^−200: 1 − u = a under C = E = I, so the loss is a² and its slopes 2a².
    samples = samples_from_sequences([[0, 1]], [0])
    a = np.exp(-200)
    C = np.array([[1.0, 0.5], [0.0, 1.0]]) if head == "general" else None
    short = 0.5 * a if head == "general" else a  # 1 − u = a (1 − c_y·e_x)
    with float64():
        problem = jax.tree.map(jnp.asarray, room.problem_of(samples, C=C))
        at = jnp.array([200.0, 0.0])
        value, gradient = both(at, problem, head, "squared-score")
        assert float(value) == pytest.approx(short**2, rel=1e-13)
        assert np.asarray(gradient) == pytest.approx(2 * short**2 * np.array([-1, 1]), rel=1e-13)
        value, gradient = both(at, problem, head, "logistic-score")
        assert float(value) == pytest.approx(np.log1p(np.exp(-1)))
        slope = short / (1 + np.exp(1))
        assert np.asarray(gradient) == pytest.approx([-slope, slope], rel=1e-13)


def test_a_token_that_occurs_twice_counts_twice():
    # theory: X = [0, 0, 1], label 0 three times, 1 once: the odds π₀/π₁ are 3/2, not 3.
    samples = samples_from_sequences([[0, 0, 1]] * 4, [0, 0, 0, 1])
    with float64():
        scores = jnp.array([np.log(1.5), 0.0])
        problem = problem_of(samples)
        assert np.asarray(attention(scores, problem))[0] == pytest.approx([0.75, 0.25])
        assert np.abs(np.asarray(both(scores, problem)[1])).max() < 1e-15


def test_attention_read_off_is_the_layers_own():
    _, _, _, samples, E, W = some_data(6)
    owner = samples.sample_of
    slot = np.arange(len(owner)) - samples.start[owner]
    with float64():
        problem = problem_of(samples, E)
        inside = np.asarray(attention(jnp.asarray(W), problem))
    outside = attention_of(samples, W, E)
    assert np.abs(outside - inside[owner, slot]).max() < 1e-14
    assert np.bincount(owner, outside) == pytest.approx(np.ones(len(samples)))
    scores = (E @ W.T @ E.T)[samples.last[owner], samples.token]
    key = samples.last[owner] * 5 + samples.token
    by_pair = scores[np.unique(key, return_index=True)[1]]
    assert np.abs(attention_of(samples, by_pair) - outside).max() < 1e-14


def test_attention_of_refuses_wrong_shapes():
    _, _, _, samples, E, W = some_data(7)
    with pytest.raises(UsageError, match="pair scores: expected shape"):
        attention_of(samples, np.zeros(3))
    with pytest.raises(UsageError, match=r"W: expected shape \(7, 7\)"):
        attention_of(samples, W[:3], E)
    with pytest.raises(DataError, match="4 rows for a vocabulary of 5"):
        attention_of(samples, W, E[:4])


def plain_gradient(X, y, weight, E, W):
    """The log-loss and its gradient, position by position: w (Σ a_x e_x − e_y) e_qᵀ."""
    value, gradient = 0.0, np.zeros_like(W)
    for x, label, w in zip(X, y, weight / weight.sum(), strict=True):
        a = softmax(E[x] @ W @ E[x[-1]])
        value -= w * np.log(a[x == label].sum())
        inside = np.where(x == label, a, 0.0)
        gradient += w * np.outer((a - inside / inside.sum()) @ E[x], E[x[-1]])
    return value, gradient


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_both_layouts_give_the_loss_and_gradient_of_a_plain_loop(seed, whole):
    X, y, weight, samples, E, W = some_data(seed, K=9, d=4)
    tight = sizes_of([samples], whole)
    found = {}
    with float64():
        for name, sizes in {
            "table": tight._replace(rows=tight.tokens * tight.lasts),
            "by samples": tight._replace(tokens=(tight.rows + 1) * tight.slots),
        }.items():
            problem = room.problem_of(samples, E, sizes, whole)
            assert (problem.bags.score is None) == (name == "by samples")
            found[name] = both(jnp.asarray(W), jax.tree.map(jnp.asarray, problem))
    for value, gradient in found.values():
        loss, slope = plain_gradient(X, y, weight, E, W)
        assert float(value) == pytest.approx(loss, rel=1e-13)
        np.testing.assert_allclose(gradient, slope, rtol=0, atol=1e-13 * np.abs(slope).max())


def test_nothing_of_the_size_of_the_vocabulary_squared_is_formed():
    K, d = 10_000, 16
    rng = np.random.default_rng(0)
    X = rng.integers(0, K, (6, 12))
    samples = samples_from_sequences(X, X[:, 3], vocabulary=Vocabulary(range(K)))
    E = rng.normal(size=(K, d))
    tracemalloc.start()
    run = train([samples] * 2, embeddings=E, steps=20, init="uniform")
    attention_of(samples, run.W[0], E)
    norm_path(samples, [1.0], E)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert run.records["loss"][0, -1] < run.records["loss"][0, 0]
    assert peak < 8 * K * K / 20
    with float64():
        problem = room.problem_of(samples, E, whole=False)
        steps = jax.make_jaxpr(loss_and_gradient)(jnp.asarray(run.W[0]), problem)
    assert max(v.aval.size for one in steps.eqns for v in one.outvars) <= X.size * d


def test_a_last_token_may_be_outside_its_own_context():
    """As in the cyclic data, where of each sample only what is tied with its label is left."""
    E = np.random.default_rng(0).normal(size=(5, 7))
    own = samples_from_sequences([[0, 2, 3], [0, 2, 3]], [0, 2], vocabulary=Vocabulary(range(5)))
    cyclic = cyclic_samples(build_graph(own), own)
    assert cyclic.token.tolist() == [0, 2] * 2
    assert cyclic.last.tolist() == [3, 3]
    named, whole = (
        train(cyclic, embeddings=E, steps=50, head=C, loss="squared-score", init="uniform").W
        for C in ("identity", np.linalg.pinv(E).T)
    )
    assert np.abs(named - whole).max() < 1e-6
    log = train(cyclic, embeddings=E, steps=50, lr=0.1).W[0]
    # All of W lies along (e_0 − e_2) e_3ᵀ.
    along = np.outer(E[0] - E[2], E[3])
    assert abs(np.vdot(log, along)) == pytest.approx(
        np.linalg.norm(log) * np.linalg.norm(along), abs=1e-12
    )
