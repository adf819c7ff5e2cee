"""Who gets in: every combination of method, host, origin and token, on HTTP and WebSocket, and hostile paths."""

import asyncio
import http.client
import re
import socket
from itertools import product
from pathlib import Path

import pytest
from tests.lab.hostile import names

from attomaton.lab.guard import MOST_QUERY, Guard
from attomaton.lab.keys import Keys

PORT = 8765
KEYS = Keys(PORT)
TOKEN, STEP = KEYS.token, KEYS.path
OWN = f"127.0.0.1:{PORT}"
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT")
GOOD_HOSTS = (OWN, f"localhost:{PORT}", f"LOCALHOST:{PORT}", f"[::1]:{PORT}")
BAD_HOSTS = (None, "", "127.0.0.1", "localhost", "evil.example", f"evil.example:{PORT}", f"127.0.0.1:{PORT + 1}",
             f"{OWN}.evil.example", f"evil.example@{OWN}", f"127.0.0.2:{PORT}", f"0.0.0.0:{PORT}",
             f"{OWN},evil.example")  # fmt: skip
GOOD_ORIGINS = (f"http://{OWN}", f"http://localhost:{PORT}")
BAD_ORIGINS = ("null", "", "http://evil.example", f"http://evil.example:{PORT}", f"https://{OWN}", "http://127.0.0.1",
               f"http://127.0.0.1:{PORT + 1}", f"http://{OWN}.evil.example", f"http://{OWN}/", f"ws://{OWN}",
               OWN)  # fmt: skip
NAME, SESSION = KEYS.cookie, KEYS.session
GOOD_TOKENS = (
    {"cookie": f"{NAME}={SESSION}"}, {"cookie": f"theme=dark; {NAME}={SESSION}"},
    {"cookie": f"{NAME}={SESSION}; {NAME}=set-by-another-port"},
)  # fmt: skip
BAD_TOKENS = (
    {}, {"cookie": f"{NAME}="}, {"cookie": f"{NAME}=wrong"}, {"cookie": f"{NAME}={SESSION[:-1]}"},
    {"cookie": f"{NAME}={SESSION}x"}, {"cookie": f"attomaton_{PORT}={SESSION}"}, {"cookie": f"token={SESSION}"},
    {"cookie": f"{NAME}={TOKEN}"}, {"cookie": f"{NAME}={STEP[1:]}"}, {"cookie": "\x00;;;=,"},
    {"authorization": f"Bearer {TOKEN}"}, {"x-token": TOKEN}, {"query": "token="},
    {"query": f"token={TOKEN[:-1]}"}, {"query": f"Token={TOKEN}"}, {"query": "token=%E9"},
)  # fmt: skip

BAD_PATHS = (
    "/",
    STEP,
    f"{STEP.upper()}/",
    f"/{STEP}/",
    f"{STEP}%2f",
    f"{STEP[:-1]}/",
    f"{STEP}x/",
    f"/graph{STEP}/",
    "/graph",
    "",
)


def ask(
    guard,
    kind="http",
    method="GET",
    host=OWN,
    origin=None,
    token=GOOD_TOKENS[0],
    path=f"{STEP}/",
    query="",
    more=(),
):
    """What the guard lets through to the application, and what is answered."""
    headers = [(b"host", host.encode("latin-1"))] if host is not None else []
    headers += [(b"origin", origin.encode("latin-1"))] if origin is not None else []
    headers += [(k.encode(), v.encode("latin-1")) for k, v in token.items() if k != "query"]
    scope = {"type": kind, "path": path, "raw_path": path.encode(), "headers": [*headers, *more],
             "query_string": token.get("query", query).encode("latin-1")}  # fmt: skip
    if kind == "http":
        scope["method"] = method
    sent, guard.reached = [], False

    async def receive():
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message):
        sent.append(message)

    with pytest.raises(StopIteration):  # nothing here waits, so one step is all of it
        guard(scope, receive, send).send(None)
    return guard.reached, sent


@pytest.fixture
def guard():
    async def app(scope, receive, send):
        made.reached = True
        if scope["type"] == "http":
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"inside"})
        else:
            await send({"type": "websocket.accept"})

    made = Guard(app, keys=KEYS, port=PORT, most=1000)
    made.reached = False
    return made


def test_no_combination_but_the_right_one_gets_in(guard):
    """The whole matrix; the rule is written down a second time here, as a table of what is right."""
    tried = let_in = 0
    for kind, method, host, origin, token, path in product(
        ("http", "websocket"), METHODS, GOOD_HOSTS + BAD_HOSTS, (None, *GOOD_ORIGINS, *BAD_ORIGINS),
        GOOD_TOKENS + BAD_TOKENS, (f"{STEP}/", "/"),
    ):  # fmt: skip
        if kind == "websocket" and method != "GET":
            continue
        needs_origin = kind == "websocket" or method not in ("GET", "HEAD")
        right = (
            host in GOOD_HOSTS
            and (origin in GOOD_ORIGINS or (origin is None and not needs_origin))
            and token in GOOD_TOKENS
            and path == f"{STEP}/"
        )
        reached, sent = ask(guard, kind, method, host, origin, token, path)
        assert reached == right, (kind, method, host, origin, token, path)
        if not right:
            first = sent[0]
            assert first["type"] == "websocket.close" or first["status"] == 403
        tried, let_in = tried + 1, let_in + right
    assert tried > 70_000
    assert 0 < let_in < tried / 20


@pytest.mark.parametrize("path", BAD_PATHS, ids=range(len(BAD_PATHS)))  # they differ each time
def test_the_cookie_and_the_token_are_of_no_use_without_the_path(guard, path):
    for kind, token in product(("http", "websocket"), (*GOOD_TOKENS, {"query": f"token={TOKEN}"})):
        reached, sent = ask(guard, kind, origin=GOOD_ORIGINS[0], token=token, path=path)
        assert not reached
        assert sent[0]["type"] == "websocket.close" or sent[0]["status"] == 403
        assert b"set-cookie" not in dict(sent[0].get("headers", []))


def test_the_token_in_an_address_becomes_a_cookie_and_leaves_the_address(guard):
    reached, sent = ask(guard, token={"query": f"a=1&token={TOKEN}"}, path=f"{STEP}/graph")
    headers = dict(sent[0]["headers"])
    assert not reached
    assert sent[0]["status"] == 200
    assert f'content="0; url={STEP}/graph?a=1"'.encode() in sent[1]["body"]
    assert TOKEN.encode() not in sent[1]["body"]
    cookie = headers[b"set-cookie"].decode()
    assert cookie.startswith(f"{NAME}={SESSION};")
    assert {"HttpOnly", "SameSite=Strict", f"Path={STEP}/"} <= {
        x.strip() for x in cookie.split(";")
    }


def test_an_address_with_markup_is_led_on_as_text(guard):
    query = f"token={TOKEN}&a=%22%3E%3Cscript%3E"
    _, sent = ask(guard, token={"query": query}, path=f'{STEP}/"><script>alert(1)</script>')
    assert b"<script" not in sent[1]["body"]


def test_an_address_of_any_length_is_refused_before_it_is_read(guard):
    for length, right in ((MOST_QUERY, True), (MOST_QUERY + 1, False), (1 << 20, False)):
        reached, sent = ask(guard, query="a" * length)
        assert reached == right
        assert sent[0]["status"] == (200 if right else 414)


def test_the_application_sees_neither_the_secret_step_nor_a_false_one():
    seen = []

    async def app(scope, receive, send):
        seen.append(scope)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    guard = Guard(app, keys=KEYS, port=PORT)
    ask(guard, path=f"{STEP}/graph", more=[(b"X-Forwarded-Prefix", b"/evil")])
    assert (seen[0]["path"], seen[0]["raw_path"]) == ("/graph", b"/graph")
    found = [v for k, v in seen[0]["headers"] if k.lower() == b"x-forwarded-prefix"]
    assert found == [STEP.encode()]


@pytest.mark.parametrize("method", [m for m in METHODS if m != "GET"])
def test_a_token_in_the_address_is_only_for_opening_a_page(guard, method):
    reached, sent = ask(
        guard, method=method, origin=GOOD_ORIGINS[0], token={"query": f"token={TOKEN}"}
    )
    assert not reached
    assert sent[0]["status"] == 403


def test_a_websocket_does_not_take_its_token_from_the_address(guard):
    token = {"query": f"token={TOKEN}"}
    assert not ask(guard, "websocket", origin=GOOD_ORIGINS[0], token=token)[0]


@pytest.mark.parametrize("header", ["host", "origin"])
def test_a_header_given_twice_is_refused(guard, header):
    again = {"host": OWN, "origin": GOOD_ORIGINS[0]}[header]
    first = GOOD_ORIGINS[0] if header == "origin" else None
    assert not ask(guard, origin=first, more=[(header.encode(), again.encode())])[0]


@pytest.mark.parametrize("length", ["1001", "99999999999", "-1", "many", "1e3"])
def test_a_body_that_is_too_long_is_refused_before_it_is_read(guard, length):
    more = [(b"content-length", length.encode())]
    reached, sent = ask(guard, method="POST", origin=GOOD_ORIGINS[0], more=more)
    assert not reached
    assert sent[0]["status"] == 413


def sent_by(receive, app, **options):
    """What a guard answers to the owner of the lab who sends a body in this way."""
    sent = []

    async def send(message):
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": f"{STEP}/", "query_string": b"", "headers": [
        (b"host", OWN.encode()), (b"origin", GOOD_ORIGINS[0].encode()),
        (b"cookie", f"{NAME}={SESSION}".encode())]}  # fmt: skip
    asyncio.run(Guard(app, keys=KEYS, port=PORT, **options)(scope, receive, send))
    return sent


@pytest.fixture
def reader():
    """An application that reads all of a body, as far as it comes."""

    async def app(scope, receive, send):
        app.seen = []
        while True:
            message = await receive()
            app.seen.append(len(message.get("body", b"")))
            if not message.get("more_body"):
                break
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    return app


def test_a_body_longer_than_announced_is_cut_off(reader):
    async def receive():
        return {"type": "http.request", "body": b"x" * 400, "more_body": True}

    sent = sent_by(receive, reader, most=1000)
    assert sum(reader.seen) <= 1000
    assert sent[0]["status"] == 413


@pytest.mark.parametrize("before", [0, 1, 5])
def test_a_body_that_stops_arriving_is_given_up(reader, before):
    parts = iter([{"type": "http.request", "body": b"x", "more_body": True}] * before)

    async def receive():
        for part in parts:
            return part
        await asyncio.Event().wait()  # never

    assert sent_by(receive, reader, seconds=0.05)[0]["status"] == 408


def test_a_body_that_is_broken_off_ends_quietly(reader):
    parts = iter([{"type": "http.request", "body": b"x", "more_body": True}])

    async def receive():
        return next(parts, {"type": "http.disconnect"})

    assert sent_by(receive, reader)[0]["status"] == 400
    assert reader.seen == [1]


def test_a_body_in_time_and_the_wait_for_its_answer_are_not_hurried():
    parts = iter([{"type": "http.request", "body": b"x" * 9, "more_body": False}])
    gone = asyncio.Event()

    async def receive():
        for part in parts:
            return part
        await gone.wait()
        return {"type": "http.disconnect"}

    async def app(scope, receive, send):
        await receive()
        asyncio.get_running_loop().call_later(0.1, gone.set)  # twice the patience with bodies
        assert (await receive())["type"] == "http.disconnect"
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    assert sent_by(receive, app, seconds=0.05)[0]["status"] == 200


def test_every_answer_forbids_other_hosts_frames_and_sniffing(guard):
    for _, sent in (ask(guard), ask(guard, token={})):
        headers = {k.decode(): v.decode() for k, v in sent[0]["headers"]}
        policy = headers["content-security-policy"]
        assert "default-src 'self'" in policy
        assert "frame-ancestors 'none'" in policy
        assert not re.search(r"https:|http:|\*", policy)
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"


# The same against the real server


def raw(lab, method, path, host=None, origin=None, cookie=None, upgrade=False):
    """A request as it stands, nothing tidied; the status and the body's beginning."""
    address = lab.origin.removeprefix("http://")
    name, port = address.split(":")
    lines = [f"{method} {lab.step}{path} HTTP/1.1", f"Host: {host or address}", "Connection: close"]
    lines += [f"Origin: {origin}"] if origin else []
    lines += [f"Cookie: {cookie}"] if cookie else []
    if upgrade:
        lines[2] = "Connection: Upgrade"
        lines += [
            "Upgrade: websocket",
            "Sec-WebSocket-Version: 13",
            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
        ]
    with socket.create_connection((name, int(port)), timeout=120) as s:
        s.sendall(("\r\n".join(lines) + "\r\n\r\n").encode("utf-8", "surrogatepass"))
        answer = s.recv(1 << 16)
        while not upgrade and (part := s.recv(1 << 16)):
            answer += part
    return int(answer.split(b" ", 2)[1]) if answer.startswith(b"HTTP/") else 0, answer


def test_the_running_lab_answers_only_who_may_ask(lab):
    import nicegui

    own, cookie = lab.origin, lab.cookie
    pages = ("/", "/data", "/graph", "/automaton", "/training", "/scan-snap", "/lens", "/sweep", "/probe", "/claims",
             f"/_nicegui/{nicegui.__version__}/static/nicegui.js", "/favicon.ico",
             "/_nicegui_ws/socket.io/?EIO=4&transport=polling")  # fmt: skip
    unauthorised = 0
    for path, method, host, origin, token in product(
        pages, ("GET", "POST", "DELETE", "OPTIONS"), (None, "evil.example"),
        (None, own, "http://evil.example", "null"), (None, "attomaton=wrong", cookie),
    ):  # fmt: skip
        right = (
            host is None
            and token == cookie
            and origin in ((None, own) if method == "GET" else (own,))
        )
        if right and method != "GET":
            continue  # allowed in, whatever the application makes of it
        status, answer = raw(lab, method, path, host, origin, token)
        if right:
            assert status < 400, (path, status)
        else:
            assert status == 403, (method, path, host, origin, token, status)
            assert not any(x.encode() in answer for x in (lab.token, lab.step, lab.cookie))
            unauthorised += 1
    assert unauthorised > 1000


def test_the_running_lab_opens_a_websocket_only_for_its_own_page(lab):
    path = "/_nicegui_ws/socket.io/?EIO=4&transport=websocket"
    for host, origin, token in product(
        (None, "evil.example"),
        (None, lab.origin, "http://evil.example", "null"),
        (None, lab.cookie),
    ):
        status, _ = raw(lab, "GET", path, host, origin, token, upgrade=True)
        right = host is None and origin == lab.origin and token is not None
        assert status == (101 if right else 403), (host, origin, token)


def test_no_hostile_path_leads_out_of_the_lab(lab):
    import nicegui

    # What the first page fits is there before anything is counted.
    model = lab.folder / "workspace" / "models" / "example" / "attomaton.json"
    while not model.exists():
        assert raw(lab, "GET", "/graph", cookie=lab.cookie)[0] == 200
    secret = "canary-7f3a-not-for-anyone"
    for place in (lab.folder, lab.folder / "workspace"):
        (place / "canary.txt").write_text(secret)
    (lab.folder / "workspace" / "link.txt").symlink_to("/etc/passwd")
    before = {p for p in lab.folder.rglob("*") if "workspace" not in p.parts[-3:]}
    version = nicegui.__version__
    prefixes = ("/", f"/_nicegui/{version}/static/", f"/_nicegui/{version}/components/",
                f"/_nicegui/{version}/libraries/", f"/_nicegui/{version}/esm/x/", "/graph?on=",
                "/training?run=")  # fmt: skip
    hostile = names()
    assert len(hostile) >= 200
    known = Path("/etc/passwd")
    passwd = known.read_bytes()[:40] if known.is_file() else b"root:x:0:0"
    cookie = lab.cookie
    for i, name in enumerate(hostile):
        # Every name on the bare root, and on each of the others in turn.
        for prefix in {"/", prefixes[i % len(prefixes)]}:
            path = prefix + re.sub(r"[\r\n ]", "", name)[:3000]
            status, answer = raw(lab, "GET", path, cookie=cookie)
            assert secret.encode() not in answer, path
            assert passwd not in answer, path
            assert status != 500, path
    after = {p for p in lab.folder.rglob("*") if "workspace" not in p.parts[-3:]}
    assert after == before


def test_the_library_client_sees_the_same(lab):
    """A well-behaved client without the token is refused, with it served: the control of the raw requests above."""
    host = lab.origin.removeprefix("http://")
    for cookie, wanted in ((None, 403), (lab.cookie, 200)):
        connection = http.client.HTTPConnection(host, timeout=120)
        connection.request("GET", f"{lab.step}/", headers={"Cookie": cookie} if cookie else {})
        assert connection.getresponse().status == wanted
        connection.close()
