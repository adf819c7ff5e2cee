"""A lab whose work waits where a test wants it: `python held.py FILE lab …`.

Work goes no further than the count that stands in the file; a stop that is asked for is heard at once. So no test has
to be faster than what it stops.
"""

import sys
import time
from pathlib import Path

from attomaton.__main__ import main
from attomaton.lab.jobs import Job


def hold(file: Path) -> None:
    """Let all work of this process look at a file."""
    told = Job.progress

    def progress(job: Job, done: int, total: int, note: str = "") -> None:
        told(job, done, total, note)
        while float(file.read_text()) <= done and not job.stopping:
            time.sleep(0.01)
        told(job, done, total, note)

    Job.progress = progress


if __name__ == "__main__":
    hold(Path(sys.argv.pop(1)))
    main()
