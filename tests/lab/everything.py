"""A lab that holds one item of every kind, and its screens in the states that people meet."""

import json
from dataclasses import dataclass

import pytest
from tests.lab.conftest import Running

from attomaton import as_windows, tune
from attomaton.corpus.readers import read_windows
from attomaton.corpus.reading import Reading
from attomaton.disk.provenance import provenance
from attomaton.disk.storage import new_folder
from attomaton.jobs.dynamics import dynamics_run
from attomaton.jobs.fit import fit_run
from attomaton.jobs.probe import Asked
from attomaton.jobs.probed import probe_run
from attomaton.jobs.sweep import sweep_run
from attomaton.jobs.train import train_run
from attomaton.jobs.verify import verify_run
from attomaton.lab.shelf import Shelf, folder_id
from attomaton.probe.records import Share
from attomaton.probe.snapping import Mark, Snap, courses
from attomaton.trained.fresh import fresh_weights
from attomaton.trained.write import gpt2_form, write_gpt2

ROWS = [(["a", "b", "c"], "a"), (["c", "b", "c"], "b"), (["b", "a", "c"], "a"), (["a", "c"], "a")]
TEXT = """ = Tea = 
 the cup and the pot and the cup and the tea 
 = Sea = 
 a boat on the sea and a boat on the lake and the sea and the boat 
"""
LOG = "Vorgang;Schritt;Zeit\n" + "\n".join(
    f"c{c};{step};2024-03-{c + 1:02d} 10:{i:02d}:00"
    for c in range(6)
    for i, step in enumerate(
        ["view", "search", "view", "cart", "search", "view", "pay"][: 4 + c % 4]
    )
)
WORDS = ["the", "cat", "and", "the", "dog", "and", "the", "cat", "saw", "the", "dog"]


@dataclass(frozen=True)
class State:
    """A screen in a state: where it is, what is true once it is whole, and what is done then."""

    name: str
    path: str
    ready: str
    press: tuple[str, ...] = ()  # what is clicked then, one after the other
    then: str = "true"  # what is true after that


def stocked(folder, wanted=None):
    """A lab with these items in its workspace, or with one of everything, and their ids by name."""
    place = folder / "workspace"
    shelf = Shelf(place)
    example = shelf.find("example")
    model = shelf.model_folder(example)
    model.parent.mkdir(parents=True)
    fit_run(example.path, model, reading=example.reading)
    ids = {}
    for name, make in MAKERS.items():
        if wanted is None or name in wanted:
            out = place / "runs" / name
            out.parent.mkdir(exist_ok=True)
            make(out, folder, model, example)
            ids[name] = folder_id(out)
    if wanted is None or "log" in wanted:
        ids["log"] = shelf.receive("log.csv", LOG.encode()).id
    return Running(folder), ids


def _probed(out, folder):
    data = folder / "rows.jsonl"
    data.write_text("".join(json.dumps({"tokens": x, "next": y}) + "\n" for x, y in ROWS))
    words = [str(x) for x in read_windows(data).vocabulary.labels]
    form = gpt2_form(len(words), 8, 2, 2, 8, hidden=8)
    write_gpt2(folder / "transformer", form, fresh_weights(form, 0), words)
    probe_run(folder / "transformer", data, out, asked=Asked(pairs=5, contexts=4))


def _snapped(out):
    half = Share(0.5, 0.4, 0.6, 10, 3)
    marks = tuple(
        Mark(f"step-{s}", s, f"{s}", None, half, None, half, ((0.9 - s / 1000, 0.8),), ((0.1, 0.2),))
        for s in (10, 200, 500)
    )  # fmt: skip
    found = Snap("rows.jsonl", "gpt2", 1, 2, 4, 3, 10, marks, courses(marks), 0)
    with new_folder(out, "snap") as work:
        provenance(work, {"text": "rows.jsonl"}, found)


def _predictor(out):
    seen, held_out = as_windows([WORDS * 3], context=6), as_windows([WORDS[3:] + WORDS], context=6)
    tune(seen, held_out, priors=["main"], lambdas=[1.0], thetas=[1.0]).save(out)


def _other(out, folder, example):
    data = folder / "other.jsonl"
    data.write_text("\n".join(example.path.read_text().splitlines()[:-6]))
    fit_run(data, out)


def _dynamics(out):
    with (
        pytest.MonkeyPatch.context() as patch
    ):  # the command draws figures too, which no screen shows
        patch.setattr("attomaton.jobs.dynamics.package_version", lambda name: None)
        dynamics_run("syn-small", ["limit"], 1.0, 1.0, out, until=1000.0)


def _told(out, folder):
    (folder / "told.txt").write_text(TEXT)
    fit_run(folder / "told.txt", out, reading=Reading(context=8))


GRID = {"eta_z": [0.3, 1.0], "ratio": [1, 4], "until": [100.0]}
MAKERS = {
    "descent": lambda out, folder, model, example: train_run(model, out, steps=60),
    "adam": lambda out, folder, model, example: train_run(model, out, steps=60, optimizer="adam"),
    "dynamics": lambda out, *_: _dynamics(out),
    "sweep": lambda out, *_: sweep_run(out, GRID, ["syn-small"], "limit"),
    "verification": lambda out, *_: verify_run(["luce", "T3"], True, out),
    "probed": lambda out, folder, *_: _probed(out, folder),
    "snapped": lambda out, *_: _snapped(out),
    "predictor": lambda out, *_: _predictor(out),
    "other": lambda out, folder, model, example: _other(out, folder, example),
    "told": lambda out, folder, *_: _told(out, folder),
}


def drawn(n=1):
    """So many charts are there, each with something in it."""
    return (
        "(() => { const all = [...document.querySelectorAll('main div[role=img]')].filter(e => e.offsetParent);"
        f" return all.length >= {n} && all.every(e => getElement(+e.id.slice(1))?.chart?.getOption()?.series?.length);"
        " })()"
    )


def has(selector, n=1):
    return f"document.querySelectorAll({json.dumps(selector)}).length >= {n}"


def says(text, where="main"):
    return f"!!document.querySelector('{where}')?.innerText.includes({json.dumps(text)})"


GRAPH, STORY, MENU = has(".pg .node"), has(".story svg, .story canvas"), has(".q-menu .q-item")
ITEMS = has(".items li")
# Every screen in the states that matter; the ids of items stand in braces.
STATES = [
    State("start", "/?on=example", f"{STORY} && {ITEMS}"),
    *(State(f"step {i} of the story", f"/?on=example&step={i}", f"{STORY} && {ITEMS}") for i in (2, 4, 6)),
    State("own data", "/?on={other}", f"{GRAPH} && {ITEMS}"),
    State("an item that is not there", "/?on=0123456789abcdef", has(".problem")),
    State("nothing pasted", "/?on=example", f"{STORY} && {ITEMS}", (".yours > .q-btn",), has(".problem")),
    State("data", "/data?on=example", drawn(3)),
    State("its numbers", "/data?on=example", drawn(3), ("[aria-label='Show the numbers as a table']",),
          has(".twin table")),
    State("a menu", "/data?on=example", drawn(3), ("[aria-label='Copy as command or Python']",), MENU),
    State("something copied", "/data?on=example", drawn(3),
          ("[aria-label='Copy as command or Python']", ".q-menu .q-item"), has(".q-notification")),
    State("data to be read", "/data?on={log}", has(".sequences")),
    State("data of a model", "/data?on={told}", has("main .card", 2)),
    State("graph", "/graph?on=example&last=guest&chosen=guest", GRAPH),
    State("help", "/graph?on=example", GRAPH, ("[aria-label='What is shown here']",),
          has(".q-drawer--right:not(.q-layout--prevent-focus)")),
    State("suggestions", "/graph?on=example", GRAPH, (".find input",), has(".find-list li", 2)),
    State("what can be opened", "/graph?on=example", GRAPH, (".picker",), MENU),
    State("graph as a list", "/graph?on=example&last=guest&view=list", has("main table tbody tr", 3)),
    State("graph as a matrix", "/graph?on=example&last=guest&view=matrix", drawn()),
    State("an unknown last token", "/graph?on=example&last=nobody", has(".problem")),
    State("automaton", "/automaton?on=example&context=floor order bill dishes guest&why=floor", has(".text-word")),
    State("an unknown token", "/automaton?on=example&context=floor nobody guest", has(".text-word")),
    State("predictor", "/automaton?on={predictor}&context=the cat saw the", has(".why-term")),
    State("training", "/training?on=example", f"{has('.film canvas')} && {drawn(5)} && {has('.results table')}"),
    State("two trainings", "/training?on=example&run={descent}&beside={adam}", f"{has('.film canvas')} && {drawn(5)}"),
    State("scan and snap", "/scan-snap?on={dynamics}", drawn(3)),
    State("lens", "/lens?on=example", f"{has('#in-words')} && {drawn()}"),
    State("lens on a token", "/lens?on=example&last=guest", f"{has('#in-words')} && {drawn()}"),
    State("lens on a document", "/lens?on={told}&doc=1", f"{has('#in-words')} && {has('.text-word')}"),
    State("sweep", "/sweep?on={sweep}&cell=1", drawn()),
    State("claims", "/claims?on={verification}&claim=T3", has(".claims-table tbody tr")),
    State("two models", "/compare?on=example&with={other}", f"{GRAPH} && {has('main table')}"),
    State("two runs", "/compare?on={descent}&with={adam}", has("main table")),
    State("probe", "/probe?on={probed}&head=1.0&text=1", has("main .text", 2)),
    State("snap", "/probe?on={snapped}", drawn()),
    State("runs", "/runs?on=example", has(".items-table tbody tr", 5)),
    State("to be deleted", "/runs?on=example&chosen={descent},{adam}",
          f"{has('.items-table tbody tr', 5)} && {drawn()}",
          (".items-edit .q-btn:nth-last-of-type(1)",), says("for good?")),
    State("a run in full", "/runs?on=example&chosen={descent}", f"{has('main table', 3)} && {drawn()}"),
]  # fmt: skip


# A page whose lab does not answer for a while, as on a busy machine, is loaded anew. This one stays as it is: it has no
# lab any more, and waits for nothing.
FREEZE = """(() => {
  window.socket.removeAllListeners();
  window.socket.io.reconnection(false);
  window.socket.disconnect();
  for (let i = setTimeout(() => {}); i > 0; i--) { clearTimeout(i); clearInterval(i); }
  return true;
})()"""


def show(tab, state, ids):
    """Bring a tab into a state, and let it stay there whatever happens."""
    for _ in range(9):
        tab.see(state.path.format(**ids).replace(" ", "%20"))
        tab.wait(f"({state.ready}) && (window.is_the_same = true)")
        for selector in state.press:
            tab.click(selector)
        # One that was loaded anew meanwhile has no mark; then all of it once more.
        tab.wait(f"!window.is_the_same || ({state.then}) && {FREEZE}")
        if tab._asked("window.is_the_same === true"):
            return
