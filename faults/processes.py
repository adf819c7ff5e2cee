"""Processes as the system sees them: who belongs to a run, who works for it, who is still alive. Linux only."""

import time
from pathlib import Path
from typing import NamedTuple


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
    """The processes that work for a driver: its children, less those of Python's own housekeeping."""
    return [p.pid for p in _all() if p.parent == driver and "spawn_main" in p.command]


def gone_within(leader: int, most: float) -> float | None:
    """The seconds until nobody of a session is left, or None where somebody stays."""
    begin = time.monotonic()
    while session_of(leader):
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
