"""N-grams by hand, by a plain second implementation, and as distributions."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attomaton.corpus.windows import windows_from_sequences
from attomaton.predictor.ngrams import count_ngrams


def test_by_hand(written):
    # Text 0 0 1 0 0 1 0 0 in windows of 2: labels 1 0 0 1 0 0, each after the token before it.
    ngrams = replace(count_ngrams(written([0, 0, 1, 0, 0, 1, 0, 0], 2, 2)), discounts=(0.5, 0.5))
    q, x = np.array([0, 0, 1]), np.array([0, 1, 0])
    assert ngrams.counted_after(q, x).tolist() == [2, 2, 2]
    # p1: (4 + ½)/(6 + 1½), (2 + ½)/7½ and ½/7½ for any word never seen.
    p1 = np.array([4.5, 2.5, 0.5]) / 7.5
    assert ngrams.unigram(np.array([0, 1, 2, -1])) == pytest.approx([*p1, p1[2]])
    # After 0: counts 2 and 2, so 1½ of 4 each, and the freed 1 of 4 is p1's. After 1: only 0.
    assert ngrams.bigram(q, x) == pytest.approx(
        [(1.5 + p1[0]) / 4, (1.5 + p1[1]) / 4, (1.5 + 0.5 * p1[0]) / 2]
    )
    # A history never seen falls through.
    assert ngrams.bigram(np.array([7]), np.array([1])) == pytest.approx(p1[1:2])
    assert ngrams.trigram(np.array([1]), np.array([1]), np.array([0])) == pytest.approx(
        ngrams.bigram(np.array([1]), np.array([0]))
    )
    p2 = ngrams.bigram(np.array([0]), np.array([1]))[0]
    assert ngrams.trigram(np.array([0]), np.array([0]), np.array([1])) == pytest.approx(
        (1.5 + 0.5 * p2) / 2
    )


def plain_p(text, context, history, x, D, K):
    """p of x after a history, straight from the definition."""
    labels = range(context, len(text))
    if not history:
        return (sum(text[i] == x for i in labels) + 0.5) / (len(labels) + 0.5 * (K + 1))
    after = Counter(text[i] for i in labels if text[i - len(history) : i] == history)
    total, shorter = sum(after.values()), plain_p(text, context, history[1:], x, D, K)
    if not total:
        return shorter
    d = D[len(history) - 1]
    return (max(after[x] - d, 0) + d * len(after) * shorter) / total


def test_by_a_plain_loop(text):
    windows = text(3, 150, 5, 4)
    ngrams = replace(count_ngrams(windows), discounts=(0.7, 0.4))
    ids = windows.ids.tolist()
    for b in range(5):
        for q in range(5):
            for x in range(6):
                found = ngrams.trigram(np.array([b]), np.array([q]), np.array([x]))
                assert found == pytest.approx(plain_p(ids, 4, [b, q], x, (0.7, 0.4), 5), abs=1e-14)


@given(
    st.lists(
        st.tuples(st.lists(st.integers(0, 3), min_size=1, max_size=4), st.integers(0, 3),
                  st.floats(0.1, 3.0)),
        min_size=1, max_size=12,
    ),
    st.tuples(st.floats(0.05, 1), st.floats(0.05, 1)),
)  # fmt: skip
def test_all_are_distributions_for_any_weights(rows, discounts):
    contexts, labels, weights = zip(*rows, strict=True)
    ngrams = replace(
        count_ngrams(windows_from_sequences(contexts, labels, weights)), discounts=discounts
    )
    K = ngrams.K
    words = np.arange(K + 1)  # the last: any word never seen
    for b in range(-1, K + 1):
        for q in range(K + 1):
            history = np.full((2, K + 1), [[b], [q]])
            assert ngrams.bigram(history[1], words).sum() == pytest.approx(1, abs=1e-12)
            p = ngrams.trigram(history[0], history[1], words)
            assert p.sum() == pytest.approx(1, abs=1e-12)
            assert (p > 0).all()


def test_the_best_are_the_best(text):
    windows = text(5, 300, 9, 4)
    ngrams = count_ngrams(windows)
    words = np.arange(9)
    b, q = (v.ravel() for v in np.meshgrid(np.arange(-1, 9), np.arange(10)))
    for best, p in (
        (ngrams.best_bigrams(q, 4), [ngrams.bigram(np.full(9, j), words) for j in q]),
        (ngrams.best_trigrams(b, q, 4),
         [ngrams.trigram(np.full(9, i), np.full(9, j), words) for i, j in zip(b, q, strict=True)]),
    ):  # fmt: skip
        for found, value, row in zip(best.token, best.p, p, strict=True):
            order = np.lexsort((words, -row))[:4]
            assert found.tolist() == order.tolist()
            assert value == pytest.approx(row[order])


def test_few_tokens_leave_places_empty(written):
    best = count_ngrams(written([0, 1, 0, 1, 0], 2, 1)).best_bigrams(np.array([0]), 4)
    assert best.token.tolist() == [[1, 0, -1, -1]]
    assert best.p[0, 2:].tolist() == [0, 0]
