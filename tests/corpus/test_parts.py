"""A corpus in parts on disk: the same samples as in memory, whatever the size of pieces and parts."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attomaton.corpus.parts import Parts, cut_into_parts, read_part
from attomaton.corpus.text import write_ids
from attomaton.corpus.tokenisers import named_tokeniser
from attomaton.corpus.vocabulary import Vocabulary
from attomaton.corpus.windows import stream_pieces, windows_from_sequences, windows_from_streams
from attomaton.errors import DataError

COLUMNS = ("last", "label", "weight", "start", "token", "count", "rows", "source")


def streams(draw_ids, cuts):
    ids = np.array(draw_ids, np.int32)
    start = np.unique([0, len(ids), *(c % (len(ids) + 1) for c in cuts)])
    return ids, start


@given(
    st.lists(st.integers(0, 5), min_size=1, max_size=60),
    st.lists(st.integers(0, 60), max_size=4),
    st.integers(1, 6),
    st.booleans(),
    st.integers(1, 20),
)
def test_pieces_of_streams_are_the_windows_of_the_whole(draw_ids, cuts, context, partial, size):
    ids, start = streams(draw_ids, cuts)
    words = Vocabulary("abcdef")
    try:
        whole = windows_from_streams(words, ids, start, context, partial)
    except DataError:
        whole = None
    if whole is None:
        with pytest.raises(DataError, match="no window"):
            list(stream_pieces(words, ids, start, context, partial, size))
        return
    pieces = list(stream_pieces(words, ids, start, context, partial, size))
    assert sum(n for n, _ in pieces) == len(ids)
    for name in ("length", "label", "weight", "source", "realizable", "last"):
        found = np.concatenate([getattr(p, name) for _, p in pieces])
        assert found.tolist() == getattr(whole, name).tolist(), name
    contexts = [
        p.ids[a : a + n].tolist() for _, p in pieces for a, n in zip(p.left, p.length, strict=True)
    ]
    wanted = [whole.ids[a : a + n].tolist() for a, n in zip(whole.left, whole.length, strict=True)]
    assert contexts == wanted
    # Both ways share the search for a label's previous occurrence; this one looks into the windows.
    labels = [int(x) for _, p in pieces for x in p.label]
    held = [label in context for label, context in zip(labels, contexts, strict=True)]
    assert np.concatenate([p.realizable for _, p in pieces]).tolist() == held
    assert sum(p.documents for _, p in pieces) == whole.documents
    assert sum(p.too_short for _, p in pieces) == whole.too_short


@pytest.mark.parametrize("size", [1, 7, 50, 10**6])
@pytest.mark.parametrize("piece", [3, 64, 10**6])
def test_parts_on_disk_hold_the_samples_of_parts_in_memory(tmp_path, size, piece):
    rng = np.random.default_rng(0)
    ids = rng.integers(0, 9, 500).astype(np.int32)
    words, start = Vocabulary(range(9)), np.array([0, 180, 181, 500])
    whole = windows_from_streams(words, ids, start, 5, True)
    parts = cut_into_parts(
        tmp_path, lambda: stream_pieces(words, ids, start, 5, True, piece), 9, size
    )
    assert Parts.from_record(parts.record()) == parts
    assert (parts.tokens, parts.windows) == (len(whole.ids), len(whole))
    assert (parts.documents, parts.too_short) == (whole.documents, whole.too_short)
    assert parts.set_aside == whole.set_aside
    expected = whole.parts(size)
    assert [p.windows for p in parts.parts] == [len(rows) for rows in expected]
    assert [p.incidences for p in parts.parts] == [int(whole.length[r].sum()) for r in expected]
    for part, rows in zip(parts.parts, expected, strict=True):
        found, wanted = read_part(tmp_path, part.number, words, parts), whole.samples(rows)
        assert found.last[0] == part.first_last
        assert found.last[-1] == part.final_last
        for name in COLUMNS:
            assert getattr(found, name).tolist() == getattr(wanted, name).tolist(), name


def test_weights_and_rows_of_given_contexts_survive(tmp_path):
    windows = windows_from_sequences(
        [["a", "b"], ["c"], ["b", "a"], ["a", "b"]], list("axba"), [1.5, 1, 2, 0.25]
    )
    K = len(windows.vocabulary)
    parts = cut_into_parts(tmp_path, lambda: [(len(windows.ids), windows)], K, 1)
    assert parts.set_aside.rows == 1
    weights = [
        read_part(tmp_path, p.number, windows.vocabulary, parts).weight.tolist()
        for p in parts.parts
    ]
    assert weights == [[2.0], [1.75]]


@pytest.mark.parametrize("cut", [1, 9, 16, 30])
def test_a_part_that_lost_its_end_is_refused(tmp_path, cut):
    windows = windows_from_sequences([["a", "b"], ["b", "b"]], ["a", "b"])
    parts = cut_into_parts(tmp_path, lambda: [(4, windows)], 2)
    path = tmp_path / "00000.windows"
    path.write_bytes(path.read_bytes()[:-cut])
    with pytest.raises(DataError, match=r"start again"):
        read_part(tmp_path, 0, windows.vocabulary, parts)


@pytest.mark.parametrize("split", ["stream", "lines", "paragraphs"])
def test_ids_written_to_disk_are_those_read_into_memory(tmp_path, split, monkeypatch):
    from attomaton.corpus import text
    from attomaton.corpus.readers import read_windows

    monkeypatch.setattr(text, "BLOCK", 8)
    path = tmp_path / "t.txt"
    path.write_text("a b a c\nb b\n\nc a b a\na c b b a\n" * 5)
    whole = read_windows(path, context=2, split=split)
    with (tmp_path / "ids").open("wb") as file:
        words, start = write_ids(path, None, split, named_tokeniser("words"), file)
    ids = np.memmap(tmp_path / "ids", np.int32, "r")
    assert ids.tolist() == whole.ids.tolist()
    assert list(words) == list(whole.vocabulary)
    again = windows_from_streams(words, np.array(ids), start, 2, split != "stream")
    assert again.source.tolist() == whole.source.tolist()
    assert (again.documents, again.too_short) == (whole.documents, whole.too_short)
