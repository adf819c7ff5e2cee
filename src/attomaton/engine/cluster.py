"""A Ray cluster: one that is there, or two or more workers started on this machine."""

import os
import tempfile
from collections.abc import Iterator, Sequence
from typing import Any

from attomaton.engine.processes import available_cores
from attomaton.engine.tasks import Backlog, Task, Work
from attomaton.errors import UsageError

PER_WORKER = 2  # tasks handed out for each worker: one that runs and one that waits


class Cluster:
    """Tasks on Ray; files they read and write must lie where every node sees them."""

    name = "ray"

    def __init__(
        self, workers: int | None = None, memory: int | None = None, address: str | None = None
    ):
        # Before the import: Ray looks at these once. It reports nothing about its use.
        os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        try:
            import ray
        except ImportError as missing:
            raise UsageError("the ray engine needs Ray; install attomaton[ray].") from missing
        self._ray, self._memory = ray, memory
        self._folder: tempfile.TemporaryDirectory | None = None
        self._joined = (
            address is None and ray.is_initialized()
        )  # the caller's own: used and left as it is
        quiet: dict[str, Any] = {
            "log_to_driver": False,
            "logging_level": "ERROR",
            "configure_logging": False,
        }
        if self._joined:
            self.workers = max(int(ray.cluster_resources().get("CPU", 1)), 1)
        elif address is None:
            self.workers = available_cores() if workers is None else workers
            if self.workers < 1:
                raise UsageError(f"workers must be at least 1, not {workers}.")
            # A short folder: the paths of Ray's sockets may not be longer than some hundred letters.
            self._folder = tempfile.TemporaryDirectory(prefix="ray", dir=_short_folder())
            ray.init(
                num_cpus=self.workers, include_dashboard=False, _temp_dir=self._folder.name, **quiet
            )
        else:
            try:
                ray.init(address=address, **quiet)
            except (ConnectionError, RuntimeError, ValueError) as error:
                raise UsageError(f"no Ray cluster at {address} ({error}).") from error
            self.workers = max(int(ray.cluster_resources().get("CPU", 1)), 1)

    def run(self, work: Work, tasks: Sequence[Task]) -> Iterator[tuple[int, Any]]:
        """As they finish; no more are handed out than the workers can take soon."""
        ray = self._ray
        # Retries are counted by the backlog, as for processes: a task is lost with its worker, not by its own error.
        remote = ray.remote(num_cpus=1, max_retries=0)(work)
        backlog = Backlog(tasks, self._memory)
        running: dict[Any, int] = {}
        while backlog:
            while len(running) < PER_WORKER * self.workers and (task := backlog.take()) is not None:
                running[remote.remote(task.payload)] = task.number
            (done,), _ = ray.wait(list(running), num_returns=1)
            number = running.pop(done)
            try:
                value = ray.get(done)
            except (
                ray.exceptions.WorkerCrashedError,
                ray.exceptions.NodeDiedError,
                ray.exceptions.OutOfMemoryError,
            ):
                backlog.lost(number)
                continue
            except ray.exceptions.RayTaskError as error:
                raise error.cause from error
            backlog.finish(number)
            yield number, value

    def close(self) -> None:
        """Leave the cluster; one that was started here ends."""
        if not self._joined:
            self._ray.shutdown()
        if self._folder is not None:
            self._folder.cleanup()


def _short_folder() -> str:
    return "/tmp" if os.path.isdir("/tmp") else tempfile.gettempdir()
