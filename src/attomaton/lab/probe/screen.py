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


class ProbePage(Page):
    """The probe or the course that is open, and those there are."""

    TITLE = "Trained transformers"
    STYLES = ("screen.css",)

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
SCREEN = Screen("/probe", "Transformers", "model_training", ProbePage.build, wants=("probe",))
