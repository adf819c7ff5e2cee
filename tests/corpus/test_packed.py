"""Files compressed with gzip or zstd are read as what they hold, whatever they are called; bombs are refused."""

import gzip
import json

import numpy as np
import pyarrow as pa
import pytest

from attomaton.corpus.contexts import context_rows
from attomaton.corpus.documents import read_documents
from attomaton.corpus.readers import read_parts, read_windows
from attomaton.corpus.reading import Reading
from attomaton.disk import doors
from attomaton.errors import DataError
from attomaton.jobs.fit import fit_run

TEXT = "the cat and the dog and the cat\n" * 40
ROWS = "".join(json.dumps({"tokens": [*row, "z"], "next": row[0]}) + "\n" for row in ("ab", "ba"))
LOG = "sequence,item,order\r\nu,ä,2\r\nu,b,1\r\nu,b,3\r\n"
FILES = {"a.txt": TEXT, "a.jsonl": ROWS, "a.csv": LOG, "a.tsv": LOG.replace(",", "\t")}
PACK = {".gz": gzip.compress, ".zst": lambda x: pa.compress(x, "zstd", asbytes=True)}


def how(name):
    return Reading(context=None if ".jsonl" in name else 2)


def same(one, two):
    assert one.vocabulary == two.vocabulary
    for field in ("ids", "left", "length", "label", "realizable"):
        assert np.array_equal(getattr(one, field), getattr(two, field))


@pytest.mark.parametrize("suffix", PACK)
@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("name", FILES)
def test_what_is_compressed_is_read_as_what_it_holds(tmp_path, name, suffix, mark):
    plain, packed = tmp_path / name, tmp_path / f"{name}{suffix}"
    content = (mark + FILES[name]).encode()
    plain.write_bytes(content)
    packed.write_bytes(PACK[suffix](content))
    expected = read_windows(plain, how(name))
    same(read_windows(packed, how(name)), expected)
    plain.write_bytes(packed.read_bytes())  # known by its bytes, whatever it is called
    same(read_windows(plain, how(name)), expected)
    packed.write_bytes(content)  # unpacked by whoever fetched it, its name kept
    same(read_windows(packed, how(name)), expected)


@pytest.mark.parametrize("suffix", PACK)
def test_pieces_put_together_are_one_file(tmp_path, suffix):
    whole, cut = TEXT.encode(), 317
    path = tmp_path / f"a.txt{suffix}"
    path.write_bytes(PACK[suffix](whole[:cut]) + PACK[suffix](whole[cut:]))
    (tmp_path / "b.txt").write_bytes(whole)
    same(read_windows(path, context=3), read_windows(tmp_path / "b.txt", context=3))


def test_parts_documents_contexts_and_models(tmp_path):
    plain, packed = tmp_path / "a.txt", tmp_path / "a.txt.gz"
    plain.write_text(TEXT)
    packed.write_bytes(gzip.compress(TEXT.encode()))
    (tmp_path / "parts").mkdir()
    words, parts = read_parts(packed, tmp_path / "parts", Reading(context=4))
    assert (parts.windows, words) == (
        len(read_windows(plain, context=4)),
        read_windows(plain, context=4).vocabulary,
    )
    assert len(read_documents(packed, "lines")) == 40
    assert sum(len(rows.cells) for rows in context_rows(packed)) == 40
    fits = [
        fit_run(p, tmp_path / p.name[::-1], reading=Reading(context=4)) for p in (plain, packed)
    ]
    assert fits[0]["loss_floor"] == fits[1]["loss_floor"]


@pytest.mark.parametrize("suffix", PACK)
@pytest.mark.parametrize("name", FILES)
def test_torn_and_empty_ones_are_refused(tmp_path, name, suffix):
    path = tmp_path / f"{name}{suffix}"
    content = PACK[suffix](FILES[name].encode())
    for damaged, said in (
        (content[:-5], "cannot be read: Truncated"),
        (content + b"more", "cannot be read: "),
        (PACK[suffix](b""), "no "),
        (b"", "no "),
        (PACK[suffix](b"sequence,item\n\xff\xfe"), "zero byte|not UTF-8 text: byte 0xff at offset 14"),
    ):  # fmt: skip
        path.write_bytes(damaged)
        with pytest.raises(DataError, match=rf"{path.name}: ({said})"):
            read_windows(path, how(name))


@pytest.mark.parametrize("suffix", PACK)
def test_a_bomb_is_refused_before_it_is_unpacked(tmp_path, monkeypatch, suffix):
    monkeypatch.setattr(doors, "FLOOR", 1 << 16)
    path = tmp_path / f"a.txt{suffix}"
    path.write_bytes(PACK[suffix](b"a b " * (1 << 22)))
    size = path.stat().st_size
    with pytest.raises(DataError, match=r"a\.txt.*would unpack to more than .*ATTOMATON_MEMORY"):
        read_windows(path, context=2)
    monkeypatch.setenv("ATTOMATON_MEMORY", "1")
    assert len(read_windows(path, context=2)) == (1 << 23) - 2
    monkeypatch.delenv("ATTOMATON_MEMORY")
    path.write_bytes(PACK[suffix](np.random.default_rng(0).bytes(size).hex().encode()))
    assert read_windows(path, context=1, tokenizer="chars")  # twice its size is no bomb


def test_compressed_parquet_is_unpacked_by_its_owner(tmp_path):
    (tmp_path / "a.parquet.gz").write_bytes(gzip.compress(b"PAR1"))
    with pytest.raises(DataError, match="gunzip -k"):
        read_windows(tmp_path / "a.parquet.gz", context=2)
