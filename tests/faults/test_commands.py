"""Command lines drawn from the tree of commands, in short; and bad endings, each of which must be found."""

import subprocess
import sys

import pytest

from faults.cases import ROOT
from faults.commands import WRITES, Line, Piece, drawn, faults_of, tree
from faults.scratch import HERE, Ended, World, forked


def test_lines_nobody_would_type_are_answered_or_refused_in_words():
    command = [sys.executable, "-m", "faults", "commands", "--count", "60", "--workers", "1"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (total,) = (line.split() for line in done.stdout.splitlines() if line.startswith("all "))
    answered, refused, *findings = map(int, total[1:])
    assert answered + refused == 60
    assert not any(findings)
    # Which lines are drawn changes with every new option; that both kinds are among them does not.
    assert min(answered, refused) >= 2


def test_a_line_is_made_from_the_seed_and_its_number_alone():
    assert [drawn(n, 5) for n in range(50)] == [drawn(n, 5) for n in range(50)]
    assert drawn(7, 5) != drawn(7, 6)


def test_every_command_and_every_option_of_the_tree_is_drawn():
    seen = {
        (line.command, p.name) for line in (drawn(n, 0) for n in range(8000)) for p in line.pieces
    }
    for words, command in tree().items():
        for p in command.params:
            if set(p.opts) & {"--all"}:
                continue  # takes minutes
            assert (words, p.name) in seen, (words, p.name)


FINE = Ended(0, b'{"a": 1}\n', b"", 0.0, 0)
OUT = Line(
    ("fit",), (Piece("data", ("a.txt",)), Piece("out", ("-o", "out")), Piece("json", ("--json",)))
)


@pytest.mark.parametrize(
    ("ended", "changes", "kind"),
    [
        (FINE._replace(code=None), {}, "hang"),
        (FINE._replace(code=-11), {}, "crash"),
        (FINE._replace(code=7), {}, "exit"),
        (FINE._replace(code=1, err=b"DataError: no"), {}, "exit"),
        (FINE._replace(code=1, err=b"InternalError: no"), {}, "'InternalError'"),
        (FINE._replace(err=b"Traceback (most recent call last)"), {}, "'Traceback"),
        (FINE._replace(err=b"\x1b[2J"), {}, "control"),
        (FINE._replace(out='{"a": "\u202e"}'.encode()), {}, "control"),
        (FINE._replace(err=b"\xff"), {}, "bytes"),
        (FINE._replace(err=b"x" * 30_000), {}, "flood"),
        (FINE._replace(code=2, out=b""), {}, "silence"),
        (FINE._replace(left=1), {}, "processes"),
        (FINE._replace(out=b"done\n"), {}, "no"),
        (FINE, {f"{HERE}/mine.txt": "changed"}, "file"),
        (FINE, {f"{HERE}/.a.txt.77": "new"}, "file"),
        (FINE, {"victim/thesis.txt": "gone"}, "file"),
        (FINE._replace(code=3, err=b"DataError: no"), {f"{HERE}/a.txt": "gone"}, "file"),
    ],
)  # fmt: skip
def test_bad_endings_are_found(ended, changes, kind):
    assert kind in {x.split()[0] for x in faults_of(OUT, ended, changes)}


def test_good_endings_are_not():
    assert faults_of(OUT, FINE, {f"{HERE}/out": "new", f"{HERE}/out/model.json": "new"}) == []
    refused = Ended(3, b'{"error": {}}\n', b"DataError: no\n", 0.0, 0)
    assert faults_of(OUT, refused, {}) == []


def test_a_line_of_no_words_and_an_option_without_its_value_are_judged_too():
    assert faults_of(Line((), ()), FINE._replace(code=2, out=b"", err=b"Usage"), {}) == []
    short = Line(("data", "synth"), (Piece("out", ("-o",)), Piece("json", ("--json",))))
    done = FINE._replace(out=b"6 samples in --json\n")
    assert faults_of(short, done, {f"{HERE}/--json": "new"}) == []


def test_a_world_notices_what_changes_in_it_and_is_put_back(tmp_path):
    world = World(tmp_path)
    assert world.changes() == {}
    here = world.place / HERE
    (here / "mine.txt").write_text("changed")
    (here / "a.txt").unlink()
    (here / "new").mkdir()
    assert world.changes() == {
        f"{HERE}/mine.txt": "changed",
        f"{HERE}/a.txt": "gone",
        f"{HERE}/new": "new",
    }
    world.renew()
    assert world.changes() == {}
    assert "out" in WRITES


def test_a_fork_is_the_command_with_its_words_exit_code_and_folder(tmp_path):
    world = World(tmp_path)
    ended = forked(["data", "inspect", "nothing.txt"], world.place)
    assert (ended.code, ended.out) == (3, b"")
    assert b"nothing.txt" in ended.err
    hung = forked([], world.place, program=lambda: __import__("time").sleep(60), wall=0.2)
    assert hung.code is None
