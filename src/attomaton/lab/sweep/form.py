"""What a sweep is asked for in the page: families by name, a level, settings line by line."""

from collections.abc import Callable
from math import prod
from typing import Any

from nicegui import ui

from attomaton.errors import AttomatonError, UsageError
from attomaton.folders.sweep import Grid, Piece, cells_of, parse_grid, pieces_of
from attomaton.jobs.sweep import memory_needed
from attomaton.lab.kit.parts import abreast, button, card, dense, note, place
from attomaton.lab.view import View
from attomaton.scan_snap.families import FAMILIES, family
from attomaton.scan_snap.levels import settings_of
from attomaton.scan_snap.trajectory import LEVELS

MOST_CELLS, MOST_MB = 2000, 4000  # in the page
MOST_TOKENS, MOST_AT_ONCE = 1e11, 1e8  # drawn by one piece, sampled: in all, and for one step
FAMILY, LEVEL = "syn-small", "limit"
GRID = "eta_z=0.1,0.3,1,3\nratio=0.5,1,2,4,8\nuntil=10000"


class Form:
    """The fields; each is in the address."""

    def __init__(
        self, view: View, start: Callable[[], Any], changed: Callable[[], Any], opened: bool
    ):
        self.view, self._changed = view, changed
        names = [name for name in view.get("families", FAMILY).split(",") if name in FAMILIES]
        level = view.get("level", LEVEL)
        with (
            card(label="A new sweep"),
            ui.expansion("A new sweep", value=opened).classes("w-full new-sweep"),
        ):
            with abreast():
                self.families = ui.select(
                    list(FAMILIES), value=names or [FAMILY], multiple=True, label="classes"
                )
                dense(self.families, "families").props("use-chips")
                known = level if level in LEVELS else LEVEL
                self.level = dense(ui.select(list(LEVELS), value=known, label="level"), "setting")
            self.grid = ui.textarea(
                "settings, one on each line", value=view.get("grid", GRID)[:4000]
            )
            self.grid.props('outlined autogrow input-class="mono"').classes("w-full grid-lines")
            with abreast():
                button("Start the sweep", start)
                self.plan = note().classes("plan")
            self.wrong = place()
        for field in (self.families, self.level, self.grid):
            field.on_value_change(self._put)
        self._say_plan()

    def asked(self) -> Grid:
        """The sweep, or the error the command line would give; never the name of a file."""
        names = list(self.families.value or [])
        if not names:
            raise UsageError("classes: choose at least one family.")
        for name in names:
            family(name)
        grid = parse_grid((self.grid.value or "").split())
        cells = len(names) * prod(len(values) for values in grid.values())
        if cells > MOST_CELLS:
            raise UsageError(
                f"{cells:,} cells are too many for the page: at most {MOST_CELLS:,}; use `attomaton sweep`."
            )
        asked = Grid(grid, names, self.level.value)
        _check_size(pieces_of(cells_of(grid, names, asked.level), asked.level))
        return asked

    def _put(self) -> None:
        self.view.put(
            families=",".join(self.families.value or []),
            level=self.level.value,
            grid=self.grid.value or None,
        )
        self._say_plan()
        self._changed()

    def _say_plan(self) -> None:
        """How much there is to do, while it is typed."""
        try:
            asked = self.asked()
        except AttomatonError:
            self.plan.set_text("")
        else:
            cells = cells_of(asked.grid, asked.classes, asked.level)
            pieces = pieces_of(cells, asked.level)
            self.plan.set_text(f"{len(cells):,} cells in {len(pieces):,} pieces")


def _check_size(pieces: list[Piece]) -> None:
    """Refuse pieces a page should not start: they end only when they are done."""
    need = memory_needed(pieces)
    if need > MOST_MB:
        raise UsageError(
            f"one piece would need about {need:,.0f} MB: at most {MOST_MB:,} MB in the page."
        )
    for piece in pieces:
        if piece.level == "sampled":
            given = settings_of(piece.level, piece.options)
            runs = len(piece.cells) * given["seeds"]
            at_once = runs * given["T"] * given["batch"]
            if at_once > MOST_AT_ONCE or at_once * given["steps"] > MOST_TOKENS:
                raise UsageError(
                    f"one piece would draw {at_once * given['steps']:.3g} tokens, {at_once:.3g} at a step; a page may "
                    f"draw {MOST_TOKENS:.0e} and {MOST_AT_ONCE:.0e}: ask for a smaller T, batch, steps or seeds."
                )
