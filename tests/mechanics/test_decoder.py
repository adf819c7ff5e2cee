"""Linear decoders: the published size, plain descent, other solvers on raw equations, today's Graph-SVM, refusals."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import softmax
from tests.mechanics.test_svm import clarabel_answer
from tests.unchecked import unchecked_types

from attomaton import Automaton, save_model
from attomaton.corpus.vocabulary import Vocabulary
from attomaton.corpus.windows import samples_from_sequences
from attomaton.errors import AttomatonError, UsageError
from attomaton.mechanics.experiment.model import attention_of
from attomaton.mechanics.experiment.train import train
from attomaton.mechanics.theory.finite import FiniteSubspace
from attomaton.mechanics.theory.limit import Limit, solve_limit
from attomaton.numerics import cosine


def draw(seed: int, m: int, d: int, V: int, size: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Gaussian contexts and how often each token came after each, n times in all."""
    rng = np.random.default_rng([44, seed])
    support = np.argsort(rng.random((m, V)), axis=1)[:, :size]
    counts = np.zeros((m, V))
    odds = rng.dirichlet(np.full(size, 2.0), m)
    for j, c in enumerate(rng.multinomial(n, np.full(m, 1 / m))):
        counts[j, support[j]] = 1 + rng.multinomial(c, odds[j])
    return rng.standard_normal((m, d)), counts


def parts(limit: Limit) -> tuple[np.ndarray, np.ndarray]:
    """W* and W_mm."""
    return limit.dense(limit.finite.coefficient), limit.dense(limit.svm.coefficient)


def entropy(counts: np.ndarray) -> float:
    p = counts / counts.sum(axis=1, keepdims=True)
    return float(-(counts * np.log(np.where(p > 0, p, 1.0))).sum() / counts.sum())


def loss(W: np.ndarray, H: np.ndarray, counts: np.ndarray) -> tuple[float, np.ndarray]:
    """The cross-entropy of logits W h and its gradient, plainly."""
    logits = H @ W.T
    logits -= logits.max(axis=1, keepdims=True)
    log_p = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    total = counts.sum()
    rest = np.exp(log_p) * counts.sum(axis=1, keepdims=True) - counts
    return float(-(counts * log_p).sum() / total), rest.T @ H / total


@pytest.fixture(scope="module")
def published():
    H, counts = draw(0, m=50, d=60, V=10, size=6, n=5000)
    return H, counts, solve_limit(queries=H, support=counts)


def test_the_published_size_is_solved_to_rounding(published):
    H, counts, limit = published
    W_star, W_mm = parts(limit)
    assert W_star.shape == W_mm.shape == (10, 60)
    soft, hard = H @ W_star.T, H @ W_mm.T
    for j, row in enumerate(counts):
        inside = row > 0
        assert np.ptp(soft[j, inside] - np.log(row[inside])) <= 1e-12
        assert np.ptp(hard[j, inside]) <= 1e-12
        assert hard[j, inside].min() - hard[j, ~inside].max() >= 1 - 1e-12
    assert abs((W_star * W_mm).sum()) <= 1e-10
    assert limit.finite.loss_floor == pytest.approx(entropy(counts), abs=1e-12)


def test_plain_descent_goes_there(published):
    """10⁴ normalised steps of 0.01; the limit of contexts with each other's supports is somewhere else."""
    H, counts, limit = published
    W = np.zeros((10, 60))
    for _ in range(10_000):
        gradient = loss(W, H, counts)[1]
        W -= 0.01 * gradient / np.linalg.norm(gradient)
    assert cosine(W, parts(limit)[1]) >= 0.93
    other = np.roll(counts, 1, axis=0)
    assert abs(cosine(W, parts(solve_limit(queries=H, support=other))[1])) <= 0.2


@pytest.mark.parametrize("shape", [(3, 5, 2, 1), (8, 9, 3, 1)], ids=["table", "by samples"])
@pytest.mark.parametrize("optimizer", ["gd", "ngd", "adam"])
def test_training_is_the_plain_loop(optimizer, shape):
    """W alone is trained, tokens by dimensions of contexts; a second data set beside it changes nothing."""
    m, d, V, size = shape
    drawn = [draw(i, m, d, V, size, 40) for i in (7, 8)]
    limits = [solve_limit(queries=H, support=counts) for H, counts in drawn]
    start = np.random.default_rng(7).standard_normal((2, V, d))
    run = train(
        [x.samples for x in limits], embeddings=[x.embeddings for x in limits], init=start,
        optimizer=optimizer, lr=0.1, steps=50, every=50,
    )  # fmt: skip
    for first, (H, counts), limit, found in zip(start, drawn, limits, run.W, strict=True):
        W, mean, square = first, np.zeros_like(first), np.zeros_like(first)
        for t in range(1, 51):
            g = loss(W, H, counts)[1]
            if optimizer == "ngd":
                g = g / np.linalg.norm(g)
            if optimizer == "adam":
                mean, square = 0.9 * mean + 0.1 * g, 0.999 * square + 0.001 * g * g
                g = mean / (1 - 0.9**t) / (np.sqrt(square / (1 - 0.999**t)) + 1e-8)
            W = W - 0.1 * g
        assert found == pytest.approx(W, abs=1e-10)
        p = attention_of(limit.samples, W, limit.embeddings).reshape(-1, V)
        assert p == pytest.approx(softmax(H @ W.T, axis=1)[limit.samples.last - V], abs=1e-12)
        inside = FiniteSubspace(limit.graph, limit.embeddings).project(W)
        W_star, W_mm = parts(limit)
        assert inside.shape == W.shape
        assert abs((inside * W_mm).sum()) <= 1e-10
        assert abs(((W - inside) * W_star).sum()) <= 1e-10


def test_a_decoder_trains_without_head_and_beside_its_like():
    (H, counts), samples = draw(9, 3, 4, 5, 2, 20), samples_from_sequences([[0, 1]], [0])
    limit = solve_limit(queries=H, support=counts)
    for head in ("tied", "general"):
        with pytest.raises(UsageError, match="decoder"):
            train(limit.samples, embeddings=limit.embeddings, head=head, loss="squared")
    with pytest.raises(UsageError, match="side by side"):
        train([limit.samples, samples], embeddings=[limit.embeddings, np.ones((2, 9))])


def test_both_parts_are_those_of_other_solvers():
    """W* is the shortest solution of its equations; W_mm Clarabel's on the raw constraints."""
    for i in range(20):
        rng = np.random.default_rng([45, i])
        V, m = int(rng.integers(3, 6)), int(rng.integers(1, 4))
        H, counts = draw(i, m, m + 1, V, int(rng.integers(1, V)), 30)
        keys = rng.standard_normal((V, V + 1)) if i % 2 else np.eye(V)
        ties, wins, log_odds = [], [], []
        for h, row in zip(H, counts, strict=True):
            first, *rest = inside = np.flatnonzero(row)
            for z in rest:
                ties.append(np.outer(keys[z] - keys[first], h).ravel())
                log_odds.append(np.log(row[z] / row[first]))
            wins += [
                np.outer(keys[z] - keys[v], h).ravel()
                for z in inside
                for v in np.flatnonzero(row == 0)
            ]
        W_star, W_mm = parts(solve_limit(keys=keys, queries=H, support=counts))
        size = W_mm.size
        if ties:
            shortest = np.linalg.lstsq(np.array(ties), np.array(log_odds), rcond=None)[0]
            assert W_star.ravel() == pytest.approx(shortest, abs=1e-9)
        assert W_mm.ravel() == pytest.approx(clarabel_answer(ties, wins, size), abs=1e-6)


def test_one_hot_queries_are_attention_over_the_whole_vocabulary():
    """Contexts that hold every token once and end in token j."""
    _, counts = draw(3, m=6, d=1, V=6, size=3, n=60)
    rows = [[*np.delete(np.arange(6), j), j] for j in range(6)]
    label = [(j, v) for j in range(6) for v in np.flatnonzero(counts[j])]
    samples = samples_from_sequences(
        [rows[j] for j, _ in label], [v for _, v in label], [counts[x] for x in label],
        Vocabulary(range(6)),
    )  # fmt: skip
    limit, found = solve_limit(samples), solve_limit(queries=np.eye(6), support=counts)
    for a, b in zip(parts(limit), parts(found), strict=True):
        assert a == pytest.approx(b, abs=1e-9)
    assert limit.finite.loss_floor == pytest.approx(found.finite.loss_floor, abs=1e-12)
    assert solve_limit(samples, norm=3).direction.value == pytest.approx(
        solve_limit(queries=np.eye(6), support=counts, norm=3).direction.value, rel=1e-6
    )


def test_contexts_that_depend_on_each_other_leave_a_floor_above_the_entropy():
    H, counts = draw(4, m=12, d=2, V=4, size=2, n=100)
    limit = solve_limit(queries=H, support=counts)
    found = minimize(
        lambda w: loss(w.reshape(4, 2), H, counts)[0], np.zeros(8),
        jac=lambda w: loss(w.reshape(4, 2), H, counts)[1].ravel(), options={"gtol": 1e-10},
    )  # fmt: skip
    assert limit.svm.norm == 0.0
    assert limit.finite.loss_floor == pytest.approx(found.fun, abs=1e-9)
    assert limit.finite.loss_floor > entropy(counts) + 0.1


@pytest.mark.parametrize("norm", ["max", 3, "spectral", "nuclear"])
def test_other_norms(norm):
    H, counts = draw(5, m=4, d=6, V=5, size=2, n=40)
    limit = solve_limit(queries=H, support=counts, norm=norm)
    assert limit.direction.W.shape == (5, 6)
    assert limit.direction.certificate.worst <= 1e-6


def test_what_is_no_decoder_is_refused(tmp_path):
    H, counts = draw(6, m=3, d=4, V=5, size=2, n=20)
    samples = samples_from_sequences([[0, 1]], [0])
    wrong = [
        {"queries": H}, {"support": counts}, {"keys": np.eye(5)},
        {"queries": H[:2], "support": counts}, {"queries": H, "support": -counts},
        {"queries": H, "support": 0 * counts}, {"queries": H * np.nan, "support": counts},
        {"queries": H, "support": counts, "keys": np.eye(4)}, {"queries": "H", "support": counts},
        {"samples": samples, "queries": H, "support": counts},
    ]  # fmt: skip
    for given in wrong:
        with unchecked_types(), pytest.raises(AttomatonError, match=r"queries|support|keys"):
            solve_limit(**given)
    limit = solve_limit(queries=H, support=counts)
    for use in (Automaton, lambda x: save_model(x, tmp_path / "model")):
        with pytest.raises(UsageError, match="decoder"):
            use(limit)
