"""How soon the lab is there, how fast it searches, how smoothly it pans: `python -m benchmarks.lab`.

Each row holds what was measured in a headless Chromium against what we promise. It needs the test extra and Chromium;
without Chromium there are no such rows, without WikiText-2 none about it.

- *First screen*: from the command to the numbers of the embedded example on the page, the browser already open.
- *WikiText-2*: the model of `train.txt` with contexts of 32 words, from the command to its numbers on the page; and
  from the last letter typed into the search for last tokens to its suggestions.
- *Panning*: a data set is drawn whose graph has just under 2,000 elements; the graph is panned, one step a frame. A
  frame within 16.7 ms is as smooth as a screen of 60 Hz can show.
"""

import json
import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from time import perf_counter

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


def seconds_to_first_screen(folder: Path, *arguments: object) -> float:
    """From the command to numbers on the page."""
    browser = chromium.Browser(folder / "profile")
    begin = perf_counter()
    lab = Running(folder, *arguments)
    try:
        browser.open(lab.address, 1400)
        browser.wait("!!document.querySelector('.figures') && window.did_handshake === true")
        return perf_counter() - begin
    finally:
        browser.close()
        lab.close()


def seconds_to_suggestions(folder: Path, model: Path) -> list[float]:
    """From the last letter typed to suggestions for it, for a few words."""
    lab = Running(folder, model)
    browser = chromium.Browser(folder / "profile")
    field, times = "input[aria-label='Last token']", []
    try:
        enter(browser, lab)
        browser.see("/graph?last=Berlin")
        browser.wait("!!document.querySelector('.pg .node')")
        for word in ("the", "ber", "war", "album"):
            browser.type(field, word)
            begin = perf_counter()
            wanted = f"e => e.innerText.toLowerCase().startsWith({json.dumps(word)})"
            browser.wait(f"[...document.querySelectorAll('[role=option]')].some({wanted})")
            times.append(perf_counter() - begin)
        return times
    finally:
        browser.close()
        lab.close()


def wikitext_model(folder: Path) -> Path | None:
    """The model of WikiText-2's train.txt, fitted now; None where the text is not at hand."""
    from attomaton.corpus.reading import Reading
    from attomaton.jobs.fit import fit_run

    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    text = Path(os.environ.get("ATTOMATON_DATA", beside)) / "wikitext-2" / "train.txt"
    if not text.is_file():
        say("lab: WikiText-2 is not at hand")
        return None
    say("lab: fitting WikiText-2")
    fit_run(text, folder / "model", reading=Reading(context=32))
    return folder / "model"


def promised(what: str, promise: float, times: Sequence[float]) -> Row:
    """A row about seconds that were promised."""
    worst = max(times)
    return Row(
        "lab", f"{promise:g} s promised, over {what}", promise / worst,
        f"{worst:.2f} s, the worst of {len(times)}", {"seconds": list(times)},
    )  # fmt: skip


def rows() -> Iterator[Row]:
    if chromium.program() is None:
        say("lab: left out, there is no Chromium here")
        return
    say("lab: first screen")
    with tempfile.TemporaryDirectory() as folder:
        times = []
        for i in range(3):
            (Path(folder) / str(i)).mkdir()
            times.append(seconds_to_first_screen(Path(folder) / str(i)))
    yield promised("the first screen after the command", 3.0, times)
    with tempfile.TemporaryDirectory() as folder:
        model = wikitext_model(Path(folder))
        if model is not None:
            say("lab: WikiText-2")
            seen = [seconds_to_first_screen(Path(folder), model)]
            yield promised("the same for a model of 5.8 million pairs", 5.0, seen)
            typed = seconds_to_suggestions(Path(folder), model)
            yield promised("suggestions for a last token of it, after the last letter", 0.3, typed)
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
