"""Kneser–Ney by hand, by a plain second implementation, as distributions, and on disk."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attomaton.corpus.vocabulary import Vocabulary
from attomaton.corpus.windows import windows_from_sequences, windows_from_streams
from attomaton.errors import DataError
from attomaton.predictor import ngrams
from attomaton.predictor.kneser_ney import (
    USUAL,
    KneserNey,
    choose_order,
    discounts_of,
    fit_kneser_ney,
    histories_of,
)

HERE = Path("ngrams.safetensors")


@pytest.fixture(scope="module")
def streams():
    """Several sequences with partial windows: some histories reach back to the beginning."""
    rng = np.random.default_rng(4)
    ids = rng.choice(6, 400, p=[0.4, 0.2, 0.2, 0.1, 0.05, 0.05])
    start = np.array([0, *np.sort(rng.choice(np.arange(1, 400), 40, replace=False)), 400])
    return windows_from_streams(Vocabulary(list("abcdefg")), ids, start, 6, partial=True)


def test_by_hand(written):
    # Text 0 0 1 0 0 1 0 0 in windows of 1: bigrams 00 01 10 00 01 10 00, three, two and two of them.
    model = fit_kneser_ney(written([0, 0, 1, 0, 0, 1, 0, 0], 2, 1))
    assert model.order == 2
    # Nothing occurs once, so the discounts are the usual: of 3 goes 1½, of 2 goes 1.
    # One token stood before label 1 (it is 0), two before label 0 (0 and 1): of 1 goes ½, of 2 goes 1.
    p1 = np.array([1 + 1.5 / 3, 0.5 + 1.5 / 3, 1.5 / 3]) / 3
    assert model.spread(np.array([0]), 1) == pytest.approx(p1)
    after0 = np.array([3 - 1.5 + 2.5 * p1[0], 2 - 1 + 2.5 * p1[1], 2.5 * p1[2]]) / 5
    assert model.spread(np.array([0])) == pytest.approx(after0)
    after1 = np.array([2 - 1 + p1[0], p1[1], p1[2]]) / 2
    assert model.spread(np.array([1])) == pytest.approx(after1)
    assert model.spread(np.array([7])) == pytest.approx(p1)  # a word never seen


def test_discounts():
    count = np.repeat([1.0, 2, 3, 4, 9], [10, 4, 3, 2, 7])
    y = 10 / 18
    assert discounts_of(count) == pytest.approx(
        (1 - 2 * y * 0.4, 2 - 3 * y * 0.75, 3 - 4 * y * 2 / 3)
    )
    assert discounts_of(np.repeat([1.0, 2, 3], [2, 9, 9])).more == USUAL[2]  # all of 3, as n₄ is 0
    assert discounts_of(np.repeat([1.0, 2, 3], [9, 1, 9])).two == USUAL[1]  # below 0
    assert discounts_of(np.array([0.3, 7.0])) == USUAL


def plain_p(rows, history, x, K, order):
    """p of x after a history (oldest first, "^" for the beginning), from lists of windows."""

    def gram(row, n):  # the n-gram that ends with the label, where the window reaches back so far
        words = ["^", *row[0], row[1]]
        return tuple(words[-n:]) if len(words) >= n else None

    def count(n):
        if n == order:
            return Counter(g for row in rows if (g := gram(row, n)))
        longer = {g for row in rows if (g := gram(row, n + 1))}
        found = Counter(g[1:] for g in longer)
        return found + Counter(g for row in rows if (g := gram(row, n)) and n > 1 and g[0] == "^")

    def p(n):
        if n == 0:
            return 1 / (K + 1)
        if len(history) < n - 1:
            return p(n - 1)
        table = count(n)
        many = Counter(min(c, 5) for c in table.values())
        d = [0, *USUAL]
        if many[1] and many[2] and many[3]:
            y = many[1] / (many[1] + 2 * many[2])
            for k in (1, 2, 3):
                found = k - (k + 1) * y * many[k + 1] / many[k]
                d[k] = found if 0 < found < k else d[k]
        past = tuple(history[len(history) - n + 1 :])
        after = {g[-1]: c for g, c in table.items() if g[:-1] == past}
        if not after:
            return p(n - 1)
        freed = sum(d[min(c, 3)] for c in after.values())
        mine = after.get(x, 0)
        return (mine - d[min(mine, 3)] + freed * p(n - 1)) / sum(after.values())

    return p(order)


def in_words(windows):
    return [
        (windows.ids[a : a + n].tolist(), int(x))
        for a, n, x in zip(windows.left, windows.length, windows.label, strict=True)
    ]


@pytest.mark.parametrize("order", [2, 3, 5])
def test_by_a_plain_loop(streams, order):
    rows, K = in_words(streams), len(streams.vocabulary)
    model = fit_kneser_ney(streams, order)
    asked = np.arange(0, len(streams), 9)
    recent = histories_of(streams, asked)
    found = model.probabilities(recent, np.arange(len(asked)), streams.label[asked])[-1]
    for i, p in zip(asked, found, strict=True):
        history = ["^", *rows[i][0]][-(order - 1) :]
        assert p == pytest.approx(plain_p(rows, history, rows[i][1], K, order), abs=1e-13)


def test_the_models_of_all_orders_are_kept(streams):
    longest = fit_kneser_ney(streams)
    rows = np.arange(len(streams))
    recent = histories_of(streams)
    each = longest.of_each_order(recent, rows, streams.label)
    for order in (1, 2, 3, 5):
        alone = fit_kneser_ney(streams, order)
        p = alone.probabilities(recent, rows, streams.label)[-1]
        assert each.p[order - 1] == pytest.approx(p, abs=1e-13)
        cut = longest.cut(order)
        assert cut.order == order
        assert cut.probabilities(recent, rows, streams.label)[-1] == pytest.approx(p, abs=1e-13)
    assert (each.seen == (longest.histories(recent) >= 0).T).all()
    assert 1 < choose_order(longest, streams) <= 5
    assert choose_order(longest, streams, near=9.0) == 1
    # What is counted for an explanation, by a plain loop.
    words, asked = in_words(streams), 30
    context, label = words[asked]
    counts = longest.counts(recent, np.array([asked]), np.array([label]))
    for n, (times, of) in enumerate(zip(*(x[:, 0] for x in counts), strict=True)):
        same = [x for row, x in words if n == 0 or (len(row) >= n and row[-n:] == context[-n:])]
        assert (times, of) == (same.count(label), len(same))


@given(
    st.lists(
        st.tuples(st.lists(st.integers(0, 3), min_size=1, max_size=5), st.integers(0, 3),
                  st.floats(0.1, 3.0)),
        min_size=1, max_size=12,
    ),
)  # fmt: skip
def test_all_are_distributions_for_any_weights(rows):
    contexts, labels, weights = zip(*rows, strict=True)
    model = fit_kneser_ney(windows_from_sequences(contexts, labels, weights))
    K = model.K
    words = np.arange(K + 1)  # the last: any word never seen
    rng = np.random.default_rng(0)
    recent = rng.integers(-1, K + 1, (20, 4))
    row = np.repeat(np.arange(20), K + 1)
    p = model.probabilities(recent, row, np.tile(words, 20)).reshape(model.order, 20, K + 1)
    assert p.sum(2) == pytest.approx(1, abs=1e-12)
    assert (p > 0).all()
    for i, history in enumerate(recent):
        assert model.spread(history) == pytest.approx(p[-1, i], abs=1e-14)


def test_unseen_histories_fall_through(streams):
    model = fit_kneser_ney(streams)
    x = np.array([0, 1, 2])

    def p(*recent):
        return model.probabilities(np.array([recent]), np.zeros(3, dtype=int), x)

    assert (p(0, 1, 99, 0)[2:] == p(0, 1, 99, 0)[2]).all()  # a word never seen ends every history
    assert (
        p(0, -1, -1, -1)[3:] == p(0, -1, -1, -1)[2]
    ).all()  # nothing stands before the beginning
    assert (p(0, -1, -1, -1)[2] != p(0, 99, 0, 0)[2]).all()  # which is not a word never seen
    assert (p(99, 0, 0, 0) == p(99, 0, 0, 0)[0]).all()


def test_order_has_no_longer_history_than_contexts(written):
    windows = written([0, 1, 0, 0, 1, 1, 0, 1], 2, 2)
    model = fit_kneser_ney(windows)
    assert model.order == 3
    assert model.levels[2].grams.count.sum() == len(windows)


def test_the_best_are_the_best(streams):
    model = fit_kneser_ney(streams)
    recent = np.concatenate([histories_of(streams)[::5], [[9, 0, 0, 0], [0, -1, -1, -1]]])
    best = model.best(recent, 3)
    for history, token, value in zip(recent, best.token, best.p, strict=True):
        p = model.spread(history)[:-1]
        order = np.lexsort((np.arange(len(p)), -p.round(13)))[:3]
        assert token.tolist() == order.tolist()
        assert value == pytest.approx(p[order])
    assert model.best(recent[:1], 9).token[0, 7:].tolist() == [-1, -1]  # of seven tokens


def test_more_history_helps_where_order_matters_and_only_there():
    rng = np.random.default_rng(2)
    # The label is the token four back, or (control) any.
    tokens = rng.integers(5, size=(3000, 4))

    def losses(label):
        seen = windows_from_sequences(tokens[:2000], label[:2000])
        asked = windows_from_sequences(tokens[2000:], label[2000:], vocabulary=seen.vocabulary)
        recent, row = histories_of(asked), np.arange(1000)
        return -np.log(fit_kneser_ney(seen).probabilities(recent, row, asked.label)).mean(1)

    told, control = losses(tokens[:, 0]), losses(rng.integers(5, size=3000))
    assert told[4] < 0.8 < 1.5 < told[3]
    assert control[4] > 1.5


def test_disk(streams):
    model = fit_kneser_ney(streams)
    arrays = model.arrays()
    again = KneserNey.from_arrays(HERE, arrays, model.K)
    recent, row = histories_of(streams), np.arange(len(streams))
    p, same = (m.probabilities(recent, row, streams.label) for m in (model, again))
    assert (p == same).all()


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("count_2", lambda a: a[:-1]),
        ("count_3", lambda a: a * 0),
        ("grams_2_token", lambda a: a[::-1].copy()),
        ("grams_2_token", lambda a: a + 100),
        ("histories_3_start", lambda a: a[:-1]),
        ("grams_1_start", lambda a: a - 1),
        ("histories_2_token", lambda a: a.astype(float)),
    ],
)
def test_damaged_arrays_are_refused(streams, name, change):
    arrays = fit_kneser_ney(streams).arrays()
    arrays[name] = change(arrays[name])
    with pytest.raises(DataError, match=HERE.name):
        KneserNey.from_arrays(HERE, arrays, len(streams.vocabulary))


def test_no_arrays_are_refused():
    with pytest.raises(DataError, match="no n-grams"):
        KneserNey.from_arrays(HERE, {}, 3)


@pytest.mark.parametrize("slack", [0, 1000], ids=["as one list", "as rows of a table"])
def test_first_places_are_those_of_a_plain_sort(slack, monkeypatch):
    monkeypatch.setattr(ngrams, "SLACK", slack)
    rng = np.random.default_rng(3)
    pairs = sorted(
        {(int(o), int(t)) for o, t in rng.integers(0, (6, 9), (40, 2))}, key=lambda x: -x[1]
    )
    owner, token = np.array(pairs).T
    p = rng.integers(1, 5, len(pairs)) / 8  # many are equal: the smaller token comes first
    best = ngrams.first_places(owner, token, p, 7, 4)
    for row in range(7):
        plain = sorted((-p[i], token[i]) for i in np.flatnonzero(owner == row))[:4]
        there = best.token[row] >= 0
        assert best.token[row][there].tolist() == [t for _, t in plain]
        assert best.p[row][there].tolist() == [-x for x, _ in plain]
