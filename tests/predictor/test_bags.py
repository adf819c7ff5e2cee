"""Bags against a plain loop, and words from outside the vocabulary."""

import numpy as np
import pytest

from attomaton.corpus.vocabulary import Vocabulary
from attomaton.corpus.windows import windows_from_sequences
from attomaton.predictor.bags import aligned, bag_of, bags_of, blocks
from attomaton.predictor.counts import Counts, counted, pair_key


def test_bags_by_a_plain_loop(text):
    windows = text(tokens=120)
    rows = np.arange(len(windows))[::-3]
    bags = bags_of(windows, rows)
    for i, row in enumerate(rows):
        context = windows.ids[windows.left[row] : windows.left[row] + windows.length[row]].tolist()
        part = slice(bags.start[i], bags.start[i + 1])
        tokens = sorted(set(context))
        assert bags.token[part].tolist() == tokens
        assert bags.count[part].tolist() == [context.count(x) for x in tokens]
        assert bags.distance[part].tolist() == [1 + context[::-1].index(x) for x in tokens]
        assert (bags.last[i], bags.before[i]) == (context[-1], context[-2])
        assert (bags.label_at[i] >= 0) == windows.realizable[row] == (bags.label[i] in context)
        assert bags.recent()[i].tolist() == context[::-1]
        assert bags.recent(2)[i].tolist() == context[:-3:-1]
        alone = bag_of(np.array(context))
        assert alone.recent(8).tolist() == [[*context[::-1], -1, -1]]
        for name in ("token", "count", "distance"):
            assert getattr(alone, name).tolist() == getattr(bags, name)[part].tolist()


def _ago(bags):
    """How long ago each token of the contexts stood; the last one of a context, 1 step."""
    return np.repeat(np.cumsum(bags.length), bags.length) - np.arange(len(bags.context))


def test_what_holds_at_the_places_of_a_token(text):
    windows = text(tokens=60)
    bags = bags_of(windows, np.arange(len(windows)))
    assert (bags.over_places(np.minimum, _ago(bags)) == bags.distance).all()
    assert (bags.over_places(np.add, np.ones(len(bags.context))) == bags.count).all()
    assert (bags.context[bags.order] == np.repeat(bags.token, bags.count)).all()
    alone = bag_of(bags.context[:6])
    assert (alone.over_places(np.minimum, _ago(alone)) == alone.distance).all()


def test_a_context_of_one_token_has_nothing_before_it():
    windows = windows_from_sequences([["a"], ["b", "a"]], ["a", "b"])
    assert bags_of(windows, np.arange(2)).before.tolist() == [-1, 1]
    assert bag_of(np.array([4])).before.tolist() == [-1]


def test_blocks_are_the_whole_in_pieces(text):
    windows = text(tokens=100)
    whole = bags_of(windows, np.arange(len(windows)))
    pieces = list(blocks(windows, np.arange(len(windows)), 7))
    assert len(pieces) == -(-len(windows) // 7)
    assert np.concatenate([b.token for b in pieces]).tolist() == whole.token.tolist()


def test_shares_add_up_and_shift():
    bags = bags_of(windows_from_sequences([[0, 1, 1], [1, 2]], [0, 1]), np.arange(2))
    score = np.array([0.0, np.log(3.0), -np.inf, 5.0])
    assert bags.shares(score) == pytest.approx([0.25, 0.75, 0.0, 1.0])
    assert bags.shares(score + 700) == pytest.approx(bags.shares(score))


def test_unknown_words_keep_their_identity():
    windows = windows_from_sequences([["a", "new", "b"], ["other", "new"]], ["new", "a"])
    moved = aligned(windows, Vocabulary(["b", "a"]))
    assert [moved.vocabulary[x] for x in moved.ids] == ["a", "new", "b", "other", "new"]
    assert moved.ids.tolist() == [1, 2, 0, 3, 2]
    assert moved.label.tolist() == [2, 1]
    assert moved.realizable.tolist() == windows.realizable.tolist()
    assert aligned(moved, moved.vocabulary) is moved


def test_counts_answer_zero_for_what_never_occurred():
    counts = counted(np.array([5, 2, 5]), np.array([0.5, 1.0, 2.0]))
    assert counts.of(np.array([2, 3, 5, -1])).tolist() == [1.0, 0.0, 2.5, 0.0]
    nothing = Counts(np.array([], dtype=np.int64), np.array([]))
    assert nothing.of(np.array([0, 1])).tolist() == [0.0, 0.0]
    assert pair_key(3, np.array([1, 3, 0]), np.array([2, 0, -1])).tolist() == [5, -1, -1]
