"""A connection's transport, as uvicorn sees it."""

import asyncio
from collections.abc import Callable


class Wire:
    """What uvicorn has for its transport: `close` lets the client see what was written."""

    __slots__ = (
        "close",
        "get_extra_info",
        "is_closing",
        "pause_reading",
        "resume_reading",
        "write",
    )

    def __init__(
        self,
        transport: asyncio.Transport,
        close: Callable[[], None],
        is_closing: Callable[[], bool],
    ) -> None:
        self.close, self.is_closing = close, is_closing
        self.get_extra_info = transport.get_extra_info
        self.pause_reading = transport.pause_reading
        self.resume_reading = transport.resume_reading
        self.write = transport.write

    def forget(self) -> None:
        """Let go of the connection, so that both are freed without the garbage collector."""
        self.close, self.is_closing = _nothing, _true


def _nothing() -> None:
    pass


def _true() -> bool:
    return True
