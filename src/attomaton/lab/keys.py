"""The secrets of a lab, those of its user and those of one start, and the page by which a browser is let in.

On a machine with several users, what must stay secret has three leaks: command lines, which everybody can read;
cookies, which a browser sends to every port of a host, so also to a server that another user started on another port;
and addresses, which are copied. Hence several secrets, none of which is of use alone or where it can be seen.

A user's, kept in a file that nobody else can read, so that addresses outlive the lab that gave them:

- `path`, the first step of every address of the lab. The cookie is kept for it alone, so that a browser does not send
  it to another port unless it is asked there for this very path;
- `token`, in the address that is printed for the user: exchanged for the cookie, as often as the user likes;
- `seal`, in every page that the lab serves: by it an open page knows a lab that was started again, and is known to it.

Of one start:

- `session`, the value of the cookie: asked for on every request, together with the path;
- `once`, in the page written for the browser: exchanged for the cookie at most once, and only for a short time.

The session ends with the lab. Whoever takes the port of a lab that is not running is sent cookies by pages that are
still open, and these are of no use to him later. An open page sends nothing to a server before that has proved to know
the seal and to listen on the page's own port (a proof made elsewhere is not passed on); then it proves the same in its
turn, and is given the cookie of the new start.

The page for the browser is a file that its user alone can read. A browser is started with the name of the file, never
with a secret.
"""

import hmac
import json
import logging
import os
import re
import stat
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import asdict, dataclass
from html import escape
from pathlib import Path
from secrets import compare_digest, token_hex, token_urlsafe
from tempfile import mkdtemp

PARAMETER = "token"
SECONDS = 120.0  # for a browser to start and to open the page
PROOFS = 64  # open pages that may be about to come back
FILE = "lab-key.json"
_NONCE = re.compile(r"[\w-]{16,64}")
_log = logging.getLogger("attomaton")


@dataclass(frozen=True)
class Key:
    """What a user's labs have in common, from one start to the next."""

    path: str
    cookie: str
    token: str
    seal: str

    @classmethod
    def drawn(cls) -> "Key":
        """A new one."""
        return cls(token_urlsafe(16), token_hex(4), token_urlsafe(32), token_urlsafe(32))


def kept_key(folder: Path, *, fresh: bool = False) -> Key:
    """The key in a folder of the user's; drawn and kept where there is none, or where it is to be a `fresh` one.

    A file that others can read or write, or that holds something else, is not believed. Where nothing can be kept, the
    key holds for this start.
    """
    file = folder / FILE
    try:
        if not fresh and (known := _read(file)) is not None:
            return known
        made = Key.drawn()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        work = folder / f".{FILE}.{token_hex(4)}"
        with open(
            os.open(work, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8"
        ) as out:
            json.dump(asdict(made), out)
        os.replace(work, file)
    except OSError as error:
        _log.warning("the lab's key cannot be kept (%s); addresses end with this lab.", error)
        made = Key.drawn()
    return made


def _read(file: Path) -> Key | None:
    try:
        opened = os.open(
            file, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
        )
    except FileNotFoundError:
        return None
    with open(opened, encoding="utf-8") as found:
        seen = os.fstat(opened)
        own = not hasattr(os, "getuid") or seen.st_uid == os.getuid()
        shared = os.name == "posix" and seen.st_mode & 0o077
        if not stat.S_ISREG(seen.st_mode) or not own or shared:
            _log.warning("%s can be read by others, so a new key is drawn.", file)
            return None
        try:
            key = Key(**json.loads(found.read(4096)))
        except (ValueError, TypeError):
            return None
    sizes = {"path": 20, "cookie": 8, "token": 40, "seal": 40}
    good = all(isinstance(v, str) and len(v) >= sizes[k] and re.fullmatch(r"[\w-]+", v, re.ASCII)
               for k, v in asdict(key).items())  # fmt: skip
    return key if good else None


class Keys:
    """The secrets of a lab on a port; `seconds` is how long the one-time token may wait, by `clock`."""

    def __init__(
        self,
        port: int,
        key: Key | None = None,
        *,
        seconds: float = SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ):
        key = key or Key.drawn()
        self.port = port
        self.path = f"/{key.path}"
        self.cookie = f"attomaton_{port}_{key.cookie}"
        self.session, self.token, self.seal = token_urlsafe(32), key.token, key.seal
        # No secret: by it a page tells a lab started again from one that was busy.
        self.start = token_urlsafe(8)
        self._once: str | None = token_urlsafe(32)
        self.seconds, self._clock, self._until = seconds, clock, clock() + seconds
        self._page: Path | None = None
        self._asked: OrderedDict[str, str] = OrderedDict()  # what open pages are asked to prove

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

    def proves(self, nonce: str) -> dict[str, str] | None:
        """To an open page that this is the user's lab on this port; and what the page has to prove in its turn."""
        if not _NONCE.fullmatch(nonce):
            return None
        self._asked[nonce] = token_urlsafe(16)
        while len(self._asked) > PROOFS:
            self._asked.popitem(last=False)
        proof, asked = self._sealed("lab", nonce), self._asked[nonce]
        return {"proof": proof, "nonce": asked, "start": self.start}

    def believes(self, nonce: str, proof: str) -> bool:
        """Whether an open page has proved to be one of this user's; each proof counts once."""
        asked = self._asked.pop(nonce, None)
        return asked is not None and _same(proof, self._sealed("page", f"{nonce} {asked}"))

    def _sealed(self, who: str, what: str) -> str:
        return hmac.digest(self.seal.encode(), f"{who} {self.port} {what}".encode(), "sha256").hex()

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
