"""The screen of trained transformers: what `probe` and `snap` found, to look into."""

import shlex

from nicegui import ui

from attomaton.folders.probe import read_probe
from attomaton.lab.kit.page import Page
from attomaton.lab.kit.parts import abreast, card, chip, note
from attomaton.lab.probe.course import SnapPanels
from attomaton.lab.probe.panels import ProbePanels
from attomaton.lab.view import Screen, in_thread
from attomaton.probe.records import Probe

CSS = """
.measure { max-width: 62rem; }
.setting-measure, .setting-text { min-width: 16rem; }
.setting-own { min-width: 16rem; flex: 1; }
.setting-mark { flex: 1; min-width: 12rem; }
"""


class ProbePage(Page):
    """The probe or the course that is open, and those there are."""

    TITLE = "Trained transformers"
    CSS = CSS

    async def fill(self) -> None:
        """What is open, then the list."""
        view = self.view
        if view.item.kind == "probe":
            with view.checked():
                found = await in_thread(read_probe, view.item.path)
                if isinstance(found, Probe):
                    ProbePanels(view, found).fill()
                else:
                    SnapPanels(view, found).fill()
            folder = str(view.item.path.resolve())
            view.says(
                shlex.join(["attomaton", "runs", "show", folder]),
                f"from attomaton.folders.probe import read_probe\n\nprint(read_probe({folder!r}))",
            )
        items = [i for i in self.lab.shelf.items() if i.kind == "probe" and i.id != view.item.id]
        with card("Others" if view.item.kind == "probe" else "Probed models"):
            if not items:
                note("None yet. Make one with:")
                for line in _COMMANDS:
                    ui.label(line).classes("mono")
            with abreast():
                for item in items:
                    chip(item.title, view.link(item=item))


_COMMANDS = (
    "attomaton probe MODEL --text CORPUS -o FOLDER",
    "attomaton snap CHECKPOINT CHECKPOINT … --text CORPUS -o FOLDER",
)
SCREEN = Screen(
    "/probe",
    "Transformers",
    "model_training",
    ProbePage.build,
    """
**What is asked.** Does a trained transformer order tokens as the exact priority graph of its corpus does? For strict
orders *i* over *j* after a last token *q*, the model's log-odds of *i* against *j* are taken in *real contexts* of the
corpus where the automaton retrieves *i*, in those where it retrieves *a third* token (there training never had to order
the two), and in *minimal contexts* that hold the two and *q* alone.

**Controls.** The same answers against another last token's graph, against shuffled labels, and those of untrained
copies should be near one half; counts of what follows *q* say how much of it are bigrams.

**Heads.** Entropy over the logarithm of the number of keys (0: one key, 1: even), mass on the largest key, on what the
automaton retrieves, on the token before, on earlier same tokens, and behind them (induction).

**Use.** Click a square or a row to choose a head; choose a text, or type your own words where the model's files are
still where they were. Over checkpoints, the slider goes through training; a head is *frozen* from the step on at which
its entropy stays within 5 % of its range.
""",
    wants=("probe",),
)
