"""One page of the lab: the frame around every screen, its address, and what it is looking at."""

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from inspect import getfile
from typing import Any
from urllib.parse import urlencode

from nicegui import ui
from starlette.requests import Request

from attomaton.base.assets import beside
from attomaton.errors import AttomatonError
from attomaton.lab.jobs import DONE, FAILED, RUNNING, STOPPED, Job
from attomaton.lab.kit.formulas import explained
from attomaton.lab.kit.parts import abreast, button, dense, icon_button, menu_item, note
from attomaton.lab.kit.snapshot import save_page
from attomaton.lab.kit.words import on_a_page
from attomaton.lab.opened import Opened
from attomaton.lab.shared import Lab
from attomaton.lab.shelf import EXAMPLE, Item

PATIENCE = 0.15  # seconds between two looks at a job
MOMENT = 1.5  # seconds a page waits for a job before it shows progress instead
LARGEST = 1e15  # of a number in an address: up to here every whole number is itself
STYLE = beside(__file__, "kit/style.css")
SCRIPTS = "".join(beside(__file__, name) for name in ("history.js", "kit/keyboard.js"))


def reload(_: Job) -> None:
    """Begin the page anew."""
    ui.navigate.reload()


@dataclass(frozen=True)
class Screen:
    """A page of the lab: where it is, what it is called, and the function that fills it."""

    path: str
    title: str
    icon: str
    build: Callable[["View"], Awaitable[None]]
    wants: tuple[str, ...] = ("data", "model", "run")  # kinds of items it can show

    @property
    def help(self) -> str:
        """What it explains, in Markdown: definition, formula, reference; `help.md` beside what fills it."""
        return beside(getfile(getattr(self.build, "__self__", self.build)), "help.md")


class View:
    """What a screen is given: the lab, its item, the settings in its address, and the frame's services."""

    def __init__(self, lab: Lab, screen: Screen, screens: list[Screen], request: Request):
        self.lab, self.screen, self.screens = lab, screen, screens
        self.settings = {k: v for k, v in request.query_params.items() if k != "on"}
        self.error: str | None = None
        self.asked = "on" in request.query_params
        asked = request.query_params.get("on", lab.first)
        try:
            self.item = lab.shelf.find(asked)
        except AttomatonError as error:
            self.error, self.item = str(error), lab.shelf.find(EXAMPLE)
        self.theme = request.cookies.get("theme", "auto")
        self._cli, self._python = "", ""
        self._client = ui.context.client
        self._is_shown = False
        self._watched: set[str] = set()  # jobs whose progress is on the page

    # The address

    def get(self, name: str, default: str = "") -> str:
        """A setting of the address, as text."""
        return self.settings.get(name, default)

    def number(self, name: str, default: float) -> float:
        """A setting of the address, as a number; the default where it is none."""
        return number(self.settings.get(name, ""), default)

    def put(self, **settings: object) -> None:
        """Change settings in the address, so that it brings this view back; None takes one out."""
        for name, value in settings.items():
            if value is None or value == "":
                self.settings.pop(name, None)
            else:
                self.settings[name] = f"{value:g}" if isinstance(value, float) else str(value)
        # Not through the element that was clicked: it may be gone by now.
        place = address(self.screen.path, self.item, self.settings)
        # What is a number may come from a slider, many a second; words are chosen one at a time.
        slides = all(isinstance(x, int | float) for x in settings.values())
        keys = " ".join(settings) if slides else ""
        said = ", ".join(map(json.dumps, (place, keys, not self._is_shown)))
        self._client.run_javascript(f"window.put_address({said})")

    def link(self, path: str | None = None, item: Item | None = None, **settings: object) -> str:
        """The address of a view of this item, or of another."""
        return address(path or self.screen.path, item or self.item, settings)

    def go(self, path: str | None = None, item: Item | None = None, **settings: object) -> None:
        """Open another view."""
        ui.navigate.to(self.link(path, item, **settings))

    # What is being looked at

    async def model(self, item: Item | None = None) -> Opened | None:
        """The model of this item, or of another; None while there is none: the page says why, or shows progress."""
        item = item or self.item
        if item.home != "/" and item.decided:
            self._own_screen(item)
            return None
        try:
            opened = await in_thread(self.lab.fitted, item)
            if opened is None and item.decided:
                self.lab.may_start()
                opened = await self._fitted(item)
        except AttomatonError as error:
            self.problem(str(error))
            return None
        if opened is None and not item.decided:
            # How the file is read was guessed, and somebody has to look at that first.
            with ui.element("div").classes("card told"):
                ui.label(
                    f"How “{item.title}” is read was guessed. Look at it, then fit it: nothing is computed before."
                )
                ui.link("Look at how it is read", self.link("/data", item))
        return opened

    async def _fitted(self, item: Item) -> Opened | None:
        """Fit an item; None while that takes longer, or if it fails: the page shows which."""
        before = self.lab.jobs.find(self.lab.fit_key(item))
        if before is not None and before.state == STOPPED:
            self._go_on(item)
            return None
        done = await self.waited(self.lab.fit(item))
        return await in_thread(self.lab.fitted, item) if done else None

    def _own_screen(self, item: Item) -> None:
        """Lead to the screen of an item that has no model."""
        home = next(s for s in self.screens if s.path == item.home)
        with ui.element("div").classes("card told"):
            ui.label(f"“{item.title}” is a {item.kind}: there is no model to show here.")
            with abreast():
                if home is not self.screen:
                    ui.link(f"Open it on its own screen, {home.title}", self.link(home.path, item))
                ui.link("Show the example here", self.link(item=self.lab.shelf.find(EXAMPLE)))

    def _go_on(self, item: Item) -> None:
        """A fit that was stopped waits to be taken up again; what it had finished is kept."""

        def start() -> None:
            self.lab.fit(item)
            ui.navigate.reload()

        with abreast():
            note(f"Fitting {item.title} was stopped; what was finished is kept.")
            button("Go on", start)

    # Services of the frame

    def says(self, cli: str, python: str) -> None:
        """What the "copy as" buttons give: the command and the Python code behind this view."""
        self._cli, self._python = cli, python

    def problem(self, message: str) -> None:
        """Say what went wrong, where it went wrong."""
        with ui.element("div").classes("problem").props('role="alert"'):
            ui.icon("error_outline").props('aria-hidden="true"')
            ui.label(on_a_page(message)).classes("whitespace-pre-wrap")

    @contextmanager
    def checked(self, place: ui.element | None = None) -> Iterator[None]:
        """A block whose errors of ours are shown in `place` (emptied first), or at the end of the page."""
        if place is not None:
            place.clear()
        try:
            yield
        except AttomatonError as error:
            with place or nullcontext():
                self.problem(str(error))

    def watch(
        self,
        job: Job,
        ended: Callable[[Job], Any] | None = None,
        step: Callable[[Job], Any] | None = None,
    ) -> ui.element:
        """Progress of a job with a stop button; `step` at every look, `ended` once, when it is over."""
        self._watched.add(job.key)
        with ui.element("div").classes("job").props('role="status"') as box:
            label = ui.label().classes("job-note")
            bar = ui.linear_progress(value=0, show_value=False).props(
                'instant-feedback aria-label="progress"'
            )
            stop = ui.button("Stop", icon="stop", on_click=job.stop).props("outline dense no-caps")

        async def look() -> None:
            bar.set_value(job.share)
            label.set_text(f"{job.title}: {job.note or 'starting …'}")
            stop.set_enabled(not job.stopping)
            if step is not None:
                step(job)
            if job.state != RUNNING:
                timer.cancel()
                box.delete()
                if job.state == FAILED:
                    self.problem(job.error)
                done = None if ended is None else ended(job)
                if isinstance(done, Awaitable):
                    await done

        timer = ui.timer(PATIENCE, look)
        return box

    async def waited(
        self,
        job: Job,
        ended: Callable[[Job], Any] = reload,
        seconds: float = MOMENT,
    ) -> bool:
        """Whether a job is done within a moment; if not, its progress is shown, and one that failed is an error."""
        await in_thread(job.wait, seconds)
        if job.state == FAILED:
            raise AttomatonError(job.error)
        if job.state != DONE:
            self.watch(job, ended)
        return job.state == DONE

    def others(self) -> list[Job]:
        """What is going on and not yet on this page."""
        return [job for job in self.lab.jobs.running() if job.key not in self._watched]

    # The frame itself

    async def show(self) -> None:
        """Build the page; what was opened at the start, and has a screen of its own, is shown there."""
        if self.screen.path == "/" and not self.asked and self.item.home != "/":
            ui.navigate.to(self.link(self.item.home))
            return
        ui.add_css(STYLE)
        ui.add_head_html(f"<script>{SCRIPTS}{self.lab.comes_back}</script>")
        ui.colors(primary="#0072b2")
        ui.page_title(f"{self.screen.title} · attomaton")
        dark = ui.dark_mode({"dark": True, "light": False}.get(self.theme))
        self._header(dark)
        with ui.element("div").classes("frame"):
            self._menu()
            with ui.element("main").classes("page").props('id="main"'):
                if self.error is not None:
                    self.problem(self.error)
                await self.screen.build(self)
        self._is_shown = True
        self._keys()
        # Where the menu is a strip, the screen that is open may lie beyond its edge.
        ui.run_javascript(
            "document.querySelector('.nav .here').scrollIntoView({inline: 'center', block: 'nearest'})"
        )

    def _menu(self) -> None:
        with ui.element("nav").classes("nav").props('aria-label="Screens"'):
            for number, screen in enumerate(self.screens, 1):
                here = screen is self.screen
                with ui.element("a").classes("nav-link" + " here" * here) as link:
                    link.props(f'href="{self.link(screen.path)}"')
                    if here:
                        link.props('aria-current="page"')
                    ui.icon(screen.icon).props('aria-hidden="true"')
                    ui.label(screen.title)
                    if number < 10:  # there is no tenth key
                        ui.label(str(number)).classes("nav-key").props('aria-hidden="true"')

    def _header(self, dark: ui.dark_mode) -> None:
        with (
            ui.right_drawer(value=False, bordered=True)
            .classes("help")
            .props("overlay width=340") as help_
        ):
            explained(f"### {self.screen.title}\n\n{self.screen.help}")
        with ui.header().classes("top"):
            ui.link("attomaton", self.link("/")).classes("brand")
            self._picker()
            ui.space()
            with icon_button("content_copy", "Copy as command or Python"), ui.menu():
                menu_item("Copy as command", lambda: self._copy("command", self._cli))
                menu_item("Copy as Python", lambda: self._copy("Python", self._python))
                menu_item("Copy the address of this view", self._copy_address)
                menu_item("Save this view as one HTML file", self._save)
            icon_button("contrast", "Light or dark", lambda: self._switch(dark))
            icon_button("help_outline", "What is shown here", help_.toggle)
        self.help_drawer = help_

    def _picker(self) -> None:
        kinds = self.screen.wants
        items = {
            i.id: i.title for i in self.lab.shelf.items() if i.kind in kinds or i.id == self.item.id
        }
        picker = dense(ui.select(items, value=self.item.id), "picker")
        picker.props('aria-label="What is open"')
        picker.on_value_change(lambda e: self.go(item=self.lab.shelf.find(e.value)))

    def _copy(self, what: str, text: str) -> None:
        if text:
            ui.clipboard.write(text)
            ui.notify(f"Copied as {what}: {text}", multi_line=True, classes="copied")
        else:
            ui.notify("Nothing to copy on this screen.")

    def _copy_address(self) -> None:
        ui.run_javascript("navigator.clipboard?.writeText(location.href)")
        ui.notify(
            "Copied the address; it opens in browsers that this lab has let in, also after a restart."
        )

    def _save(self) -> None:
        title = f"{self.screen.title}: {self.item.title} · attomaton"
        stem = re.sub(r"[^\w.-]+", "-", f"{self.screen.title}-{self.item.title}").strip("-")
        save_page(title, f"{stem}.html")

    async def _switch(self, dark: ui.dark_mode) -> None:
        now = dark.value
        if now is None:
            now = await ui.run_javascript("document.body.classList.contains('body--dark')")
        dark.value = not now
        theme = "dark" if dark.value else "light"
        ui.run_javascript(
            f"document.cookie = 'theme={theme}; path=/; max-age=31536000; SameSite=Strict'"
        )

    def _keys(self) -> None:
        """Alt+1 … Alt+9 open the screens, ? explains the one that is open, Escape closes that."""
        paths = [self.link(s.path) for s in self.screens]

        def pressed(e: Any) -> None:
            if not e.action.keydown or e.action.repeat:
                return
            if e.modifiers.alt and e.key.number and 1 <= e.key.number <= len(paths):
                ui.navigate.to(paths[e.key.number - 1])
            elif e.key == "?":
                self.help_drawer.toggle()
            elif e.key == "Escape":
                self.help_drawer.hide()

        ui.keyboard(on_key=pressed, ignore=["input", "select", "textarea"])


def number(text: str, otherwise: Any = None) -> Any:
    """A number as an address may name one: finite, and of a size that can be counted with.

    >>> number("2.5"), number("1e400", 1.0), number("nan", 1.0), number("5e-324", 1.0), number("x", 1.0)
    (2.5, 1.0, 1.0, 1.0, 1.0)
    """
    try:
        found = float(text)
    except ValueError:
        return otherwise
    return found if found == 0 or 1 / LARGEST <= abs(found) <= LARGEST else otherwise


def whole(text: str, otherwise: int, most: int) -> int:
    """A whole number of an address between 0 and `most`.

    >>> whole("3", 0, 9), whole("30", 0, 9), whole("-3", 5, 9), whole("x", 5, 9)
    (3, 9, 5, 5)
    """
    return min(int(text[:9]), most) if text.isascii() and text.isdigit() else otherwise


def address(path: str, item: Item, settings: Mapping[str, object]) -> str:
    """Where a screen shows an item in this way; what is not set is left out.

    Seen from another screen, since all of them lie below the secret step of this start (see `keys`).
    """
    query = {"on": item.id, **{k: v for k, v in settings.items() if v not in (None, "")}}
    return f".{path}?{urlencode(query)}"


async def in_thread(call: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """Run something slow without holding up the other pages; its errors come back."""
    return await asyncio.to_thread(call, *arguments, **options)
