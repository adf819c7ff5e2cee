"""Work a page starts, watches, stops and takes up again; it belongs to the lab, so another tab shows the same."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic

from nicegui import ui

from attomaton.errors import UsageError
from attomaton.lab.jobs import RUNNING, About, Job
from attomaton.lab.kit.cache import Cache, Key, Value
from attomaton.lab.kit.parts import emptied
from attomaton.lab.shared import Lab
from attomaton.lab.view import MOMENT, View, reload


@dataclass(frozen=True)
class Work(Generic[About]):
    """One kind of work, of which a lab does one at a time: a second would only slow down the first."""

    name: str  # as in "a training is running already"

    def running(self, lab: Lab) -> Job[About] | None:
        """What is going on."""
        job = lab.jobs.find(self.name)
        return job if job is not None and job.state == RUNNING else None

    def start(
        self, lab: Lab, title: str, do: Callable[[Job[About]], Any], about: About
    ) -> Job[About]:
        """Start this, unless the lab is read only or something of its kind is going on."""
        lab.may_start()
        if self.running(lab) is not None:
            raise UsageError(f"a {self.name} is running already: wait for its end, or stop it.")
        return lab.jobs.start(self.name, title, do, about)


def watch_in(
    view: View,
    place: ui.element,
    job: Job[About],
    ended: Callable[[Job[About]], Any],
    step: Callable[[Job[About]], Any],
    elsewhere: tuple[str, str] | None,
) -> None:
    """Show the progress of a job in a place; `elsewhere` is the name and address of what it computes, if not here."""
    with emptied(place):
        if elsewhere is not None:
            ui.link(f"{elsewhere[0]} is being computed", elsewhere[1])
        view.watch(job, ended, step)


async def made(
    view: View,
    kept: Cache[Key, Value],
    key: Key,
    job: tuple[str, str],
    make: Callable[[Job], Value],
    ended: Callable[[Job], Any] = reload,
    seconds: float = MOMENT,
) -> Value | None:
    """What is kept, or what a job of this name and title makes within a moment; None while its progress is shown."""
    if kept.get(key) is None:

        def work(job: Job) -> bool:
            kept.keep(key, make(job))
            return True

        if not await view.waited(view.lab.jobs.start(*job, work), ended, seconds):
            return None
    return kept.get(key)


def on_change(
    of: Callable[[Job[About]], object], do: Callable[[Job[About]], Any]
) -> Callable[[Job[About]], None]:
    """What to do at a look at a job, once for every value of `of`."""
    before: object = None

    def look(job: Job[About]) -> None:
        nonlocal before
        if (now := of(job)) != before:
            before = now
            do(job)

    return look
