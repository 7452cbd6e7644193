"""`ctx.breaker("brevo")`: a handler's own call of a target, counted by the target's breaker.

Owns the block, and how it finds the breakers of its worker. Promises that without a worker, as in a
test of a single handler, every call passes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import ContextVar
from types import TracebackType
from typing import Protocol

import anyio.from_thread

# The row whose handler makes the call: "queue" for a command, "topic" for an event; and its id.
Holder = tuple[str, int]


class WatchedCall(Protocol):
    """A call that has begun and is counted by its breaker."""

    def ended(self, error: BaseException | None) -> None:
        """Count the end of the call; error None: it succeeded."""


# Begins a call by the breaker's name; raises BreakerOpen.
Begin = Callable[[str, Holder], WatchedCall]


class _Unwatched:
    """A call that is not counted."""

    def ended(self, error: BaseException | None) -> None:
        """Count nothing."""


def _unwatched(_name: str, _holder: Holder) -> WatchedCall:
    return _Unwatched()


# Inherited by each task and thread in which a handler runs.
begin: ContextVar[Begin] = ContextVar("inboxd_breakers", default=_unwatched)


class BreakerCall:
    """`async with ctx.breaker("brevo"):`, or `with` in a function that runs in a thread."""

    def __init__(self, name: str, holder: Holder) -> None:
        """A call of the target `name` by the handler of a row."""
        self._name = name
        self._holder = holder
        self._call: WatchedCall | None = None

    async def __aenter__(self) -> None:
        """Begin the call; raise BreakerOpen while the breaker is open, which defers the row."""
        self._begin()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._end(error)

    def __enter__(self) -> None:
        """Begin the call from a thread; raises as `__aenter__`."""
        _in_loop(self._begin)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        _in_loop(lambda: self._end(error))

    def _begin(self) -> None:
        self._call = begin.get()(self._name, self._holder)

    def _end(self, error: BaseException | None) -> None:
        if self._call is not None:
            self._call.ended(error)
            self._call = None


def _in_loop(do: Callable[[], None]) -> None:
    """Run `do` in the event loop, to which breakers belong; also from a thread."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        if begin.get() is _unwatched:
            do()
        else:
            anyio.from_thread.run_sync(do)
    else:
        do()
