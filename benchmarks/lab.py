"""How smoothly the lab's priority graph pans when it is as full as it gets: `python -m benchmarks.lab`.

A data set is drawn whose graph has just under 2,000 elements, a lab is started on it, a headless Chromium opens the
graph and pans it, one step a frame. A frame within 16.7 ms is as smooth as a screen of 60 Hz can show. It needs the
test extra and Chromium; without Chromium there is no such row.
"""

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from tests import chromium
from tests.lab.conftest import Running, enter

from benchmarks.table import Row, say

LAYERS, WIDE, BELOW = (
    5,
    30,
    14,
)  # layers of tokens, tokens in each, tokens further down that each outranks
FRAMES = 120
SMOOTH = 1000 / 60  # milliseconds


def write_graph(path: Path) -> None:
    """Samples with one last token, `end`: tokens in layers, each preferred to some of the layers below."""
    rng = np.random.default_rng(0)
    names = np.array([f"token{i}" for i in range(LAYERS * WIDE)])
    with path.open("w", encoding="utf-8") as file:
        for i in range((LAYERS - 1) * WIDE):
            lower = names[(i // WIDE + 1) * WIDE :]
            context = [names[i], *rng.choice(lower, BELOW, replace=False), "end"]
            file.write(
                json.dumps({"tokens": list(map(str, context)), "next": str(names[i])}) + "\n"
            )


def frame_times(folder: Path) -> tuple[int, np.ndarray]:
    """How many elements are drawn, and the milliseconds of each frame while they are panned."""
    write_graph(folder / "graph.jsonl")
    lab = Running(folder, folder / "graph.jsonl")
    browser = chromium.Browser(folder / "profile")
    try:
        enter(browser, lab)
        browser.see("/graph?last=end")
        elements = browser.wait("document.querySelectorAll('.pg .node, .pg .edge').length")
        component = "getElement(+document.querySelector('.pg-frame').id.slice(1))"
        times = []
        for count in (30, FRAMES):  # the first ones warm up
            times = browser.send(
                "Runtime.evaluate",
                expression=f"{component}.frames({count})",
                awaitPromise=True,
                returnByValue=True,
            )["result"]["value"]
        return elements, np.array(times)
    finally:
        browser.close()
        lab.close()


def rows() -> Iterator[Row]:
    if chromium.program() is None:
        say("lab: left out, there is no Chromium here")
        return
    say("lab: panning a full graph")
    with tempfile.TemporaryDirectory() as folder:
        elements, times = frame_times(Path(folder))
    median, late = np.percentile(times, [50, 95])
    yield Row(
        "lab",
        f"a frame at 60 Hz, over a frame of panning a priority graph of {elements:,} elements",
        float(SMOOTH / median),
        f"median {median:.1f} ms, 95th percentile {late:.1f} ms of {len(times)} frames",
        {"milliseconds": times.tolist()},
    )


def main() -> None:
    for row in rows():
        print(f"{row.what}: {row.quality}")


if __name__ == "__main__":
    main()
