"""The command that opens the lab in a browser."""

from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Annotated

import typer

from attomaton.base import interrupts
from attomaton.cli.commands import command
from attomaton.cli.console import say
from attomaton.cli.options import argument, option
from attomaton.errors import UsageError

if TYPE_CHECKING:
    from attomaton.corpus.reading import Reading

app = typer.Typer()


@command(app, "Lab")
def lab(
    reading: "Reading",
    what: Annotated[
        Path | None,
        argument("A model, a run or a data file to open (default: the embedded example)."),
    ] = None,
    port: Annotated[int | None, "Port (default: 8765, or a free one)."] = None,
    browser: Annotated[bool, "Open a browser window."] = True,
    workspace: Annotated[
        Path | None, "Folder for pasted data and runs started in the page (default: runs/lab)."
    ] = None,
    host: Annotated[str, "Address to listen on."] = "127.0.0.1",
    allow_run: Annotated[
        bool, option("Let pages start work even when others can reach the lab.", "--allow-run")
    ] = False,
    new_key: Annotated[
        bool, option("Draw a new key: addresses from before open no more.", "--new-key")
    ] = False,
) -> None:
    """Open the lab in a browser.

    See a self-attention layer learn, on your own data.
    """
    from attomaton.base.caches import state_folder
    from attomaton.lab.hosts import is_alone, resolved
    from attomaton.lab.keys import kept_key
    from attomaton.lab.lens.records import read_ahead
    from attomaton.lab.shared import Lab, workspace_folder

    found = Lab(workspace_folder(workspace), allow_run=is_alone(resolved(host)) or allow_run)
    if what is not None:
        found.first = found.shelf.open(what, reading).id
    # Before the browser's library, which takes as long to import as a large model to read.
    Thread(target=read_ahead, args=(found,), daemon=True).start()
    try:
        from attomaton.lab.server import serve
    except ModuleNotFoundError as missing:
        raise UsageError(f"the lab needs {missing.name}; install attomaton[lab].") from missing
    interrupts.served = True
    try:
        key = kept_key(state_folder(), fresh=new_key)
    except RuntimeError:  # a home that nobody knows
        key = None
    serve(found, host=host, port=port, browser=browser, announce=_announce, key=key)


def _announce(address: str) -> None:
    print(address, flush=True)
    say("attomaton lab is open at this address; Ctrl-C ends it.")
