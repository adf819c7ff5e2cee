"""Ctrl-C and SIGTERM: exit code 130 and one line, wherever they find the program."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from faults.processes import gone_within, session_of

BOTH = pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda s: s.name)
PROGRAM = [sys.executable, "-m", "attomaton"]
# The program with something going on beside it: `beside` is run first, `send` sends it the signal.
BESIDE = """
import os, signal, sys
def send():
    os.kill(os.getpid(), {number})
sys.argv = ["attomaton", *sys.argv[1:]]
{beside}
from attomaton.__main__ import main
main()
"""
LOADING = """
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            send()
sys.meta_path.insert(0, Finder())
"""
# As the compiler of JAX does, a callback of the garbage collector: an exception in it is swallowed.
COLLECTING = """
import gc
def collected(phase, info):
    if "attomaton.mechanics.experiment.train" in sys.modules and "jax" in sys.modules:
        send()
gc.callbacks.append(collected)
"""
# A call of compiled code that comes back for no signal, as those of a solver or a device do.
STUCK = """
import ctypes, threading
import attomaton.cli.main
def stuck(**_):
    mutex, libc = ctypes.create_string_buffer(256), ctypes.CDLL(None)
    libc.pthread_mutex_lock(mutex)
    threading.Timer(0.1, send).start()
    libc.pthread_mutex_lock(mutex)
attomaton.cli.main._asked = lambda words: stuck
"""


def run(*words, beside="", number=signal.SIGINT, cwd=None):
    code = BESIDE.format(beside=beside, number=int(number))
    line = [sys.executable, "-c", code, *map(str, words)]
    return subprocess.run(line, check=False, capture_output=True, text=True, cwd=cwd, timeout=300)


def ended_well(code, err):
    """One line about it, the last one, and nothing that looks like a fault."""
    last = (err.splitlines() or [""])[-1]
    fault = re.search("Traceback|Exception|Error|Fatal", err)
    return code == 130 and not fault and last.startswith("Interrupted: ")


def started(*words, cwd):
    # The lab's server behaves otherwise where it sees this variable.
    environment = {k: v for k, v in os.environ.items() if k != "PYTEST_CURRENT_TEST"}
    return subprocess.Popen(
        [*PROGRAM, *map(str, words)], cwd=cwd, text=True, start_new_session=True, env=environment,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def wait_for(met, process):
    while not met():
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)


@BOTH
@pytest.mark.parametrize(
    "module", ["attomaton.cli.main", "typer", "attomaton.jobs.demo", "numpy", "jax"]
)
def test_while_modules_load(module, number, tmp_path):
    done = run("demo", "-o", "d", beside=LOADING.format(module=module), number=number, cwd=tmp_path)
    assert ended_well(done.returncode, done.stderr), done
    assert done.stdout == ""
    assert not (tmp_path / "d").exists()


@BOTH
def test_inside_a_callback_that_swallows_exceptions(number, data, tmp_path):
    done = run("train", data, "-o", "r", beside=COLLECTING, number=number, cwd=tmp_path)
    assert ended_well(done.returncode, done.stderr), done


@BOTH
def test_inside_a_call_that_never_comes_back(number, tmp_path):
    done = run("doctor", beside=STUCK, number=number, cwd=tmp_path)
    assert ended_well(done.returncode, done.stderr), done


def test_json_tells_it_too(tmp_path):
    done = run("doctor", "--json", beside=STUCK, cwd=tmp_path)
    error = json.loads(done.stdout)["error"]
    assert (error["type"], error["exit_code"]) == ("Interrupted", 130)
    assert error["message"] in done.stderr


@BOTH
def test_what_is_kept_is_named_and_gone_on_with(number, data, tmp_path):
    line = ["train", data, "-o", "r", "--steps", "20000000", "--every", "log"]
    process = started(*line, cwd=tmp_path)
    work = tmp_path / ".r.partial"
    wait_for((work / "checkpoint.safetensors").exists, process)
    process.send_signal(number)
    out, err = process.communicate(timeout=300)
    assert ended_well(process.returncode, err), (process.returncode, err)
    assert ".r.partial; run the same command again" in err
    assert out == ""
    again = started(*line, cwd=tmp_path)
    wait_for(lambda: '"resumed"' in (work / "log.jsonl").read_text(), again)
    again.kill()
    again.communicate()


# When a file is opened for the nth time: in a folder that is filled in one go, or a single one under a temporary name.
WRITING = """
times = 0
def seen(event, arguments):
    global times
    written = event == "open" and isinstance(arguments[2], int) and arguments[2] & os.O_ACCMODE
    if written and {mark!r} in str(arguments[0]):
        times += 1
        if times == {nth}:
            send()
sys.addaudithook(seen)
"""


@pytest.mark.parametrize("nth", [1, 2])
@pytest.mark.parametrize(
    ("words", "mark"),
    [
        (("reproduce", "scan-snap-fig8", "-o", "r"), ".r.unfinished-"),
        (("data", "synth", "-o", "d.jsonl"), "/.d."),
    ],
    ids=("folder", "file"),
)
def test_what_is_written_in_one_go_leaves_nothing(words, mark, nth, tmp_path):
    words = [str(tmp_path / word) if word in ("r", "d.jsonl") else word for word in words]
    done = run(*words, beside=WRITING.format(mark=mark, nth=nth), cwd=tmp_path)
    assert ended_well(done.returncode, done.stderr), done
    assert list(tmp_path.iterdir()) == []


# A process has been started, and not been told yet what it is for.
STARTING = """
import time
from multiprocessing import util
spawned = util.spawnv_passfds
def spawn(path, words, handles):
    child = spawned(path, words, handles)
    if any("spawn_main" in str(word) for word in words):
        send()
        time.sleep(0.5)
    return child
util.spawnv_passfds = spawn
"""


@BOTH
def test_while_a_worker_is_started_it_says_nothing(number, tmp_path):
    grid = ["sweep", "syn-small", "eta_z=0.5,1,2,4", "ratio=1,2", "steps=100000"]
    more = ["--level", "sampled", "-o", "s", "--engine", "processes", "--workers", 2]
    done = run(*grid, *more, beside=STARTING, number=number, cwd=tmp_path)
    assert ended_well(done.returncode, done.stderr), done


@BOTH
@pytest.mark.parametrize("engine", ["processes", "ray"])
def test_workers_say_nothing_and_are_gone(engine, number, tmp_path):
    if engine == "ray":
        pytest.importorskip("ray", reason="Ray is not installed; attomaton[ray]")
    grid = ["sweep", "syn-small", "eta_z=0.5,1,2,4", "ratio=1,2", "steps=100000"]
    process = started(
        *grid, "--level", "sampled", "-o", "s", "--engine", engine, "--workers", 2, cwd=tmp_path
    )
    wait_for(lambda: len(session_of(process.pid)) > 1, process)
    os.killpg(process.pid, number)  # as a terminal does: to all of them
    _, err = process.communicate(timeout=300)
    assert ended_well(process.returncode, err), (process.returncode, err)
    assert gone_within(process.pid, 20.0) is not None


def test_the_lab_shuts_down_and_ends_alike(tmp_path):
    pytest.importorskip("nicegui", reason="the lab is not installed; attomaton[lab]")
    process = started("lab", "--no-browser", "--workspace", tmp_path, cwd=tmp_path)
    assert process.stdout.readline().startswith("http://")
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=300)
    assert process.returncode == 130
    assert err.splitlines()[1:] == ["Interrupted: the lab has ended."]


def test_a_signal_after_the_end_changes_nothing(tmp_path):
    late = "import atexit\natexit.register(send)\n"
    done = run("doctor", beside=late, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_signal_that_is_to_be_ignored_is_ignored(tmp_path):
    ignore = "signal.signal(signal.SIGINT, signal.SIG_IGN)\nsend()\n" + LOADING.format(
        module="typer"
    )
    done = run("--help", beside=ignore, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    from typer.testing import CliRunner

    from attomaton.cli.main import app

    path: Path = tmp_path_factory.mktemp("data") / "d.jsonl"
    assert CliRunner().invoke(app, ["data", "synth", "-o", str(path)]).exit_code == 0
    return path
