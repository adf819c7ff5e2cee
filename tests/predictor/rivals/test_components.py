"""Every component against a plain loop over lists, and by hand."""

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest

from attomaton.predictor.kneser_ney import fit_kneser_ney, histories_of
from attomaton.predictor.rivals import neighbours
from attomaton.predictor.rivals.copying import Cache, Induction, fit_cache, matches
from attomaton.predictor.rivals.counting import LENGTHS, SUPPORTS, NGram, Suffixes, sort_suffixes
from attomaton.predictor.rivals.named import fit_field
from attomaton.predictor.rivals.spreads import Base


@pytest.fixture(scope="module")
def ngrams(corpora):
    return fit_kneser_ney(corpora[0])


@pytest.fixture(scope="module")
def base(ngrams):
    return NGram(ngrams).unigram


def spread(component, windows, rows=None):
    """All distributions, made dense in two pieces."""
    rows = np.arange(len(windows)) if rows is None else rows
    found = component.on(windows, rows)
    half = len(rows) // 2
    p = np.concatenate([found.dense(0, half), found.dense(half, len(rows))])
    assert p.sum(axis=1) == pytest.approx(1, abs=1e-9)
    assert (p >= 0).all()
    assert found.bucket.shape == (len(rows),)
    assert 0 <= found.bucket.min() <= found.bucket.max() < component.buckets
    return p, found.bucket


@pytest.mark.parametrize("order", [None, 2, 1])
def test_ngrams_are_those_of_the_model(corpora, ngrams, order):
    test = corpora[2]
    model = ngrams if order is None else ngrams.cut(order)
    p, _ = spread(NGram(model), test)
    recent = histories_of(test)
    for i in range(0, len(test), 3):
        assert p[i] == pytest.approx(model.spread(recent[i]), abs=1e-14)


def test_the_bigram_that_others_fall_back_on_counts_windows(corpora):
    train, valid, test = corpora
    shelf = fit_field(["longest-suffix"], train, valid).components["bigram"]
    alone = fit_kneser_ney(train, 2)
    recent = histories_of(test)
    p, _ = spread(shelf, test)
    for i in range(0, len(test), 3):
        assert p[i] == pytest.approx(alone.spread(recent[i]), abs=1e-14)


def plain_suffix(seen, context):
    """What followed the longest suffix of a context in training, and its length."""
    for n in range(len(context), 0, -1):
        after = Counter(x for row, x in seen if row[-n:] == context[-n:])
        if after:
            return after, n
    return Counter(), 0


def test_longest_suffix_by_a_plain_loop(corpora, contexts, base):
    train, _, test = corpora
    seen = contexts(train)
    p, bucket = spread(sort_suffixes(train, base), test)
    lengths = set()
    for i, (context, _) in enumerate(contexts(test)):
        after, n = plain_suffix(seen, context)
        lengths.add(n)
        if not n:
            assert p[i] == pytest.approx(base)
            assert bucket[i] == 0
            continue
        total = sum(after.values())
        assert p[i] == pytest.approx([after[x] / total for x in range(len(base))])
        kind = max(j for j, a in enumerate(LENGTHS) if a <= n)
        often = max(j for j, a in enumerate(SUPPORTS) if a <= total)
        assert bucket[i] == 1 + kind * len(SUPPORTS) + often
    assert {0, 1, 2, 3, 4} <= lengths


def test_suffixes_are_sorted(corpora, contexts, base):
    train = corpora[0]
    found = sort_suffixes(train, base)
    rows = [context[::-1] for context, _ in contexts(train)]
    ordered = [rows[i] for i in found.order]
    assert ordered == sorted(rows)
    assert isinstance(found, Suffixes)


def plain_induction(context):
    best, places = 0, []
    for j in range(1, len(context)):
        n = 0
        while n < j and context[j - 1 - n] == context[-1 - n]:
            n += 1
        if n > best:
            best, places = n, [j]
        elif n == best and n > 0:
            places.append(j)
    return best, [context[j] for j in places]


def test_induction_by_a_plain_loop(corpora, contexts, base):
    test, K = corpora[2], len(base) - 1
    p, bucket = spread(Induction(base), test)
    found = set()
    for i, (context, _) in enumerate(contexts(test)):
        n, after = plain_induction(context)
        found.add(n)
        if not n:
            assert p[i] == pytest.approx(base)
            assert bucket[i] == 0
            continue
        expected = np.bincount([min(x, K) for x in after], minlength=K + 1) / len(after)
        assert p[i] == pytest.approx(expected)
        assert bucket[i] == {1: 1, 2: 2, 3: 3, 4: 3}.get(n, 4)
    assert {0, 1, 2} <= found


def test_matches_by_hand():
    # Latest first: b a b a b; behind the place one back (a) stands b, then a, b: all match.
    assert matches(np.array([[1, 0, 1, 0, 1, -1]])).tolist() == [[0, 3, 0, 1, 0, 0]]


def test_cache_by_a_plain_loop(corpora, contexts, base):
    test, K = corpora[2], len(base) - 1
    weight = np.array([0.1, 0.4, 0.2, 0.2, 0.05, 0.05])
    p, _ = spread(Cache(weight, base), test)
    for i, (context, _) in enumerate(contexts(test)):
        expected = np.zeros(K + 1)
        for d, x in enumerate(reversed(context)):
            expected[min(x, K)] += weight[d]
        assert p[i] == pytest.approx(expected / expected.sum())


def test_cache_finds_how_far_back_labels_stand(written):
    rng = np.random.default_rng(0)
    text = rng.integers(6, size=3).tolist()
    while len(text) < 500:  # three back with 0.6, one back with 0.2, or any
        text.append(int(rng.choice([text[-3], text[-1], rng.integers(6)], p=[0.6, 0.2, 0.2])))
    windows = written(text, 6, 5)
    found = fit_cache(windows, np.arange(len(windows)), np.full(7, 1 / 7))
    assert found.weight.argmax() == 2
    shuffled = written(rng.permutation(text), 6, 5)
    control = fit_cache(shuffled, np.arange(len(shuffled)), np.full(7, 1 / 7))
    assert control.weight.max() < 0.35 < found.weight[2]


def sets_of(windows):
    start = [*windows.starts.tolist(), len(windows.ids)]
    return [set(windows.ids[a:b].tolist()) for a, b in pairwise(start)]


def back(context, K):
    """1/place back of the latest place of each known item."""
    found = {}
    for d, x in enumerate(reversed(context), 1):
        if x < K:
            found.setdefault(x, 1 / d)
    return found


def test_item_neighbours_by_a_plain_loop(corpora, contexts, base, monkeypatch):
    monkeypatch.setattr(neighbours, "NEAREST", 3)
    train, _, test = corpora
    K, sets = len(base) - 1, sets_of(train)
    many = [sum(x in s for s in sets) for x in range(K)]
    sim = np.array([[sum(i in s and x in s for s in sets) / np.sqrt(many[i] * many[x]) for x in range(K)]
                    for i in range(K)])  # fmt: skip
    for row in sim:
        row[np.argsort(-row, kind="stable")[3:]] = 0
    p, _ = spread(neighbours.fit_items(train, base), test)
    for i, (context, _) in enumerate(contexts(test)):
        score = sum((w * sim[x] for x, w in back(context, K).items()), np.zeros(K))
        if score.sum():
            assert p[i, :K] == pytest.approx(score / score.sum(), abs=1e-6)  # single precision
            assert p[i, K] == 0
        else:
            assert p[i] == pytest.approx(base)


def test_session_neighbours_by_a_plain_loop(corpora, contexts, base, monkeypatch):
    monkeypatch.setattr(neighbours, "NEAREST", 5)
    monkeypatch.setattr(neighbours, "SESSIONS", 50)
    train, _, test = corpora
    K, sets = len(base) - 1, sets_of(train)[-50:]
    p, _ = spread(neighbours.fit_sessions(train, base), test)
    for i, (context, _) in enumerate(contexts(test)):
        weight = back(context, K)
        like = np.array([sum(weight.get(x, 0) for x in s) / np.sqrt(len(s)) for s in sets])
        least = np.sort(like)[-5]  # ties with the fifth count too
        score = np.zeros(K)
        for s, v in zip(sets, like, strict=True):
            if v >= least - 1e-7:
                score[list(s)] += v
        expected = np.append(score / score.sum(), 0) if score.sum() else base
        assert p[i] == pytest.approx(expected, abs=1e-6)


def test_base_is_the_same_everywhere(corpora, base):
    p, _ = spread(Base(base), corpora[2], np.array([3, 1]))
    assert p.tolist() == [base.tolist()] * 2


def test_sequences_are_counted_where_there_are_any(corpora, written):
    assert neighbours.sequences(corpora[0]) == 60
    assert neighbours.sequences(written([0, 1, 0, 1], 2, 2)) == 1
