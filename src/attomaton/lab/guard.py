"""Who may speak to the lab: the right host, the right origin, the token of this start.

A page anywhere on the web can make a browser send requests to a server on the same machine. Three checks on every
request and every WebSocket keep such pages out:

- *Host* must be a name this lab was started under, so that a foreign name pointing here (DNS rebinding) is refused;
- *Origin*, which a browser adds where it matters and a page cannot change, must be the lab's own;
- the *token*, drawn anew at each start, must come along: once in the address that is printed, then as a cookie.
"""

import re
from collections.abc import Awaitable, Callable, Iterable
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie
from secrets import compare_digest
from typing import Any
from urllib.parse import parse_qsl, unquote, urlencode

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]

SAFE = ("GET", "HEAD")
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
PARAMETER = "token"
# What no address of ours holds, however often it is decoded: a step up, a backslash, a control character.
_HOSTILE = re.compile(r"(^|/)\.\.(/|$)|\\|//|[\x00-\x1f\x7f]")
_HEADERS = {
    # Vue compiles templates in the page, hence 'unsafe-eval'; everything else comes from this server or not at all.
    "content-security-policy": "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; "
    "style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; font-src 'self' data:; "
    "connect-src 'self' {sockets}; object-src 'none'; base-uri 'self'; form-action 'self'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


class Guard:
    """ASGI middleware around the whole lab; `hosts` are names without port, `most` the bytes of one request."""

    def __init__(
        self,
        app: Any,
        *,
        token: str,
        port: int,
        hosts: Iterable[str] = LOOPBACK,
        most: int = 1 << 26,
    ):
        self.app, self.token, self.most = app, token, most
        self.hosts = {f"{host}:{port}".lower() for host in hosts}
        self.origins = {f"http://{host}" for host in self.hosts}
        # Cookies are shared between the ports of a host: two labs must not take each other's.
        self.cookie = f"attomaton_{port}"
        sockets = " ".join(sorted(f"ws://{host}" for host in self.hosts if "[" not in host))
        self.headers = [
            (k.encode(), v.format(sockets=sockets).encode() if "{" in v else v.encode())
            for k, v in _HEADERS.items()
        ]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a stranger, welcome who brings the token, let everybody else through."""
        if scope["type"] not in ("http", "websocket"):
            return await self.app(scope, receive, send)
        refusal = self.refusal(scope)
        if refusal is not None:
            return await self._refuse(scope, send, *refusal)
        if scope["type"] == "websocket":
            return await self.app(scope, receive, send)
        if self._given(scope) is not None:
            return await self._welcome(scope, send)
        return await self.app(scope, _limited(receive, self.most), self._signed(send))

    def refusal(self, scope: Scope) -> tuple[HTTPStatus, str] | None:
        """Why a request is not answered, or None."""
        asked = _headers(scope)
        stranger = self._stranger(scope, asked)
        if stranger is not None:
            return HTTPStatus.FORBIDDEN, stranger
        if any(map(_HOSTILE.search, _readings(scope["path"]))):
            return HTTPStatus.NOT_FOUND, "there is no such page."
        length = asked["content-length"]
        if length and (not length[0].isdigit() or int(length[0]) > self.most):
            return HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"at most {self.most >> 20} MB at a time."
        return None

    def _stranger(self, scope: Scope, asked: dict[str, list[str]]) -> str | None:
        """What shows that a request does not come from a page of this lab, or None."""
        host, origin = asked["host"], asked["origin"]
        if len(host) != 1 or host[0].lower() not in self.hosts:
            return "the lab is not known under this host name."
        if len(origin) > 1 or (origin and origin[0].lower() not in self.origins):
            return "requests from other sites are refused."
        if not origin and (scope["type"] == "websocket" or scope["method"] not in SAFE):
            return "this request must say where it comes from (Origin)."
        if not self._known(scope, asked["cookie"]):
            return "open the address that `attomaton lab` printed, with its token."
        return None

    def _known(self, scope: Scope, cookies: list[str]) -> bool:
        given = (
            [] if scope["type"] == "websocket" or scope["method"] != "GET" else [self._given(scope)]
        )
        found = [x for x in [*given, *(_cookie(c, self.cookie) for c in cookies)] if x is not None]
        return any(compare_digest(x.encode(), self.token.encode()) for x in found)

    def _given(self, scope: Scope) -> str | None:
        """The token in the address, if there is one."""
        query = scope.get("query_string", b"").decode("latin-1")
        return dict(parse_qsl(query, keep_blank_values=True)).get(PARAMETER)

    async def _welcome(self, scope: Scope, send: Send) -> None:
        """Keep the token as a cookie and take it out of the address, so that a copied address does not carry it."""
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        rest = urlencode([(k, v) for k, v in query if k != PARAMETER])
        place = (scope.get("raw_path") or scope["path"].encode()).decode("latin-1").split("?")[0]
        place += f"?{rest}" if rest else ""
        cookie = f"{self.cookie}={self.token}; HttpOnly; SameSite=Strict; Path=/"
        more = [
            (b"location", place.encode()),
            (b"set-cookie", cookie.encode()),
            (b"cache-control", b"no-store"),
        ]
        await _answer(send, HTTPStatus.SEE_OTHER, "", [*self.headers, *more])

    def _signed(self, send: Send) -> Send:
        async def signed(message: dict[str, Any]) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", []), *self.headers]}
            await send(message)

        return signed

    async def _refuse(self, scope: Scope, send: Send, status: HTTPStatus, why: str) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008, "reason": why[:120]})
        else:
            await _answer(send, status, f"attomaton lab: {why}\n", self.headers)


def _headers(scope: Scope) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {"host": [], "origin": [], "cookie": [], "content-length": []}
    for name, value in scope["headers"]:
        if (key := name.decode("latin-1").lower()) in found:
            found[key].append(value.decode("latin-1"))
    return found


def _cookie(header: str, name: str) -> str | None:
    try:
        morsel = SimpleCookie(header).get(name)
    except CookieError:
        return None
    return None if morsel is None else morsel.value


def _readings(path: str) -> tuple[str, str, str]:
    """The path as any later decoding could read it: as it is, decoded once more, and once more again."""
    return path, unquote(path), unquote(unquote(path))


def _limited(receive: Receive, most: int) -> Receive:
    """A body that ends in an error when it grows beyond `most` bytes, whatever length it announced."""
    seen = 0

    async def limited() -> dict[str, Any]:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        if seen > most:
            return {"type": "http.disconnect"}
        return message

    return limited


async def _answer(
    send: Send, status: HTTPStatus, text: str, headers: Iterable[tuple[bytes, bytes]]
) -> None:
    body = text.encode()
    plain = [
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"content-length", str(len(body)).encode()),
    ]
    await send(
        {"type": "http.response.start", "status": int(status), "headers": [*plain, *headers]}
    )
    await send({"type": "http.response.body", "body": body})
