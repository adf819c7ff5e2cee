"""Samples against plain Python: what is merged, what is set aside, what is refused."""

from collections import Counter
from inspect import unwrap

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attomaton.corpus import samples as room
from attomaton.corpus.samples import Samples, SetAside, plain_label
from attomaton.corpus.vocabulary import Vocabulary, encode
from attomaton.corpus.windows import samples_from_sequences, windows_from_ids, windows_from_streams
from attomaton.errors import AttomatonError, DataError, UsageError


def bag_of(context):
    return tuple(sorted(Counter(context).items()))


def grouped(rows):
    """The definition: weight, number of rows and first row of each (last, label, bag)."""
    groups = {}
    for i, (context, label, weight) in enumerate(rows):
        if label in context:
            key = (context[-1], label, bag_of(context))
            total, many, first = groups.get(key, (0.0, 0, i))
            groups[key] = (total + weight, many + 1, first)
    return groups


def contents(samples: Samples):
    """The same, read off the arrays; a sample that occurs twice would be seen."""
    v = samples.vocabulary
    keys = [
        (v[samples.last[i]], v[samples.label[i]], tuple(sorted(samples.bag(i).items())))
        for i in range(len(samples))
    ]
    assert len(set(keys)) == len(keys)
    return {
        key: (samples.weight[i], samples.rows[i], samples.source[i]) for i, key in enumerate(keys)
    }


def windows(streams, context, partial):
    """What a naive loop sees at each position: (context, label, 1), or None for no window."""
    for stream in streams:
        for t in range(len(stream)):
            before = stream[max(0, t - context) : t]
            yield (before, stream[t], 1.0) if len(before) >= (1 if partial else context) else None


# Bags and merging


def test_a_sample_is_last_token_label_and_counts():
    s = samples_from_sequences([["a", "b", "a", "c"]], ["a"])
    assert s.vocabulary.labels == ("a", "b", "c")
    assert s.bag(0) == {"a": 2, "b": 1, "c": 1}
    assert (s.vocabulary[s.last[0]], s.vocabulary[s.label[0]]) == ("c", "a")
    assert (s.weight.tolist(), s.rows.tolist(), s.source.tolist()) == ([1.0], [1], [0])
    assert (s.tokens, s.windows, s.total_weight, s.size.tolist()) == (4, 1, 1.0, [3])


def test_order_before_the_last_token_does_not_matter_but_counts_and_last_token_do():
    rows = [[0, 1, 2], [1, 0, 2], [0, 0, 1, 2], [0, 2, 1]]
    s = samples_from_sequences(rows, [0, 0, 0, 0])
    assert s.rows.tolist() == [1, 2, 1]
    assert [s.bag(i) for i in range(3)] == [{0: 1, 1: 1, 2: 1}] * 2 + [{0: 2, 1: 1, 2: 1}]
    assert s.vocabulary[s.last[0]] == 1


def test_weights_add_up_and_the_first_row_is_the_source():
    s = samples_from_sequences([[1, 0], [0, 1], [1, 0]], [1, 0, 1], [0.5, 2.0, 0.25])
    assert contents(s) == {
        (0, 1, ((0, 1), (1, 1))): (0.75, 2, 0),
        (1, 0, ((0, 1), (1, 1))): (2.0, 1, 1),
    }


@given(
    st.lists(
        st.tuples(st.lists(st.integers(0, 3), min_size=1, max_size=5), st.integers(0, 3)),
        min_size=1,
        max_size=40,
    )
)
def test_merging_is_grouping_by_last_label_and_bag(pairs):
    rows = [(context, label, 2.0**-i) for i, (context, label) in enumerate(pairs)]
    if not grouped(rows):
        return
    contexts, labels, weights = zip(*rows, strict=True)
    s = samples_from_sequences(contexts, labels, weights)
    # Powers of two: each subset of rows has its own total, so a row in a wrong group would show.
    assert contents(s) == grouped(rows)
    assert s.windows == len(rows) == s.rows.sum() + s.set_aside.rows
    order = list(zip(s.last, s.label, s.source, strict=True))
    assert order == sorted(order)


def test_merging_many_rows_with_many_repeats():
    rng = np.random.default_rng(0)
    contexts = rng.integers(4, size=(20_000, 6))
    labels = contexts[np.arange(20_000), rng.integers(6, size=20_000)]
    s = windows_from_ids(
        Vocabulary(range(4)), contexts.ravel(), np.full(20_000, 6), labels
    ).samples()
    rows = [(c, y, 1.0) for c, y in zip(contexts.tolist(), labels.tolist(), strict=True)]
    assert contents(s) == grouped(rows)
    assert len(s) < 700


def test_unequal_bags_stay_apart_when_their_fingerprints_agree(monkeypatch):
    monkeypatch.setattr(room, "_fingerprint", lambda s: np.zeros(len(s), dtype=np.int64))
    rows = [[0, 1, 3], [0, 2, 3], [0, 0, 3], [0, 3, 3]]
    s = samples_from_sequences(rows, [0, 0, 0, 0])
    assert [s.bag(i) for i in range(4)] == [dict(Counter(row)) for row in rows]


def test_bags_do_not_depend_on_the_chunk_they_are_built_in(monkeypatch):
    rng = np.random.default_rng(1)
    contexts = [rng.integers(5, size=rng.integers(1, 9)).tolist() for _ in range(200)]
    labels = [context[0] for context in contexts]
    whole = contents(samples_from_sequences(contexts, labels))
    for chunk in (1, 7, 64):
        monkeypatch.setattr(room, "CHUNK", chunk)
        assert contents(samples_from_sequences(contexts, labels)) == whole


def test_arrays_and_lists_are_the_same_data():
    contexts, labels = np.array([[2, 0], [1, 1]]), np.array([2, 1])
    s = samples_from_sequences(contexts, labels)
    assert s.vocabulary.labels == (2, 0, 1)
    assert all(type(x) is int for x in s.vocabulary)
    assert contents(s) == contents(samples_from_sequences(contexts.tolist(), labels.tolist()))


def test_a_given_vocabulary_keeps_its_ids():
    s = samples_from_sequences([[1, 2]], [1], vocabulary=Vocabulary(range(4)))
    assert (s.token.tolist(), s.last.tolist(), s.label.tolist()) == ([1, 2], [2], [1])
    assert len(s.vocabulary) == 4


def test_take_keeps_the_chosen_samples_in_the_chosen_order():
    s = samples_from_sequences([[0, 1], [0, 0, 2], [1, 2, 0]], [1, 0, 2])
    part = s.take(np.array([2, 0]))
    assert [part.bag(i) for i in range(2)] == [s.bag(2), s.bag(0)]
    assert part.source.tolist() == s.source[[2, 0]].tolist()
    assert part.sample_of.tolist() == [0] * part.size[0] + [1] * part.size[1]
    assert len(s.take(np.array([], dtype=np.int64))) == 0


# Set aside


def test_rows_without_their_label_are_counted_and_shown():
    s = samples_from_sequences(
        [["a", "b"], ["b", "a"], ["a", "a"]], ["a", "z", "b"], [1.0, 2.0, 0.5]
    )
    assert s.set_aside == SetAside(
        2, 2.5, ("sample 1: label 'z', tokens ['b', 'a']", "sample 2: label 'b', tokens ['a', 'a']")
    )
    assert (s.rows.sum(), s.windows, s.total_weight) == (1, 3, 1.0)


def test_at_most_five_rows_set_aside_are_shown():
    s = samples_from_sequences([[0, 1]] * 8, [0] + [5] * 7)
    assert (s.set_aside.rows, len(s.set_aside.examples)) == (7, 5)


# Streams


@given(
    st.lists(st.lists(st.integers(0, 4), max_size=12), min_size=1, max_size=5),
    st.integers(1, 6),
    st.booleans(),
)
def test_streams_are_cut_like_a_naive_loop_does(streams, context, partial):
    found = list(windows(streams, context, partial))
    rows = [row or ([], None, 0.0) for row in found]
    if not grouped(rows):
        return
    flat = np.array([x for stream in streams for x in stream])
    start = np.cumsum([0, *map(len, streams)])
    s = windows_from_streams(Vocabulary(range(5)), flat, start, context, partial).samples()
    assert contents(s) == grouped(rows)
    assert s.tokens == len(flat)
    assert s.windows == sum(row is not None for row in found)
    assert s.set_aside.rows == s.set_aside.weight == s.windows - s.rows.sum()


def test_partial_contexts_begin_with_the_second_token():
    v, ids = encode("aaba")
    start = np.array([0, 4])
    full = windows_from_streams(v, ids, start, 2, partial=False).samples()
    assert contents(full) == {("b", "a", (("a", 1), ("b", 1))): (1.0, 1, 3)}
    some = windows_from_streams(v, ids, start, 2, partial=True).samples()
    assert contents(some) == contents(full) | {("a", "a", (("a", 1),)): (1.0, 1, 1)}
    assert (full.windows, some.windows) == (2, 3)
    assert some.set_aside.examples == ("position 2: label 'b', tokens ['a', 'a']",)


def test_no_window_crosses_from_one_stream_to_the_next():
    v, ids = encode("abab")
    joined = windows_from_streams(v, ids, np.array([0, 4]), 3, partial=True).samples()
    assert joined.rows.sum() == 2
    with pytest.raises(DataError, match="none of the 2 contexts contains its own label"):
        windows_from_streams(v, ids, np.array([0, 2, 4]), 3, partial=True).samples()


# Refusals


def refusal(call, *args, **options):
    with pytest.raises(DataError) as caught:
        call(*args, **options)
    assert isinstance(caught.value, AttomatonError)
    assert caught.value.exit_code == 3
    return str(caught.value)


def test_nothing_is_refused():
    assert refusal(samples_from_sequences, [], []) == "no samples: the data are empty."


def test_one_label_for_each_sequence():
    message = refusal(samples_from_sequences, [[0], [1]], [0])
    assert message == "2 sequences but 1 next tokens; one each is needed."


def test_one_weight_for_each_sequence():
    # Unwrapped: the suite's type checks would speak before the function does.
    of_ids, two = unwrap(windows_from_ids), np.arange(2)
    message = refusal(of_ids, Vocabulary(range(2)), two, np.ones(2, int), two, np.ones(1))
    assert message == "2 samples but 1 weights; one each is needed."


def test_every_empty_sequence_is_named():
    message = refusal(samples_from_sequences, [[], [0], []], [0, 0, 0])
    assert message == (
        "Sequences without a token:\n  sequence 0\n  sequence 2\nDrop them or fill them."
    )


def test_every_wrong_weight_is_named():
    weights = [1.0, 0.0, -2.0, np.nan, np.inf]
    message = refusal(samples_from_sequences, [[0]] * 5, [0] * 5, weights)
    assert message == (
        "Weights must be positive and finite:\n  sample 1: weight 0\n  sample 2: weight -2\n"
        "  sample 3: weight nan\n  sample 4: weight inf\nDrop or mend these samples."
    )


@pytest.mark.parametrize("token", [None, True, 1.5, float("nan"), b"a", (1,)])
def test_a_token_is_a_string_or_an_integer(token):
    message = refusal(plain_label, token)
    assert message == f"token {token!r} is neither a string nor an integer."


def test_tokens_outside_the_vocabulary_are_named():
    message = refusal(
        samples_from_sequences, [[0, 7], [1]], [0, 9], vocabulary=Vocabulary(range(2))
    )
    assert message == (
        "2 tokens are outside the vocabulary of 2:\n  sequence 0: 7\n  sequence 1: 9\n"
        "Name only tokens of the vocabulary."
    )


def test_data_without_one_realizable_row_are_refused_with_examples():
    message = refusal(samples_from_sequences, [["a", "b"]], ["c"])
    assert message == (
        "none of the 1 contexts contains its own label, so there is nothing the theorem speaks "
        "about:\n  sample 0: label 'c', tokens ['a', 'b']\n"
        "Use longer contexts, or check what is given as the label."
    )


def test_a_stream_shorter_than_its_window_is_refused():
    v, ids = encode("abab")
    message = refusal(windows_from_streams, v, ids, np.array([0, 4]), 4, partial=False)
    assert message == (
        "no window: a context and its label need a sequence of 5 tokens, the longest has 4. "
        "Use a shorter context or longer sequences."
    )
    assert windows_from_streams(v, ids, np.array([0, 4]), 3, partial=False).samples().windows == 1


def test_a_context_holds_at_least_one_token():
    v, ids = encode("abab")
    with pytest.raises(UsageError, match=r"^context must be at least 1 token, not 0\.$"):
        windows_from_streams(v, ids, np.array([0, 4]), 0, partial=False).samples()
