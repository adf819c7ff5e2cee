"""Holds workers in the middle of a piece; for processes with this folder on their PYTHONPATH, before all else.

While the folder GATE has no file `open`, a process waits before it writes the record of its second piece, the first
being done, and says so by a file of its number there.
"""

import os
import sys
import time
from pathlib import Path

if "GATE" in os.environ:
    gate, records = Path(os.environ["GATE"]), set[Path]()

    def pass_or_wait(event: str, arguments: tuple) -> None:
        """An audit hook: a record is first written under a hidden name of its own, opened more than once."""
        if event != "open" or not isinstance(arguments[0], (str, os.PathLike)):
            return
        path = Path(arguments[0])
        record = ".json." in path.name and ".out.partial" in path.parts and "corpus" not in path.parts  # fmt: skip
        if record and path not in records:
            records.add(path)
            if len(records) == 2 and not (gate / "open").exists():
                (gate / str(os.getpid())).touch()
                while not (gate / "open").exists():
                    time.sleep(0.01)

    sys.addaudithook(pass_or_wait)
