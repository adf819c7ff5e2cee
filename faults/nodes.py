"""A Ray cluster of two nodes on this machine, each in processes of its own, so that one of them can be killed.

The first is the head, to which drivers connect. Each has an address of its own and one processor for tasks; the cluster
lets in who knows its token. Like one that attomaton starts itself, it ends with this process, however that ends. A gate
holds workers in the middle of a piece, so that a node can be killed at a known moment.
"""

import os
import re
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from attomaton.engine.cluster import Watch
from faults.cases import ROOT
from faults.processes import NO_WORKERS, session_of

HEAD, SECOND = "127.0.0.2", "127.0.0.3"  # Ray takes 127.0.0.1 for the address other machines see
STARTED = "This command will now block"  # the last a node says
JOINED_AT = re.compile(r"ray start --address='([^']+)'")  # what a head says before that
LONG = 120.0  # seconds after which a node counts as one that does not start
SETTINGS = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_prestart_worker_first_driver": "0",
    "PYTHONUNBUFFERED": "1",
    "RAY_AUTH_MODE": "token",
}


class TwoNodes:
    """The cluster: its address, what drivers need in their `environment`, and a second node that comes and goes."""

    def __init__(self, folder: Path):
        self._folder = folder
        self._gate = folder / "gate"
        self._gate.mkdir()
        self.open_gate()
        self._started: list[subprocess.Popen] = []
        self.environment = {**SETTINGS, "RAY_AUTH_TOKEN": secrets.token_hex(32)}
        path = os.pathsep.join((f"{ROOT}/faults/gate", f"{ROOT}/src", str(ROOT)))
        own = {"PYTHONPATH": path, "GATE": str(self._gate)}
        self._environment = {**os.environ, **self.environment, **own}
        self._second: subprocess.Popen | None = None
        self.address = ""

    def start_head(self) -> None:
        """Start the node that the other one joins."""
        self._start(HEAD, "--head", "--port=0", "--include-dashboard=false")
        told = JOINED_AT.search((self._folder / "node-0.log").read_text())
        assert told is not None
        self.address = told[1]

    def start_second(self) -> None:
        """Let a second node join, unless there is one."""
        if self._second is None:
            self._second = self._start(SECOND, f"--address={self.address}")

    def kill_second(self) -> None:
        """SIGKILL of all the second node consists of."""
        if self._second is not None:
            _kill(self._second)
            self._second = None

    def close_gate(self) -> None:
        """From now on every worker waits in the middle of its second piece."""
        for name in self._gate.iterdir():
            name.unlink()

    def open_gate(self) -> None:
        """Let all workers go on."""
        (self._gate / "open").touch()

    def held(self) -> bool:
        """Whether a worker of the second node waits at the gate, with a task that is not done."""
        there = [] if self._second is None else session_of(self._second.pid)
        return any((self._gate / str(p.pid)).exists() for p in there)

    def busy(self) -> bool:
        """Whether a worker of the second node has a task."""
        there = [] if self._second is None else session_of(self._second.pid)
        titles = [p.command for p in there if p.command.startswith("ray::")]
        return any(not title.startswith(NO_WORKERS) for title in titles)

    def close(self) -> None:
        """End both nodes."""
        for node in self._started:
            _kill(node)

    def _start(self, host: str, *words: str) -> subprocess.Popen:
        log = self._folder / f"node-{len(self._started)}.log"
        command = [
            *(sys.executable, "-m", "ray.scripts.scripts", "start", *words, "--block"),
            *(f"--node-ip-address={host}", "--num-cpus=1", "--num-gpus=0"),
            *(f"--temp-dir={self._folder}", "--object-store-memory=200000000"),
            *("--disable-usage-stats", "--include-log-monitor=false"),
        ]
        with log.open("w") as told:
            node = subprocess.Popen(
                command,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=told,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._started.append(node)
        end = time.monotonic() + LONG
        while STARTED not in (said := log.read_text()):
            if node.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"a Ray node does not start: {said[-2000:]}")
            time.sleep(0.02)
        return node


@contextmanager
def two_nodes() -> Iterator[TwoNodes]:
    """A cluster, at first of its head alone, for as long as the block runs."""
    import ray

    watch = Watch(Path(ray.__file__).parent)
    try:
        cluster = TwoNodes(Path(watch.folder))
        try:
            cluster.start_head()
            yield cluster
        finally:
            cluster.close()
    finally:
        watch.close()


def _kill(node: subprocess.Popen) -> None:
    """End every process of a node, until none is left."""
    while left := session_of(node.pid):
        for process in left:
            try:
                os.kill(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        time.sleep(0.005)
    node.wait()
