"""A request that arrived as a whole, and its answer: replaces uvicorn's cycle.

The answer has the headers that uvicorn's cycle would write; after the end of the connection it is
dropped. Known limit: an answer must be short, since its writing is not awaited.
"""

import asyncio
import re
from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeAlias

from uvicorn.protocols.http.httptools_impl import STATUS_LINE

Message: TypeAlias = Mapping[str, Any]
# Called with the scope, the body, and a function that answers.
Take: TypeAlias = Callable[[dict[str, Any], bytes, Callable[[Message, Message], None]], None]

_PLAIN = re.compile(rb"/[A-Za-z0-9._~/-]*").fullmatch
_CLOSE = (b"connection", b"close")


class _Write(Protocol):
    def __call__(self, data: bytes, *, closes: bool) -> None: ...


class _NoEvent:
    """Replaces the event that uvicorn sets for a body or an end: no task waits for it."""

    def set(self) -> None:
        pass


_NO_EVENT = _NoEvent()


def path_of(method: bytes, url: bytes) -> str | None:
    """The path of a POST without escapes and query; None for any other request."""
    return url.decode() if method == b"POST" and _PLAIN(url) else None


class WholeRequest:
    __slots__ = (
        "_is_taken",
        "_on_answered",
        "_write",
        "default_headers",
        "disconnected",
        "message_event",
        "response_complete",
        "response_started",
    )

    def __init__(
        self,
        default_headers: list[tuple[bytes, bytes]],
        write: _Write,
        on_answered: Callable[[], None],
    ) -> None:
        self.default_headers = default_headers
        self.response_started = self.response_complete = self.disconnected = False
        self.message_event = _NO_EVENT
        self._write, self._on_answered = write, on_answered
        self._is_taken = False

    def give(self, take: Take, scope: dict[str, Any], body: bytes) -> None:
        take(scope, body, self.answer)
        self._is_taken = True

    def answer(self, start: Message, body: Message) -> None:
        """Write the answer, given as ASGI's two messages; later if the parser still runs."""
        if not self._is_taken:
            asyncio.get_running_loop().call_soon(self.answer, start, body)
            return
        self.response_started = self.response_complete = True
        write, on_answered = self._write, self._on_answered
        # The connection refers to this object: without this, both would form a reference cycle.
        del self._write, self._on_answered
        if self.disconnected:
            return
        headers = [*self.default_headers, *start["headers"]]
        lines = b"".join([b"%b: %b\r\n" % header for header in dict.fromkeys(headers)])
        data = b"%b%b\r\n%b" % (STATUS_LINE[start["status"]], lines, body["body"])
        write(data, closes=_CLOSE in headers)
        on_answered()
