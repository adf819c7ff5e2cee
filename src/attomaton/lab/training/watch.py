"""Watch it learn: the snapshots of a run as a film that the browser plays, with the last token to look at."""

from nicegui import background_tasks, ui

from attomaton.disk.formats import plain
from attomaton.lab.kit.cache import Cache
from attomaton.lab.kit.parts import abreast, card, dense, heading, note, place
from attomaton.lab.kit.player import Player
from attomaton.lab.training.film import Film, Watchable, film, limit_after, watchable
from attomaton.lab.training.runs import BROKEN, TrainingRun
from attomaton.lab.view import View, in_thread

MOST_LISTED = 200  # last tokens to choose from


class Screening(Player, component="film.js", dependencies=["../kit/saved.js"]):
    """The film itself: data go in once, and it is played in the browser alone."""

    def __init__(self, shown: Film, at: int | None):
        super().__init__()
        self._props["film"], self._props["label"] = plain(shown), "Watch it learn"
        self._props["start"] = at
        self.style("width: 100%")


class Watch:
    """The card on the training screen; empty while there is nothing to play."""

    def __init__(self, view: View):
        self.view, self.place = view, place()
        self._shown: tuple[str, str] | None = None
        self._films = Cache[tuple[str, int], Film](8)

    def show(self, run: TrainingRun | None) -> None:
        """Play this run; what is shown already goes on."""
        now = None if run is None else (run.id, run.ended)
        if now == self._shown:
            return
        self._shown = now
        self.place.clear()
        if run is not None and BROKEN not in run.status:
            background_tasks.create(self._open(run), name="film")

    async def _open(self, run: TrainingRun) -> None:
        with self.view.checked(self.place), self.place:
            seen = await in_thread(watchable, run)
            if self._shown is None or self._shown[0] != run.id:
                return
            if seen is None:
                with card("Watch it learn"):
                    note("No snapshots kept: train anew to watch this run.")
                return
            await self._card(seen)

    async def _card(self, seen: Watchable) -> None:
        names = dict(list(seen.names().items())[:MOST_LISTED])
        asked = self.view.get("watch")
        last = asked if asked in names else next(iter(names))
        with card(label="Watch it learn").classes("watch"):
            with abreast():
                heading("Watch it learn")
                picker = dense(
                    ui.select(names, value=last, label="after", with_input=True), "watch-last"
                )
                note(f"{seen.kept.said}; seed 0. Space plays, arrow keys step.")
            inside = place()

        async def chosen(last: str | None) -> None:
            if last is not None:
                self.view.put(watch=last)
                await self._play(seen, int(last), inside)

        picker.on_value_change(lambda e: chosen(e.value))
        await self._play(seen, int(last), inside)

    async def _play(self, seen: Watchable, last: int, inside: ui.element) -> None:
        key = (f"{seen.run.id} {seen.run.ended}", last)
        with self.view.checked(inside), inside:
            busy = ui.spinner(size="lg")
            try:
                shown = await in_thread(
                    self._films.found, key, lambda: film(seen, limit_after(seen, last), last)
                )
            finally:
                busy.delete()
            at = int(self.view.number("at", len(shown.steps) - 1))
            playing = Screening(shown, max(0, min(at, len(shown.steps) - 1)))
            playing.on("at", lambda e: self.view.put(at=int(e.args)))
