"""A tuning that is broken off and taken up again: no piece is made twice, and the answer is the same bit for bit."""

import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from tests.killed import killed_after
from tests.predictor import parts

from attomaton.corpus.reading import Reading
from attomaton.disk.formats import write_columns
from attomaton.disk.ledger import read_ledger
from attomaton.disk.manifest import MANIFEST
from attomaton.engine.choose import open_engine
from attomaton.engine.tasks import Task, WorkerError
from attomaton.errors import DataError, UsageError
from attomaton.jobs import tune as tunings
from attomaton.predictor import fit, stages
from attomaton.predictor.fit import Fitted, Judged, Setting, Work
from attomaton.predictor.model import Predictor
from attomaton.predictor.priors import Prior
from faults.processes import gone_within, session_of

PRIORS, LAMBDAS, THETAS = ["main", "main+bigram"], [1.0, 4.0], [0.5, 1.0]
PART = 300
PIECES = 14  # six parts: two of them to compare priors, all for the grid, all for the fit
WORK = Path(".out.partial")


def prepare(text, folder, monkeypatch):
    """Two texts in the working folder, and parts so small that a tuning has many pieces."""
    monkeypatch.chdir(folder)
    monkeypatch.setattr(tunings, "PART", PART)
    for name, seed in (("train", 0), ("valid", 1)):
        windows = text(seed, 600)
        words = " ".join(windows.vocabulary[x] for x in windows.ids)
        Path(f"{name}.txt").write_text(words, encoding="utf-8")


def note_pieces(monkeypatch):
    """A list of the pieces that are really made from now on, by the function that makes them."""
    seen = []

    def noted(task):
        def run(*arguments):
            answer = task(*arguments)
            seen.append(task.__name__)
            return answer

        return run

    for task in (fit.judge_part, fit.fit_part):
        monkeypatch.setattr(stages, task.__name__, noted(task))
    return seen


@pytest.fixture
def files(text, tmp_path, monkeypatch):
    prepare(text, tmp_path, monkeypatch)


@pytest.fixture
def made(monkeypatch):
    return note_pieces(monkeypatch)


class Quiet(NamedTuple):
    """A tuning that nobody disturbed: where it is, what it says, and the pieces it made."""

    folder: Path
    record: dict
    made: list


@pytest.fixture(scope="module")
def quietly(text, tmp_path_factory):
    """Tunings that nobody disturbed, each made once for all tests: quietly(thetas=[1.0])."""
    known = {}

    def found(**changes):
        if (key := repr(changes)) not in known:
            folder = tmp_path_factory.mktemp("quietly")
            with pytest.MonkeyPatch.context() as patch:
                prepare(text, folder, patch)
                made = note_pieces(patch)
                known[key] = Quiet(folder / "out", tuned(**changes), made)
        return known[key]

    return found


def tuned(out="out", **changes):
    options: dict = {"priors": PRIORS, "lambdas": LAMBDAS, "thetas": THETAS, "widen": 0}
    options["reading"] = Reading(context=6)
    return tunings.tune_run("train.txt", "valid.txt", out, **options | changes)


def stop_after(pieces, **changes):
    """A tuning that is interrupted when so many more pieces are finished."""
    left = [pieces]

    def progress(done, total, stage):
        if stage != "counts" and done:
            left[0] -= 1
        if left[0] == 0:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tuned(progress=progress, **changes)


def contents(folder):
    """Every byte of a folder, the ledger and its times aside."""
    return {p.name: p.read_bytes() for p in Path(folder).iterdir() if p.name != "log.jsonl"}


@pytest.mark.parametrize("pieces", [9, 15, 20])  # in the first widening, in the second, in the fit
def test_a_widened_grid_is_taken_up_too(files, made, quietly, pieces):
    asked = {"thetas": [1.0], "lambdas": [0.001, 0.002], "widen": 2}  # the best price lies above
    quiet = quietly(**asked)
    assert quiet.record["grid"]["widened"] == 2
    assert quiet.record["chosen"]["at_edge"] == ["lambda"]
    assert quiet.record["pieces"] == len(quiet.made) == PIECES + 2 * 6
    stop_after(pieces, **asked)
    record = tuned(**asked)
    assert (record["resumed_pieces"], record["pieces"]) == (pieces, PIECES + 2 * 6)
    assert len(made) == PIECES + 2 * 6
    assert contents("out") == contents(quiet.folder)


@pytest.mark.parametrize("pieces", [1, 2, 3, 8, 9, PIECES])
def test_what_was_finished_is_not_made_again_and_nothing_tells_that_it_was_interrupted(
    files, made, quietly, pieces
):
    quiet = quietly()
    assert quiet.made == ["judge_part"] * 8 + ["fit_part"] * 6
    stop_after(pieces)
    assert len(made) == len(list((WORK / "pieces").iterdir())) == pieces
    assert not Path("out").exists()
    record = tuned()
    assert (record["resumed_pieces"], record["pieces"]) == (pieces, PIECES)
    assert made == ["judge_part"] * 8 + ["fit_part"] * 6
    assert contents("out") == contents(quiet.folder)
    assert MANIFEST in contents("out")
    assert not WORK.exists()
    lines = read_ledger(Path("out"))
    names = [line.piece for line in lines if line.piece is not None]
    assert len(names) == len(set(names)) == PIECES
    assert [x.event for x in lines if x.piece is None] == ["started", "resumed", "ended"]
    # Control: a folder that does differ is seen to.
    assert contents(quietly(lambdas=[1.0, 5.0]).folder) != contents(quiet.folder)


def test_it_may_be_interrupted_often_and_go_on_in_several_processes(files, quietly):
    stop_after(2)
    stop_after(1 + 3)  # told of those found before, then of three more
    with open_engine("processes", 2) as engine:
        assert tuned(engine=engine)["resumed_pieces"] == 5
    assert contents("out") == contents(quietly().folder)


def test_progress_counts_what_was_found(files):
    stop_after(4)
    seen = []
    tuned(progress=lambda *step: seen.append(step))
    assert seen[2:5] == [(2, 2, "priors"), (2, 6, "grid"), (3, 6, "grid")]


def test_other_data_or_settings_begin_anew_by_force_alone(files):
    stop_after(5)
    assert tuned()["resumed_pieces"] == 5  # Control: the same go on.
    for changes in ({"lambdas": [1.0, 2.0]}, {"thetas": [0.5]}, {"priors": ["main"]},
                    {"reading": Reading(context=5)}):  # fmt: skip
        stop_after(3)
        with pytest.raises(UsageError, match="begun with other settings"):
            tuned(**changes)
        assert tuned(**changes, force=True)["resumed_pieces"] == 0
    for name in ("train.txt", "valid.txt"):
        stop_after(3)
        Path(name).write_text(Path(name).read_text() + " w1 w2 w1")
        assert tuned(force=True)["resumed_pieces"] == 0


def test_one_that_nobody_goes_on_with_can_be_deleted(files, call):
    stop_after(3)
    assert call("runs", "rm", "out", "--yes")[0] == 0
    assert not WORK.exists()
    assert tuned()["resumed_pieces"] == 0


def test_a_damaged_piece_is_refused_and_the_work_begins_anew(files, quietly):

    def rewrite(path, **columns):
        write_columns(path, columns)

    one = dict.fromkeys(Judged._fields, np.ones(4))
    for harm in (
        lambda path: path.write_bytes(b"no table"),
        lambda path: path.write_bytes(path.read_bytes()[:-20]),
        lambda path: rewrite(path, **dict.fromkeys(one, np.ones(3))),  # of another grid
        lambda path: rewrite(path, **one | {"loss": np.full(4, np.nan)}),
        lambda path: rewrite(path, **one | {"loss": ["much"] * 4}),
        lambda path: rewrite(path, weight=np.ones(4)),
    ):
        stop_after(3)
        harm(WORK / "pieces" / "priors-1.parquet")
        with pytest.raises(DataError, match=r"priors-1.*damaged.*start anew"):
            tuned()
        assert not WORK.exists()
    assert tuned()["resumed_pieces"] == 0
    assert contents("out") == contents(quietly().folder)
    # Control: a piece of the right form and with the wrong numbers does change what comes out.
    stop_after(3)
    rewrite(WORK / "pieces" / "priors-1.parquet", **one)
    tuned()
    assert contents("out") != contents(quietly().folder)


def test_no_single_byte_of_a_piece_can_change_unnoticed(tmp_path):
    stage = stages.judging("grid", [Setting(0, 0.5, x) for x in LAMBDAS])
    path, judged = tmp_path / "piece.parquet", [Judged(3.0, 0.1, 2.0), Judged(3.0, 1 / 3, 1.0)]
    write_columns(path, stage.to_columns(judged))
    whole, refused = path.read_bytes(), 0
    assert stage.from_columns(tunings.read_piece(path, stage.form)) == judged
    for i in range(len(whole)):
        path.write_bytes(whole[:i] + bytes([whole[i] ^ 0x10]) + whole[i + 1 :])
        try:
            # Bytes that say who wrote the file are nobody's loss.
            assert stage.from_columns(tunings.read_piece(path, stage.form)) == judged, i
        except DataError:
            refused += 1
    assert refused > len(whole) / 4


def test_a_fitted_part_comes_back_as_it_was():
    fitted = Fitted(np.array([3, 8]), np.array([0.1, -1 / 3]), 0.7, 1e-9, 12)
    stage = stages.fitting("fit", Setting(0, 0.5, 1.0))
    back = stage.from_columns(stage.to_columns(fitted))
    assert [np.asarray(x).tolist() for x in back] == [np.asarray(x).tolist() for x in fitted]


def test_a_worker_that_dies_is_told_in_words(text):
    work = Work(text(0), text(1), [Prior({}, {})])
    tasks = [Task(i, (parts.die, rows, None)) for i, rows in enumerate(work.train.parts(PART))]
    with (
        open_engine("processes", 2) as engine,
        pytest.raises(WorkerError, match="run the same again"),
    ):
        list(engine.run(stages.do_part, tasks, work))


def test_a_worker_that_is_killed_is_replaced_and_nothing_tells(files, quietly):
    with open_engine("processes", 2) as engine:
        before = []

        def kill_one(done, total, stage):
            if stage == "grid" and not before:
                before.extend(engine.pids())
                os.kill(before[0], signal.SIGKILL)

        tuned(engine=engine, progress=kill_one)
        assert before[0] not in engine.pids()
        assert before[1] in engine.pids()  # Control: one that nobody killed stays.
    assert contents("out") == contents(quietly().folder)


def test_workers_alone_are_processes_and_at_least_one(files, call):
    words = [
        "tune",
        "train.txt",
        "--validate",
        "valid.txt",
        "--context",
        "6",
        "-o",
        "out",
        "--workers",
    ]
    assert call(*words, "0")[0] == 2
    assert "workers must be at least 1, not 0" in call(*words, "0")[2]
    with open_engine(None, 2) as several, open_engine(None, 1) as one:
        assert (several.name, one.name) == ("processes", "local")


def test_a_cluster_tunes_to_the_same_bytes(files, quietly):
    pytest.importorskip("ray", reason="Ray is not installed; attomaton[ray]")
    with open_engine("ray", 2) as engine:
        tuned(engine=engine)
    assert contents("out") == contents(quietly().folder)


DRIVER = f"""
import sys
from attomaton.jobs import tune as tunings
tunings.PART = {PART}
from attomaton.cli.main import main
sys.argv = ["attomaton", *sys.argv[1:]]
main()
"""


# Ended while workers have pieces: two compare priors, six are of the grid.
KILLED = killed_after(5, "attomaton.disk.ledger", "Ledger", "done") + DRIVER


def test_a_killed_command_goes_on_and_leaves_no_process_behind(files, quietly, call):
    words = ["tune", "train.txt", "--validate", "valid.txt", "--context", "6", "--workers", "2"]
    words += ["--priors", ",".join(PRIORS), "--lambdas", "1,4", "--thetas", "0.5,1"]
    words += ["--widen", "0", "-o", "out"]
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, *words], start_new_session=True, stdout=subprocess.PIPE
    )
    assert process.stdout.readline() == b"2 workers\n"
    process.stdout.close()
    assert process.wait() == -signal.SIGKILL
    assert gone_within(process.pid, 10) is not None, session_of(process.pid)
    assert not Path("out").exists()
    told = json.loads(call("runs", "show", "out", "--json")[1])
    assert (told["kind"], told["state"], told["maker"]) == ("predictor", "interrupted", "tune")
    assert told["done"]["of"] == PIECES
    assert 5 <= told["done"]["done"] < PIECES
    assert f"{told['done']['done']} of {PIECES} pieces" in call("runs", "ls", ".")[1]
    again = shlex.split(told["go_on"])
    assert again == ["attomaton", *words]
    done = subprocess.run(
        [sys.executable, "-c", DRIVER, *again[1:], "--json"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout)["resumed_pieces"] == told["done"]["done"]
    undisturbed = quietly().folder
    mine, quiet = contents("out"), contents(undisturbed)
    for name in set(mine) - {"predictor.json", MANIFEST}:  # those two tell the command
        assert mine[name] == quiet[name], name
    told, wanted = (Predictor.open(folder).record for folder in ("out", undisturbed))
    assert told | {"command": 0, "reading": 0} == wanted | {"command": 0, "reading": 0}
    assert json.loads(call("runs", "show", "out", "--json")[1])["state"] == "finished"


FATAL = DRIVER.replace(
    "from attomaton.cli",
    """
import os, signal
from attomaton.predictor.stage import fit
setattr(fit, sys.argv.pop(1), lambda *given: os.kill(os.getpid(), signal.SIGKILL))
from attomaton.cli""",
)


def test_a_command_killed_in_the_convex_stage_goes_on_there(files, text):
    valid = text(1, 1300)
    Path("valid.txt").write_text(" ".join(valid.vocabulary[x] for x in valid.ids))
    words = ["tune", "train.txt", "--validate", "valid.txt", "--context", "6", "--engine", "local"]
    words += ["--priors", "main", "--lambdas", "1", "--thetas", "0.5", "-o", "out"]
    kept = []
    for fatal in ("_weights", "_gated"):  # when prices are chosen; when weights are found, too
        done = subprocess.run([sys.executable, "-c", FATAL, fatal, *words], check=False)
        assert done.returncode == -signal.SIGKILL
        assert not Path("out").exists()
        kept.append({p: p.stat().st_mtime_ns for p in (WORK / "pieces").glob("stage-*")})
    assert [len(x) for x in kept] == [1, 2]
    assert kept[0].items() <= kept[1].items()  # what was there is not made again
    subprocess.run([sys.executable, "-c", DRIVER, *words], check=True)
    names = [line.piece for line in read_ledger(Path("out")) if line.piece is not None]
    assert [x for x in names if x.startswith("stage")] == ["stage-groups", "stage-weights"]
    tuned("undisturbed", priors=["main"], lambdas=[1.0], thetas=[0.5], widen=4)
    mine, quiet = contents("out"), contents("undisturbed")
    assert mine["stage.safetensors"] == quiet["stage.safetensors"]
    for name in set(mine) - {"predictor.json", MANIFEST}:
        assert mine[name] == quiet[name], name
