"""Processes as the system sees them: who belongs to a run, who works for it, who is still alive. Linux only."""

import time
from pathlib import Path
from typing import NamedTuple

# Ray's processes by their titles, less workers with a task: such a one is called by the task's function.
NO_WORKERS = ("ray::IDLE", "ray::DashboardAgent", "ray::RuntimeEnvAgent")


class Process(NamedTuple):
    """One line of the process table."""

    pid: int
    parent: int
    session: int
    command: str


def session_of(leader: int) -> list[Process]:
    """Every living process of a session, which a run and all it starts have to themselves."""
    return [p for p in _all() if p.session == leader]


def workers_of(driver: int) -> list[int]:
    """The processes that work for a driver: its children, less those of Python's own housekeeping.

    Those of a Ray cluster only while they have a task.
    """
    return [p.pid for p in session_of(driver) if _works(p, driver)]


def _works(process: Process, driver: int) -> bool:
    if process.command.startswith("ray::"):
        return not process.command.startswith(NO_WORKERS)
    return process.parent == driver and "spawn_main" in process.command


def cluster_folders(driver: int) -> list[Path]:
    """What is there of the Ray cluster that a driver has started."""
    return list(Path("/tmp").glob(f"attomaton-{driver}-*"))


def gone_within(leader: int, most: float) -> float | None:
    """The seconds until nobody of a session is left and no folder of its cluster, or None where something stays."""
    begin = time.monotonic()
    while session_of(leader) or cluster_folders(leader):
        if time.monotonic() - begin > most:
            return None
        time.sleep(0.02)
    return time.monotonic() - begin


def _all() -> list[Process]:
    found = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            command = (
                (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            )
        except OSError:
            continue  # it has just ended
        if fields[0] not in "ZX":
            found.append(Process(int(folder.name), int(fields[1]), int(fields[3]), command))
    return found
