"""Start the lab: one local server, every request guarded, one page per screen."""

import asyncio
import secrets
import socket
from collections.abc import Callable
from pathlib import Path

from nicegui import app, ui
from starlette.requests import Request

from attomaton.errors import UsageError
from attomaton.lab import automaton, claims, data, graph, lens, scan_snap, start, sweep, training
from attomaton.lab.guard import LOOPBACK, Guard
from attomaton.lab.view import Lab, Screen, View

PORT = 8765
MOST_BYTES = 65 << 20  # of one request: the largest upload and its envelope
ICON = (
    "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 32 32'><g fill='none' stroke='#0072b2' stroke-width='3'>"
    "<path d='M8 9 L24 9 M8 9 L16 24 M24 9 L16 24'/></g><circle cx='8' cy='9' r='5' fill='#0072b2'/>"
    "<circle cx='24' cy='9' r='5' fill='#d55e00'/><circle cx='16' cy='24' r='5' fill='#009e73'/></svg>"
)


def screens() -> list[Screen]:
    """All screens, in the order of the menu."""
    modules = (start, data, graph, automaton, training, scan_snap, lens, sweep, claims)
    return [module.SCREEN for module in modules]


def serve(
    lab: Lab,
    *,
    host: str = "127.0.0.1",
    port: int | None = None,
    announce: Callable[[str], object] = print,
    browser: bool = True,
) -> None:
    """Serve the lab until it is interrupted; `announce` is told the address with its token."""
    port = free_port(host, port)
    token = secrets.token_urlsafe(32)
    hosts = LOOPBACK if host in LOOPBACK or host == "::1" else (*LOOPBACK, host)
    every = screens()
    for screen in every:
        _register(lab, screen, every)
    address = f"http://{'localhost' if host in ('::1', '0.0.0.0') else host}:{port}/?token={token}"

    async def ready() -> None:
        await _listening(host, port)
        announce(address)
        if browser:
            import webbrowser

            webbrowser.open(address)

    app.on_startup(ready)
    app.on_shutdown(lab.jobs.stop)
    app.add_middleware(Guard, token=token, port=port, hosts=hosts, most=MOST_BYTES)
    ui.run(
        host=host, port=port, title="attomaton", favicon=ICON, show=False, reload=False,
        show_welcome_message=False, reconnect_timeout=10.0, dark=None,
    )  # fmt: skip


def free_port(host: str, port: int | None) -> int:
    """The port asked for, if nobody listens there; without one, the usual port or another free one."""
    for wanted in (PORT, 0) if port is None else (port,):
        with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as s:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                s.bind((host, wanted))
                return int(s.getsockname()[1])
            except (OSError, OverflowError) as error:
                if port is not None:
                    raise UsageError(f"port {port} of {host} cannot be used ({error}).") from error
    raise UsageError(f"no free port on {host}.")


async def _listening(host: str, port: int) -> None:
    """Wait until the server answers: an address that is given away must open."""
    while True:
        try:
            _, writer = await asyncio.open_connection(
                "127.0.0.1" if host == "0.0.0.0" else host, port
            )
            writer.close()
            return
        except OSError:
            await asyncio.sleep(0.02)


def _register(lab: Lab, screen: Screen, every: list[Screen]) -> None:
    @ui.page(screen.path, response_timeout=30)
    async def page(request: Request) -> None:
        await View(lab, screen, every, request).show()


def workspace_folder(folder: Path | None) -> Path:
    """Where the lab keeps its data and runs."""
    folder = Path("runs/lab") if folder is None else folder
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{folder}: cannot write there ({error.strerror}).") from error
    return folder
