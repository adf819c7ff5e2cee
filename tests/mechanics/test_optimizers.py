"""Every optimizer against its formula written out in NumPy, what it remembers, and the norm it belongs to."""

import json

import numpy as np
import pytest
from safetensors.numpy import load_file

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


@pytest.mark.parametrize("rank", [True, 3])
@pytest.mark.parametrize(("d", "schedule"), [(None, "constant"), (6, "inverse-sqrt")])
@pytest.mark.parametrize(("optimizer", "lr"), [("gd", 0.5), ("ngd", LR), ("polyak", None)])
def test_keys_and_queries_are_trained_by_the_formula_written_out(optimizer, lr, d, schedule, rank):
    schedule = "constant" if lr is None else schedule
    data, samples = ordered(d=d)
    E = data[3]
    width = E.shape[1]
    start = np.random.default_rng(1).normal(size=(2, width, width if rank is True else rank)) / 2
    found = train(
        samples, embeddings=None if d is None else E, init=start, optimizer=optimizer, lr=lr, steps=STEPS,
        schedule=schedule, factorised=rank, loss_floor=FLOOR,
    )  # fmt: skip
    K_, Q = start
    for t in range(1, STEPS + 1):
        value, G = loss_and_gradient(data, K_ @ Q.T)
        g = np.stack([G @ Q, G.T @ K_])
        eta = (lr or 1.0) / (np.sqrt(t) if schedule != "constant" else 1.0)
        K_, Q = np.stack([K_, Q]) - eta * plain_step(optimizer, value, g)
    assert np.abs(found.factors[0] - [K_, Q]).max() < 1e-8
    assert np.abs(found.W[0] - K_ @ Q.T).max() < 1e-8
    assert found.records["norm"][0, -1] == pytest.approx(np.linalg.norm(K_ @ Q.T), rel=1e-9)
    assert np.abs(np.stack([K_, Q]) - start).max() > 0.01
    assert (found.limit_norm, found.settings.factorised) == ("nuclear", start.shape[2])


def test_the_command_line_trains_keys_and_queries_by_the_formula(call, tmp_path):
    (X, y, _, E), _ = ordered()
    lines = [{"tokens": x.tolist(), "next": int(label)} for x, label in zip(X, y, strict=True)]
    (tmp_path / "data.jsonl").write_text("\n".join(map(json.dumps, lines)))
    start = np.random.default_rng(1).normal(size=(2, K, 3)) / 2
    np.save(tmp_path / "start.npy", start)
    asked = ["train", tmp_path / "data.jsonl", "-o", tmp_path / "R", "--optimizer", "ngd", "--steps", STEPS,
             "--init", tmp_path / "start.npy", "--rank", 3]  # fmt: skip
    code, _, err = call(*asked)
    assert code != 0
    assert "--rank is of --factorised" in err
    code, out, _ = call(*asked, "--factorised")
    assert code == 0
    assert "ngd (lr 0.01) on keys and queries of rank 3" in out
    assert "largest margin in the nuclear norm" in out
    state, (keys, queries) = load_file(tmp_path / "R" / "state.safetensors"), start
    row = np.argsort(json.loads((tmp_path / "R" / "vocabulary.json").read_text()))  # of each token
    data = row[X], row[y], np.full(len(X), 1 / len(X)), E
    for _ in range(STEPS):
        _, G = loss_and_gradient(data, keys @ queries.T)
        g = np.stack([G @ queries, G.T @ keys])
        keys, queries = np.stack([keys, queries]) - LR * g / np.linalg.norm(g)
    assert np.abs(state["keys"] - keys).max() < 1e-8
    assert np.abs(state["queries"] - queries).max() < 1e-8


@pytest.mark.parametrize("layout", ["scatter", "gather"])
def test_factors_of_a_large_vocabulary_train_without_a_matrix(monkeypatch, layout):
    """The same draws, the same steps, with scores of the pairs that occur in place of W."""
    samples = draw_samples(np.random.default_rng(5), 6, 12, 4, kind="acyclic")
    how = {"optimizer": "ngd", "steps": 100, "factorised": 4, "seeds": 2}
    dense = train(samples, **how)
    monkeypatch.setattr(arguments, "MATRIX_UP_TO", 5)
    pairs = train(samples, layout=layout, record=lambda S, _: {"first": S[0]}, **how)
    last, token = np.divmod(samples.pair_index()[0], 6)
    assert pairs.W is None
    assert np.abs(pairs.factors - dense.factors).max() < 1e-10
    assert np.abs(pairs.scores - dense.W[:, token, last]).max() < 1e-10
    assert np.abs(pairs.records["norm"] - dense.records["norm"]).max() < 1e-10
    assert np.abs(pairs.records["first"][:, -1] - pairs.scores[:, 0]).max() < 1e-15
    assert np.abs(dense.W[0] - dense.W[1]).max() > 1e-3  # each seed has a start of its own


def test_data_sets_side_by_side_train_factors_as_each_alone(monkeypatch):
    monkeypatch.setattr(arguments, "MATRIX_UP_TO", 0)
    small, large = (
        draw_samples(np.random.default_rng(i), K, n, 4, kind="acyclic")
        for i, (K, n) in enumerate([(5, 8), (7, 12)])
    )
    starts = [np.random.default_rng(i).normal(size=(2, K, 4)) for i, K in enumerate((5, 7))]
    how = {"steps": 60, "factorised": 4}
    both = train([small, large], init=starts, **how)
    for i, samples in enumerate((small, large)):
        alone = train(samples, init=starts[i], **how)
        assert np.abs(both.factors[i, :, : len(starts[i][0])] - alone.factors[0]).max() < 1e-9
        assert np.abs(both.scores[i, : len(alone.scores[0])] - alone.scores[0]).max() < 1e-9
        assert np.abs(both.scores[i]).sum() == pytest.approx(np.abs(alone.scores).sum())


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"factorised": True, "optimizer": "adam"}, "not known. Use one of gd, ngd"),
        ({"factorised": True, "init": "uniform"}, "normal entries times init_scale"),
        ({"factorised": 7}, "W has 6 rows and columns"),
        ({"factorised": 0}, "a rank of at least 1"),
        ({"factorised": True, "init_scale": 0.0}, "from 0 factors never move"),
        ({"init_scale": 0.1}, "init_scale is of factorised training"),
        ({"factorised": 2, "init": np.zeros((6, 6))}, "expected shape"),
    ],
)
def test_factors_that_make_no_sense_are_refused(options, match):
    samples = draw_samples(np.random.default_rng(0), 6, 5, 3)
    with pytest.raises(UsageError, match=match):
        train(samples, steps=2, **options)


def test_factors_that_take_too_much_memory_are_refused_with_the_rank_that_fits(monkeypatch):
    samples = draw_samples(np.random.default_rng(0), 6, 5, 3)
    monkeypatch.setattr(arguments, "MATRIX_UP_TO", 5)
    column = 8 * (4 * 6 + 3 * len(samples.pair_index()[0]))
    monkeypatch.setattr(arguments, "MOST_BYTES", 3 * column)
    with pytest.raises(UsageError, match="a rank of at most 3"):
        train(samples, steps=2, factorised=True)
    assert train(samples, steps=2, factorised=3).factors.shape == (1, 2, 6, 3)


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


@pytest.mark.parametrize(
    "how",
    [
        *({"optimizer": x, "init": "uniform"} for x in ("adam", "muon", "mirror:3")),
        {"optimizer": "ngd", "factorised": 2},
    ],
    ids=lambda x: x["optimizer"],
)
def test_a_run_broken_off_goes_on_to_the_same_bits(tmp_path, how):
    data = tmp_path / "data.jsonl"
    data.write_text(
        '{"tokens": ["a", "b", "c"], "next": "a"}\n{"tokens": ["b", "c"], "next": "b"}\n'
    )
    how = {**how, "steps": 120, "seeds": 2, "schedule": "inverse-sqrt"}

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
    said = train_run(data, tmp_path / "factors", factorised=True, steps=3, seeds=2)
    assert said["limit_norm"] == "nuclear"
    assert (said["settings"]["factorised"], said["settings"]["init_scale"]) == (3, 0.01)
    state = load_file(tmp_path / "factors" / "state.safetensors")
    wanted = state["keys"] @ state["queries"].transpose(0, 2, 1)
    assert np.abs(state["W"] - wanted).max() < 1e-15
    run = train(samples_from_sequences([[0, 1]], [0]), optimizer="adam", eps=0, steps=2)
    assert (run.limit_norm, run.settings.eps, run.settings.beta1) == ("max", 0.0, 0.9)
