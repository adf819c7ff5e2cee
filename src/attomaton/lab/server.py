"""Start the lab: one local server, every request guarded, one page per screen."""

import asyncio
import logging
import webbrowser
from collections.abc import Callable
from threading import Thread
from urllib.parse import urlsplit

from nicegui import app, ui
from starlette.requests import Request

from attomaton.lab import start
from attomaton.lab.automaton import screen as automaton
from attomaton.lab.claims import screen as claims
from attomaton.lab.comeback import comes_back
from attomaton.lab.compare import screen as compare
from attomaton.lab.connections import is_worth_telling, patient
from attomaton.lab.data import screen as data
from attomaton.lab.graph import screen as graph
from attomaton.lab.guard import Guard
from attomaton.lab.hosts import base, free_port, is_any, names, resolved, usable
from attomaton.lab.keys import Key, Keys
from attomaton.lab.lens import screen as lens
from attomaton.lab.probe import screen as probe
from attomaton.lab.runs import screen as runs
from attomaton.lab.scan_snap import screen as scan_snap
from attomaton.lab.shared import Lab
from attomaton.lab.sweep import screen as sweep
from attomaton.lab.training import screen as training
from attomaton.lab.view import Screen, View

MOST_BYTES = 65 << 20  # of one request: the largest upload and its envelope
ICON = (
    "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 32 32'><g fill='none' stroke='#0072b2' stroke-width='3'>"
    "<path d='M8 9 L24 9 M8 9 L16 24 M24 9 L16 24'/></g><circle cx='8' cy='9' r='5' fill='#0072b2'/>"
    "<circle cx='24' cy='9' r='5' fill='#d55e00'/><circle cx='16' cy='24' r='5' fill='#009e73'/></svg>"
)


def screens() -> list[Screen]:
    """All screens, in the order of the menu."""
    modules = (
        start, data, graph, automaton, training, scan_snap, lens, sweep, claims, compare, probe, runs,
    )  # fmt: skip
    return [module.SCREEN for module in modules]


def serve(
    lab: Lab,
    *,
    host: str = "127.0.0.1",
    port: int | None = None,
    announce: Callable[[str], object] = print,
    browser: bool = True,
    key: Key | None = None,
) -> None:
    """Serve the lab until it is interrupted; `announce` is told the address with its token.

    `key` is what outlives this start; without one, nothing does.
    """
    addresses = usable(host)
    port = free_port(addresses, port)
    keys, at = Keys(port, key), base(host, port)
    lab.comes_back = comes_back(keys)
    every = screens()
    for screen in every:
        _register(lab, screen, every)

    async def ready() -> None:
        await _listening(at)
        announce(keys.address(at))
        if browser:
            # A text browser comes back only when it is left; it must not hold up the lab, nor its end.
            Thread(target=webbrowser.open, args=(keys.page(at).as_uri(),), daemon=True).start()
            await asyncio.sleep(keys.seconds)
            keys.close()

    def end() -> None:  # without an argument: NiceGUI would hand itself over as one
        keys.close()
        lab.jobs.stop()

    # Jobs and uploads show how far they are; a bar that says so of every request has no name.
    app.config.quasar_config["loadingBar"] = {"skipHijack": True}
    app.on_startup(ready)
    app.on_shutdown(end)
    app.add_middleware(
        Guard, keys=keys, port=port, hosts=names(host, addresses), any_own=is_any(addresses),
        most=MOST_BYTES,
    )  # fmt: skip
    logging.getLogger("uvicorn.error").addFilter(is_worth_telling)
    try:
        ui.run(
            host=host if len(addresses) == len(resolved(host)) else addresses[0],
            port=port, title="attomaton", favicon=ICON, show=False, reload=False,
            show_welcome_message=False, reconnect_timeout=10.0, dark=None, http=patient(), language="en-US",
        )  # fmt: skip
    finally:
        keys.close()


async def _listening(at: str) -> None:
    """Wait until the server answers: an address that is given away must open."""
    place = urlsplit(at)
    while True:
        try:
            _, writer = await asyncio.open_connection(place.hostname, place.port)
            writer.close()
            return
        except OSError:
            await asyncio.sleep(0.02)


def _register(lab: Lab, screen: Screen, every: list[Screen]) -> None:
    @ui.page(screen.path, response_timeout=30)
    async def page(request: Request) -> None:
        await View(lab, screen, every, request).show()
