"""Threads of sync handlers: a bounded number, even if handlers hang in them.

A place is free when its thread has ended, not already when its handler was abandoned, so that
hanging handlers cannot pile up threads (promise 9). A thread that never ends keeps its place.
"""

import asyncio
import math
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import anyio.to_thread
from anyio import CapacityLimiter

from inboxd.telemetry.logs import get_logger

_log = get_logger(__name__)


class Threads:
    """A bounded number of threads; `waiting`: the tasks that wait for one."""

    def __init__(self, most: int) -> None:
        self.waiting: set[asyncio.Task[Any] | None] = set()
        self._places = CapacityLimiter(most)
        self._unbounded = CapacityLimiter(math.inf)  # `_places` is the limit
        self._given_up: set[threading.Lock] = set()
        self._reported = False

    def __str__(self) -> str:
        most, given_up = self._places.total_tokens, len(self._given_up)
        return (
            f"all {most:g} threads are held, {given_up} of them by handlers past their timeout; "
            'handlers that may hang need timeouts of their own, or executor="process"'
        )

    @property
    def any_given_up(self) -> bool:
        return bool(self._given_up)

    async def run(self, function: Callable[..., object], *args: Any) -> object:
        """Call a function in a free thread, or wait for one; a cancellation abandons the thread."""
        # The holder of this lock frees the place: the thread, or this task if the thread never
        # begins.
        begun = threading.Lock()
        loop = asyncio.get_running_loop()
        await self._take(begun)

        def body() -> object:
            if not begun.acquire(blocking=False):
                return None
            try:
                return function(*args)
            finally:
                with suppress(RuntimeError):  # the loop is closed: no task waits
                    loop.call_soon_threadsafe(self._give, begun)

        try:
            return await anyio.to_thread.run_sync(
                body, abandon_on_cancel=True, limiter=self._unbounded
            )
        except BaseException:
            if begun.acquire(blocking=False):
                self._give(begun)
            elif begun in self._places.statistics().borrowers:
                self._given_up.add(begun)
            raise

    async def _take(self, place: threading.Lock) -> None:
        task = asyncio.current_task()
        self.waiting.add(task)
        if self._given_up and not self._reported and self._places.available_tokens <= 0:
            self._reported = True
            _log.warning("sync handlers wait for threads", reason=str(self))
        try:
            await self._places.acquire_on_behalf_of(place)
        finally:
            self.waiting.discard(task)

    def _give(self, place: threading.Lock) -> None:
        self._places.release_on_behalf_of(place)
        self._given_up.discard(place)
        self._reported = self._reported and bool(self._given_up)
