"""A corpus in parts on disk: the same samples as in memory, whatever the size of shards and parts."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attomaton.corpus import parts as parts_module
from attomaton.corpus import shards, text
from attomaton.corpus.parts import Parts, Tally, cut_into_parts, read_part, write_run
from attomaton.corpus.readers import read_parts, read_windows
from attomaton.corpus.reading import Reading
from attomaton.corpus.tokenisers import named_tokeniser
from attomaton.corpus.windows import windows_from_sequences
from attomaton.disk.formats import to_json
from attomaton.errors import AttomatonError, DataError

COLUMNS = ("last", "label", "weight", "start", "token", "count", "rows", "source")
SPLITS = ("stream", "lines", "paragraphs")


def backwards(work, tasks):
    """The last task first: order must not matter."""
    return [(i, work(tasks[i])) for i in reversed(range(len(tasks)))]


def agree(folder, path, size=10**6, **reading):
    """Check that parts on disk are the parts of the windows in memory; the table."""
    folder.mkdir(exist_ok=True)
    whole = read_windows(path, Reading(**reading))
    words, parts = read_parts(path, folder, Reading(**reading), size=size, run=backwards)
    assert list(words) == list(whole.vocabulary)
    (folder / "parts.json").write_text(to_json(parts))
    assert Parts.read(folder / "parts.json") == parts
    assert (parts.tokens, parts.windows) == (len(whole.ids), len(whole))
    assert (parts.documents, parts.too_short) == (whole.documents, whole.too_short)
    assert parts.set_aside == whole.set_aside
    expected = whole.parts(size)
    assert [p.windows for p in parts.parts] == [len(rows) for rows in expected]
    assert [p.incidences for p in parts.parts] == [int(whole.length[r].sum()) for r in expected]
    for part, rows in zip(parts.parts, expected, strict=True):
        found, wanted = read_part(folder, part.number, words, parts), whole.samples(rows)
        assert (found.last[0], found.last[-1]) == (part.first_last, part.final_last)
        for name in COLUMNS:
            assert getattr(found, name).tolist() == getattr(wanted, name).tolist(), name
    return parts


@given(
    st.text("ab \n\r", max_size=40).map(str.encode),
    st.sampled_from(SPLITS),
    st.sampled_from(["words", "chars"]),
    st.integers(1, 5),
    st.integers(1, 12),
    st.integers(1, 9),
)
def test_shards_of_any_size_are_the_text_read_in_one_go(
    tmp_path_factory, raw, split, tokenizer, context, shard, size
):
    folder = tmp_path_factory.mktemp("shards")
    (folder / "t.txt").write_bytes(raw)
    reading = {"context": context, "split": split, "tokenizer": tokenizer}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shards, "SHARD", shard)
        try:
            read_windows(folder / "t.txt", Reading(**reading)).samples()
        except AttomatonError as error:
            fault = error
        else:
            agree(folder / "parts", folder / "t.txt", size, **reading)
            return
        (folder / "parts").mkdir()
        with pytest.raises(type(fault)) as said:
            read_parts(folder / "t.txt", folder / "parts", Reading(**reading), size=size)
        assert str(said.value) == str(fault)


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("size", [1, 50, 10**6])
def test_many_shards_and_many_parts(tmp_path, monkeypatch, split, size):
    rng = np.random.default_rng(0)
    lines = [" ".join(rng.choice(list("abcdefgh"), rng.integers(0, 9))) for _ in range(200)]
    (tmp_path / "t.txt").write_text("\n".join(lines))
    monkeypatch.setattr(shards, "SHARD", 64)
    monkeypatch.setattr(parts_module, "BLOCK", 3)
    parts = agree(tmp_path / "parts", tmp_path / "t.txt", size, context=6, split=split)
    assert parts.runs >= 10
    last_tokens = 8 + (split != "lines")  # and <eos>
    assert len(parts.parts) == (1 if size == 10**6 else last_tokens)


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("chunk", [1, 40, 1 << 22])
def test_where_shards_are_too_many_their_runs_are_merged(tmp_path, monkeypatch, split, chunk):
    rng = np.random.default_rng(1)
    lines = [" ".join(rng.choice(list("abcdefgh"), rng.integers(0, 9))) for _ in range(200)]
    (tmp_path / "t.txt").write_text("\n".join(lines))
    monkeypatch.setattr(shards, "SHARD", 16)
    monkeypatch.setattr(shards, "MOST", 4)
    monkeypatch.setattr(shards, "LARGEST", 64)
    monkeypatch.setattr(parts_module, "MERGED", chunk)
    parts = agree(tmp_path / "parts", tmp_path / "t.txt", 50, context=6, split=split)
    sorted_ = list((tmp_path / "parts" / "shards").glob("*.run"))
    assert (parts.runs, len(list((tmp_path / "parts" / "runs").glob("*.run")))) == (4, 4)
    assert len(sorted_) > 4


def test_parts_grow_where_there_would_be_too_many(tmp_path, monkeypatch):
    (tmp_path / "t.txt").write_text("a b c d " * 20)
    monkeypatch.setattr(parts_module, "MOST", 2)
    (tmp_path / "p").mkdir()
    _, parts = read_parts(tmp_path / "t.txt", tmp_path / "p", Reading(context=4), size=1)
    assert len(parts.parts) == 2


@pytest.mark.parametrize("tokenizer", ["words", "chars"])
def test_a_text_of_one_line_is_cut_too(tmp_path, monkeypatch, tokenizer):
    (tmp_path / "t.txt").write_text("ab ba a ab " * 30)
    monkeypatch.setattr(shards, "SHARD", 20)
    reading = {"context": 4, "tokenizer": tokenizer}
    assert agree(tmp_path / "p", tmp_path / "t.txt", **reading).runs > 5


def test_a_text_is_cut_only_where_nothing_is_torn(tmp_path, monkeypatch):
    path = tmp_path / "t.txt"
    path.write_bytes("é è\nà b\r\n\r\nc d\n\ne\n".encode())
    monkeypatch.setattr(shards, "SHARD", 1)
    raw = path.read_bytes()

    def pieces(split, tokenizer="words"):
        ranges = shards.shard_ranges(path, split, named_tokeniser(tokenizer))
        assert [a for a, _ in ranges[1:]] == [b for _, b in ranges[:-1]]
        return [raw[a:b].decode() for a, b in ranges]

    assert pieces("paragraphs") == ["é è\nà b\r\n\r\n", "c d\n\n", "e\n"]
    assert pieces("lines") == ["é è\n", "à b\r\n", "\r\n", "c d\n", "\ne\n"]
    assert pieces("stream")[:3] == ["é ", "è\n", "à "]


@pytest.mark.parametrize("bad", [b"\xff", b"\x00"])
def test_a_fault_in_a_later_shard_is_told_with_its_place_in_the_file(tmp_path, monkeypatch, bad):
    path = tmp_path / "t.txt"
    path.write_bytes(b"a b\r\n" * 40 + b"a " + bad + b" b\n" + b"a b\n" * 40)
    with pytest.raises(DataError) as whole:
        read_windows(path, Reading(context=2))
    monkeypatch.setattr(shards, "SHARD", 16)
    monkeypatch.setattr(text, "BLOCK", 7)
    with pytest.raises(DataError, match="line 41") as cut:
        read_parts(path, tmp_path, Reading(context=2))
    assert str(cut.value) == str(whole.value)


def test_a_byte_order_mark_belongs_to_the_beginning_only(tmp_path, monkeypatch):
    path = tmp_path / "t.txt"
    path.write_bytes(b"\xef\xbb\xbfa b\na b\n" + b"\xef\xbb\xbfa b\n")
    monkeypatch.setattr(shards, "SHARD", 8)
    agree(tmp_path / "p", path, context=4)


def test_finished_shards_are_taken_as_they_are(tmp_path, monkeypatch):
    path, folder = tmp_path / "t.txt", tmp_path / "p"
    path.write_text("a b a c\n" * 50)
    (folder / "shards").mkdir(parents=True)
    monkeypatch.setattr(shards, "SHARD", 40)
    ranges = shards.shard_ranges(path, "stream", named_tokeniser("words"))
    for i, span in enumerate(ranges[:3]):
        shards.write_shard(shards.TextShard(str(folder), i, str(path), span, Reading(context=3)))
    read = []
    plain = shards.add_text
    monkeypatch.setattr(shards, "add_text", lambda *a: read.append(a[5]) or plain(*a))
    agree(folder, path, context=3)
    assert read == list(reversed(ranges[3:]))


def test_weights_and_rows_of_given_contexts_survive(tmp_path):
    windows = windows_from_sequences(
        [["a", "b"], ["c"], ["b", "a"], ["a", "b"]], list("axba"), [1.5, 1, 2, 0.25]
    )
    part_of, parts = cut_into_parts(
        [Tally.of(len(windows.ids), windows)], windows.vocabulary, "sample", 1
    )
    write_run(tmp_path, 0, windows, part_of)
    assert parts.set_aside == windows.set_aside
    weights = [
        read_part(tmp_path, p.number, windows.vocabulary, parts).weight.tolist()
        for p in parts.parts
    ]
    assert weights == [[2.0], [1.75]]


@pytest.mark.parametrize("name", ["00000.run", "00000.at.npy"])
@pytest.mark.parametrize("cut", [1, 9, 16, 30])
def test_a_run_that_lost_its_end_is_refused(tmp_path, name, cut):
    windows = windows_from_sequences([["a", "b"], ["b", "b"]], ["a", "b"])
    part_of, parts = cut_into_parts([Tally.of(4, windows)], windows.vocabulary, "sample")
    write_run(tmp_path, 0, windows, part_of)
    path = tmp_path / "runs" / name
    path.write_bytes(path.read_bytes()[:-cut])
    with pytest.raises(DataError, match=r"start again"):
        read_part(tmp_path, 0, windows.vocabulary, parts)
