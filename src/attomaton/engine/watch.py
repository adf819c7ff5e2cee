"""Ends a Ray cluster with the process that started it: `python watch.py PLACE RAY`, beside that process.

Ray's daemons die with whoever started them, but what the daemons had started notices late: a worker within half a
minute, in which it still writes, an agent later than that. So the cluster's folder is made here, below PLACE, and its
name printed. When standard input ends, whose other end only the starter holds, every process of the package RAY with a
file open in the folder is killed and the folder deleted. Nothing but the standard library is needed, so this is there
within milliseconds and takes little memory.
"""

import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

PATIENCE = 10.0  # seconds: a process that is being killed may be in the middle of something the system does for it


def main(place: str, package: str) -> None:
    """Make a folder, wait for the starter's end, and clear up."""
    folder = Path(tempfile.mkdtemp(prefix=f"attomaton-{os.getppid()}-", dir=place))
    try:
        print(folder, flush=True)
        sys.stdin.read()
    finally:
        end = time.monotonic() + PATIENCE
        while (found := list(members(folder, package))) and time.monotonic() < end:
            for pid in found:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
            time.sleep(0.02)
        shutil.rmtree(folder, ignore_errors=True)


def members(folder: Path, package: str) -> Iterator[int]:
    """The processes of a cluster: of Ray by their command, and of this cluster by the log files they have open.

    Neither parents nor titles would do: who has lost its parent belongs to nobody, and most give themselves a title.
    Where the system has no such list (/proc) Ray's own watcher must do.
    """
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = os.fsdecode((process / "cmdline").read_bytes())
            if command.startswith("ray::") or package in command:
                opened = (os.readlink(file) for file in (process / "fd").iterdir())
                if any(name.startswith(f"{folder}{os.sep}") for name in opened):
                    yield int(process.name)
        except OSError:
            continue  # it has just ended, or is another user's


if __name__ == "__main__":
    main(*sys.argv[1:])
