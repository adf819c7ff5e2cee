"""Connections that begin a request and never finish it: closed after a while, and only so many at a time.

The server waits for the head of a request as long as a client likes, and keeps all of what it has sent of it. Here a
connection has `seconds` to send a whole head of at most `most_head` bytes, and `most` connections may be waiting or
idle at the same time: one more closes the oldest of them, so that who holds on to connections keeps nobody else out.
Bodies are the guard's business: it answers a stranger before reading any, and what still arrives then is dropped, for
`seconds` at most.
"""

import asyncio
import logging
from typing import Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol

GONE = "No response returned."  # what Starlette raises where a client left before its answer began
SECONDS = 15.0
MOST = 128
MOST_HEAD = 1 << 16


def is_worth_telling(record: logging.LogRecord) -> bool:
    """Whether a line of the server's log tells of a fault: a visitor who leaves while a page loads is none."""
    error = record.exc_info[1] if record.exc_info else None
    return not (isinstance(error, RuntimeError) and str(error) == GONE)


def patient(
    seconds: float = SECONDS, most: int = MOST, most_head: int = MOST_HEAD
) -> type[asyncio.Protocol]:
    """The server's own protocol, with bounded patience."""
    waiting: dict[Any, None] = {}  # in the order in which they began to wait

    class Patient(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
        _timer: Any = None
        _seen = 0

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._wait()
            self._hurry()

        def connection_lost(self, exc: Exception | None) -> None:
            self._heard()
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            before = self.cycle
            super().data_received(data)
            if self.cycle is not before or self.transport.get_protocol() is not self:
                self._heard()  # a whole head, or a WebSocket from here on
            elif self in waiting:
                self._seen += len(data)
                self._hurry()
                if self._seen > most_head and not self._leftover():
                    self._end(b"431 Request Header Fields Too Large")

        def on_response_complete(self) -> None:
            super().on_response_complete()
            if self.cycle.response_complete and not self.transport.is_closing():
                self._wait()
                if self._leftover():
                    self._hurry()

        def _leftover(self) -> bool:
            """Whether the body of a request that was answered may still be arriving."""
            return self.cycle is not None and self.cycle.more_body

        def _wait(self) -> None:
            self._seen = 0
            waiting[self] = None
            if len(waiting) > most:
                next(iter(waiting))._end(b"503 Service Unavailable")

        def _hurry(self) -> None:
            if self._timer is None:
                self._timer = self.loop.call_later(seconds, self._end, b"408 Request Timeout")

        def _heard(self) -> None:
            waiting.pop(self, None)
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

        def _end(self, status: bytes) -> None:
            """Close; whoever has begun a request is told why."""
            begun = self._seen and not self._leftover()
            self._heard()
            if not self.transport.is_closing():
                if begun:
                    head = b"HTTP/1.1 %s\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
                    self.transport.write(head % status)
                self.transport.close()

    return Patient
