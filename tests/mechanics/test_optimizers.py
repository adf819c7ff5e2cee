"""Every optimizer against its formula written out in NumPy, what it remembers, and the norm it belongs to."""

import numpy as np
import pytest

from attomaton.corpus.vocabulary import Vocabulary
from attomaton.corpus.windows import samples_from_sequences
from attomaton.errors import UsageError
from attomaton.jobs.train import train_run
from attomaton.mechanics.experiment import arguments
from attomaton.mechanics.experiment.arguments import OPTIMIZERS, OWN, limit_norm
from attomaton.mechanics.experiment.train import train
from attomaton.mechanics.synthetic import draw_samples

K, STEPS = 5, 200
LR = 0.01
FLOOR = 0.1  # reached: towards L* = 0 Polyak's steps grow, and rounding with them
ADAM = {"optimizer": "adam"}
RULES = [
    *({"optimizer": name} for name in OPTIMIZERS if name not in ("polyak", "sgd")),
    {"optimizer": "polyak", "loss_floor": FLOOR},
    {"optimizer": "sgd", "batch_size": None},
    {"optimizer": "mirror:2"},
    {"optimizer": "muon", "beta1": 0.5},
    ADAM | {"eps": 0.0},
    ADAM | {"eps": 1e-2, "beta1": 0.8, "beta2": 0.9},
]


def ordered(seed=3, d=None):
    """Labels that follow one order, each sample with a weight of its own: nothing zigzags about a finite optimum."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, K, size=(9, 4))
    y, weight = X.min(axis=1), rng.uniform(0.5, 3.0, 9)
    samples = samples_from_sequences(X, y, weight, Vocabulary(range(K)))
    return (
        X,
        y,
        weight / weight.sum(),
        np.eye(K) if d is None else rng.normal(size=(K, d)) / 2,
    ), samples


def loss_and_gradient(data, W):
    """The mean −log of the attention on the label's positions, and its gradient, position by position."""
    X, y, weight, E = data
    value, g = 0.0, np.zeros_like(W)
    for x, label, w in zip(X, y, weight, strict=True):
        z = E[x] @ W @ E[x[-1]]
        a = np.exp(z - z.max()) / np.exp(z - z.max()).sum()
        own, others = a[x == label].sum(), a[x != label].sum()
        value += w * np.log1p(others / own)
        residual = np.where(x == label, -a * others / own, a)
        g += w * np.outer(E[x].T @ residual, E[x[-1]])
    return value, g


def orthogonalised(M):
    U, s, Vt = np.linalg.svd(M)
    rank = np.linalg.matrix_rank(M, tol=1e-12 * s[0])
    return U[:, :rank] @ Vt[:rank]


def plain_step(optimizer, value, g):
    """What is subtracted, times lr, by those that remember nothing."""
    if optimizer == "sign":
        return np.sign(np.where(np.abs(g) > 1e-15, g, 0.0))
    if optimizer == "spectral":
        return orthogonalised(g)
    return g * {"ngd": 1 / np.linalg.norm(g), "polyak": max(value - FLOOR, 0.0) / (g**2).sum()}.get(
        optimizer, 1.0
    )


def by_hand(data, W, lr, decays, optimizer, **own):
    """The formulas as the module of training says them."""
    own = {**OWN.get(optimizer, {}), **own}
    m, v, u = np.zeros_like(W), np.zeros_like(W), None
    for t in range(1, STEPS + 1):
        value, g = loss_and_gradient(data, W)
        eta = (lr or 1.0) / (np.sqrt(t) if decays else 1.0)
        if optimizer.startswith("mirror"):
            p = float(optimizer[7:])
            q = p / (p - 1)
            u = np.sign(W) * np.abs(W) ** (p - 1) if u is None else u
            u = u - eta * g / (np.abs(g) ** q).sum() ** (1 / q)
            W = np.sign(u) * np.abs(u) ** (1 / (p - 1))
        elif optimizer == "adam":
            m = own["beta1"] * m + (1 - own["beta1"]) * g
            v = own["beta2"] * v + (1 - own["beta2"]) * g**2
            root = np.sqrt(v / (1 - own["beta2"] ** t)) + own["eps"]
            step = np.divide(
                m / (1 - own["beta1"] ** t), root, where=root > 0, out=np.zeros_like(W)
            )
            W = W - eta * step
        elif optimizer == "muon":
            m = own["beta1"] * m + g
            W = W - eta * orthogonalised(m)
        else:
            W = W - eta * plain_step(optimizer, value, g)
    return W


@pytest.mark.parametrize(("d", "schedule"), [(None, "constant"), (6, "inverse-sqrt")])
@pytest.mark.parametrize("rule", RULES, ids=lambda x: "-".join(map(str, x.values())))
def test_training_is_the_formula_written_out(rule, d, schedule):
    if rule["optimizer"] == "polyak":  # has none
        schedule = "constant"
    data, samples = ordered(d=d)
    E = data[3]
    matrix = d is not None or rule["optimizer"] in ("spectral", "muon")
    keys = samples.pair_index()[0]
    start = np.random.default_rng(1).normal(size=(E.shape[1],) * 2) / 2
    lr = None if rule["optimizer"] == "polyak" else LR
    given = start if matrix else start.T.ravel()[keys]
    found = train(
        samples, embeddings=None if d is None else E, init=given, lr=lr, steps=STEPS, schedule=schedule, **rule
    )  # fmt: skip
    own = {k: v for k, v in rule.items() if k in ("eps", "beta1", "beta2")}
    if not matrix:  # what is not observed is no parameter
        seen = np.zeros(K * K)
        seen[keys] = start.T.ravel()[keys]
        start = seen.reshape(K, K).T
    wanted = by_hand(data, start, lr, schedule != "constant", rule["optimizer"], **own)
    if matrix:
        assert found.scores is None
        assert np.abs(found.W[0] - wanted).max() < 1e-8
    else:
        assert np.abs(found.scores[0] - wanted.T.ravel()[keys]).max() < 1e-8
    assert np.abs(wanted - start).max() > 0.01


def test_a_coordinate_that_never_had_a_gradient_stays():
    # Under last token 2 nothing competes: the pair has no gradient, and ε = 0 divides 0 by 0 there.
    samples = samples_from_sequences([[0, 1], [2]], [0, 2])
    run = train(samples, optimizer="adam", eps=0.0, init=np.array([0.1, 0.2, 0.7]), steps=50)
    assert run.scores[0, 2] == 0.7
    assert run.scores[0, 0] - 0.1 == pytest.approx(0.2 - run.scores[0, 1])
    assert 0.4 < run.scores[0, 0] - 0.1 <= 50 * LR
    assert run.status == ["finished"]
    assert run.records["eps_free"].tolist() == [[1.0] * 51]


def test_the_share_of_coordinates_that_eps_leaves_alone():
    samples = samples_from_sequences([[0, 1], [2, 3]], [0, 2], [1.0, 1e-3])
    how = {"optimizer": "adam", "steps": 10, "every": 1, "init": "zeros"}
    # √v̂ is at most ½ and ½e-3 in the two pairs of pairs.
    for eps, share in ((0.0, 1.0), (1e-6, 1.0), (1e-3, 0.5), (1.0, 0.0)):
        found = train(samples, eps=eps, **how).records["eps_free"][0]
        assert found.tolist() == [1.0] + [share] * 10
    assert "eps_free" not in train(samples, optimizer="sign", steps=2).records
    with pytest.raises(UsageError, match="eps_free"):
        train(samples, record=lambda W, _: {"eps_free": W.sum()}, **how)


def test_pair_scores_are_the_entries_of_W_for_one_hot_tokens():
    samples = draw_samples(np.random.default_rng(5), 6, 12, 4, kind="acyclic")
    last, token = np.divmod(samples.pair_index()[0], 6)
    for rule in (ADAM | {"eps": 0.0}, {"optimizer": "mirror:3"}):
        pairs = train(samples, steps=100, **rule).scores[0]
        dense = train(samples, steps=100, embeddings=np.eye(6), **rule).W[0]
        assert np.abs(dense[token, last] - pairs).max() < 1e-12
    # The control: in another orthonormal basis entries are others, and so is what is learned.
    turned = np.linalg.qr(np.random.default_rng(0).normal(size=(6, 6)))[0]
    W = train(samples, steps=100, embeddings=turned, optimizer="sign").W[0]
    straight = train(samples, steps=100, optimizer="sign").scores[0]
    assert np.abs((turned @ W @ turned.T)[token, last] - straight).max() > 0.1


@pytest.mark.parametrize("optimizer", ["spectral", "muon"])
def test_orthogonalised_steps_do_not_see_the_basis(optimizer):
    """U Vᵀ turns with the embeddings: in any orthonormal basis the same scores are learned."""
    samples = draw_samples(np.random.default_rng(5), 6, 12, 4, kind="acyclic")
    turned = np.linalg.qr(np.random.default_rng(0).normal(size=(6, 6)))[0]
    one_hot = train(samples, steps=100, optimizer=optimizer).W[0]
    W = train(samples, steps=100, embeddings=turned, optimizer=optimizer).W[0]
    assert np.abs(turned @ W @ turned.T - one_hot).max() < 1e-8


@pytest.mark.parametrize("rule", [{"optimizer": x} for x in ("sign", "muon", "mirror:3")])
def test_data_sets_side_by_side_train_as_each_alone(rule):
    small, large = (
        draw_samples(np.random.default_rng(i), K, n, 4, kind="acyclic")
        for i, (K, n) in enumerate([(5, 8), (7, 12)])
    )
    both = train([small, large], steps=60, **rule)
    for i, samples in enumerate((small, large)):
        alone = train(samples, steps=60, **rule)
        ours, theirs = (x.scores if x.W is None else x.W for x in (both, alone))
        inside = ours[i][tuple(map(slice, theirs[0].shape))]
        assert np.abs(inside - theirs[0]).max() < 1e-9
        assert np.abs(ours[i]).sum() == pytest.approx(np.abs(theirs[0]).sum())


@pytest.mark.parametrize("optimizer", ["adam", "muon", "mirror:3"])
def test_a_run_broken_off_goes_on_to_the_same_bits(tmp_path, optimizer):
    data = tmp_path / "data.jsonl"
    data.write_text(
        '{"tokens": ["a", "b", "c"], "next": "a"}\n{"tokens": ["b", "c"], "next": "b"}\n'
    )
    how = {
        "optimizer": optimizer,
        "steps": 120,
        "seeds": 2,
        "init": "uniform",
        "schedule": "inverse-sqrt",
    }

    def stop(done, *_):
        if done >= 40:
            raise KeyboardInterrupt

    torn, calm = tmp_path / "torn", tmp_path / "calm"
    assert train_run(data, torn, progress=stop, **how)["status"] == ["interrupted"] * 2
    assert train_run(data, torn, **how)["resumed_at_step"] > 0
    train_run(data, calm, **how)
    for name in ("metrics.parquet", "state.safetensors"):
        assert (torn / name).read_bytes() == (calm / name).read_bytes()


def test_a_matrix_over_a_large_vocabulary_is_refused(monkeypatch):
    samples = draw_samples(np.random.default_rng(0), 6, 5, 3)
    monkeypatch.setattr(arguments, "WIDEST", 5)
    with pytest.raises(UsageError, match="6 × 6 numbers, and 5 tokens are the most"):
        train(samples, optimizer="muon", steps=2)
    train(samples, optimizer="muon", steps=2, embeddings=np.eye(6))
    train(samples, optimizer="sign", steps=2)


def test_a_run_says_what_it_used_and_its_norm(tmp_path):
    data = tmp_path / "data.jsonl"
    data.write_text(
        '{"tokens": ["a", "b", "c"], "next": "a"}\n{"tokens": ["b", "c"], "next": "b"}\n'
    )
    norms = {"gd": "frobenius", "ngd": "frobenius", "polyak": "frobenius", "sgd": "frobenius", "adam": "max",
             "sign": "max", "spectral": "spectral", "muon": "spectral", "mirror:1.5": 1.5, "mirror:3": 3.0}  # fmt: skip
    assert set(norms) == set(OPTIMIZERS)
    assert {name: limit_norm(name) for name in norms} == norms
    for name in ("adam", "muon"):
        said = train_run(data, tmp_path / name, optimizer=name, steps=3)
        assert said["limit_norm"] == norms[name]
        own = {k: v for k, v in said["settings"].items() if k in ("eps", "beta1", "beta2")}
        assert own == OWN[name]
        assert said["settings"]["schedule"] == "constant"
    run = train(samples_from_sequences([[0, 1]], [0]), optimizer="adam", eps=0, steps=2)
    assert (run.limit_norm, run.settings.eps, run.settings.beta1) == ("max", 0.0, 0.9)
