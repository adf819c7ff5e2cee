"""Rivals judged against plain loops; names; what is left out."""

from dataclasses import replace

import numpy as np
import pytest

from attomaton.corpus.vocabulary import Vocabulary
from attomaton.corpus.windows import windows_from_streams
from attomaton.errors import DataError, UsageError
from attomaton.predictor.bags import aligned
from attomaton.predictor.rivals import judge as judging
from attomaton.predictor.rivals import named
from attomaton.predictor.rivals.judge import against_all
from attomaton.predictor.rivals.named import KINDS, fit_field
from attomaton.predictor.scoring import score
from attomaton.predictor.tune import tune

PLAIN = [kind.name for kind in KINDS if kind.package is None]


@pytest.fixture(scope="module")
def field(corpora):
    return fit_field(PLAIN, *corpora[:2])


def test_all_plain_ones_are_fitted(field):
    assert [rival.name for rival in field.rivals] == [k.title for k in KINDS if k.package is None]
    assert field.residual < 1e-8
    for rival in field.rivals:
        for weights in (rival.whole, rival.inside):
            assert weights.value.sum(axis=1) == pytest.approx(1)


def zipf(seed, tokens, K=400):
    """A text of many words, most of them rare, in which some follow others; ids beyond K are new."""
    rng = np.random.default_rng(seed)
    ids = np.minimum((rng.pareto(0.7, tokens) * 3).astype(int), K - 1 if not seed else K + 2)
    ids[1::3] = (ids[::3][: len(ids[1::3])] * 7 + 1) % K
    words = Vocabulary([f"w{i}" for i in range(K if not seed else K + 3)])
    return windows_from_streams(words, ids, np.array([0, tokens]), 8, partial=True)


@pytest.mark.parametrize("kind", ["plain", "trees"])
def test_listed_as_over_the_whole_vocabulary(kind, monkeypatch):
    if kind == "trees":
        pytest.importorskip("lightgbm", reason="the extra `trees` is not installed")
    names = [x.name for x in KINDS if x.package is None and not x.many_sequences]
    names = ["trees", "trees-order"] if kind == "trees" else names
    monkeypatch.setattr(judging, "ALWAYS", 40)
    monkeypatch.setattr(judging, "LISTED", 5000)
    train, valid, test = (zipf(seed, n) for seed, n in ((0, 3000), (1, 900), (2, 700)))
    fitted = fit_field(names, train, valid)
    test = aligned(test, train.vocabulary)
    listed = fitted.judge(test)
    monkeypatch.setattr(judging, "Listable", int)
    dense = fitted.judge(test)
    for mine, whole in zip(listed, dense, strict=True):
        for name, measured in whole.items():
            for a, b in zip(mine[name], measured, strict=True):
                assert a == pytest.approx(b, abs=1e-12), name
    # Control: with too few tokens of the base, labels come too early.
    monkeypatch.undo()
    monkeypatch.setattr(judging, "ALWAYS", 1)
    few = fitted.judge(test).whole
    assert any((few[name].mrr10 > measured.mrr10).any() for name, measured in dense.whole.items())


def test_judged_as_by_a_plain_loop(corpora, contexts, field, monkeypatch):
    monkeypatch.setattr(judging, "BLOCK", 17)
    monkeypatch.setattr(judging, "LISTED", 40)  # a few rows at a time
    windows = aligned(corpora[2], corpora[0].vocabulary)
    found = field.judge(windows)
    K, rows = len(corpora[0].vocabulary), np.arange(len(windows))
    spreads = {name: one.on(windows, rows) for name, one in field.components.items()}
    p = {name: one.dense(0, len(rows)) for name, one in spreads.items()}
    holding = np.flatnonzero(windows.realizable).tolist()
    for rival in field.rivals:
        sizes = [field.components[x].buckets for x in rival.parts]
        for i, (context, label) in enumerate(contexts(windows)):
            state = np.ravel_multi_index([spreads[x].bucket[i] for x in rival.parts], sizes)
            w = rival.whole.value[state]
            mine = sum(v * p[x][i] for v, x in zip(w, rival.parts, strict=True))
            whole = found.whole[rival.name]
            assert whole.loss[i] == pytest.approx(-np.log(mine[min(label, K)]))
            assert whole.sure[i] == pytest.approx(mine[:K].max())
            order = np.lexsort((np.arange(K), -mine[:K].round(14))).tolist()
            rank = order.index(label) if label < K else 99
            assert whole.top1[i] == (rank == 0)
            assert whole.mrr10[i] == pytest.approx(1 / (rank + 1) if rank < 10 else 0)
            if i not in holding:
                continue
            at = holding.index(i)
            w, tokens = rival.inside.value[state], sorted(set(context))
            shares = np.zeros(len(tokens))
            for v, x in zip(w, rival.parts, strict=True):
                part = np.array([p[x][i][min(t, K)] for t in tokens])
                total = part.sum()
                shares += v * (part / total if total else 1 / len(tokens))
            assert found.inside[rival.name].loss[at] == pytest.approx(
                -np.log(shares[tokens.index(label)]), abs=1e-9
            )


def test_against_all_by_hand():
    p = np.array([[0.1, 0.3, 0.3, 0.2, 0.1]] * 4)
    m = against_all(p, np.array([2, 1, 0, 9]))
    assert m.top1.tolist() == [0, 1, 0, 0]  # of equals the lower id is first; a new word is no hit
    assert m.mrr10 == pytest.approx([1 / 2, 1, 1 / 4, 0])
    assert m.loss == pytest.approx(-np.log([0.3, 0.3, 0.1, 0.1]))
    assert m.sure.tolist() == [0.3] * 4


def test_a_mixture_is_no_worse_than_its_parts_where_it_was_fitted(corpora, field):
    valid = aligned(corpora[1], corpora[0].vocabulary)
    found = field.judge(valid)
    loss = {name: float(m.loss.mean()) for name, m in found.whole.items()}
    assert loss["mixture of all four"] < loss["Kneser–Ney + cache"] + 0.01
    assert loss["Kneser–Ney + cache"] < loss["Kneser–Ney 5-gram"] + 1e-9
    assert loss["mixture of all four"] < min(loss["induction"], loss["cache"], loss["item-kNN"])


def test_shuffled_labels_gain_nothing(drawn):
    # Trained and mixed on labels that have nothing to do with their contexts, all fall back on frequency.
    train, valid, test = (drawn(seed, 80) for seed in (0, 1, 2))

    def shuffled(windows, seed):
        label = np.random.default_rng(seed).permutation(windows.label)
        return replace(windows, label=label)

    told = fit_field(["mixture"], train, valid).judge(test).whole["mixture of all four"]
    control = fit_field(["mixture"], shuffled(train, 0), shuffled(valid, 1)).judge(test)
    share = np.bincount(test.label) / len(test)
    entropy = -share[share > 0] @ np.log(share[share > 0])
    assert told.loss.mean() < entropy - 0.1
    assert control.whole["mixture of all four"].loss.mean() > entropy - 0.1


def test_names(corpora, written, monkeypatch):
    train, valid, _ = corpora
    with pytest.raises(UsageError, match="did you mean 'mixture'"):
        fit_field(["mixtrue"], train, valid)
    stream = written([0, 1, 2, 0, 1, 2, 0, 1], 3, 3)
    with pytest.raises(UsageError, match="item-knn: needs data of at least 30 sequences"):
        fit_field(["item-knn"], stream, stream)
    _, left_out = named.chosen(["all"], stream, stream)
    assert {"item-knn", "session-knn"} <= {x.name for x in left_out}
    # A handful of windows grows no trees, whatever is installed.
    monkeypatch.setattr(named, "find_spec", lambda name: True)
    reason = {x.name: x.reason for x in named.chosen(["all"], train, stream)[1]}
    told = "needs at least 50 validation windows that hold their label"
    assert reason == {"trees": told, "trees-order": told}


def test_a_package_that_is_not_there_is_named(corpora, monkeypatch):
    monkeypatch.setattr(named, "find_spec", lambda name: None)
    extra = replace(KINDS[0], name="extra", package="nowhere", extra="some")
    monkeypatch.setattr(named, "KINDS", (extra,))
    monkeypatch.setattr(named, "NAMES", ("extra",))
    with pytest.raises(UsageError, match=r"needs the package `nowhere`: pip install 'attomaton\[some\]'"):  # fmt: skip
        named.chosen(["extra"], *corpora[:2])
    assert [x.name for x in named.chosen(["all"], *corpora[:2])[1]] == ["extra"]


def test_beside_a_predictor_and_in_python(corpora):
    train, valid, test = corpora
    predictor = tune(train, valid, priors=["zero"], lambdas=[1.0], thetas=[1.0])
    names = ["kneser-ney", "mixture"]
    found = score(predictor, test, train=train, valid=valid, baselines=names)
    for table, windows in ((found.realizable, test.realizable.sum()), (found.all, len(test))):
        rows = {row.name: row for row in table.rows}
        assert table.windows == windows
        assert {"predictor", "Kneser–Ney 5-gram", "mixture of all four"} <= set(rows)
        assert np.isfinite(rows["mixture of all four"].log_loss_more)
        assert rows["mixture of all four"].reliability
    assert found.left_out == []
    with pytest.raises(UsageError, match="give both"):
        score(predictor, test, baselines=names)
    with pytest.raises(DataError, match="never saw"):
        score(predictor, test, train=test, valid=valid, baselines=names)
