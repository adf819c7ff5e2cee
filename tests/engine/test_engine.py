"""The same tasks on every engine: each result once, the dead replaced, errors as they are, memory kept to."""

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.engine import work

from attomaton.cli.commands import is_large
from attomaton.engine.choose import engine_name, open_engine
from attomaton.engine.cluster import Cluster, Watch
from attomaton.engine.tasks import AHEAD, ATTEMPTS, Backlog, Task, WorkerError
from attomaton.errors import DataError, UsageError

ROOT = Path(__file__).parents[2]
# The engines that have workers beside this process.
BESIDE = pytest.mark.parametrize("engine", ["processes", "ray"], indirect=True)


def tasks(payloads, bytes=0):
    return [Task(i, x, bytes) for i, x in enumerate(payloads)]


@pytest.fixture(scope="module")
def processes():
    with open_engine("processes", 2) as engine:
        yield engine


@pytest.fixture(scope="module", params=["local", "processes", "ray"])
def engine(request, processes):
    if request.param == "processes":
        yield processes
        return
    if request.param == "ray":
        pytest.importorskip("ray", reason="Ray is not installed; attomaton[ray]")
    with open_engine(request.param, None if request.param == "local" else 2) as one:
        yield one


def test_every_result_comes_once(engine):
    found = list(engine.run(work.square, tasks(range(20))))
    assert sorted(found) == [(i, i * i) for i in range(20)]


def test_what_tasks_have_in_common_is_given_to_each(engine, tmp_path):
    if engine.name == "local":
        (tmp_path / "tried").touch()  # nobody dies here
    for exponent in (3, 2):
        found = engine.run(work.power, tasks(range(6)), tmp_path, [exponent])
        assert sorted(found) == [(i, i**exponent) for i in range(6)]


def test_processes_hired_before_their_tasks_are_those_that_do_them():
    with open_engine("processes", 3) as engine:
        engine.hire(2)
        hired = engine.pids()
        assert len(hired) == 2
        assert {pid for _, pid in engine.run(work.where, tasks(range(2)))} <= set(hired)
        engine.hire(9)
        assert (engine.pids()[:2], len(engine.pids())) == (hired, 3)


def test_no_tasks_no_results(engine):
    assert list(engine.run(work.square, [])) == []


def test_an_error_of_the_work_arrives_as_it_is(engine):
    with pytest.raises(DataError, match="task 3 is no good"):
        list(engine.run(work.fail, tasks(range(6))))
    # The engine is as good as new.
    assert sorted(engine.run(work.square, tasks(range(4)))) == [(0, 0), (1, 1), (2, 4), (3, 9)]


@BESIDE
def test_an_error_ends_what_runs_beside_it(engine, tmp_path):
    names = [str(tmp_path / name) for name in ("goes on", "fails")]
    with pytest.raises(DataError, match="no good"):
        list(engine.run(work.fail_beside, tasks(names)))
    gone([int((tmp_path / "goes on").read_text())])


@pytest.mark.parametrize("engine", ["ray"], indirect=True)
def test_a_cluster_that_fails_is_an_error_of_its_own(engine, monkeypatch):
    import ray

    def fail(task):
        raise ray.exceptions.LocalRayletDiedError

    with monkeypatch.context() as patched:
        patched.setattr(ray, "get", fail)
        with pytest.raises(WorkerError, match=r"cluster failed .*raylet died.* run the same again"):
            list(engine.run(work.square, tasks([3])))
    assert list(engine.run(work.square, tasks([3]))) == [(0, 9)]


@pytest.mark.parametrize("engine", ["ray"], indirect=True)
def test_a_result_that_is_lost_with_its_node_is_computed_again(engine, monkeypatch):
    import ray

    get, lost = ray.get, []

    def lose_one(task):
        if not lost:
            lost.append(task)
            raise ray.exceptions.ObjectLostError(task.hex(), b"", "")
        return get(task)

    monkeypatch.setattr(ray, "get", lose_one)
    assert sorted(engine.run(work.square, tasks([3, 4]))) == [(0, 9), (1, 16)]
    assert len(lost) == 1


def test_large_results_pass(engine):
    assert len(dict(engine.run(work.large, tasks([30_000_000])))[0]) == 30_000_000


@BESIDE
def test_a_dead_worker_is_replaced_and_its_task_done_again(engine, tmp_path):
    folders = [tmp_path / str(i) for i in range(4)]
    for folder in folders:
        folder.mkdir()
    found = dict(engine.run(work.die_once, tasks(map(str, folders))))
    assert found == dict.fromkeys(range(4), "alive")


@BESIDE
def test_a_task_that_always_kills_its_worker_is_given_up(engine):
    with pytest.raises(WorkerError, match=f"died {ATTEMPTS} times"):
        list(engine.run(work.die, tasks([0])))
    assert list(engine.run(work.square, tasks([3]))) == [(0, 9)]


def test_tasks_run_in_other_processes_side_by_side(processes):
    pids = set(dict(processes.run(work.where, tasks(range(6)))).values())
    assert len(pids) == 2
    assert os.getpid() not in pids


def test_memory_bounds_what_runs_at_a_time(processes, tmp_path):
    with open_engine("processes", 2, memory=10) as engine:
        alone = dict(engine.run(work.in_company, tasks([str(tmp_path)] * 4, bytes=6)))
    together = dict(processes.run(work.in_company, tasks([str(tmp_path)] * 4, bytes=6)))
    assert max(alone.values()) == 1
    assert max(together.values()) == 2


def test_the_largest_tasks_come_first():
    backlog = Backlog([Task(i, None, size) for i, size in enumerate((1, 5, 3))], None)
    assert [backlog.take().number for _ in range(3)] == [1, 2, 0]


def test_tasks_of_a_stream_come_in_its_order_and_not_far_ahead():
    asked = []
    backlog = Backlog((asked.append(i) or Task(i, None) for i in range(3 * AHEAD)), None)
    assert (bool(backlog), asked) == (True, [0])
    assert [backlog.take().number for _ in range(AHEAD)] == list(range(AHEAD))
    for number in range(1, AHEAD):  # all but the oldest
        backlog.finish(number)
    assert (backlog.take(), len(asked)) == (None, AHEAD)
    backlog.finish(0)
    assert backlog.take().number == AHEAD


def test_a_stream_is_worked_off_as_a_list_is(engine):
    given = tasks(range(40))
    assert sorted(engine.run(work.square, iter(given))) == sorted(engine.run(work.square, given))
    with pytest.raises(DataError, match="task 3"):
        list(engine.run(work.fail, iter(tasks(range(6)))))


def test_a_task_larger_than_the_memory_runs_alone():
    backlog = Backlog([Task(0, None, 100), Task(1, None, 1)], memory=10)
    assert backlog.take().number == 0
    assert backlog.take() is None
    backlog.finish(0)
    assert backlog.take().number == 1


def test_each_process_computes_on_one_core_and_this_one_as_before(processes):
    before = os.environ.get("OMP_NUM_THREADS")
    assert dict(processes.run(work.threads, tasks([0]))) == {0: "1"}
    assert os.environ.get("OMP_NUM_THREADS") == before


def test_workers_leave_with_a_killed_parent():
    code = (
        "from attomaton.engine.processes import Processes\n"
        "from attomaton.engine.tasks import Task\n"
        "from tests.engine import work\n"
        "if __name__ == '__main__':\n"
        "    e = Processes(2)\n"
        "    list(e.run(work.square, [Task(i, i) for i in range(2)]))\n"
        "    print(*e.pids(), flush=True)\n"
        "    list(e.run(work.sleep, [Task(i, 600) for i in range(2)]))\n"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    pids = [int(x) for x in parent.stdout.readline().split()]
    assert len(pids) == 2
    time.sleep(0.3)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    gone(pids)


def test_a_cluster_that_does_not_start_is_an_error_of_its_own_and_leaves_nothing(monkeypatch):
    ray = pytest.importorskip("ray", reason="Ray is not installed; attomaton[ray]")
    folders = []

    def fail(_temp_dir, **_):
        folders.append(Path(_temp_dir))
        raise Exception("the node timed out")

    monkeypatch.setattr(ray, "init", fail)
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "shutdown", lambda: None)  # another test's cluster stays
    with pytest.raises(WorkerError, match=r"could be started here \(the node timed out\)"):
        Cluster(2)
    assert [folder.exists() for folder in folders] == [False]


@pytest.mark.parametrize(
    ("there", "given", "said"),
    [
        (False, {"RAY_AUTH_MODE": "token"}, r"^no Ray cluster at 127\.0\.0\.1:\d+ \(no way\)\.$"),
        (True, {}, r"^127\.0\.0\.1:\d+ answers, but .* RAY_AUTH_MODE=token is not set here"),
        (True, {"RAY_AUTH_MODE": "token"}, "If it asks for a token, none is given here: set"),
        (True, {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "a"}, "given here may be another"),
    ],
)
def test_a_cluster_that_lets_nobody_in_is_told_from_one_that_is_not_there(
    monkeypatch, tmp_path, there, given, said
):
    ray = pytest.importorskip("ray", reason="Ray is not installed; attomaton[ray]")

    def fail(**_):
        raise ConnectionError("no way")

    monkeypatch.setattr(ray, "init", fail)
    for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(tmp_path / "none"))
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        if not there:
            server.close()
        with pytest.raises(UsageError, match=said):
            Cluster(address=f"127.0.0.1:{port}")


def test_a_watch_ends_its_cluster_and_nobody_else(tmp_path):
    package = tmp_path / "ray"
    package.mkdir()
    holds = "import sys, time\nfile = open(sys.argv[1], 'w')\nprint(flush=True)\ntime.sleep(60)\n"
    (package / "worker.py").write_text(holds)
    (tmp_path / "reader.py").write_text(holds)
    watch = Watch(package)
    inside, outside = Path(watch.folder) / "log", tmp_path / "log"
    commands = [(package / "worker.py", inside), (package / "worker.py", outside),
                (tmp_path / "reader.py", inside)]  # fmt: skip
    started = [
        subprocess.Popen([sys.executable, *command], stdout=subprocess.PIPE) for command in commands
    ]
    for process in started:
        process.stdout.readline()
    watch.close()
    ended = [process.poll() is not None for process in started]
    for process in started:
        process.kill()
        process.communicate()
    assert ended == [True, False, False]
    assert not Path(watch.folder).exists()


def gone(pids):
    """Wait until these processes have ended, each of which would go on for minutes."""
    end = time.monotonic() + 120
    while any(map(_alive, pids)):
        assert time.monotonic() < end
        time.sleep(0.05)


def _alive(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state != "Z"


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("procesess", {}, "did you mean 'processes'"),
        ("local", {"workers": 2}, "--engine processes"),
        ("processes", {"workers": 0}, "at least 1"),
        ("processes", {"address": "auto"}, "belongs to the ray engine"),
    ],
)
def test_engines_that_cannot_be(name, options, said):
    with pytest.raises(UsageError, match=said), open_engine(name, **options):
        pass


def test_no_worker_hears_of_ctrl_c_not_even_the_first():
    """In a process of its own: Python starts a helper with the first worker, once."""
    code = (
        "from tests.engine import work\nfrom attomaton.engine.choose import open_engine\n"
        "from attomaton.engine.tasks import Task\n"
        "with open_engine('processes', 2) as engine:\n"
        "    print(sorted(engine.run(work.deaf, [Task(i, i) for i in range(6)])))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == str([(i, True) for i in range(6)])


@pytest.mark.parametrize(
    ("name", "workers", "large", "cores", "meant"),
    [
        (None, None, False, 8, "local"),
        (None, None, True, 8, "processes"),
        (None, None, True, 1, "local"),  # nothing to gain on one core
        (None, 2, False, 8, "processes"),
        (None, 1, True, 8, "local"),
        ("local", None, True, 8, "local"),
        ("ray", None, False, 8, "ray"),
    ],
)
def test_unnamed_engines_suit_the_work(name, workers, large, cores, meant, monkeypatch):
    monkeypatch.setattr("attomaton.engine.choose.available_cores", lambda: cores)
    assert engine_name(name, workers, large) == meant


def test_a_file_is_large_from_its_bytes_on(tmp_path):
    (path := tmp_path / "a.txt").write_bytes(b"a " * 10)
    assert is_large(path, 20.0)
    assert not is_large(path, 21.0)
    assert not is_large(tmp_path / "nowhere.txt", 0.0)
