"""Scores against plain loops over windows and words."""

from dataclasses import replace

import numpy as np
import pytest

from attomaton.corpus.reading import Reading
from attomaton.corpus.vocabulary import Vocabulary
from attomaton.corpus.windows import windows_from_sequences, windows_from_streams
from attomaton.errors import DataError
from attomaton.mechanics.theory.automaton import Automaton
from attomaton.mechanics.theory.limit import solve_limit
from attomaton.numerics import row_pointer
from attomaton.predictor.bags import aligned, bags_of
from attomaton.predictor.scoring import (
    Measured,
    clusters_of,
    in_context,
    limit_weights,
    mean_and_error,
    measure,
    over_vocabulary,
    score_limit,
    score_predictor,
    table_of,
)
from attomaton.predictor.tune import tune


@pytest.fixture(scope="module")
def predictor(text):
    return tune(
        text(0),
        text(1),
        reading=Reading(context=6),
        priors=["main+bigram"],
        lambdas=[1.0],
        thetas=[0.3],
    )


def words_before(windows, i):
    ids = windows.ids[windows.left[i] : windows.left[i] + windows.length[i]]
    return [windows.vocabulary[x] for x in ids]


def test_ties_are_shared():
    bags = bags_of(windows_from_sequences([[0, 1, 2, 3]], [1]), np.arange(1))
    loss, top1, top5, mrr10, sure = measure(bags, np.array([0.4, 0.2, 0.2, 0.2]))
    assert (mrr10[0], sure[0]) == (pytest.approx((1 / 2 + 1 / 3 + 1 / 4) / 3), 0.4)
    assert (loss[0], top1[0], top5[0]) == (pytest.approx(-np.log(0.2)), 0, 1)
    _, top1, *_ = measure(bags, np.array([0.1, 0.3, 0.3, 0.3]))
    assert top1[0] == pytest.approx(1 / 3)
    loss, top1, top5, mrr10, _ = measure(bags, np.array([1.0, 0.0, 0.0, 0.0]))
    assert (loss[0], top1[0], top5[0], mrr10[0]) == (
        np.inf,
        0,
        0,
        0,
    )  # what is impossible is never a hit


def test_whole_vocabulary_by_a_plain_loop(predictor, text):
    # Half of the words of this text were never seen in training.
    asked = text(2, 80, 8)
    strange = replace(
        asked, vocabulary=type(asked.vocabulary)([f"w{i}" if i < 5 else f"v{i}" for i in range(8)])
    )
    windows = aligned(strange, predictor.vocabulary)
    found = over_vocabulary(windows, predictor)["predictor"]
    order = {x: i for i, x in enumerate(windows.vocabulary.labels)}
    for i in range(len(windows)):
        context, label = words_before(windows, i), windows.vocabulary[windows.label[i]]
        p = predictor.predict_proba(context)
        nameable = label in p
        mine = p[label if nameable else None]
        assert found.loss[i] == pytest.approx(-np.log(mine))
        rank = sum(
            (v > mine + 1e-15) or (abs(v - mine) <= 1e-15 and order[x] < order[label])
            for x, v in p.items()
            if x is not None
        )
        assert found.top1[i] == (nameable and rank < 1)
        assert found.top5[i] == (nameable and rank < 5)
        assert found.mrr10[i] == pytest.approx(1 / (rank + 1) if nameable and rank < 10 else 0)
        assert found.sure[i] == pytest.approx(max(v for x, v in p.items() if x is not None))


def test_ngrams_over_the_vocabulary_by_a_plain_loop(predictor, text):
    windows = text(2, 80)
    ngrams, K = predictor.baselines.ngrams, 8
    found = over_vocabulary(windows, predictor)
    for i in range(len(windows)):
        *_, b, q = windows.ids[windows.left[i] : windows.left[i] + 6]
        for name, p in (
            ("bigram", ngrams.bigram(np.full(K, q), np.arange(K))),
            ("trigram", ngrams.trigram(np.full(K, b), np.full(K, q), np.arange(K))),
        ):
            order = np.lexsort((np.arange(K), -p)).tolist()
            rank = order.index(windows.label[i])
            assert found[name].loss[i] == pytest.approx(-np.log(p[windows.label[i]]))
            assert (found[name].top1[i], found[name].top5[i]) == (rank < 1, rank < 5)
            assert found[name].mrr10[i] == pytest.approx(1 / (rank + 1))  # of eight words
            assert found[name].sure[i] == pytest.approx(p.max())


def test_the_limit_is_its_automaton(text):
    train, asked = text(0, 150, 6, 4), text(1, 60, 7, 4)
    limit = solve_limit(train.samples())
    windows = aligned(asked, limit.graph.vocabulary)
    found = in_context(windows, {"limit": limit_weights(limit)})["limit"]
    automaton = Automaton(limit)
    rows = np.flatnonzero(windows.realizable)
    told = [automaton.predict_proba(words_before(windows, i)) for i in rows]
    # After words that never were last nothing was learned; words the limit does not know are left out.
    answered = np.array([bool(p) and not p.unknown for p in told])
    labels = [windows.vocabulary[windows.label[i]] for i in rows]
    p = [x[y] for x, y, known in zip(told, labels, answered, strict=True) if known]
    assert answered.mean() > 0.5
    assert np.exp(-found.loss)[answered] == pytest.approx(p)
    assert min(p) == 0  # hard: some labels are impossible


def test_tables(text, predictor):
    train, asked = text(0), text(2, 3000)
    limit = solve_limit(train.samples())
    result = score_predictor(predictor, asked, limit)
    rows = {row.name: row for row in result.realizable.rows}
    assert list(rows) == ["predictor", "unigram", "most recent", "bigram", "bigram, smoothed",
                          "bigram, mixed", "trigram, mixed", "limit"]  # fmt: skip
    assert rows["predictor"].log_loss_more == 0
    assert rows["unigram"].log_loss_more == pytest.approx(
        rows["unigram"].log_loss - rows["predictor"].log_loss
    )
    assert rows["limit"].log_loss == np.inf
    assert 0 < rows["limit"].impossible < 1
    assert np.isnan(rows["limit"].log_loss_more)
    assert [row.name for row in result.all.rows] == ["predictor", "bigram", "trigram"]
    alone = score_limit(limit, asked).realizable
    assert [row.name for row in alone.rows] == ["limit", "unigram"]
    assert alone.rows[0].top1 == rows["limit"].top1
    beside = score_limit(limit, asked, train, text(1)).realizable
    same = {row.name: row.log_loss for row in beside.rows}
    for name in ("unigram", "most recent", "bigram, smoothed", "trigram, mixed"):
        assert same[name] == pytest.approx(rows[name].log_loss)


def test_errors_come_from_clusters():
    rng = np.random.default_rng(0)
    ones, blocks = np.ones(200_000), np.arange(200_000) // 1000
    alone = rng.standard_normal(200_000)
    _, error = mean_and_error(alone, ones, blocks)
    assert error == pytest.approx(1 / np.sqrt(200_000), rel=0.2)  # 200 blocks: 5% of its own
    together = np.repeat(rng.standard_normal(2000), 100)  # neighbours agree: as good as 2,000
    _, error = mean_and_error(together, ones, blocks)
    assert error == pytest.approx(1 / np.sqrt(2000), rel=0.2)
    assert np.isnan(mean_and_error(alone[:10], ones[:10], blocks[:10])[1])


def test_the_error_of_sequences_is_that_of_their_means():
    """Sequences of 4,000 windows that lean each their own way: blocks of 1,000 would promise twice too much."""
    rng = np.random.default_rng(1)
    value = np.repeat(rng.standard_normal(100), 4000) + 0.1 * rng.standard_normal(400_000)
    sequence = np.repeat(np.arange(100), 4000)
    _, error = mean_and_error(value, np.ones(400_000), sequence)
    assert error == pytest.approx(value.reshape(100, -1).mean(1).std(ddof=1) / 10)
    _, blocks = mean_and_error(value, np.ones(400_000), np.arange(400_000) // 1000)
    assert blocks == pytest.approx(error / 2, rel=0.02)


def windows_in(lengths):
    ids = np.zeros(sum(lengths), dtype=np.int64)
    return windows_from_streams(Vocabulary("a"), ids, row_pointer(np.array(lengths)), 1, True)


def test_windows_are_clustered_by_sequence_or_in_blocks():
    cluster, by = clusters_of(windows_in([3, 1, *[2] * 30]))
    assert (by, cluster.tolist()) == ("sequences", [0, 0, *range(2, 32)])
    cluster, by = clusters_of(windows_in([2101, 1001]))  # none goes across
    assert by == "blocks of 1,000 windows"
    assert np.bincount(cluster).tolist() == [1000, 1000, 100, 1000]
    cluster, by = clusters_of(windows_from_sequences([[0]] * 1500, [0] * 1500))
    assert (np.bincount(cluster).tolist(), by) == ([1000, 500], "blocks of 1,000 windows")


def test_the_calibration_error_by_hand():
    """Sure with ¾ and right half of the time, sure with 1/10 and never right."""
    value = Measured(
        np.ones(4),
        np.array([1.0, 0, 0, 0]),
        np.ones(4),
        np.ones(4),
        np.array([0.75, 0.75, 0.1, 0.1]),
    )
    windows = windows_from_sequences([[0]] * 4, [0] * 4)
    row = table_of({"a": value}, windows, np.arange(4), "a").rows[0]
    assert [(b.sure, b.right, b.weight) for b in row.reliability] == [(0.1, 0, 2), (0.75, 0.5, 2)]
    assert row.calibration_error == pytest.approx(0.5 * 0.1 + 0.5 * 0.25)


def test_who_says_the_truth_is_calibrated():
    rng = np.random.default_rng(3)
    sure = rng.random(50_000)
    right = (rng.random(50_000) < sure).astype(float)
    true, bold = (Measured(right, right, right, right, s) for s in (sure, np.sqrt(sure)))
    windows = windows_from_sequences([[0]] * 50_000, [0] * 50_000)
    table = table_of({"true": true, "bold": bold}, windows, np.arange(50_000), "true")
    assert table.rows[0].calibration_error < 0.01
    assert table.rows[1].calibration_error == pytest.approx(2 / 3 - 1 / 2, abs=0.01)


def test_weights_count():
    value = Measured(*(np.array([0.5, 0.9]) for _ in range(5)))
    windows = windows_from_sequences([[0], [0]], [0, 0], [3.0, 1.0])
    row = table_of({"a": value}, windows, np.arange(2), "a").rows[0]
    assert row.log_loss == pytest.approx(0.6)


def test_nothing_to_score(predictor):
    windows = windows_from_sequences([["w1"]], ["w2"], vocabulary=predictor.vocabulary)
    with pytest.raises(DataError, match="none of the windows"):
        score_predictor(predictor, windows)


def test_labels_never_seen_are_counted_and_data_of_another_kind_refused(predictor):
    rows = [["w1", "w2"], ["w1", "new"], ["new", "w2"]]
    windows = windows_from_sequences(rows, ["w1", "new", "never"])
    assert score_predictor(predictor, windows).new_labels == 2
    other = windows_from_sequences([["W1", "W2"]], ["W1"])
    with pytest.raises(DataError, match="training saw none of these 2 tokens"):
        score_predictor(predictor, other)


@pytest.mark.parametrize("seed", range(20))
def test_ties_are_broken_in_every_order(seed):
    """Hits among the first one and five, against sorting with all ties broken in each possible way."""
    from itertools import permutations

    from attomaton.numerics import named_rng
    from attomaton.predictor.bags import bag_of

    rng = named_rng("ties", seed)
    p = rng.choice([0.05, 0.1, 0.2], 7)
    bags = replace(bag_of(np.arange(7)), label=np.array([3]))
    _, top1, top5, mrr10, _ = measure(bags, p / p.sum())
    ranks = [
        sorted(range(7), key=lambda x: (-p[x], order[x])).index(3)
        for order in permutations(range(7))
    ]
    assert top1[0] == pytest.approx(np.mean(np.array(ranks) < 1))
    assert top5[0] == pytest.approx(np.mean(np.array(ranks) < 5))
    assert mrr10[0] == pytest.approx(np.mean(1 / (np.array(ranks) + 1)))
