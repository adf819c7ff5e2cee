"""Trees and networks, where their packages are: as distributions, and against what they must find or not find."""

from dataclasses import replace

import numpy as np
import pytest

from attomaton.corpus.vocabulary import Vocabulary
from attomaton.corpus.windows import windows_from_streams
from attomaton.predictor.bags import aligned, bags_of
from attomaton.predictor.kneser_ney import fit_kneser_ney
from attomaton.predictor.rivals import neural, trees
from attomaton.predictor.rivals.named import fit_field

K = 6


def again(seed, sequences, back):
    """Sequences in which the item so far back comes again, seven times in ten; else any."""
    rng = np.random.default_rng(seed)
    ids = []
    for _ in range(sequences):
        row = rng.integers(K, size=4).tolist()
        while len(row) < 12:
            row.append(row[-back] if rng.random() < 0.7 else int(rng.integers(K)))
        ids += row
    start = np.arange(0, 12 * sequences + 1, 12)
    words = Vocabulary([f"i{i}" for i in range(K)])
    return windows_from_streams(words, np.array(ids), start, 6, partial=True)


@pytest.fixture(scope="module")
def corpus():
    return [again(seed, 150, back=4) for seed in (0, 1, 2)]


def spread(component, windows):
    rows = np.arange(len(windows))
    found = component.on(windows, rows)
    p = np.concatenate([found.dense(0, 50), found.dense(50, len(rows))])
    assert p.sum(axis=1) == pytest.approx(1, abs=1e-6)
    assert (p >= 0).all()
    return found, p


def test_candidates_by_a_plain_loop(corpora, contexts):
    train, _, test = corpora
    test = aligned(test, train.vocabulary)
    rows = np.arange(0, len(test), 4)
    features = trees.measure_features(train, ("main", "odds"))
    sight = trees.Sight(fit_kneser_ney(train), features, order=True)
    found = sight.inside(test, rows)
    bags = bags_of(test, rows)
    assert found.token.tolist() == bags.token.tolist()
    assert found.owner.tolist() == bags.owner.tolist()
    many, size, is_last = found.number.T[:3]
    distance, match = found.number.T[7:9]
    assert many.tolist() == bags.count.tolist()
    assert distance.tolist() == bags.distance.tolist()
    for i, (r, x) in enumerate(zip(found.owner, found.token, strict=True)):
        context = contexts(test)[rows[r]][0]
        assert size[i] == len(set(context))
        assert is_last[i] == (x == context[-1])
        longest = 0
        for j in (j for j in range(1, len(context)) if context[j] == x):
            n = 0
            while n < j and context[j - 1 - n] == context[-1 - n]:
                n += 1
            longest = max(longest, n)
        assert match[i] == longest


def test_trees_see_order_only_where_they_may(corpus):
    pytest.importorskip("lightgbm", reason="the extra `trees` is not installed")
    train, valid, test = corpus
    field = fit_field(["trees", "trees-order"], train, valid)
    found = field.judge(test)
    blind, seeing = (float(m.loss.mean()) for m in found.whole.values())
    assert seeing < blind - 0.15
    blind, seeing = (float(m.top1.mean()) for m in found.inside.values())
    assert seeing > blind + 0.1
    spread(field.components["trees-order"], test)
    # Control: shuffled labels of validation windows teach nothing about order.
    rng = np.random.default_rng(0)
    noise = [replace(w, label=rng.permutation(w.label)) for w in (train, valid)]
    control = fit_field(["trees-order"], *noise).judge(test).whole
    assert float(next(iter(control.values())).loss.mean()) > np.log(K) - 0.1


@pytest.mark.parametrize("kind", ["gru", "transformer"])
def test_networks_learn_and_are_distributions(kind, monkeypatch):
    pytest.importorskip("torch", reason="the extra `neural` is not installed")
    train, valid, test = (again(seed, 100, back=1) for seed in (0, 1, 2))
    monkeypatch.setattr(neural, "WIDTH", 16)
    monkeypatch.setattr(neural, "BATCH", 32)
    monkeypatch.setitem(neural.RATE, kind, 0.02)
    component = neural.fit_neural(kind, train, valid, 3600.0, epochs=12.0)
    _, p = spread(component, test)
    assert 6 < component.trained.epochs < 13
    p = p[np.arange(len(test)), test.label]
    assert -np.log(p).mean() < np.log(K) - 0.1
    monkeypatch.setattr(neural, "FEW", 3)  # the sampled softmax
    monkeypatch.setattr(neural, "FREQUENT", 2)
    monkeypatch.setattr(neural, "SAMPLED", 20)
    _, other = spread(neural.fit_neural(kind, train, valid, 3600.0, epochs=12.0), test)
    other = other[np.arange(len(test)), test.label]
    assert -np.log(other).mean() == pytest.approx(-np.log(p).mean(), abs=0.3)
    assert component.on(test, np.arange(3)).bucket.tolist() == [0, 0, 0]


def test_the_sampled_softmax_is_the_whole_one_on_average(monkeypatch):
    torch = pytest.importorskip("torch", reason="the extra `neural` is not installed")
    monkeypatch.setattr(neural, "FREQUENT", 3)
    monkeypatch.setattr(neural, "SAMPLED", 4000)
    monkeypatch.setattr(neural, "WIDTH", 4)
    rng = np.random.default_rng(0)
    many, target = 40, torch.arange(50) % 41
    with torch.random.fork_rng():
        torch.manual_seed(0)
        net = neural._network("gru", many, 8)
        states = torch.randn(50, 4)
        torch.nn.init.normal_(net.embed.weight)
        torch.nn.init.normal_(net.bias)
    share = rng.dirichlet(np.ones(many))
    whole = torch.nn.functional.cross_entropy(
        states @ net.embed.weight[: many + 1].T + net.bias, target
    )
    drawn = neural._Sampler(many, share, rng).loss(net, states, target)
    assert float(drawn.detach()) == pytest.approx(float(whole.detach()), abs=0.02)
    # Control: draws that stand for themselves alone are not the whole softmax.
    monkeypatch.setattr(neural, "SAMPLED", 1)
    poor = neural._Sampler(many, share, rng).loss(net, states, target)
    assert abs(float((poor - whole).detach())) > 0.02
