"""Text as columns and windows."""

import numpy as np
import pytest

from attomaton.errors import DataError
from attomaton.transformer.data import batchify, read_text, text_of, windows


def test_every_target_is_the_token_after_its_input_in_the_stream():
    ids = np.arange(1_003)
    shown = windows(ids, batch=4, length=7)
    np.testing.assert_array_equal(shown[..., 1:], shown[..., :-1] + 1)
    # Nothing is shown twice as an input, and each column goes on where the window before ended.
    inputs = shown[..., :-1]
    assert len(np.unique(inputs)) == inputs.size
    np.testing.assert_array_equal(shown[1:, :, 0], shown[:-1, :, -1])
    assert shown.shape == ((1_003 // 4 - 1) // 7, 4, 8)


def test_columns_drop_the_remainder():
    assert batchify(np.arange(11), 2).tolist() == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]


def test_too_few_tokens_are_refused():
    with pytest.raises(DataError, match="2 columns of 5 need 10"):
        windows(np.arange(9), batch=2, length=4)


def test_files_become_streams_with_line_ends(tmp_path):
    (tmp_path / "train.txt").write_text("a b\nb <unk>\n")
    (tmp_path / "valid.txt").write_text("b c\n")
    text = read_text(tmp_path / "train.txt", tmp_path / "valid.txt")
    assert text.vocabulary.labels == ("a", "b", "<eos>", "<unk>")
    assert text.train.tolist() == [0, 1, 2, 1, 3, 2]
    assert text.valid.tolist() == [1, 3, 2]


def test_a_cut_vocabulary_keeps_the_most_frequent_words():
    text = text_of(list("xyxzyxw"), list("wxq"), most=3)
    assert text.vocabulary.labels == ("x", "y", "<unk>")
    assert text.train.tolist() == [0, 1, 0, 2, 1, 0, 2]
    assert text.valid.tolist() == [2, 0, 2]


def test_a_word_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(DataError, match=r"1 words .*(\n|.)*nowhere"):
        text_of(["a", "b"], ["a", "nowhere"])
    (tmp_path / "empty.txt").write_text("\n".strip())
    with pytest.raises(DataError, match=r"empty\.txt: no words"):
        read_text(tmp_path / "empty.txt", tmp_path / "empty.txt")
    with pytest.raises(DataError, match=r"absent\.txt: cannot be read"):
        read_text(tmp_path / "absent.txt", tmp_path / "empty.txt")


def test_wikitext_has_its_known_size(wikitext):
    text = read_text(wikitext / "train.txt", wikitext / "valid.txt")
    assert (len(text.vocabulary), len(text.train), len(text.valid)) == (33_279, 2_090_473, 217_646)
    assert windows(text.train).shape == (2_986, 20, 36)
