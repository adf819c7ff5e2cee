"""What programs pass as contexts, next tokens, weights and options: lists, arrays, tensors, columns, and mistakes."""

import re

import numpy as np
import pytest
from tests.unchecked import unchecked_types

from attomaton.corpus.readers import read_samples
from attomaton.corpus.windows import samples_from_sequences
from attomaton.errors import DataError, UsageError
from attomaton.mechanics.theory.limit import solve_limit


@pytest.fixture(autouse=True)
def _as_a_program_meets_it():
    """A user's program has no checks of types before ours."""
    with unchecked_types():
        yield


class Scalar:
    """A tensor without axes, as a library that is not installed here has them."""

    ndim, shape = 0, ()

    def __init__(self, value):
        self.value = value

    def item(self):
        return self.value

    def __array__(self, dtype=None, copy=None):
        return np.array(self.value)


class Tensor:
    """A tensor with one axis: its parts are tensors again."""

    ndim = 1

    def __init__(self, *values):
        self.values, self.shape = values, (len(values),)

    def __len__(self):
        return len(self.values)

    def __getitem__(self, i):
        return Scalar(self.values[i])  # without __iter__: an IndexError ends it

    def __array__(self, dtype=None, copy=None):
        return np.array(self.values)


class Column:
    """A column of a data set: a sequence that is no list."""

    def __init__(self, *values):
        self.values = values

    def __len__(self):
        return len(self.values)

    def __getitem__(self, i):
        return self.values[i]


@pytest.mark.parametrize(
    ("sequences", "labels"),
    [
        (np.array([[0, 1], [1, 0]]), np.array([0, 1])),
        (np.array([[0.0, 1.0], [1.0, 0.0]]), [0.0, 1.0]),
        ([np.array([0, 1]), (1, 0)], [np.array(0), np.int8(1)]),
        ([[np.array(0), np.array(1)], [1, 0]], (0, 1)),
        ([Tensor(0, 1), Tensor(1, 0)], Tensor(0, 1)),
        (Column([0, 1], [1, 0]), Column(0, 1)),
        (Column(Tensor(0, 1), Tensor(1, 0)), [Scalar(0), Scalar(1)]),
        (([x, 1 - x] for x in (0, 1)), iter([0, 1])),
        (np.array([[0, 1], [1, 0]], object), [0, 1]),
    ],
)
def test_arrays_tensors_and_columns_of_integers_are_tokens(sequences, labels):
    s = samples_from_sequences(sequences, labels)
    assert s.vocabulary.labels == (0, 1)
    assert {type(x) for x in s.vocabulary} == {int}
    assert [s.bag(i) for i in range(len(s))] == [{0: 1, 1: 1}] * 2


@pytest.mark.parametrize(
    ("sequences", "labels", "said"),
    [
        ("abc", "abc", "sequences: found the str 'abc'; a list of contexts such as"),
        (
            ["abc", "def"],
            ["a", "d"],
            "sequence 0: found the str 'abc'; a sequence of tokens is needed",
        ),
        ([["a", "b"], ["b"]], "ab", "labels: found the str 'ab'"),
        ([0, 1, 2], [0], "sequence 0: found 0; a sequence of tokens is needed"),
        (np.zeros((2, 2, 2), int), [0, 1], "sequence 0: found an array of 2 dimensions"),
        (None, [0], "sequences: found None"),
        ([[0, 1]], 0, "labels: found 0"),
        ([{"a": 1}], ["a"], "sequence 0: found a dict"),
        ([{"a", "b"}], ["a"], "sequence 0: found a set"),
        ([b"ab"], [97], "sequence 0: found the bytes"),
        ([[0, 0.5]], [0], "token 1: 0.5"),
        ([[0, float("nan")]], [0], "token 1: nan"),
        ([[0, True]], [0], "token 1: True"),
        ([[2**70]], [2**70], "more than 64 bits"),
    ],
)
def test_what_is_no_list_of_contexts_is_refused(sequences, labels, said):
    with pytest.raises(DataError, match=re.escape(said)):
        samples_from_sequences(sequences, labels)


@pytest.mark.parametrize(
    ("weights", "said"),
    [
        (["a"], "weights holds something that is no number"),
        ([float("nan")], "sample 0: weight nan"),
        ([None], "sample 0: weight nan"),
        ([[1.0]], "weights of shape (1, 1)"),
        (1.0, "weights of shape ()"),
        ([1.0, 2.0], "1 samples but 2 weights"),
    ],
)
def test_weights_that_are_none(weights, said):
    with pytest.raises(DataError, match=re.escape(said)):
        samples_from_sequences([[0, 1]], [0], weights=weights)


@pytest.mark.parametrize("passed", [[[0, 1]], "a.jsonl", None, Column([0, 1])])
def test_solving_needs_samples(passed):
    with pytest.raises(UsageError, match=r"is no Samples\. Make them with samples_from_sequences"):
        solve_limit(passed)


@pytest.mark.parametrize("passed", [[[0, 1]], None, Column([0, 1]), b"a.jsonl", 3])
def test_reading_needs_a_path(passed):
    with pytest.raises(UsageError, match=r"is no path of a file\. samples_from_sequences takes"):
        read_samples(passed)


@pytest.mark.parametrize(
    "option",
    [{"context": "8"}, {"context": 2.5}, {"context": True}, {"split": 3}, {"dates": 3}, {"format": 3}, {"order": 3},
     {"tokenizer": 3}],
)  # fmt: skip
def test_options_of_another_kind_are_refused(tmp_path, option):
    (tmp_path / "a.txt").write_text("a b a b")
    name, value = next(iter(option.items()))
    with pytest.raises(UsageError, match=re.escape(f"{name}={value!r}: a w")):
        read_samples(tmp_path / "a.txt", **{"context": 2, **option})
