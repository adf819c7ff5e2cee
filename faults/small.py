"""attomaton with small pieces, so that a run of seconds has many: `python -m faults.small [--die-at N] COMMAND …`.

With `--die-at N` the process kills itself, as if from outside, just before it touches its files for the Nth time: the
moments between two touches are all there are as far as the disk can tell. With N = 0 it only counts, and says how
many touches there were.
"""

import atexit
import os
import signal
import sys
from pathlib import Path

TOUCHES = ("open", "os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.chmod", "os.truncate")
SAID = "touches: "  # then how many, on stderr


def small_pieces() -> None:
    """Cut work finer than it is worth: parts, pieces, checkpoints after every chunk of steps."""
    from attomaton.folders import sweep as sweeps_folder
    from attomaton.jobs import divided
    from attomaton.jobs import fit as fits
    from attomaton.mechanics.experiment import course

    fits.PART = 2000
    divided.CAREFUL = 8  # so that larger components take the way of large ones
    divided.PIECE = 1000  # several to a shard
    sweeps_folder.PIECE = 1
    course.KEEP_EVERY = 0.0


def die_at(wanted: int, here: Path) -> None:
    """Kill this process before its `wanted`th touch of a file below `here`."""
    count = 0

    def touch(event: str, arguments: tuple) -> None:
        nonlocal count
        if event not in TOUCHES or (event == "open" and not _writes(arguments)):
            return
        path = arguments[0]
        if not isinstance(path, (str, bytes, os.PathLike)):
            return
        # Where a tree is deleted, names are relative to a folder that is open.
        if os.path.abspath(os.fsdecode(path)).startswith(f"{here}{os.sep}"):
            count += 1
            if count == wanted:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(touch)
    if wanted == 0:
        atexit.register(lambda: print(f"{SAID}{count}", file=sys.stderr))


def _writes(arguments: tuple) -> bool:
    flags = arguments[2] if len(arguments) > 2 else 0
    return bool(flags & (os.O_WRONLY | os.O_RDWR))


def main() -> None:
    """The command line of attomaton, in small pieces."""
    arguments = sys.argv[1:]
    if arguments[0] == "--die-at":
        die_at(int(arguments[1]), Path.cwd())
        arguments = arguments[2:]
    from attomaton.cli import main as cli

    sys.argv = ["attomaton", *arguments]
    cli.main()


if __name__ in ("__main__", "__mp_main__"):  # the second in workers
    small_pieces()
if __name__ == "__main__":
    main()
