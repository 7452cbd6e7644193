"""A duty: something done again and again, whatever becomes of it.

Owns the loop that all duties share. Promises that a failure is logged and the next turn comes.
Known limit: a duty that takes longer than its interval simply comes late.
"""

from collections.abc import Awaitable, Callable

import anyio

from inboxd.model.outcome import explain
from inboxd.telemetry.logs import get_logger

_log = get_logger(__name__)


async def repeat(name: str, interval: float, duty: Callable[[], Awaitable[None]]) -> None:
    """Do `duty` now and every `interval` seconds, until cancelled."""
    while True:
        try:
            await duty()
        except Exception as error:  # noqa: BLE001 - the next turn must come
            _log.warning("duty failed", duty=name, reason=explain(error).error)
        await anyio.sleep(interval)
