"""A duty: something done again and again, whatever becomes of it.

Owns the loop that all duties share. Promises that a failure is logged and the next turn comes.
Known limit: a duty that takes longer than its interval simply comes late.
"""

from collections.abc import Awaitable, Callable
from time import monotonic

import anyio

from inboxd.model.outcome import explain
from inboxd.telemetry.logs import get_logger

_log = get_logger(__name__)

# What looks from the beginning may take this share of the time; its longest rest, in seconds.
_LOOKS_SHARE = 1 / 20
_LONGEST_REST = 300.0


async def repeat(name: str, interval: float, duty: Callable[[], Awaitable[None]]) -> None:
    """Do `duty` now and every `interval` seconds, until cancelled."""
    while True:
        try:
            await duty()
        except Exception as error:  # noqa: BLE001 - the next turn must come
            _log.warning("duty failed", duty=name, reason=explain(error).error)
        await anyio.sleep(interval)


def sparingly(look: Callable[[], Awaitable[None]]) -> Callable[[], Awaitable[None]]:
    """A duty that leaves turns out while it has taken more than its share of the time.

    Under a snapshot that somebody holds for hours, each look reads all that is dead by then.
    """
    due = 0.0

    async def turn() -> None:
        nonlocal due
        if (began := monotonic()) < due:
            return
        try:
            await look()
        finally:
            ended = monotonic()
            due = ended + min((ended - began) / _LOOKS_SHARE, _LONGEST_REST)

    return turn
