"""The secrets of one lab, drawn anew at each start, and the page by which a browser is let in.

On a machine with several users, what must stay secret has three leaks: command lines, which everybody can read;
cookies, which a browser sends to every port of a host, so also to a server that another user started on another port;
and addresses, which are copied. Hence four secrets, none of which is of use alone or where it can be seen:

- `path`, the first step of every address of the lab. The cookie is kept for it alone, so that a browser does not send
  it to another port unless it is asked there for this very path;
- `session`, the value of the cookie: asked for on every request, together with the path;
- `token`, in the address that is printed for the user: exchanged for the cookie, as often as the user likes;
- `once`, in the page written for the browser: exchanged for the cookie at most once, and only for a short time.

The page is a file that its user alone can read. A browser is started with the name of the file, never with a secret.
"""

import os
import time
from collections.abc import Callable
from html import escape
from pathlib import Path
from secrets import compare_digest, token_hex, token_urlsafe
from tempfile import mkdtemp

PARAMETER = "token"
SECONDS = 120.0  # for a browser to start and to open the page


class Keys:
    """The secrets of a lab on a port; `seconds` is how long the one-time token may wait, by `clock`."""

    def __init__(
        self, port: int, *, seconds: float = SECONDS, clock: Callable[[], float] = time.monotonic
    ):
        self.path = f"/{token_urlsafe(16)}"
        self.cookie = f"attomaton_{port}_{token_hex(4)}"
        self.session, self.token = token_urlsafe(32), token_urlsafe(32)
        self._once: str | None = token_urlsafe(32)
        self.seconds, self._clock, self._until = seconds, clock, clock() + seconds
        self._page: Path | None = None

    def address(self, base: str) -> str:
        """The address to print: whoever has it may come in."""
        return f"{base}{self.path}/?{PARAMETER}={self.token}"

    def opens(self, given: str) -> bool:
        """Whether a token from an address lets a browser in; the one-time token is spent by being asked for."""
        if _same(given, self.token):
            return True
        if self._once is None or not _same(given, self._once):
            return False
        late = self._clock() > self._until
        self.close()
        return not late

    def knows(self, session: str) -> bool:
        """Whether this is the value of the cookie."""
        return _same(session, self.session)

    def page(self, base: str) -> Path:
        """Write the page that leads a browser into the lab, for this user's eyes only."""
        target = f"{base}{self.path}/?{PARAMETER}={self._once}"
        self._page = Path(mkdtemp(prefix="attomaton-lab-")) / "open.html"  # mkdtemp: mode 0700
        file = os.open(self._page, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(file, "w", encoding="utf-8") as out:
            out.write(_PAGE.format(target=escape(target)))
        return self._page

    def close(self) -> None:
        """End the one-time token and take its page away; more than once does no harm."""
        self._once = None
        page, self._page = self._page, None
        if page is not None:
            page.unlink(missing_ok=True)
            page.parent.rmdir()


_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0; url={target}"><title>attomaton lab</title></head>
<body><p><a href="{target}">Open the lab</a>. This page works once, for a short time.</p></body></html>
"""


def _same(given: str, secret: str) -> bool:
    return compare_digest(given.encode(), secret.encode())
