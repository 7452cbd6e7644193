"""The transport of a connection, as uvicorn uses it."""

import asyncio
from collections.abc import Callable


class Wire:
    """A transport whose `close` lets the client read the last answer first."""

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
        """Drop the references to the connection, so that no garbage collection is needed."""
        self.close, self.is_closing = _nothing, _true


def _nothing() -> None:
    pass


def _true() -> bool:
    return True
