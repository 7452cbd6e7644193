"""Repeats a maintenance task, whatever happens to one of its runs.

Owns the loop that all tasks share. Promises that a failure is logged and the next run comes.
Known limit: a task that takes longer than its interval is late.
"""

import random
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import TypeAlias

import anyio

from inboxd.store.outage import OUTAGE
from inboxd.telemetry.logs import get_logger

_log = get_logger(__name__)

# The share of the time for tasks that read tables from their beginning; their longest rest.
_SHARE = 1 / 20
# The shortest sleep, as a share of the interval.
_SOONEST = 0.9
_LONGEST_REST = 300.0

Run: TypeAlias = Callable[[], Awaitable[None]]


async def repeat(name: str, interval: float, run: Run) -> None:
    """Run a maintenance task now and every `interval` seconds, until cancelled.

    Each sleep is up to 10 % shorter, at random, so that workers which began together drift apart.
    """
    while True:
        try:
            await run()
        except Exception as error:  # noqa: BLE001 - the next run must come
            OUTAGE.warn(_log.warning, "maintenance task failed", error, task=name)
        await anyio.sleep(interval * random.uniform(_SOONEST, 1.0))


def sparingly(run: Run) -> Run:
    """A task that skips runs while it has taken more than its share of the time.

    While an old snapshot is open, each run reads all rows that died since. A single long run does
    not count: it may be a machine that stood still, or a lock.
    """
    due = before = 0.0

    async def spared() -> None:
        nonlocal due, before
        if (began := monotonic()) < due:
            return
        try:
            await run()
        finally:
            ended = monotonic()
            took = ended - began
            due = ended + min(min(took, before) / _SHARE, _LONGEST_REST)
            before = took

    return spared
