"""What an open page does when its lab is gone: it waits, says so, and comes back by itself to a lab started again.

A lab that is only slow to answer is not gone: its page stays as it is, and its connection is mended by itself.
It sends nothing of worth to whoever answers on the lab's port before that has proved to know the seal (see `keys`).
"""

import json

from attomaton.base.assets import beside
from attomaton.lab.guard import AGAIN
from attomaton.lab.keys import Keys

EVERY = 1000  # milliseconds between two looks

_SCRIPT = beside(__file__, "comeback.js")


def comes_back(keys: Keys) -> str:
    """The script of every page; it holds the seal, so it is for those who are let in."""
    settings = {
        "seal": keys.seal,
        "path": f"{keys.path}{AGAIN}",
        "port": keys.port,
        "start": keys.start,
    }
    return _SCRIPT.replace("SETTINGS", json.dumps(settings)).replace("EVERY", str(EVERY))
