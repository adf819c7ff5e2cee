"""A Ray cluster: one that is there, or two or more workers started on this machine."""

import logging
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from attomaton.engine.processes import available_cores
from attomaton.engine.tasks import Backlog, Task, Work, WorkerError
from attomaton.errors import UsageError

PER_WORKER = 2  # tasks handed out for each worker: one that runs and one that waits
PATIENCE = 10.0  # seconds for tasks that are told to stop
KNOCK = 2.0  # seconds in which somebody who listens takes a connection


class Cluster:
    """Tasks on Ray; files they read and write must lie where every node sees them."""

    name = "ray"

    def __init__(
        self, workers: int | None = None, memory: int | None = None, address: str | None = None
    ):
        # Before the import: Ray looks at these once. It reports nothing about its use.
        os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        # Otherwise a cluster starts workers before there are tasks and `init` waits for them: for ever where one dies.
        os.environ.setdefault("RAY_prestart_worker_first_driver", "0")
        try:
            import ray
        except ImportError as missing:
            raise UsageError("the ray engine needs Ray; install attomaton[ray].") from missing
        self._ray, self._memory = ray, memory
        self._watch: Watch | None = None
        # The caller's own: used and left as it is
        self._joined = address is None and ray.is_initialized()
        init = partial(
            ray.init, log_to_driver=False, logging_level=logging.ERROR, configure_logging=False
        )
        if self._joined:
            self.workers = max(int(ray.cluster_resources().get("CPU", 1)), 1)
        elif address is None:
            self.workers = available_cores() if workers is None else workers
            if self.workers < 1:
                raise UsageError(f"workers must be at least 1, not {workers}.")
            self._watch = Watch(Path(ray.__file__).parent)
            try:
                with _own_signals():
                    init(
                        num_cpus=self.workers, include_dashboard=False, _temp_dir=self._watch.folder
                    )
            except Exception as error:
                # Of whatever class: Ray has none for a cluster that does not start.
                self.close()
                raise WorkerError(f"no Ray cluster could be started here ({error}).") from error
        else:
            # Not every version of Ray has an error for a token that it looks for and does not find.
            tokenless = getattr(ray.exceptions, "AuthenticationError", ConnectionError)
            try:
                with _own_signals():
                    init(address=address)
            except (ConnectionError, RuntimeError, ValueError, tokenless) as error:
                raise UsageError(_not_joined(address, error)) from error
            self.workers = max(int(ray.cluster_resources().get("CPU", 1)), 1)

    def run(self, work: Work, tasks: Iterable[Task], *common: Any) -> Iterator[tuple[int, Any]]:
        """As they finish; no more are handed out than the workers can take soon."""
        running: dict[Any, int] = {}
        try:
            yield from self._results(work, Backlog(tasks, self._memory), running, common)
        except BaseException:
            self._stop(list(running))  # what still runs would answer to nobody
            raise

    def _results(
        self, work: Work, backlog: Backlog, running: dict[Any, int], common: tuple[Any, ...]
    ) -> Iterator[tuple[int, Any]]:
        ray = self._ray
        shared = [os.getcwd(), work, *(ray.put(x) for x in common)]
        # Retries are counted by the backlog, as for processes: a task is lost with its worker, not by its own error.
        remote = ray.remote(num_cpus=1, max_retries=0)(_in_folder).options(name=work.__name__)
        while backlog:
            while len(running) < PER_WORKER * self.workers and (task := backlog.take()) is not None:
                running[remote.remote(*shared, task.payload)] = task.number
            (done,), _ = ray.wait(list(running), num_returns=1)
            number = running.pop(done)
            try:
                value = ray.get(done)
            except (
                ray.exceptions.WorkerCrashedError,
                ray.exceptions.NodeDiedError,
                ray.exceptions.OutOfMemoryError,
                ray.exceptions.ObjectLostError,  # it was done, but its result lay on a node that died
            ):
                backlog.lost(number)
                continue
            except ray.exceptions.RayTaskError as error:
                raise error.cause from error
            except ray.exceptions.RayError as error:
                # No worker but the cluster itself: nothing can be repeated there.
                raise WorkerError(
                    f"the Ray cluster failed ({error}). What was finished is kept, run the same again to go on."
                ) from error
            backlog.finish(number)
            yield number, value

    def _stop(self, running: list[Any]) -> None:
        """End these tasks, and come back when they have ended: nobody may write into a folder that is thrown away."""
        if not running or not self._ray.is_initialized():
            return  # with the cluster all of its tasks have ended
        for task in running:
            self._ray.cancel(task, force=True)
        self._ray.wait(running, num_returns=len(running), timeout=PATIENCE)

    def close(self) -> None:
        """Leave the cluster; one that was started here ends."""
        if not self._joined:
            self._ray.shutdown()
        if self._watch is not None:
            self._watch.close()


def _not_joined(address: str, error: Exception) -> str:
    """Why a cluster cannot be joined. Ray tells one that asks for a token like one that is not there."""
    if not isinstance(error, (ConnectionError, RuntimeError, ValueError)):
        return f"the Ray cluster at {address} cannot be joined without a token ({error})"
    if not (isinstance(error, ConnectionError) and _answers(address)):
        return f"no Ray cluster at {address} ({error})."
    if os.environ.get("RAY_AUTH_MODE") != "token":
        here = "RAY_AUTH_MODE=token is not set here"
    elif os.environ.get("RAY_AUTH_TOKEN") or any(path.is_file() for path in _token_files()):
        here = "the one given here may be another"
    else:
        here = "none is given here"
    return (
        f"{address} answers, but no Ray cluster there lets this command in ({error}). If it asks for a token, "
        f"{here}: set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN as they are on its nodes."
    )


def _token_files() -> list[Path]:
    """Where Ray looks for a token that is not in the environment."""
    named = os.environ.get("RAY_AUTH_TOKEN_PATH")
    return [Path(named) if named else Path.home() / ".ray" / "auth_token"]


def _answers(address: str) -> bool:
    """Whether somebody listens at an address `host:port`."""
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), KNOCK):
            return True
    except (OSError, ValueError):
        return False


def _in_folder(folder: str, work: Work, *given: Any) -> Any:
    """Do work where the driver stands: workers of a cluster that was there before stand elsewhere."""
    # A node without that folder can still do what names no file relative to it.
    with suppress(OSError):
        os.chdir(folder)
    return work(*given)


@contextmanager
def _own_signals() -> Iterator[None]:
    """Keep what this process does on SIGTERM; Ray would have it exit in its own way, also while it starts."""
    from ray._private import utils

    before, installed = signal.getsignal(signal.SIGTERM), utils.set_sigterm_handler
    utils.set_sigterm_handler = lambda handler: None
    try:
        yield
    finally:
        utils.set_sigterm_handler = installed
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)


class Watch:
    """A process that keeps the cluster's folder, and ends the cluster when this one is gone, however it went."""

    def __init__(self, package: Path):
        script = Path(__file__).with_name("watch.py")
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", script, _short_folder(), package],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,  # what ends this process's whole group must not end it
        )
        assert self._process.stdout is not None
        self.folder = self._process.stdout.readline().rstrip("\n")
        if not self.folder:
            self.close()
            raise UsageError(f"{_short_folder()}: cannot write there, and Ray needs a folder.")

    def close(self) -> None:
        """Let it clear up, and wait until it has."""
        self._process.communicate()


def _short_folder() -> str:
    """Where the cluster's folder lies: the paths of Ray's sockets may not be longer than some hundred letters."""
    return "/tmp" if os.path.isdir("/tmp") else tempfile.gettempdir()
