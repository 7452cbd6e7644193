"""A request that is there as a whole, and its answer: what stands for uvicorn's cycle then.

Owns the writing of such an answer, head and body at once. Promises: the headers of an answer are
those that the cycle's would be; who answers after the connection has ended answers nobody. The
application is asked by `take(scope, body, answer)`, where the scope has what ASGI's has, but of a
path without escapes and without a query. Known limit: the answer has a Content-Length, and is as
short as those of the receiver are, since nobody waits until it is written.
*See:* `protocol.py`.
"""

import asyncio
import re
from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeAlias

from uvicorn.protocols.http.httptools_impl import STATUS_LINE

Message: TypeAlias = Mapping[str, Any]
# What an application has: it gets the scope, the body, and what answers.
Take: TypeAlias = Callable[[dict[str, Any], bytes, Callable[[Message, Message], None]], None]

_PLAIN = re.compile(rb"/[A-Za-z0-9._~/-]*").fullmatch
_CLOSE = (b"connection", b"close")


class _Write(Protocol):
    def __call__(self, data: bytes, *, closes: bool) -> None: ...


class _Nobody:
    """What is set when a request's body or its end has come: nobody waits for it here."""

    def set(self) -> None:
        """Do nothing."""


_NOBODY = _Nobody()


def path_of(method: bytes, url: bytes) -> str | None:
    """The path of a request that can be taken so; None for any other."""
    return url.decode() if method == b"POST" and _PLAIN(url) else None


class WholeRequest:
    """One request; the connection uses it as it uses a cycle of uvicorn's."""

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
        self.message_event = _NOBODY
        self._write, self._on_answered = write, on_answered
        self._is_taken = False

    def give(self, take: Take, scope: dict[str, Any], body: bytes) -> None:
        """Let the application take it."""
        take(scope, body, self.answer)
        self._is_taken = True

    def answer(self, start: Message, body: Message) -> None:
        """Answer it, by the two messages of ASGI; later, while the parser still has the read."""
        if not self._is_taken:
            asyncio.get_running_loop().call_soon(self.answer, start, body)
            return
        self.response_started = self.response_complete = True
        write, on_answered = self._write, self._on_answered
        # They are the connection's, which holds this: a cycle, if the connection ends after it.
        del self._write, self._on_answered
        if self.disconnected:
            return
        headers = [*self.default_headers, *start["headers"]]
        lines = b"".join([b"%b: %b\r\n" % header for header in dict.fromkeys(headers)])
        data = b"%b%b\r\n%b" % (STATUS_LINE[start["status"]], lines, body["body"])
        write(data, closes=_CLOSE in headers)
        on_answered()
