"""Training against gradient descent written out plainly, and against answers known by hand."""

import gc
import inspect
import signal
import subprocess
import sys
from dataclasses import asdict
from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import typer

from attomaton.base import programs
from attomaton.cli import main as cli
from attomaton.corpus.vocabulary import Vocabulary
from attomaton.corpus.windows import samples_from_sequences
from attomaton.errors import AssumptionError, DataError, UsageError
from attomaton.mechanics.data import Embeddings
from attomaton.mechanics.experiment import steps as room
from attomaton.mechanics.experiment.arguments import OPTIMIZERS, RATE, RATES, USUAL
from attomaton.mechanics.experiment.train import train
from attomaton.mechanics.synthetic import draw_samples

CYCLE = samples_from_sequences([[0, 1]] * 4, [0, 0, 0, 1])
CYCLE_SCORES = np.array([0.5, -0.5]) * np.log(3)
CYCLE_FLOOR = -(0.75 * np.log(0.75) + 0.25 * np.log(0.25))


def some_data(seed=0, K=4, d=6, n=6, T=5):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, K, size=(n, T))
    y = np.array([rng.choice(x) for x in X])
    weight = rng.uniform(0.5, 3.0, size=n)
    samples = samples_from_sequences(X, y, weight, Vocabulary(range(K)))
    return X, y, weight, samples, rng.normal(size=(K, d)), rng.normal(size=(d, d))


def plain_gradient(X, y, weight, E, W):
    """∇L with positions: one row of E[x] per token, softmax over positions, head C = pinv(E)ᵀ."""
    C = np.linalg.pinv(E).T
    total = np.zeros_like(W)
    for x, label, w in zip(X, y, weight, strict=True):
        q, rows = E[x[-1]], E[x]
        mass = np.exp(rows @ W @ q - (rows @ W @ q).max())
        s = mass / mass.sum()
        along = rows @ C[label]
        u = s @ along
        total -= w / u * np.outer(rows.T @ (s * along - s * u), q)
    return total / weight.sum()


def plain_descent(data, W, steps, lr, normalised=False):
    for _ in range(steps):
        g = plain_gradient(*data, W)
        W = W - lr * g / (np.linalg.norm(g) if normalised else 1.0)
    return W


@pytest.mark.parametrize(("optimizer", "lr"), [("gd", 0.1), ("ngd", 0.01)])
def test_dense_space_is_plain_descent_on_W(optimizer, lr):
    X, y, weight, samples, E, W = some_data()
    if optimizer == "ngd":
        # Steps of fixed length around a finite optimum zigzag and blow up rounding errors; labels
        # that follow one order of priority have their optimum at infinity.
        y = X.min(axis=1)
        samples = samples_from_sequences(X, y, weight, samples.vocabulary)
    found = train(samples, embeddings=E, init=W, optimizer=optimizer, lr=lr, steps=1000)
    wanted = plain_descent((X, y, weight, E), W, 1000, lr, optimizer == "ngd")
    assert found.W is not None
    assert np.abs(found.W[0] - wanted).max() < 1e-9
    assert found.records["norm"][0, -1] == pytest.approx(np.linalg.norm(wanted), rel=1e-9)


def test_pairs_space_is_plain_descent_with_orthonormal_embeddings():
    X, y, weight, samples, _, _ = some_data(1)
    found = train(samples, lr=0.1, steps=1000).scores
    S = plain_descent((X, y, weight, np.eye(4)), np.zeros((4, 4)), 1000, 0.1).T
    owner = samples.sample_of
    key = np.unique(samples.last[owner] * 4 + samples.token)
    assert np.abs(found[0] - S.ravel()[key]).max() < 1e-9


def test_dense_space_with_the_identity_is_pairs_space():
    _, _, _, samples, _, _ = some_data(2)
    owner = samples.sample_of
    key = np.unique(samples.last[owner] * 4 + samples.token)
    for options in (
        {},
        {"loss": "cross-entropy", "head": "tied"},
    ):
        pairs = train(samples, steps=200, **options)
        dense = train(samples, steps=200, embeddings=np.eye(4), **options)
        assert np.abs(dense.W[0].T.ravel()[key] - pairs.scores[0]).max() < 1e-12
        assert dense.records["loss"] == pytest.approx(pairs.records["loss"], rel=1e-12)


def test_stacking_with_a_larger_problem_changes_nothing():
    _, _, _, small, E, W = some_data(3)
    _, _, _, large, F, V = some_data(4, K=6, n=11, T=8)
    for options in ({"head": "tied", "loss": "squared"}, {"optimizer": "sgd", "batch_size": 2}):
        alone = train(small, embeddings=E, init=W, steps=100, **options)
        both = train([small, large], embeddings=[E, F], init=[W, V], steps=100, **options)
        assert np.abs(both.W[0] - alone.W[0]).max() < 1e-12
        assert both.records["loss"][0] == pytest.approx(alone.records["loss"][0], abs=1e-12)
    pairs = train([small, large], init="uniform", steps=100)
    alone = train(small, init="uniform", steps=100)
    own = alone.scores.shape[1]
    assert np.abs(pairs.scores[0, :own] - alone.scores[0]).max() < 1e-12
    assert not pairs.scores[0, own:].any()


@pytest.mark.parametrize("options", [{"optimizer": "ngd"}, {"optimizer": "sgd", "batch_size": 3}])
def test_a_seed_alone_is_the_seed_in_a_batch(options):
    _, _, _, samples, E, _ = some_data(5)
    alone = train(samples, embeddings=E, init="uniform", steps=50, **options)
    batch = train(samples, embeddings=E, init="uniform", steps=50, seeds=3, **options)
    assert np.abs(batch.W[0] - alone.W[0]).max() < 1e-12
    assert np.abs(batch.W[1] - alone.W[0]).max() > 1e-3
    other = train(samples, embeddings=E, init="uniform", steps=50, seed=1, **options)
    assert np.abs(other.W[0] - alone.W[0]).max() > 1e-3


@pytest.mark.parametrize("batch_size", [None, 3])
def test_problems_too_large_for_the_cache_run_one_after_the_other(monkeypatch, batch_size):
    rng = np.random.default_rng(0)
    sets = [draw_samples(rng, 6, n, 4) for n in (4, 7, 5)]
    tables = [rng.normal(size=(6, 3)) for _ in sets]
    how = {"steps": 50, "every": 10, "init": "uniform", "optimizer": "sgd" if batch_size else "ngd"}
    together = train(sets, embeddings=tables, batch_size=batch_size, **how)
    problem = room.stack(sets, tables, None, False, False, False)
    assert not room.fall_apart(problem)
    monkeypatch.setattr(room, "CACHED", 0)
    assert room.fall_apart(problem)
    apart = train(sets, embeddings=tables, batch_size=batch_size, **how)
    np.testing.assert_allclose(apart.W, together.W, rtol=0, atol=1e-12)
    np.testing.assert_allclose(apart.records["loss"], together.records["loss"], rtol=1e-12)


def test_uniform_starts_fill_their_interval():
    _, _, _, samples, E, _ = some_data(6)
    start = train(samples, embeddings=E, init="uniform", lr=1e-300, steps=1, seeds=50).W
    reach = 6**-0.5
    assert -reach <= start.min() < -0.9 * reach
    assert 0.9 * reach < start.max() <= reach


def test_same_seed_is_bit_identical():
    _, _, _, samples, E, _ = some_data(7)
    options = {"embeddings": E, "init": "uniform", "optimizer": "sgd", "batch_size": 4, "seeds": 2}
    first, second = (train(samples, steps=300, **options) for _ in range(2))
    assert first.W.tobytes() == second.W.tobytes()
    assert first.records["loss"].tobytes() == second.records["loss"].tobytes()


def test_equal_shapes_compile_once():
    programs._compiled.cache_clear()
    _, _, _, samples, E, _ = some_data(8)
    for lr, steps, seed in ((0.1, 100, 0), (0.2, 300, 1), (0.3, 100, 2)):
        train(samples, embeddings=E * (1 + lr), lr=lr, steps=steps, every=steps // 10, seed=seed)
    assert programs._compiled.cache_info().misses == 1
    train(samples, embeddings=E, lr=lr, steps=100, every=10, optimizer="ngd")
    assert programs._compiled.cache_info().misses == 2


@pytest.mark.parametrize(
    ("options", "distance"),
    [
        ({"optimizer": "gd", "lr": 1.0}, 1e-9),
        ({"optimizer": "polyak", "loss_floor": CYCLE_FLOOR}, 1e-6),  # L − L* is exact to 1e-16
        ({"optimizer": "adam", "lr": 0.01, "steps": 4000}, 1e-6),
        (
            {"optimizer": "ngd", "lr": 1e-3, "steps": 4000},
            1.1e-3,
        ),  # a fixed step ends one step away
        ({"optimizer": "sgd", "lr": 0.01, "steps": 4000, "batch_size": 8}, 0.1),  # keeps its noise
        ({"optimizer": "adam", "lr": 1e-3, "steps": 4000, "batch_size": 8}, 0.1),
    ],
)
def test_the_cycle_of_two_tokens_is_solved_by_every_optimizer(options, distance):
    found = train(CYCLE, **options)
    assert found.status == ["finished"]
    assert np.abs(found.scores[0] - CYCLE_SCORES).max() < distance
    # The loss is quadratic around its optimum with curvature at most 1/2 in this direction.
    assert found.records["loss"][0, -1] - CYCLE_FLOOR < distance**2 + 1e-15


def test_polyak_never_moves_away_from_the_optimum():
    found = train(
        CYCLE, optimizer="polyak", loss_floor=CYCLE_FLOOR, init=np.array([3.0, 0.5]), steps=60,
        every=1, record=distance_to, context=CYCLE_SCORES[None],
    )  # fmt: skip
    distance = found.records["distance"][0]
    # The start's component along (1, 1) is no direction of the loss and stays.
    assert (np.diff(distance) <= 1e-12).all()
    assert distance[-1] == pytest.approx(3.5 / 2**0.5, abs=1e-6)


def distance_to(params, goal):
    return {"distance": jnp.sqrt(((params - goal) ** 2).sum()), "first": params[0]}


def test_records_are_taken_where_asked():
    found = train(CYCLE, steps=25, every=10, seeds=2, record=distance_to, context=np.zeros((2, 2)))
    assert found.steps.tolist() == [0, 10, 20, 25]
    assert found.records["distance"] == pytest.approx(found.records["norm"], rel=1e-15)
    assert found.records["loss"].shape == (2, 4)
    assert found.records["loss"][:, 0] == pytest.approx(np.log(2))
    exact = train(CYCLE, steps=10).scores[0, 0]
    assert found.records["first"][0, 1] == pytest.approx(exact, rel=1e-14)
    assert train(CYCLE, steps=1000).steps.tolist() == list(range(0, 1001, 10))


def test_one_rate_for_each_problem():
    both = train(CYCLE, lr=[0.1, 0.4], seeds=2, steps=20)
    for b, lr in enumerate((0.1, 0.4)):
        assert both.scores[b] == pytest.approx(train(CYCLE, lr=lr, steps=20).scores[0], rel=1e-14)


def test_progress_is_told_and_changes_nothing():
    calls = []
    watched = train(CYCLE, steps=1000, every=1000, progress=lambda *call: calls.append(call))
    alone = train(CYCLE, steps=1000, every=1000)
    assert watched.steps.tolist() == alone.steps.tolist() == [0, 1000]
    assert watched.records["loss"] == pytest.approx(alone.records["loss"], rel=1e-15)
    assert calls[-1] == (1000, 1000, f"loss {CYCLE_FLOOR:.6g}")
    assert 20 <= len(calls) <= 51


def test_what_is_watched_grows_into_the_records():
    seen = []
    options = {"steps": 1000, "every": "log", "seeds": 2, "init": "uniform"}
    found = train(CYCLE, watch=lambda steps, records: seen.append((steps, records)), **options)
    assert 20 <= len(seen) <= 51
    assert all(len(a[0]) <= len(b[0]) for a, b in pairwise(seen))
    for steps, records in seen:
        n = len(steps)
        assert steps.tolist() == found.steps[:n].tolist()
        assert set(records) == {"loss", "norm"}
        for name, value in records.items():
            assert value.tobytes() == found.records[name][:, :n].tobytes()
    assert len(seen[-1][0]) == len(found.steps)
    assert 1 < len(seen[0][0]) < len(found.steps)
    alone = train(CYCLE, **options)
    assert found.records["loss"] == pytest.approx(alone.records["loss"], rel=1e-14)


class Memory:
    def __init__(self):
        self.saved = None

    def load(self):
        return self.saved

    def save(self, arrays):
        self.saved = arrays


def test_a_resumed_run_is_watched_from_its_very_beginning():
    kept, seen = Memory(), []

    def stop(done, total, loss):
        if done >= 300:
            raise KeyboardInterrupt

    first = train(CYCLE, steps=1000, every=10, progress=stop, checkpoint=kept)
    assert first.status == ["interrupted"]
    whole = train(
        CYCLE, steps=1000, every=10, checkpoint=kept, watch=lambda *call: seen.append(call)
    )
    assert seen[0][0][: len(first.steps)].tolist() == first.steps.tolist()
    assert len(seen[0][0]) > len(first.steps)
    assert seen[-1][1]["loss"].tobytes() == whole.records["loss"].tobytes()
    calm = train(CYCLE, steps=1000, every=10, progress=lambda *_: None)
    assert whole.records["loss"].tobytes() == calm.records["loss"].tobytes()


def test_a_resumed_run_has_the_head_it_began_with():
    kept, how = Memory(), {"steps": 400, "every": 10, "head": "general", "loss": "logistic-score"}

    def stop(done, total, loss):
        if done >= 100:
            raise KeyboardInterrupt

    first = train(CYCLE, **how, progress=stop, checkpoint=kept, seed=3)
    assert first.status == ["interrupted"]
    ended = train(CYCLE, **how, checkpoint=kept, seed=3)
    calm = train(CYCLE, **how, seed=3, progress=lambda *_: None)
    assert np.array_equal(first.C, ended.C)
    assert ended.records["loss"].tobytes() == calm.records["loss"].tobytes()


def test_an_interrupt_keeps_what_was_computed():
    def stop(done, total, loss):
        if done >= 300:
            raise KeyboardInterrupt

    found = train(CYCLE, steps=1000, every=10, progress=stop)
    assert found.status == ["interrupted"]
    assert 300 <= found.steps[-1] < 400
    until = int(found.steps[-1])
    assert found.scores[0] == pytest.approx(train(CYCLE, steps=until).scores[0], rel=1e-14)


def test_divergence_is_named_and_the_other_problem_goes_on():
    found = train(
        [CYCLE, CYCLE], embeddings=[1e3 * np.eye(2), np.eye(2)], lr=[1e308, 0.1], steps=100
    )
    assert found.status == ["diverged at step 1", "finished"]
    assert np.isfinite(found.W).all()
    assert np.isfinite(found.records["loss"][:, 0]).all()
    assert np.isnan(found.records["loss"][0, 1:]).all()
    alone = train(CYCLE, embeddings=np.eye(2), lr=0.1, steps=100)
    assert found.W[1] == pytest.approx(alone.W[0], rel=1e-14)


def test_a_zero_gradient_means_no_step():
    certain = samples_from_sequences([[0, 0]], [0])
    for options in ({"optimizer": "ngd"}, {"optimizer": "polyak", "loss_floor": 0.0}):
        found = train(certain, init=np.array([2.0]), **options)
        assert found.status == ["finished"]
        assert found.scores[0].tolist() == [2.0]


def test_defaults_have_one_place():
    """In Python, on the command line and in its help: `USUAL` says them."""
    asked = inspect.signature(train).parameters
    assert {name: asked[name].default for name in asdict(USUAL)} == asdict(USUAL)
    assert asked["lr"].default is None
    assert set(RATES) <= set(OPTIMIZERS)
    options = typer.main.get_command(cli.app).commands["train"].params
    said = {p.name: p.help for p in options}
    for optimizer, rate in RATES.items():
        assert f"{rate:g} for {optimizer}" in said["lr"]
    assert f"{RATE:g} for the others" in said["lr"]
    for name in ("steps", "seeds", "seed"):
        assert f"(default: {getattr(USUAL, name)})" in said[name]
    for name in ("init", "optimizer", "head", "loss"):
        assert f"{getattr(USUAL, name)} (default)" in said[name]
    assert {p.name for p in options if p.default is not None} <= {"data", "out", "json", "force"}


@pytest.mark.parametrize("optimizer", [x for x in OPTIMIZERS if x != "polyak"])
def test_without_a_step_size_the_usual_one_is_taken(optimizer):
    a, b = (
        train(CYCLE, optimizer=optimizer, steps=3, **more)
        for more in ({}, {"lr": RATES.get(optimizer, RATE)})
    )
    assert a.records["loss"].tolist() == b.records["loss"].tolist()
    assert a.settings == b.settings


def test_importing_does_not_import_jax():
    code = "import sys, attomaton.mechanics.experiment.train; sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lr": 0.0}, "lr=0.0: the step size must be positive"),
        ({"lr": -1.0}, "positive and finite"),
        ({"lr": float("nan")}, "positive and finite"),
        ({"lr": [0.1, 0.2]}, "lr: expected one number or 1, one per problem"),
        ({"lr": "fast"}, "lr='fast': numbers are needed"),
        ({"lr": True}, "lr=True: numbers are needed"),
        ({"lr": [[0.1], [0.1, 0.2]]}, "lr=.*: numbers are needed"),
        ({"lr": 0.5, "optimizer": "polyak", "loss_floor": 0.0}, "leave lr out"),
        ({"steps": 1.5}, "steps=1.5: a whole number"),
        ({"steps": "many"}, "steps='many': a whole number"),
        ({"steps": None}, "steps=None: a whole number"),
        ({"every": -1}, "every=-1: at least 1"),
        ({"every": 2.5}, "every=2.5: a whole number"),
        ({"every": "often"}, "a number of steps or"),
        ({"seeds": 2.5}, "seeds=2.5: a whole number"),
        ({"seeds": True}, "seeds=True: a whole number"),
        ({"seed": 1.5}, "seed=1.5: a whole number"),
        ({"seed": 2**63}, "seed=9223372036854775808"),
        ({"optimizer": None}, "optimizer=None is no word; choose from"),
        ({"loss": 3}, "loss=3 is no word; choose from"),
        ({"head": 3}, "head=3 is no word; choose from"),
        ({"head": [np.eye(2)] * 2, "loss": "squared"}, "head: 2 matrices for 1 data sets"),
        ({"init": None}, "init=None: numbers are needed"),
        ({"init": 3.0}, "init: expected shape"),
        ({"init": ["a", "b"]}, "init=.*: numbers are needed"),
        ({"optimizer": "sgd", "batch_size": 2.5}, "batch_size=2.5: a whole number"),
        ({"record": 3}, "record=3: a function"),
        ({"progress": "yes"}, "progress='yes': a function"),
        ({"layout": 3}, "layout=3 is no word"),
        ({"steps": 0}, "steps=0: at least 1"),
        ({"every": 0}, "every=0: at least 1"),
        ({"seeds": 0}, "seeds=0: at least 1"),
        ({"seed": -1}, "seed=-1"),
        ({"optimizer": "sdg"}, "did you mean 'sgd'"),
        ({"optimizer": "xyz"}, "is not known; choose from"),
        ({"loss": "cross entropy"}, "did you mean 'cross-entropy'"),
        ({"head": "tide"}, "did you mean 'tied'"),
        ({"init": "zero"}, "did you mean 'zeros'"),
        ({"head": "tied"}, 'Use loss="cross-entropy" or "squared"'),
        ({"optimizer": "mirror:"}, 'after "mirror:" a number above 1'),
        ({"optimizer": "mirror:1"}, 'after "mirror:" a number above 1'),
        ({"optimizer": "mirror:inf"}, 'after "mirror:" a number above 1'),
        ({"optimizer": "mirror"}, "did you mean"),
        ({"optimizer": "muon", "eps": 0.1}, 'an option of "ngd" and "adam"'),
        ({"optimizer": "sign", "beta1": 0.1}, 'an option of "adam" and "muon"'),
        ({"optimizer": "adam", "beta2": 1.0}, "beta2=1.0: it must be less than 1"),
        ({"optimizer": "adam", "beta1": -0.1}, "beta1=-0.1: 0 or more"),
        ({"optimizer": "adam", "eps": float("inf")}, "eps=inf: it must be finite"),
        ({"schedule": "linear"}, "schedule=.*choose from"),
        (
            {"schedule": "inverse-sqrt", "optimizer": "polyak", "loss_floor": 0.0},
            "its own step size",
        ),
        ({"optimizer": "sgd", "batch_size": 0}, "batch_size=0: at least 1"),
        ({"optimizer": "gd", "batch_size": 4}, "uses all samples"),
        ({"optimizer": "polyak"}, "needs loss_floor"),
        ({"optimizer": "polyak", "loss_floor": float("inf")}, "must be finite"),
        ({"init": np.zeros(3)}, r"init: expected shape \(2,\) for problem 0, got \(3,\)"),
        ({"init": np.zeros((2, 2))}, "init: expected one array or 1, one per problem; got 2"),
        ({"init": [np.zeros(2)] * 3}, "init: expected one array or 1, one per problem; got 3"),
        ({"init": np.zeros((3, 3)), "embeddings": np.eye(2)}, r"expected shape \(2, 2\)"),
        ({"embeddings": [np.eye(2)] * 2}, "embeddings: 2 matrices for 1 data sets"),
    ],
)
def test_senseless_options_are_refused(options, message):
    with pytest.raises(UsageError, match=message):
        train(CYCLE, **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"init": np.array([0.0, np.nan])}, "the first is nan at problem 0, entry 1"),
        ({"init": np.array([[0.0, np.inf], [0, 0]]), "embeddings": np.eye(2)}, r"entry \(0, 1\)"),
        ({"init": np.array([1.7e308, 0.0])}, "the logit of pair 0 in problem 0 overflows"),
        ({"init": np.full((2, 2), 1e200), "embeddings": 1e100 * np.eye(2)}, "overflows"),
        ({"embeddings": np.eye(3)}, "3 rows for a vocabulary of 2"),
        ({"embeddings": np.array([[1.0, np.nan], [0, 1]])}, "not finite"),
        (
            {"embeddings": np.array([[1.0, np.nan], [0, 1]]), "head": "tied", "loss": "squared"},
            "the first is nan at row 0, column 1",
        ),
        (
            {"embeddings": np.eye(3), "head": "tied", "loss": "squared"},
            "3 rows for a vocabulary of 2",
        ),
    ],
)
def test_unreadable_input_is_refused(options, message):
    with pytest.raises(DataError, match=message):
        train(CYCLE, **options)


def test_more_refusals():
    with pytest.raises(UsageError, match="empty sequence"):
        train([])
    with pytest.raises(UsageError, match="seeds are for one data set"):
        train([CYCLE, CYCLE], seeds=2)
    with pytest.raises(UsageError, match="widths 2, 3 cannot be trained side by side"):
        train([CYCLE, CYCLE], embeddings=[np.eye(2), np.eye(3)[:2]])
    with pytest.raises(UsageError, match="'scores' must be scalars"):
        train(CYCLE, record=lambda params, _: {"scores": params})


def test_tokens_of_one_vector_cannot_be_told_apart():
    found = train(CYCLE, embeddings=np.ones((2, 2)), steps=10)
    assert found.records["loss"].ravel() == pytest.approx(np.log(2))


def test_a_tied_head_needs_no_independent_embeddings():
    found = train(CYCLE, embeddings=np.ones((2, 1)), head="tied", loss="squared", steps=10)
    assert found.records["loss"][0] == pytest.approx(0.25)


def test_a_general_head_is_drawn_by_seed_for_each_data_set_and_given_back():
    _, _, _, samples, E, _ = some_data(8)
    E /= np.linalg.norm(E, axis=1, keepdims=True)
    how = {"embeddings": E, "head": "general", "loss": "squared-score", "steps": 20}
    one, again, other = (train(samples, **how, seed=seed) for seed in (0, 0, 1))
    assert one.C.shape == (1, *E.shape)
    assert (one.C[0] @ E.T).argmax(axis=1).tolist() == list(range(len(E)))
    assert np.array_equal(one.C, again.C)
    assert not np.array_equal(one.C, other.C)
    assert one.settings.head == "general"
    given = train(samples, **{**how, "head": one.C[0]})
    assert given.settings.head == "given"
    assert np.array_equal(given.W, one.W)
    several = train([samples] * 2, **how)
    assert np.array_equal(several.C[0], one.C[0])
    assert not np.array_equal(several.C[1], one.C[0])
    for C in (several.C, list(several.C)):
        assert np.array_equal(train([samples] * 2, **{**how, "head": C}).W, several.W)
    assert train(samples, **{**how, "embeddings": None}).C.shape == (1, 4, 4)


def test_the_identity_head_as_a_matrix_is_the_identity_head():
    _, _, _, samples, E, W = some_data(10)
    for loss in ("cross-entropy", "squared-score"):
        how = {"embeddings": E, "init": W, "loss": loss, "steps": 50}
        named, given = (train(samples, **how, head=C) for C in ("identity", np.linalg.pinv(E).T))
        assert np.abs(named.W - given.W).max() < 1e-10


def test_a_head_that_breaks_assumption_3_is_refused_with_its_token():
    samples = samples_from_sequences([["a", "b", "c"]], ["a"])
    C = np.array([[1.0, 0, 0], [0, 1, 2], [0, 0, 1]])
    with pytest.raises(
        AssumptionError, match=r"1 of 3 rows .*\n  token 'b': c·e = 1, and 2 for token 'c'"
    ):
        train(samples, head=C, loss="squared")
    for wrong, says in (
        (np.eye(2), r"shape \(3, 3\), got shape \(2, 2\)"),
        (np.full((3, 3), np.nan), "not finite"),
    ):
        with pytest.raises(DataError, match=says):
            train(samples, head=wrong, loss="squared")
    with pytest.raises(DataError, match="head: expected a matrix"):
        train(samples, head=[[["x"]]], loss="squared")
    many = samples_from_sequences([range(5000)], [0])
    with pytest.raises(UsageError, match="5,000 × 5,000 numbers, and 4,000 tokens"):
        train(many, head="general", loss="squared")


def test_embeddings_come_in_every_form():
    _, _, _, samples, E, W = some_data(9)
    one = train(samples, embeddings=E, steps=20).W[0]
    assert train(samples, embeddings=Embeddings(E), steps=20).W[0].tolist() == one.tolist()
    many = train([samples] * 2, embeddings=np.stack([E, E]), init=np.stack([0 * W, W]), steps=20)
    assert many.W[0] == pytest.approx(one, rel=1e-13)
    assert train([samples] * 2, embeddings=E, steps=20).W[1] == pytest.approx(one, rel=1e-13)


# Ctrl-C


def test_ctrl_c_inside_a_callback_of_the_compiler_is_neither_lost_nor_a_crash():
    """Where Python raises it by itself, such a callback swallows it; here it ends the run after the steps at hand."""
    samples = samples_from_sequences([[0, 1]] * 4, [0, 0, 0, 1])
    sent = []

    def collected(phase, info):
        if not sent:
            sent.append(phase)
            signal.raise_signal(signal.SIGINT)

    def progress(done, steps, loss):
        if done >= 40 and not sent:
            gc.callbacks.append(collected)
            gc.collect()
            gc.callbacks.remove(collected)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        run = train(samples, steps=100, progress=progress)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
    assert sent
    assert run.status == ["interrupted"]
    assert 40 <= run.steps[-1] < 100


def test_a_handler_of_the_callers_own_stays():
    samples, called = samples_from_sequences([[0, 1]] * 4, [0, 0, 0, 1]), []
    before = signal.signal(signal.SIGINT, lambda *_: called.append(1))
    try:
        run = train(samples, steps=4, progress=lambda *_: signal.raise_signal(signal.SIGINT))
    finally:
        signal.signal(signal.SIGINT, before)
    assert called
    assert run.status == ["finished"]


def test_normalised_steps_shrink_with_a_gradient_near_eps():
    # One rival: g = (−a, a) with a = 1/(1 + e^gap), so a step is lr · ‖g‖/(‖g‖ + ε) along (1, −1)/√2.
    samples = samples_from_sequences([[0, 1]], [0])
    how = {"optimizer": "ngd", "lr": 0.5, "steps": 200}
    gap = 0.0
    for _ in range(200):
        norm = np.sqrt(2) / (1 + np.exp(gap))
        gap += 0.5 * np.sqrt(2) * norm / (norm + 1e-6)
    found = train(samples, eps=1e-6, **how)
    assert found.scores[0] == pytest.approx([gap / 2, -gap / 2], rel=1e-9)
    assert found.settings.eps == 1e-6
    assert train(samples, **how).records["norm"][0, -1] == pytest.approx(100)
    assert found.records["norm"][0, -1] < 20
    for wrong in ({"eps": -1.0}, {"eps": float("inf")}, {"eps": 1e-9, "optimizer": "gd", "lr": 1}):
        with pytest.raises(UsageError, match="eps="):
            train(samples, **{**how, **wrong})


def test_nothing_is_measured_where_nobody_asked_for_records():
    """Stops that tell how far a run is do not wait for what `record` measures."""
    measured = []

    def record(params, _):
        jax.debug.callback(lambda: measured.append(1))
        return {"largest": jnp.abs(params).max()}

    calls = []
    watched = train(
        CYCLE, steps=500, every=250, record=record, progress=lambda *call: calls.append(call)
    )
    jax.effects_barrier()
    assert len(calls) > 20
    assert len(measured) == len(watched.steps) == 3
    alone = train(CYCLE, steps=500, every=250, record=record)
    np.testing.assert_array_equal(watched.records["largest"], alone.records["largest"])
