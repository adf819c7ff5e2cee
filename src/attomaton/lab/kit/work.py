"""Work a page starts, watches, stops and takes up again; it belongs to the lab, so another tab shows the same."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic

from nicegui import ui

from attomaton.errors import UsageError
from attomaton.lab.jobs import RUNNING, About, Job
from attomaton.lab.shared import Lab
from attomaton.lab.view import View


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
    place.clear()
    with place:
        if elsewhere is not None:
            ui.link(f"{elsewhere[0]} is being computed", elsewhere[1])
        view.watch(job, ended, step)


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
