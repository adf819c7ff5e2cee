"""Which window of the data to look at: the next, the one before, any; by last token; by a right or a wrong answer."""

import random
from collections.abc import Awaitable, Callable
from pathlib import Path

from nicegui import ui

from attomaton.corpus.datasets import EXAMPLE, data_file
from attomaton.corpus.readers import read_windows
from attomaton.corpus.windows import Windows
from attomaton.errors import AttomatonError, UsageError
from attomaton.lab.jobs import FAILED, Job
from attomaton.lab.kit.cache import Cache, Shared
from attomaton.lab.kit.fields import toggle
from attomaton.lab.kit.find import Find
from attomaton.lab.kit.matches import Found
from attomaton.lab.kit.parts import abreast, icon_button, note, place
from attomaton.lab.kit.work import made
from attomaton.lab.opened import Opened
from attomaton.lab.view import View, in_thread
from attomaton.summaries.windows import ABSENT, ANY, RIGHT, WRONG, Window, find_window, window

PATIENCE = 1.0  # seconds before progress is shown instead of waiting
KEPT = 2  # corpora that stay in memory
EVERY = "any last token"
ANSWERS = {ANY: "all", RIGHT: "right", WRONG: "wrong", ABSENT: "label absent"}
# The corpora behind models, as windows in their order: read once for all pages.
CORPORA = Shared[Cache[Path, Windows]](lambda: Cache(KEPT))


class Chooser:
    """The row of buttons; `opened` is told every window that is chosen. `windows` is None until they are read."""

    def __init__(self, view: View, model: Opened, opened: Callable[[Window], Awaitable[None]]):
        self.view, self.model, self.opened = view, model, opened
        self.windows: Windows | None = None
        self.at = int(view.number("window", -1))
        self.last = view.get("ending")
        self.ready: Callable[[], Awaitable[None]] | None = None

    async def build(self) -> None:
        """Show the row, once the corpus is read; a large one is waited for elsewhere."""
        self.place = place()
        model, kept = self.model, CORPORA.of(self.view.lab)
        job = f"corpus {model.folder}", "Reading the data"

        def read(job: Job) -> Windows:
            job.progress(0, 1, "reading")
            return read_corpus(model)

        with self.place:
            try:
                corpus_path(model)
                self.windows = await made(
                    self.view, kept, model.folder, job, read, self._later, PATIENCE
                )
            except AttomatonError as error:
                self._none(str(error))
        self._row()

    def _later(self, job: Job) -> None:
        ui.timer(0, lambda: self._late(job), once=True)

    async def _late(self, job: Job) -> None:
        """The corpus was read after the page was there."""
        self.place.clear()
        if job.state == FAILED:
            self._none(job.error)
            return
        self.windows = CORPORA.of(self.view.lab).get(self.model.folder)
        self._row()
        if self.ready is not None and self.windows is not None:
            await self.ready()

    def _none(self, why: str) -> None:
        with self.place:
            note(f"No windows to choose from: {why}")

    def _row(self) -> None:
        if self.windows is None:
            return
        with self.place, abreast().classes("chooser"):
            for icon, what, step in (
                ("navigate_before", "Previous window", -1),
                ("navigate_next", "Next window", 1),
                ("shuffle", "Any window", 0),
            ):
                icon_button(icon, what, lambda step=step: self.go(step))
            self.field = Find("Windows after", self.last or EVERY, self._lasts, self._ending)
            self.answers = toggle(
                self.view, "answers", ANSWERS, "Windows by the answer to them", lambda: self.go(1)
            )
            self.said = note().props('role="status"')

    async def go(self, step: int) -> None:
        """Open the next window that is as asked for: after this one, before it, or from anywhere."""
        windows = self.windows
        if windows is None:
            return
        begin = self.at + step if step else random.randrange(len(windows))
        last = self.model.read(self.last) if self.last else None
        found = await in_thread(
            find_window, windows, self.model.limit, begin, step or 1, last, str(self.answers.value)
        )
        if found is None:
            self.said.set_text("No such window among those looked at.")
            return
        await self.open(found)

    async def open(self, number: int) -> None:
        """Open one window by its number."""
        assert self.windows is not None
        self.at = min(max(number, 0), len(self.windows) - 1)
        await self.opened(window(self.windows, self.at))

    def tell(self, shown: Window | None) -> None:
        """Say which window is shown."""
        if self.windows is None:
            return
        many = f"{len(self.windows):,}"
        self.said.set_text(
            f"A context of your own; there are {many} windows." if shown is None
            else f"Window {shown.number + 1:,} of {many} ({shown.place})."
        )  # fmt: skip

    async def _ending(self, text: str) -> None:
        self.last = "" if text.strip() in ("", EVERY) else text
        with self.view.checked():
            if self.last:
                self.model.last_id(self.last)
            self.view.put(ending=self.last)
            self.field.set_value(self.last or EVERY)
            await self.go(1)

    def _lasts(self, text: str) -> list[Found]:
        wanted = "" if text == EVERY else text
        rows = self.model.suggested(wanted)
        return rows if wanted else [(EVERY, EVERY, ""), *rows]


def corpus_path(model: Opened) -> Path:
    """The file a model was fitted on, as its own record names it; an error says why there is none."""
    given = model.record.data
    if not given:
        raise UsageError("this model does not say which file it was fitted on.")
    path = data_file(given) if given == EXAMPLE else Path(given)
    if not path.is_file():
        raise UsageError(f"{path.name}: the file this model was fitted on is not there.")
    return path


def read_corpus(model: Opened) -> Windows:
    """The windows a model was fitted on, its own ids; an error where the file is another one by now."""
    path = corpus_path(model)
    windows = read_windows(path, model.record.reading, model.vocabulary)
    if len(windows) != model.record.summary.windows:
        raise UsageError(
            f"{path.name} holds {len(windows):,} contexts, but the model was fitted on "
            f"{model.record.summary.windows:,}: the file is another one by now."
        )
    return windows
