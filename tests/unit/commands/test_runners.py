"""Runners: a wait for room ends while handlers that never wait run on."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any
from unittest.mock import MagicMock

import anyio
import anyio.lowlevel
import pytest

from inboxd.commands.ended import RunEnd
from inboxd.commands.leases import Prefetch, ReadyCommands
from inboxd.commands.runners import Runners
from inboxd.engine.execution import CooperativeYield
from tests.support.waiting import bounded

pytestmark = pytest.mark.anyio

ROWS = 100
HALF = ROWS // 2
CONCURRENCY = 10

Handle = Callable[[object, object, Callable[[], None]], Awaitable[RunEnd]]


def rows(first: int) -> list[Any]:
    return [
        {"id": n, "queue": "q", "ordering_key": None, "fence": 1}
        for n in range(first, first + ROWS)
    ]


def _nothing() -> None:
    """Called when a handler waits: does nothing."""


async def _succeed(_task: object, _row: object, _on_wait: Callable[[], None]) -> RunEnd:
    return "succeeded"


class Page:
    """Runs pages whose handlers never wait, and counts what else the loop did between them."""

    def __init__(self, tasks: Any, handle: Handle = _succeed) -> None:
        run: Any = MagicMock()
        run.run = handle
        self.limits = MagicMock(concurrency=CONCURRENCY)
        self.yields = CooperativeYield()
        self.runners = Runners(
            run,
            ReadyCommands(),
            MagicMock(),
            MagicMock(__bool__=lambda _: False),
            MagicMock(limits=self.limits, prefetch=Prefetch()),
            self.yields,
            MagicMock(ended=self.ended),
            tasks,
        )
        # By number of ended commands of a page: a function to call then.
        self.at, self.then = HALF, _nothing
        self.ended_at = 0
        self.all_ended = anyio.Event()

    def ended(self, _row: object) -> None:
        self.ended_at += 1
        if self.ended_at % ROWS == self.at:
            self.then()
        if self.ended_at % ROWS == 0:
            self.all_ended.set()

    async def run(self, first: int) -> None:
        """Run a page of rows, from its lease to its end."""
        self.all_ended = anyio.Event()
        self.runners.take(rows(first))
        self.runners.next_runner()
        with bounded():
            await self.all_ended.wait()


async def test_a_waiting_claim_is_sent_before_the_next_handler_runs() -> None:
    async with anyio.create_task_group() as tasks:
        page, seen = Page(tasks), list[int]()
        room = anyio.Event()

        def freed() -> None:
            room.set()
            page.yields.want()

        async def claim() -> None:
            await room.wait()
            # The loop sends what was written at the end of its turn.
            asyncio.get_running_loop().call_soon(lambda: seen.append(page.ended_at))

        page.then = freed
        tasks.start_soon(claim)
        await page.run(0)
        assert HALF <= seen[0] <= HALF + 1
        tasks.cancel_scope.cancel()


async def test_a_late_wish_for_a_yield_does_not_split_the_next_page() -> None:
    """Otherwise the first outcome of a page would be written by itself."""
    async with anyio.create_task_group() as tasks:
        page, seen = Page(tasks), list[int]()
        await page.run(0)
        page.yields.want()  # no command runs any more

        async def settle() -> None:
            await first.wait()
            seen.append(page.ended_at - ROWS)

        first = anyio.Event()
        page.at, page.then = 1, first.set
        tasks.start_soon(settle)
        await anyio.lowlevel.checkpoint()
        await page.run(ROWS)
        await anyio.lowlevel.checkpoint()
        assert seen == [ROWS]
        tasks.cancel_scope.cancel()


async def test_fewer_commands_run_at_a_time_once_the_settings_are_lowered() -> None:
    """Runners without work count as well, and do not keep others from running."""
    async with anyio.create_task_group() as tasks:
        running, most = 0, 0

        async def handle(_task: object, _row: object, on_wait: Callable[[], None]) -> RunEnd:
            nonlocal running, most
            running += 1
            most = max(most, running)
            on_wait()
            await anyio.lowlevel.checkpoint()
            running -= 1
            if page.ended_at == HALF:
                page.limits.concurrency, most = 3, 0
            return "succeeded"

        page = Page(tasks, handle)
        await page.run(0)
        assert most <= CONCURRENCY
        await page.run(ROWS)
        page.limits.concurrency, most = 2, 0
        await page.run(2 * ROWS)
        assert most == 2
        tasks.cancel_scope.cancel()
