"""Requests that are begun and not finished: given up after a while, bounded in number and size."""

import asyncio
import contextlib
import logging
import socket
import threading
import time

import pytest
import uvicorn

from attomaton.lab.connections import GONE, is_worth_telling, patient

LONG = 120.0  # seconds after which a test gives up
ASK = b"GET / HTTP/1.1\r\nHost: x\r\n"


async def app(scope, receive, send):
    """Answers without reading a body; slowly where asked to."""
    if scope["path"] == "/slow":
        await asyncio.sleep(0.4)
    await send(
        {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]}
    )
    await send({"type": "http.response.body", "body": b"ok"})


@contextlib.contextmanager
def serving(**options):
    """A server with this patience; what connects to it."""
    config = uvicorn.Config(
        app, port=0, http=patient(**options), lifespan="off", log_level="critical"
    )
    server, loops = uvicorn.Server(config), []

    async def serve():
        loops.append(asyncio.get_running_loop())
        await server.serve()

    thread = threading.Thread(target=asyncio.run, args=(serve(),), daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    opened = []

    def connect(first=b""):
        """A connection whose first bytes are there when the server turns to it, however slow this side is."""
        there = threading.Event()
        loops[0].call_soon_threadsafe(there.wait, LONG)
        opened.append(socket.create_connection(("127.0.0.1", port), timeout=LONG))
        opened[-1].sendall(first)
        there.set()
        return opened[-1]

    try:
        yield connect
    finally:
        for one in opened:
            one.close()
        server.should_exit = True
        thread.join(LONG)


def whole(connection):
    """One answer of the application, all of it: head and body may come apart."""
    answer = b""
    while not answer.endswith(b"\r\n\r\nok") and (part := connection.recv(1 << 16)):
        answer += part
    return answer


def rest(connection):
    """All that still comes, until the server closes."""
    answer = b""
    with contextlib.suppress(ConnectionResetError):
        while part := connection.recv(1 << 16):
            answer += part
    return answer


def keeps_sending(connection, part, most=1 << 30):
    """Send a part again and again until the server will have no more of it; how many bytes it took."""
    sent, end = 0, time.monotonic() + LONG
    with contextlib.suppress(OSError):
        while sent < most:
            assert time.monotonic() < end, "the server never closed"
            connection.sendall(part)
            sent += len(part)
            if len(part) < 10:
                time.sleep(0.02)
    return sent


@pytest.mark.parametrize(
    ("first", "answer"), [(b"", b""), (b"GE", b" 408 "), (ASK, b" 408 "), (ASK + b"A: b", b" 408 ")]
)
def test_a_head_that_stops_is_given_up(first, answer):
    with serving(seconds=0.2) as connect:
        said = rest(connect(first))
        assert answer in said
        assert bool(said) == bool(answer)


def test_a_head_that_trickles_is_given_up():
    with serving(seconds=0.3) as connect:
        assert keeps_sending(connect(ASK), b"A: b\r\n") < 10_000


def test_the_second_request_of_a_connection_has_no_more_time_than_the_first():
    with serving(seconds=0.3) as connect:
        one = connect(ASK + b"\r\n")
        assert b" 200 " in whole(one)
        one.sendall(ASK)
        assert b" 408 " in rest(one)


def test_a_head_without_end_is_given_up_before_it_fills_the_memory():
    with serving(seconds=LONG * 2, most_head=1 << 16) as connect:
        line = b"A: " + b"b" * 5000 + b"\r\n"
        # What the two ends of a connection hold on their way is sent, too.
        assert keeps_sending(connect(ASK), line) < 20 << 20


def test_one_too_many_closes_the_oldest_and_everybody_else_is_answered():
    with serving(seconds=LONG * 2, most=4) as connect:
        many = [connect(ASK) for _ in range(12)]
        assert b" 200 " in whole(connect(ASK + b"\r\n"))
        # Closed: those whose beginning had arrived by then are told why.
        assert {rest(one)[:12] for one in many[:8]} <= {b"", b"HTTP/1.1 503"}
        many[-1].sendall(b"\r\n")
        assert b" 200 " in whole(many[-1])


def test_a_body_nobody_reads_is_dropped_and_then_given_up():
    with serving(seconds=0.3) as connect:
        one = connect(b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        assert b" 200 " in whole(one)
        keeps_sending(one, b"1\r\nx\r\n")


def test_who_waits_for_an_answer_is_not_hurried():
    with serving(seconds=0.1) as connect:
        one = connect(b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b" 200 " in whole(one)
        one.sendall(ASK + b"\r\n")  # the connection is kept for the next request
        assert b" 200 " in whole(one)


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (RuntimeError(GONE), False),
        (RuntimeError("other"), True),
        (ValueError(GONE), True),
        (None, True),
    ],
)
def test_a_visitor_who_leaves_while_a_page_loads_is_no_fault(error, told):
    info = None if error is None else (type(error), error, None)
    record = logging.LogRecord("uvicorn.error", logging.ERROR, "", 0, "Exception", (), info)
    assert is_worth_telling(record) is told
