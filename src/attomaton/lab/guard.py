"""Who may speak to the lab: the right host, the right path, the right origin, the cookie of this start.

A page anywhere on the web can make a browser send requests to a server on the same machine, and every user of a machine
can send some to all of its ports. Four checks on every request and every WebSocket keep such requests out:

- *Host* must be a name this lab was started under, so that a foreign name pointing here (DNS rebinding) is refused;
- the *path* must begin with the secret step of this start, to which the cookie is bound (see `keys`);
- *Origin*, which a browser adds where it matters and a page cannot change, must be the lab's own;
- the *cookie* of this start must come along; it is given in exchange for a token in the address.

Those who pass are bounded too: addresses and bodies in length, bodies in the time they take.
"""

import asyncio
import json
import logging
import re
import time
from collections.abc import Iterable
from html import escape
from http import HTTPStatus
from secrets import compare_digest
from typing import Any
from urllib.parse import unquote, urlencode

from starlette.datastructures import Headers, QueryParams
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocketClose

from attomaton.lab.hosts import LOOPBACK, written
from attomaton.lab.keys import PARAMETER, Keys

SAFE = ("GET", "HEAD")
AGAIN = "/again"  # where an open page asks for a lab that was started again
STRANGE = "open the address that `attomaton lab` printed, with its token."
MOST_QUERY = 1 << 14  # bytes of an address after its question mark
SECONDS = 15.0  # in which the next part of a body must come
PACE = 1 << 14  # bytes a second that earn a body more time
# What no address of ours holds, however often it is decoded: a step up, a backslash, a control character.
_HOSTILE = re.compile(r"(^|/)\.\.(/|$)|\\|//|[\x00-\x1f\x7f]")
_NUMBER = re.compile("[0-9]{1,20}")
_HEADERS = {
    # Vue compiles templates in the page, hence 'unsafe-eval'; everything else comes from this server or not at all.
    "content-security-policy": "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; "
    "style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; font-src 'self' data:; "
    "connect-src 'self'{socket}; object-src 'none'; base-uri 'self'; form-action 'self'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


# What a browser shows whom the lab does not know; nothing in it is secret.
_HOW = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>attomaton lab: come in again</title>
<meta name="viewport" content="width=device-width"><link rel="icon" href="data:,"><style>
:root {{ color-scheme: light dark; }} body {{ font: 1rem/1.6 system-ui, sans-serif; max-width: 40rem; margin: 12vh auto;
padding: 0 1rem; }} code {{ font-size: .95em; }} li {{ margin: .5rem 0; }}</style></head><body>
<h1>This lab does not know this browser</h1><p>attomaton lab: {why}</p>{cure}</body></html>
"""
_CURE = """<p>Every start of the lab gives a browser its key once. To come in again:</p><ol>
<li>Open the address that <code>attomaton lab</code> printed in its terminal, the one that ends in <code>token=…</code>.
After that, this address opens too: reload it.</li>
<li>Is the terminal gone? Stop the lab and start it again: <code>attomaton lab</code> opens a browser by itself.</li>
<li>After <code>attomaton lab --new-key</code>, addresses from before open no more.</li>
</ol>"""


class RefusedError(Exception):
    """A request that is given up while its body is being read."""

    def __init__(self, status: HTTPStatus, why: str):
        super().__init__(why)
        self.status, self.why = status, why


class Guard:
    """ASGI middleware around the whole lab.

    `hosts` are names without port; with `any_own`, so is the address a connection came to. `most` bounds the bytes of
    one request and `seconds` the wait for more of them.
    """

    def __init__(
        self,
        app: Any,
        *,
        keys: Keys,
        port: int,
        hosts: Iterable[str] = LOOPBACK,
        any_own: bool = False,
        most: int = 1 << 26,
        seconds: float = SECONDS,
    ):
        self.app, self.keys, self.most, self.seconds = app, keys, most, seconds
        self.port, self.any_own = port, any_own
        self.hosts = {f"{host}:{port}".lower() for host in hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a stranger, welcome who brings a token, let everybody else through."""
        if scope["type"] not in ("http", "websocket"):
            return await self.app(scope, receive, send)
        answer = self._own_answer(scope)
        if answer is not None:
            return await answer(scope, receive, send)
        if scope["type"] == "websocket":
            return await self.app(self._inside(scope), receive, send)
        signature = Headers(_signature(_headers(scope)["host"])).raw
        started = False

        async def signed(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                message = {**message, "headers": [*message.get("headers", []), *signature]}
            await send(message)

        try:
            await self.app(self._inside(scope), self._bounded(scope, receive), signed)
        except RefusedError as refused:
            if not started:
                await _refused(scope, refused.status, refused.why)(scope, receive, send)
        except Exception as error:
            # What pages send beside their WebSocket are uploads, and NiceGUI takes the form of those on trust.
            if started or scope["method"] in SAFE:
                raise
            logging.getLogger("attomaton").warning("a request could not be read: %.200r", error)
            why = "this request cannot be read."
            await _refused(scope, HTTPStatus.BAD_REQUEST, why)(scope, receive, send)

    def _own_answer(self, scope: Scope) -> ASGIApp | None:
        """What is answered here: a stranger, a page that comes back, who brings a token; None where the lab answers."""
        refusal = self.refusal(scope)
        if refusal is not None:
            return _refused(scope, *refusal)
        if self._comes_back(scope):
            return self._again(scope)
        if scope["type"] == "http" and PARAMETER in _query(scope):
            return self._welcome(scope)
        return None

    def refusal(self, scope: Scope) -> tuple[HTTPStatus, str] | None:
        """Why a request is not answered, or None."""
        asked = _headers(scope)
        if len(scope.get("query_string", b"")) > MOST_QUERY:
            return HTTPStatus.REQUEST_URI_TOO_LONG, "this address is too long."
        stranger = self._stranger(scope, asked)
        if stranger is not None:
            return HTTPStatus.FORBIDDEN, stranger
        # As any later decoding could read it: as it is, decoded once more, and once more again.
        path = scope["path"]
        if any(map(_HOSTILE.search, (path, unquote(path), unquote(unquote(path))))):
            return HTTPStatus.NOT_FOUND, "there is no such page."
        length = asked.get("content-length")
        if length is not None and not (_NUMBER.fullmatch(length) and int(length) <= self.most):
            return HTTPStatus.REQUEST_ENTITY_TOO_LARGE, self._too_much()
        return None

    def _too_much(self) -> str:
        return f"at most {self.most >> 20} MB at a time."

    def _stranger(self, scope: Scope, asked: Headers) -> str | None:
        """What shows that a request does not come from a page of this lab, or None."""
        host, origin = asked.getlist("host"), asked.getlist("origin")
        hosts = self._known_hosts(scope)
        if len(host) != 1 or host[0].lower() not in hosts:
            return "the lab is not known under this host name."
        if origin and (len(origin) > 1 or origin[0].lower() not in {f"http://{x}" for x in hosts}):
            return "requests from other sites are refused."
        if not origin and (scope["type"] == "websocket" or scope["method"] not in SAFE):
            return "this request must say where it comes from (Origin)."
        step = f"{self.keys.path}/"
        inside = compare_digest(scope["path"][: len(step)].encode(), step.encode())
        known = inside and self._known(scope, asked.getlist("cookie"))
        # A page that comes back is given nothing before it has proved to be the user's own.
        return None if known or self._comes_back(scope) else STRANGE

    def _comes_back(self, scope: Scope) -> bool:
        """Whether a page that was open before the lab was started again asks who is there."""
        asks, place = scope["type"] == "http" and scope["method"] == "GET", self.keys.path + AGAIN
        return asks and compare_digest(scope["path"].encode(), place.encode())

    def _again(self, scope: Scope) -> ASGIApp:
        """Prove to an open page that this is its lab; to one that has proved itself, give the cookie of this start."""
        asked = _query(scope)
        nonce, proof = asked.get("nonce", ""), asked.get("proof")
        if not proof and (told := self.keys.proves(nonce)) is not None:
            return _answered(scope, json.dumps(told), "application/json; charset=utf-8")
        if not proof or not self.keys.believes(nonce, proof):
            return _refused(scope, HTTPStatus.FORBIDDEN, STRANGE)
        return _answered(scope, "{}", "application/json; charset=utf-8", self._cookie())

    def _cookie(self) -> str:
        keys = self.keys
        return f"{keys.cookie}={keys.session}; HttpOnly; SameSite=Strict; Path={keys.path}/"

    def _known_hosts(self, scope: Scope) -> set[str]:
        """Hosts with their port; an address that a connection really came to is no foreign name for this machine."""
        own = scope.get("server") if self.any_own else None
        return self.hosts if not own else {*self.hosts, f"{written(own[0])}:{self.port}".lower()}

    def _inside(self, scope: Scope) -> Scope:
        """The request as the application sees it: without the secret step, told that its addresses begin with it."""
        step = len(self.keys.path)
        headers = [(k, v) for k, v in scope["headers"] if k.lower() != b"x-forwarded-prefix"]
        headers.append((b"x-forwarded-prefix", self.keys.path.encode()))
        raw = scope.get("raw_path")
        return {**scope, "path": scope["path"][step:], "headers": headers,
                "raw_path": None if raw is None else raw[step:]}  # fmt: skip

    def _known(self, scope: Scope, cookies: list[str]) -> bool:
        if any(self.keys.knows(x) for c in cookies for x in _cookies(c, self.keys.cookie)):
            return True
        if scope["type"] == "websocket" or scope["method"] != "GET":
            return False
        given = _query(scope).get(PARAMETER)
        return given is not None and self.keys.opens(given)

    def _welcome(self, scope: Scope) -> ASGIApp:
        """Give the cookie and take the token out of the address, so that a copied address does not carry it.

        By a page, not by a redirection: a browser does not send a strict cookie along a redirection that began on
        another site or in a file, but it does where a page of the lab itself leads on.
        """
        rest = urlencode([(k, v) for k, v in _query(scope).multi_items() if k != PARAMETER])
        place = (scope.get("raw_path") or scope["path"].encode()).decode("latin-1").split("?")[0]
        place = escape(place + (f"?{rest}" if rest else ""))
        page = f'<!doctype html><meta http-equiv="refresh" content="0; url={place}"><link rel="icon" href="data:,">'
        return _answered(scope, page, "text/html", self._cookie())

    def _bounded(self, scope: Scope, receive: Receive) -> Receive:
        """A body that is given up when it grows beyond `most` bytes, whatever length it announced, or does not arrive.

        What has come in time earns more time, so that a large file over a slow line is no attack.
        """
        seen, whole, start = 0, False, time.monotonic()

        async def bounded() -> Message:
            nonlocal seen, whole
            if whole:
                # Waits for the end of the connection, as long as the answer takes.
                return await receive()
            left = start + self.seconds + seen / PACE - time.monotonic()
            try:
                message = await asyncio.wait_for(receive(), max(left, 0.0))
            except TimeoutError:
                why = "the rest of this request did not come."
                raise RefusedError(HTTPStatus.REQUEST_TIMEOUT, why) from None
            if message["type"] == "http.disconnect" and scope["method"] not in SAFE:
                raise RefusedError(HTTPStatus.BAD_REQUEST, "this request was broken off.")
            seen += len(message.get("body", b""))
            whole = not message.get("more_body", False)
            if seen > self.most:
                raise RefusedError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, self._too_much())
            return message

        return bounded


def _refused(scope: Scope, status: HTTPStatus, why: str) -> ASGIApp:
    """Why a request is not answered: in a page, where a browser asks for one."""
    if scope["type"] == "websocket":
        return WebSocketClose(1008, why[:120])
    if any("text/html" in x for x in _headers(scope).getlist("accept")):
        page = _HOW.format(why=escape(why), cure=_CURE if why == STRANGE else "")
        return Response(page, status, _signature(), "text/html")
    return Response(f"attomaton lab: {why}\n", status, _signature(), "text/plain")


def _answered(scope: Scope, text: str, kind: str, cookie: str | None = None) -> ASGIApp:
    """What those are told who are let in, or about to be."""
    headers = {**_signature(_headers(scope)["host"]), "cache-control": "no-store"}
    if cookie is not None:
        headers["set-cookie"] = cookie
    return Response(text, HTTPStatus.OK, headers, kind)


def _signature(host: str = "") -> dict[str, str]:
    """What every answer says about what its page may do; `host` is known to be one of ours."""
    # Old browsers do not count a WebSocket as 'self'. The policy's grammar has no IPv6.
    socket = f" ws://{host}" if host and "[" not in host else ""
    return {name: text.replace("{socket}", socket) for name, text in _HEADERS.items()}


def _headers(scope: Scope) -> Headers:
    return Headers(raw=[(name.lower(), value) for name, value in scope["headers"]])


def _query(scope: Scope) -> QueryParams:
    return QueryParams(scope.get("query_string", b""))


def _cookies(header: str, name: str) -> list[str]:
    """All values of a cookie: a server on another port may have set one of the same name."""
    pairs = (part.partition("=") for part in header.split(";"))
    return [value.strip() for key, _, value in pairs if key.strip() == name]
