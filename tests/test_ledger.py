"""The ledger of long work: only added to, and readable whatever was killed."""

import json

import pytest

from attomaton.disk.ledger import Ledger, read_ledger
from attomaton.errors import StorageError


def events(folder):
    return [(line.event, line.piece) for line in read_ledger(folder)]


def test_lines_come_back_in_order_with_their_facts(tmp_path):
    ledger = Ledger(tmp_path)
    ledger.note("started", engine="ray")
    ledger.done("part 1", seconds=2)
    first, second = read_ledger(tmp_path)
    assert (first.event, second.piece) == ("started", "part 1")
    assert first.time <= second.time
    written = [json.loads(line) for line in ledger.path.read_text().splitlines()]
    assert written[0]["engine"] == "ray"
    assert written[1]["seconds"] == 2
    assert [line["time"] for line in written] == [first.time, second.time]


def test_a_folder_without_a_ledger_has_no_lines(tmp_path):
    assert read_ledger(tmp_path) == []


@pytest.mark.parametrize("cut", range(1, 40))
def test_a_torn_line_is_passed_over_and_never_glued_to_the_next(tmp_path, cut):
    ledger = Ledger(tmp_path)
    ledger.done("part 1")
    whole = ledger.path.read_bytes()
    ledger.done("part 2")
    ledger.path.write_bytes(whole + ledger.path.read_bytes()[len(whole) :][:cut])
    Ledger(tmp_path).done("part 3")
    assert events(tmp_path) == [("done", "part 1"), ("done", "part 3")]


def test_a_piece_is_found_once_and_only_if_nobody_said_it_was_done(tmp_path):
    Ledger(tmp_path).done("part 1")
    for _ in range(2):
        later = Ledger(tmp_path)
        later.found("part 1")
        later.found("part 2")
    assert events(tmp_path) == [("done", "part 1"), ("found", "part 2")]


def test_what_is_no_ledger_line_is_no_line(tmp_path):
    (tmp_path / "log.jsonl").write_bytes(
        b'[1]\n{"event": 3}\n\xff\n' + b"[" * 10**5 + b'\n{"event": "x"}\n'
    )
    assert events(tmp_path) == [("x", None)]


def test_a_ledger_that_cannot_be_written_is_an_error(tmp_path):
    (tmp_path / "log.jsonl").mkdir()
    with pytest.raises(StorageError, match=r"log\.jsonl: writing failed"):
        Ledger(tmp_path).note("started")
