"""Repeats a maintenance task, also after failed runs; a long task is late."""

import random
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import TypeAlias

import anyio

from inboxd.store.outage import OUTAGE
from inboxd.telemetry.logs import get_logger

_log = get_logger(__name__)

# Maximum share of the time for tasks that read tables from their beginning; their longest rest.
_SHARE = 1 / 20
# Shortest sleep, as a share of the interval.
_SOONEST = 0.9
_LONGEST_REST = 300.0

Run: TypeAlias = Callable[[], Awaitable[None]]


async def repeat(name: str, interval: float, run: Run) -> None:
    """Each sleep is up to 10 % shorter, at random, so that workers drift apart."""
    while True:
        try:
            await run()
        except Exception as error:  # noqa: BLE001 - the next run must follow
            OUTAGE.warn(_log.warning, "maintenance task failed", error, task=name)
        await anyio.sleep(interval * random.uniform(_SOONEST, 1.0))


def sparingly(run: Run) -> Run:
    """With an old snapshot open, each run reads all deleted rows: skip some if runs take long.

    A single long run does not count: its cause may be a stopped machine, or a lock.
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
