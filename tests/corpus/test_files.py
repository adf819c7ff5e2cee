"""Files that hold something else than their name says, and files that change while they are read."""

import bz2
import gzip
import io
import json
import logging
import lzma
import os
import pickle
import sqlite3
import zipfile
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from attomaton.corpus import events, files, readers, shards, text
from attomaton.corpus.documents import read_documents
from attomaton.corpus.files import text_format
from attomaton.corpus.readers import read_parts, read_windows
from attomaton.corpus.reading import Reading
from attomaton.errors import DataError, UsageError
from attomaton.jobs.fit import fit_run

ROWS = "".join(
    json.dumps({"tokens": list(tokens), "next": tokens[0]}) + "\n" for tokens in ("ab", "ba", "abb")
)
LOG = "sequence,item,order\nu,a,1\nu,b,2\nu,a,3\nv,a,1\nv,a,2\n"


def zipped(content):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("a.txt", content)
    return out.getvalue()


def in_parquet(content=LOG):
    rows = [line.split(",") for line in content.split()[1:]]
    columns = dict(
        zip(("sequence", "item", "order"), map(list, zip(*rows, strict=True)), strict=True)
    )
    out = io.BytesIO()
    parquet.write_table(pa.table(columns), out)
    return out.getvalue()


def in_arrow():
    out, table = io.BytesIO(), pa.table({"a": [1]})
    with pa.ipc.new_file(out, table.schema) as writer:
        writer.write(table)
    return out.getvalue()


def in_sqlite(folder):
    path = folder / "a.db"
    with sqlite3.connect(path) as base:
        base.execute("create table a (b)")
    base.close()
    return path.read_bytes()


def refusal(path, **options):
    with pytest.raises(DataError) as caught:
        read_windows(path, Reading(**{"context": 2, **options}))
    return str(caught.value).removeprefix(f"{path}: ")


# Content


@pytest.mark.parametrize(
    ("name", "pack", "said"),
    [
        ("a.txt.gz", lambda x: gzip.compress(gzip.compress(x)),
         "compressed with gzip, and is not unpacked here. Unpack it first: gunzip -k "),
        ("a.txt.bz2", bz2.compress, "bunzip2"),
        ("a.xz", lzma.compress, "unxz"),
        ("a.zip", zipped, "unzip"),
        ("a.parquet", zipped, "unzip"),
        ("a.txt", lambda x: in_parquet(), "holds Parquet, not plain text. Name it .parquet"),
        ("a.csv", lambda x: in_parquet(), "holds Parquet, not "),
        ("a.feather", lambda x: in_arrow(), "a file of Arrow"),
        ("a.pkl", lambda x: pickle.dumps([x.decode()]), "a file of pickle"),
        ("a.npy", lambda x: b"\x93NUMPY" + x, "a file of NumPy"),
    ],
)  # fmt: skip
def test_packed_and_binary_files_are_named_with_their_cure(tmp_path, name, pack, said):
    path = tmp_path / name
    path.write_bytes(pack(ROWS.encode()))
    assert said in refusal(path)
    assert said in refusal(path, context=None)  # whatever else is missing
    assert said in refusal(path, format="text")


def test_databases(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(in_sqlite(tmp_path))
    assert "a file of SQLite" in refusal(path)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (
            ROWS,
            "holds one JSON object a line, not plain text. Name it .jsonl, or say --format jsonl.",
        ),
        (ROWS.splitlines()[0], "--format jsonl"),
        ("\ufeff\n\n" + ROWS, "--format jsonl"),
        (json.dumps([json.loads(line) for line in ROWS.splitlines()]), "holds JSON"),
        (json.dumps({"a": {"b": [1, 2]}}, indent=2), "holds JSON"),
        ('{"a": [' + "1, " * 40_000, "holds JSON"),  # cut off where it is no longer looked at
        (LOG, "holds a table with commas, not plain text. Name it .csv, or say --format csv."),
        (LOG.replace(",", "\t"), "--format tsv"),
        (LOG.replace(",", ";"), "Say --format csv --delimiter ';'."),
        ("user,what,when\nu,a,2024-01-01\nu,b,2024-01-02\n", "--format csv"),
        ('<?xml version="1.0"?>\n<book title="a b a"></book>', "holds XML"),
        ("<!DOCTYPE html>\n<html><body>a b a</body></html>", "holds HTML"),
    ],
)
@pytest.mark.parametrize("name", ["a.txt", "a", "a.log"])
def test_a_text_that_is_plainly_something_else_is_refused(tmp_path, name, content, said):
    path = tmp_path / name
    path.write_text(content)
    message = refusal(path)
    assert said in message
    assert message.endswith("To read it as words all the same, say --format text.")
    assert len(read_windows(path, Reading(context=1, format="text", tokenizer="chars")))


@pytest.mark.parametrize(
    "content",
    [
        '"Well," she said, "come in."\nHe came in, and sat down.\nThey talked, and drank tea.',
        "{braces} are words too, {and} so are\n{these} ones",
        "[1] A reference, see [2].\n[2] Another, see [1].",
        "[1]\n[2]\n[3]",
        "<unk> said <unk> to <unk>\n<eos> and <unk>",
        "< less than, > greater than",
        "one, two, three\nfour, five, six\nseven, eight, nine",
        "Roses are red, violets are blue\nSugar is sweet, and so are you\nAll of it, every word",
        "1,2,3\n4,5,6\n7,8,9",  # no header
        "word\nword\nword",
        "a,b\nc,d\ne,f\ng,h",  # words with commas
        "3 4 5\n5 4 3",
        '{"a": 1} is how JSON looks, said the teacher.\nNobody listened.',
        "Dear all,\nplease find,\nattached,",
        "%PDF is a word here? no: PDF-",
        "BZ is Bolzano",
    ],
)
def test_prose_is_never_refused(content):
    assert text_format(content, complete=True) is None
    assert files.binary_format(content.encode()) is None


def test_wikitext_is_prose(wikitext):
    for name in ("train", "valid", "test"):
        files.check_content(wikitext / f"{name}.txt")


def test_a_format_goes_before_the_suffix(tmp_path):
    for name, content, format in (
        ("a.txt", ROWS, "jsonl"),
        ("b.txt", LOG, "csv"),
        ("c.log", LOG.replace(",", "\t"), "tsv"),
    ):
        path = tmp_path / name
        path.write_text(content)
        windows = read_windows(
            path, Reading(format=format, context=None if format == "jsonl" else 2)
        )
        path = path.rename(tmp_path / f"same.{format}")
        same = read_windows(path, Reading(context=None if format == "jsonl" else 2))
        assert np.array_equal(windows.ids, same.ids)
    (tmp_path / "d.dat").write_bytes(in_parquet())
    assert len(read_windows(tmp_path / "d.dat", Reading(format="parquet", context=2)))
    (tmp_path / "e.csv").write_text("a b a b")
    assert len(read_windows(tmp_path / "e.csv", Reading(format="text", context=2)))
    with pytest.raises(UsageError, match="did you mean 'jsonl'"):
        read_windows(tmp_path / "e.csv", Reading(format="json", context=2))


def test_documents_are_checked_as_well(tmp_path):
    (tmp_path / "a.txt").write_text(ROWS)
    with pytest.raises(DataError, match="--format jsonl"):
        read_documents(tmp_path / "a.txt", "lines")
    assert len(read_documents(tmp_path / "a.txt", "lines", Reading(format="text"))) == 3


def test_links_in_circles_and_names_that_are_far_away(tmp_path):
    (tmp_path / "loop1").symlink_to("loop2")
    (tmp_path / "loop2").symlink_to("loop1")
    assert (
        refusal(tmp_path / "loop1")
        == "a link that leads to no file; mend it or name the file itself."
    )
    (tmp_path / "price.csv").write_text("x")
    assert refusal(tmp_path / "item.csv") == "no such file."


# A file that changes


def touched(path, content=None):
    """Write another version into a file that somebody is reading."""
    before = path.stat().st_mtime_ns
    path.write_bytes(path.read_bytes()[::-1] if content is None else content)
    os.utime(path, ns=(before, before))  # as some tools do: the change shows all the same


def after_first(monkeypatch, module, name, path):
    """Let a file change after the first call of a function that reads it, or its first block."""
    real = getattr(module, name)

    def blocks(found):
        yield next(found)
        touched(path)
        yield from found

    def call(*arguments, **options):
        result = real(*arguments, **options)
        if isinstance(result, Iterator):
            return blocks(result)
        touched(path)
        return result

    monkeypatch.setattr(module, name, call)


CHANGED = "changed while it was read. Run again, once nobody writes to it."


@pytest.mark.parametrize(
    ("name", "content", "module", "function"),
    [
        ("a.txt", b"a b a b a b\n" * 50_000, text, "decoded"),
        ("a.jsonl", ROWS.encode() * 10_000, readers, "line_blocks"),
        ("a.csv", LOG.encode() * 100, events, "column_names"),
        ("a.parquet", in_parquet(), events, "column_names"),
    ],
)
def test_a_file_that_changes_while_it_is_read(
    tmp_path, monkeypatch, name, content, module, function
):
    path = tmp_path / name
    path.write_bytes(content)
    after_first(monkeypatch, module, function, path)
    assert refusal(path, context=None if name.endswith("jsonl") else 2) == CHANGED


def test_a_text_that_changes_between_its_shards(tmp_path, monkeypatch):
    monkeypatch.setattr(shards, "SHARD", 100)
    path, folder = tmp_path / "a.txt", tmp_path / "parts"
    path.write_text("a b a b a b\n" * 100)
    folder.mkdir()
    after_first(monkeypatch, shards, "shard_ranges", path)
    with pytest.raises(DataError, match=CHANGED):
        read_parts(path, folder, Reading(context=2))


def test_a_document_that_changes(tmp_path, monkeypatch):
    from attomaton.corpus import documents

    path = tmp_path / "a.txt"
    path.write_text("a b a b a b\n" * 50_000)
    after_first(monkeypatch, documents, "decoded", path)
    with pytest.raises(DataError, match=CHANGED):
        read_documents(path, "lines")


def test_a_fit_compares_what_the_file_holds(tmp_path, monkeypatch):
    """Even where neither its size nor its times tell."""
    path = tmp_path / "a.jsonl"
    path.write_text(ROWS)
    monkeypatch.setattr(files, "identity", lambda path: (1,))
    after_first(monkeypatch, readers, "_read_rows", path)
    with pytest.raises(DataError, match=CHANGED):
        fit_run(path, tmp_path / "model")
    assert not (tmp_path / "model").exists()
    monkeypatch.undo()
    path.write_text(ROWS)
    assert fit_run(path, tmp_path / "model")["samples"] == 3


def test_a_file_that_stays_is_read(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("a b a b")
    with files.unchanged(path):
        path.read_text()
    with pytest.raises(DataError, match=CHANGED), files.unchanged(path):
        path.unlink()
    with files.unchanged(path):  # nothing there, nothing to compare
        pass


def through_pipe(tmp_path, name, content):
    """A pipe with all of a small content in it, and nobody writing any more."""
    path = tmp_path / name
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    writer = os.open(path, os.O_WRONLY)
    os.write(writer, content)
    return path, reader, writer


def test_what_comes_through_a_pipe_is_read_once(tmp_path, caplog):
    path, reader, writer = through_pipe(tmp_path, "a.csv", LOG.encode())
    assert (
        refusal(path)
        == "an event log is read more than once, and a pipe cannot be; save it as a file."
    )
    os.close(reader)
    os.close(writer)
    read, write = os.pipe()
    os.write(write, b"a b a b a")
    os.close(write)
    with caplog.at_level(logging.WARNING, "attomaton"):
        assert len(read_windows(f"/dev/fd/{read}", Reading(context=2))) == 3
    assert caplog.messages == [
        f"/dev/fd/{read}: a pipe, read as words; --format says what else it is."
    ]
    os.close(read)
