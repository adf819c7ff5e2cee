"""How soon the lab is there, how fast it searches, how smoothly it pans: `python -m benchmarks.lab`.

Each row holds what was measured in a headless Chromium against what we promise. It needs the test extra and Chromium;
without Chromium there are no such rows, without WikiText-2 none about it.

- *First screen*: from the command to the numbers of the embedded example on the page, the browser already open.
- *WikiText-2*: the model of `train.txt` with contexts of 32 words, from the command to its numbers on the page; and
  from the last letter typed into the search for last tokens to its suggestions.
- *Lens*: on that model, from the click to the record of a last token, the first one and later ones, and of a document.
- *Screens*: from the click on a screen of the menu to its page, on the embedded example and on that model.
- *Moving*: a data set is drawn whose graph has 501 tokens and just under 2,000 elements; it is panned and zoomed, one
  step a frame, as a whole and four and sixteen times nearer. 20 ms are promised where it is zoomed in.
- *Watching*: a run is scrubbed, another place in it at every frame, all panels drawn anew; and played from end to end.
- *Scan and snap*: the same of its recorded times, for two pairs of learning rates beside each other.
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

LAYERS, WIDE, BELOW = 10, 50, 2  # layers of tokens, tokens in each, tokens below that each outranks
FRAMES = 60
PROMISED = 20.0  # milliseconds
NEARER = (1, 4, 16)  # zoom


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


def frame_times(folder: Path) -> tuple[int, dict[tuple[str, int], np.ndarray]]:
    """How many elements are drawn, and the milliseconds of each frame while they are panned and zoomed, by zoom."""
    write_graph(folder / "graph.jsonl")
    lab = Running(folder, folder / "graph.jsonl")
    browser = chromium.Browser(folder / "profile")
    component = "getElement(+document.querySelector('.pg-frame').id.slice(1))"

    def told(expression: str) -> list[float]:
        asked = {"awaitPromise": True, "returnByValue": True}
        return browser.send("Runtime.evaluate", expression=expression, **asked)["result"].get(
            "value"
        )

    try:
        enter(browser, lab)
        browser.see("/graph?last=end&tokens=640")
        elements = browser.wait("document.querySelectorAll('.pg .node, .pg .edge').length")
        times = {}
        for nearer in NEARER:
            told(f"{component}.fit(), {component}.zoom({nearer})")
            for how, zoom in (("panned", "false"), ("zoomed", "true")):
                told(f"{component}.frames(20, {zoom})")  # the first ones warm up
                times[how, nearer] = np.array(told(f"{component}.frames({FRAMES}, {zoom})"))
        return elements, times
    finally:
        browser.close()
        lab.close()


def moving() -> Iterator[Row]:
    """Rows about panning and zooming a full graph."""
    say("lab: moving a full graph")
    with tempfile.TemporaryDirectory() as folder:
        elements, times = frame_times(Path(folder))
    for (how, nearer), found in times.items():
        median, late = np.percentile(found, [50, 95])
        yield Row(
            "lab",
            f"20 ms, over a frame of a priority graph of {elements:,} elements that is {how}, {nearer} times nearer",
            float(PROMISED / median),
            f"median {median:.1f} ms, 95th percentile {late:.1f} ms of {len(found)} frames",
            {"milliseconds": found.tolist()},
        )


def seconds_in_lens(folder: Path, model: Path) -> dict[str, list[float]]:
    """From the click to the record, for a first last token, for others, and for documents."""
    lab = Running(folder, model)
    browser = chromium.Browser(folder / "profile")

    def opened(query: str) -> float:
        begin = perf_counter()
        browser.see(f"/lens?{query}")
        browser.wait("!!document.querySelector('#in-words')")
        return perf_counter() - begin

    try:
        enter(browser, lab)
        browser.wait("!!document.querySelector('.figures')")
        first = [opened("last=war")]
        return {
            "the first last token under the lens": first,
            "another last token": [opened(f"last={x}") for x in ("Berlin", "the", "album")],
            "a document": [opened(f"doc={x}&split=articles") for x in (3, 5, 100)],
        }
    finally:
        browser.close()
        lab.close()


def change_of_screens(folder: Path, what: str, *arguments: object) -> Row:
    """From the click on each screen of the menu to its page, once what belongs to each was opened."""
    lab = Running(folder, *arguments)
    browser = chromium.Browser(folder / "profile")
    times = []
    try:
        enter(browser, lab)
        browser.wait("!!document.querySelector('.figures')")
        count = browser.value("document.querySelectorAll('.nav-link').length")
        for again in (False, True):
            for i in range(count):
                link = f"document.querySelectorAll('.nav-link')[{i}]"
                title = browser.wait(f"window.did_handshake === true && {link}?.textContent")
                begin = perf_counter()
                browser.value(f"{link}.click()")
                here = "document.querySelector('.nav-link.here')?.textContent"
                there = "!!document.querySelector('main .card, main .title')"
                browser.wait(f"{here} === {json.dumps(title)} && {there}")
                if again:
                    times.append(perf_counter() - begin)
    finally:
        browser.close()
        lab.close()
    median = float(np.median(times))
    said = f"median {median:.2f} s, worst {max(times):.2f} s of {len(times)}"
    told = f"0.5 s promised, over a change of the screen on {what}"
    return Row("lab", told, 0.5 / median, said, {"seconds": times})


def film_times(
    folder: Path, path: str, part: str, *arguments: object
) -> tuple[np.ndarray, float, int]:
    """What a part of a page plays: milliseconds of each frame while it is scrubbed, seconds to play all, snapshots."""
    lab = Running(folder, *arguments)
    browser = chromium.Browser(folder / "profile")

    def ended(expression: str) -> object:
        return browser.send(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True
        )["result"]["value"]

    try:
        enter(browser, lab)
        browser.see(path)
        browser.wait(
            f"!!document.querySelector('{part}') && !document.querySelector('main .job')", 300
        )
        film = f"getElement(+document.querySelector('{part}').id.slice(1))"
        times: object = []
        for count in (30, FRAMES):  # the first ones warm up
            times = ended(f"{film}.frames({count})")
        # From the first snapshot to the last, as the play button does it.
        seconds = ended(
            f"new Promise(done => {{ const f = {film}; f.go(0); const begin = performance.now(); f.play();"
            " const look = () => f.playing ? setTimeout(look, 5) : done((performance.now() - begin) / 1000);"
            " look(); })"
        )
        return np.array(times), float(str(seconds)), int(browser.value(f"{film}.last() + 1"))
    finally:
        browser.close()
        lab.close()


def film_rows(
    folder: Path, what: str, wanted: float, path: str, part: str, *arguments: object
) -> Iterator[Row]:
    """Rows about updates a second while something is scrubbed, and about playing it."""
    times, seconds, snapshots = film_times(folder, path, part, *arguments)
    rate = 1000 / np.median(times)
    yield Row(
        "lab", f"{what}, of {wanted:g} updates a second", float(rate / wanted),
        f"{rate:.0f} a second (median), 95th percentile {np.percentile(times, 95):.1f} ms",
        {"milliseconds": times.tolist()},
    )  # fmt: skip
    yield Row(
        "lab", f"{what} played, of 20 snapshots a second", float((snapshots - 1) / seconds / 20),
        f"{snapshots} snapshots in {seconds:.2f} s", {"seconds": seconds},
    )  # fmt: skip


def cafe_run(folder: Path) -> Path:
    """The layer trained on the embedded example."""
    from attomaton.jobs.demo import demo_run

    demo_run(folder / "demo")
    return folder / "demo"


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


def wikitext_text() -> Path | None:
    """WikiText-2's train.txt, where it is at hand."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    text = Path(os.environ.get("ATTOMATON_DATA", beside)) / "wikitext-2" / "train.txt"
    return text if text.is_file() else None


def wikitext_model(folder: Path) -> Path | None:
    """The model of WikiText-2's train.txt, fitted now; None where the text is not at hand."""
    from attomaton.corpus.reading import Reading
    from attomaton.jobs.fit import fit_run

    text = wikitext_text()
    if text is None:
        say("lab: WikiText-2 is not at hand")
        return None
    say("lab: fitting WikiText-2")
    fit_run(text, folder / "model", reading=Reading(context=32))
    return folder / "model"


def wikitext_film(folder: Path) -> Iterator[Row]:
    """Rows about `the` of WikiText-2, with contexts of 8 words: half a minute of Adam is watched."""
    from attomaton.corpus.reading import Reading
    from attomaton.folders.model import ModelFolder
    from attomaton.jobs.fit import fit_run
    from attomaton.jobs.train import train_run

    say("lab: watching `the` of WikiText-2")
    text = wikitext_text()
    assert text is not None
    fit_run(text, folder / "short", reading=Reading(context=8))
    train_run(
        folder / "short", folder / "run", optimizer="adam", lr=0.1, steps=200, snapshots_of="the"
    )
    last = ModelFolder(folder / "short").vocabulary.id_of("the")
    path = f"/training?watch={last}"
    yield from film_rows(folder, "`the` of WikiText-2 scrubbed", 20, path, ".film", folder / "run")


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
            for what, seconds in seconds_in_lens(Path(folder), model).items():
                yield promised(f"{what}, of it", 2.5 if what == "a document" else 1.5, seconds)
            yield change_of_screens(Path(folder), "a model of 5.8 million pairs", model)
            yield from wikitext_film(Path(folder))
    say("lab: watching the layer learn")
    with tempfile.TemporaryDirectory() as folder:
        run = cafe_run(Path(folder))
        yield from film_rows(Path(folder), "the café's run scrubbed", 60, "/training", ".film", run)
    say("lab: scrubbing scan and snap")
    with tempfile.TemporaryDirectory() as folder:
        path, what = "/scan-snap?classes=syn-medium-10&beside_eta_y=4", "two sides of scan and snap"
        yield from film_rows(Path(folder), f"{what} scrubbed", 60, path, ".scrubber")
    with tempfile.TemporaryDirectory() as folder:
        yield change_of_screens(Path(folder), "the embedded example")
    yield from moving()


def main() -> None:
    for row in rows():
        print(f"{row.what}: {row.quality}")


if __name__ == "__main__":
    main()
