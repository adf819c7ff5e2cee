"""Plain text: splits and tokenisers against plain Python, and files as the world hands them over."""

import json
import os
import re
import sys
import threading
import time
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attomaton.corpus import text as room
from attomaton.corpus.readers import read_samples, read_windows
from attomaton.corpus.reading import Reading
from attomaton.corpus.vocabulary import Vocabulary
from attomaton.errors import DataError, UsageError

EOS = "<eos>"


@pytest.fixture(autouse=True)
def _inside_tmp_path(tmp_path, monkeypatch):
    """Relative paths, so that messages can be pinned whole."""
    monkeypatch.chdir(tmp_path)


def file(content, name="a.txt"):
    path = Path(name)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def refusal(kind, path, **options):
    with pytest.raises(kind) as caught:
        read_samples(path, **options)
    return str(caught.value)


def rows(windows):
    """Every window in words: (context, label)."""
    v, w = windows.vocabulary, windows
    ends = w.left + w.length
    return [
        ([v[x] for x in w.ids[a:b]], v[y]) for a, b, y in zip(w.left, ends, w.label, strict=True)
    ]


def cut(documents, context, partial):
    """What a naive loop cuts from lists of tokens."""
    for d in documents:
        for t in range(1 if partial else context, len(d)):
            yield d[max(0, t - context) : t], d[t]


# Second implementations: what the rules say, on the whole text at once.


def line_tokens(line, tokenizer):
    if tokenizer == "chars":
        return list(line)
    return (line.lower() if tokenizer == "lower" else line).split()


def joined(lines, tokenizer):
    tokens = [[EOS, *line_tokens(line, tokenizer)] for line in lines]
    return [x for line in tokens for x in line][1:]


def stream(text, tokenizer):
    return [joined(text.split("\n"), tokenizer)]


def lines(text, tokenizer):
    return [line_tokens(line, tokenizer) if line.strip() else [] for line in text.split("\n")]


def paragraphs(text, tokenizer):
    whole = re.split(r"\n(?:[ \t]*\n)+", re.sub(r"^(?:[ \t]*\n)+", "", text))
    full = [[line for line in part.split("\n") if line.strip()] for part in whole]
    return [joined(part, tokenizer) for part in full if part]


SPLIT = {"stream": stream, "lines": lines, "paragraphs": paragraphs}
TEXTS = st.text(st.sampled_from("aAb \n\r\té𝄞"), max_size=60).filter(str.strip)


@pytest.mark.parametrize("tokenizer", ["words", "lower", "chars"])
@pytest.mark.parametrize("split", SPLIT)
@given(text=TEXTS, context=st.integers(1, 4), block=st.integers(1, 9), mark=st.booleans())
def test_every_split_and_tokeniser_against_plain_python(
    split, tokenizer, text, context, block, mark
):
    """However the bytes fall into blocks, with or without a byte-order mark."""
    path = file((b"\xef\xbb\xbf" if mark else b"") + text.encode())
    plain = text.replace("\r\n", "\n").replace("\r", "\n")
    documents = SPLIT[split](plain, tokenizer)
    expected = list(cut(documents, context, split != "stream"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(room, "BLOCK", block)
        if not expected:
            with pytest.raises(DataError, match="no window"):
                read_windows(path, Reading(context=context, split=split, tokenizer=tokenizer))
            return
        w = read_windows(path, Reading(context=context, split=split, tokenizer=tokenizer))
    assert rows(w) == expected
    assert w.realizable.tolist() == [label in before for before, label in expected]
    if split == "stream":
        assert (w.documents, w.too_short) == (1, 0)
    else:
        long = sum(len(d) > 1 for d in documents)
        short = len(documents) - long - (split == "lines" and plain.endswith("\n"))
        # An unended last line of mere white space is a line like any other.
        assert (w.documents, w.too_short) == (long, short)


TEXT = "a cat\nsaw\n \n\na cat and a dog\nran\n"


def test_lines_by_hand():
    w = read_windows(file(TEXT), Reading(context=3, split="lines"))
    assert rows(w) == [
        (["a"], "cat"),
        (["a"], "cat"), (["a", "cat"], "and"), (["a", "cat", "and"], "a"),
        (["cat", "and", "a"], "dog"),
    ]  # fmt: skip
    assert (w.documents, w.too_short, len(w.ids)) == (2, 4, 9)
    assert w.realizable.sum() == 1


def test_paragraphs_by_hand():
    w = read_windows(file(TEXT), Reading(context=2, split="paragraphs"))
    assert [w.vocabulary[x] for x in w.ids] == [
        "a", "cat", EOS, "saw", "a", "cat", "and", "a", "dog", EOS, "ran",
    ]  # fmt: skip
    assert rows(w)[:4] == [
        (["a"], "cat"), (["a", "cat"], EOS), (["cat", EOS], "saw"), (["a"], "cat"),
    ]  # fmt: skip
    assert (w.documents, w.too_short) == (2, 0)


def test_a_stream_is_what_it_always_was():
    w = read_windows(file(TEXT), Reading(context=2))
    words = TEXT.replace("\n", f" {EOS} ").split()
    assert [w.vocabulary[x] for x in w.ids] == words
    assert rows(w) == list(cut([words], 2, partial=False))
    same = read_windows(file(TEXT), Reading(context=2, split="stream", tokenizer="words"))
    assert rows(same) == rows(w)


def test_one_token_documents_are_left_out_and_counted(call):
    path = file("a\n\nb\na b a\n")
    code, out, _ = call("data", "inspect", path, "--context", 2, "--split", "lines")
    assert code == 0
    assert "sequences: 1 cut into contexts, 3 too short for a context and its label" in out
    assert refusal(DataError, file("a\n\nb\n"), context=2, split="lines") == (
        "a.txt: no window: a context and its label need a sequence of 2 tokens, the longest has 1. "
        "Use a shorter context or longer sequences."
    )


def test_a_context_longer_than_every_document_is_what_there_is():
    w = read_windows(file("a b a\nb b\n"), Reading(context=10**12, split="lines"))
    assert rows(w) == [(["a"], "b"), (["a", "b"], "a"), (["b"], "b")]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"split": "line"}, 'split="line" is not known; choose from "stream", "lines", "paragraphs"; '
         "did you mean 'lines'?"),
        ({"tokenizer": "char"}, "tokenizer 'char' is neither one of words, lower, chars nor a .json "
         "file; did you mean 'chars'?"),
    ],
)  # fmt: skip
def test_unknown_splits_and_tokenisers(options, said):
    assert refusal(UsageError, file(TEXT), context=2, **options) == said


@pytest.mark.parametrize("name", ["a.jsonl", "a.csv"])
def test_splits_and_tokenisers_are_for_plain_text(name):
    context = None if name == "a.jsonl" else 2
    options = {"split": "lines", "tokenizer": "chars", "context": context}
    assert refusal(UsageError, file("", name), **options) == (
        f"{name}: --split, --tokenizer says how to cut plain text, and a {name[1:]} file is cut already."
    )


def test_tokens_of_a_given_vocabulary_in_documents():
    path = file("0 1 0\n\n1 1\n2\n")
    w = read_windows(path, Reading(context=2, split="paragraphs"), vocabulary=Vocabulary(range(3)))
    assert rows(w) == [([0], 1), ([0, 1], 0), ([1], 1), ([1, 1], 2)]
    with pytest.raises(DataError, match=r"token 2 at line 4: the embeddings have 2 rows"):
        read_windows(path, Reading(context=2, split="lines"), vocabulary=Vocabulary(range(2)))


# Tokenizer files


@pytest.fixture
def word_file():
    tokenizers = pytest.importorskip("tokenizers")
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace
    from tokenizers.processors import TemplateProcessing

    vocab = {"[UNK]": 0, "[CLS]": 1, "cat": 2, "saw": 3, "!": 4}
    made = tokenizers.Tokenizer(WordLevel(vocab, unk_token="[UNK]"))
    made.pre_tokenizer = Whitespace()
    # All that could come in by itself, or fall away.
    made.post_processor = TemplateProcessing(single="[CLS] $A", special_tokens=[("[CLS]", 1)])
    made.enable_truncation(3)
    made.enable_padding(pad_token="[UNK]", length=6)
    made.save("words.json")
    return "words.json"


def test_a_tokenizer_file_adds_nothing_and_cuts_nothing(word_file):
    path = file("cat saw cat! cat\ndog cat")
    w = read_windows(path, Reading(context=2, tokenizer=word_file))
    assert [w.vocabulary[x] for x in w.ids] == [
        "cat", "saw", "cat", "!", "cat", EOS, "[UNK]", "cat",
    ]  # fmt: skip
    assert rows(read_windows(path, Reading(context=5, split="lines", tokenizer=Path(word_file))))[-1] == (
        ["[UNK]"], "cat",
    )  # fmt: skip


def test_a_tokenizer_file_never_sees_half_a_line(word_file, monkeypatch):
    path = file("cat saw cat! cat\ndog cat saw\n\ncat")
    whole = rows(read_windows(path, Reading(context=2, tokenizer=word_file)))
    monkeypatch.setattr(room, "BLOCK", 3)
    assert rows(read_windows(path, Reading(context=2, tokenizer=word_file))) == whole


def test_tokenizer_files_that_are_none(monkeypatch):
    path = file("a b a")
    missing = refusal(DataError, path, context=1, tokenizer="no.json")
    assert missing == "a.txt: tokenizer: no such file no.json."
    file("{}", "bad.json")
    broken = refusal(DataError, path, context=1, tokenizer="bad.json")
    assert broken.startswith("a.txt: tokenizer: bad.json cannot be read (")
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    assert refusal(UsageError, path, context=1, tokenizer="bad.json") == (
        "tokenizer bad.json needs the package `tokenizers`: pip install 'attomaton[text]'."
    )


def test_a_tokenizer_that_refuses_a_text_is_quoted():
    tokenizers = pytest.importorskip("tokenizers")
    from tokenizers.models import WordLevel

    tokenizers.Tokenizer(WordLevel({"a": 0}, unk_token="[UNK]")).save("closed.json")
    message = refusal(DataError, file("a\nb\n"), context=1, tokenizer="closed.json")
    assert message.startswith("a.txt: tokenizer closed.json refuses this text: ")


# Files as the world hands them over


@pytest.mark.parametrize("block", [1, 4, 7, 1 << 18])
@pytest.mark.parametrize(
    ("content", "place"),
    [
        (b"one\ntwo\r\nthree\rna\xefve", "byte 0xef at offset 17 (line 4)"),
        (b"\xef\xbb\xbfone\n\xff", "byte 0xff at offset 7 (line 2)"),
        (b"one\ncaf\xc3", "byte 0xc3 at offset 7 (line 2)"),
        (b"one\r\r\n\xf0\x9f\x98!", "byte 0xf0 at offset 6 (line 3)"),
        (b"\xff\xfea\0b\0", "byte 0xff at offset 0 (line 1)"),
    ],
)
def test_the_place_where_a_file_stops_being_text(monkeypatch, content, place, block):
    monkeypatch.setattr(room, "BLOCK", block)
    for name, context in (("a.txt", 1), ("a.jsonl", None), ("a.csv", 1)):
        message = refusal(DataError, file(content, name), context=context)
        assert message == f"{name}: not UTF-8 text: {place}. Save it as UTF-8."


@pytest.mark.parametrize("block", [1, 5, 1 << 18])
def test_zero_bytes(monkeypatch, block):
    monkeypatch.setattr(room, "BLOCK", block)
    message = refusal(DataError, file(b"a b\r\nc\0d"), context=1)
    assert message == "a.txt: not text: a zero byte at offset 6 (line 2)."


def test_unusual_separators_are_no_line_ends():
    """JSON may hold them inside a string, and a text's words are separated by them as by any space."""
    row = '{"tokens": ["a\u2028b", "c\x85d"], "next": "c\x85d"}\n'
    assert read_samples(file(row, "a.jsonl")).vocabulary.labels == ("a\u2028b", "c\x85d")
    w = read_windows(file("a\u2028b\x85a b"), Reading(context=1))
    assert w.vocabulary.labels == ("a", "b")


@pytest.mark.parametrize("text", ["a", "a\n", "one"])
def test_one_token(text):
    assert refusal(DataError, file(text), context=2, split="lines").startswith("a.txt: no window")
    assert refusal(DataError, file(text), context=2).startswith("a.txt: no window")


def test_no_realizable_window():
    message = refusal(DataError, file("a b c d"), context=2)
    assert message.startswith("a.txt: none of the 2 contexts contains its own label")


@pytest.mark.parametrize("ending", ["\n", " "])
def test_a_long_line_neither_hangs_nor_breaks(ending):
    path = file("ab" * 5_000_000 + ending + "c c c")
    begin = time.process_time()
    w = read_windows(path, Reading(context=2))
    assert max(map(len, w.vocabulary)) == 10_000_000
    assert len(w.ids) == (5 if ending == "\n" else 4)
    # Linear is some hundredths of a second; joining all pieces again and again would take minutes.
    assert time.process_time() - begin < 10


def test_a_text_is_not_held_while_it_is_read(monkeypatch):
    """Per token: an id, and what a window keeps; no copies of the text, no lists of its words."""
    tokens = 60_000
    monkeypatch.setattr(room, "BLOCK", 1 << 12)
    path = file("some words to read again\n" * (tokens // 6))
    tracemalloc.start()
    w = read_windows(path, Reading(context=16))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(w.ids) == tokens
    # 50 bytes: ids, places and lengths of 4 bytes each, twice over while they are being cut, and the
    # 8 of a sort. A list of the words alone would take 8 for each pointer and 53 for each word.
    assert peak < 50 * tokens + 20 * room.BLOCK


def test_reading_from_a_pipe(tmp_path):
    os.mkfifo("pipe")
    writer = threading.Thread(target=lambda: Path("pipe").write_text("a b a\n"))
    writer.start()
    w = read_windows("pipe", Reading(context=2))
    writer.join()
    assert rows(w) == [(["a", "b"], "a"), (["b", "a"], EOS)]


def test_a_vocabulary_of_one_token(call):
    """Nothing is left to learn: the only token is certain, and the loss is 0 whatever W is."""
    path = file("a a a a a")
    s = read_samples(path, context=2)
    assert (len(s), len(s.vocabulary), s.total_weight) == (1, 1, 3.0)
    code, out, err = call("fit", path, "--context", 2, "-o", "model", "--json")
    assert (code, err) == (0, "")
    summary = json.loads(out)
    assert summary["loss_floor"] == summary["svm_norm"] == summary["finite_norm"] == 0
    code, out, _ = call("predict", "model", "a", "a", "--json")
    assert (code, json.loads(out)["prediction"]) == (0, "a")


def test_the_command_line_passes_split_and_tokenizer(call):
    path = file("Ab\nab\n")
    code, out, _ = call(
        "data", "inspect", path, "--context", 1, "--split", "lines", "--tokenizer", "chars"
    )
    assert (code, "none of the" in out) == (3, False)
    path = file("Aa\nbb\n")
    code, out, _ = call(
        "fit", path, "--context", 1, "--split", "lines", "--tokenizer", "chars", "-o", "m"
    )
    assert (code, out.startswith("1 samples over 3 tokens; 1 set aside")) == (0, True)
    code, out, _ = call(
        "train", path, "--context", 1, "--split", "lines", "--tokenizer", "lower", "-o", "t"
    )
    assert code == 3  # one word a line: no window


def test_places_are_narrow_and_sums_are_not():
    """32-bit places, and samples as from 64-bit ones."""
    rng = np.random.default_rng(0)
    words = rng.integers(40, size=3000).astype(str)
    s = read_windows(file(" ".join(words)), Reading(context=5))
    assert {s.ids.dtype, s.left.dtype, s.length.dtype, s.label.dtype} == {np.dtype(np.int32)}
    expected = sum(y in words[max(0, i - 5) : i] for i, y in enumerate(words) if i >= 5)
    assert s.samples().rows.sum() == expected
