"""Start times of commands with ordering keys, in queues whose keys have a rate.

The first command of a line waits without spending an attempt, the next ones behind it, in order. A
command takes its turn just before its handler begins, and gives it back if the handler got no
connection. Known limits: a worker whose settings do not have the rate does not keep it; a handler
that calls a service before its first statement and gets no connection calls it again.
"""

from datetime import datetime

from inboxd.engine.parts import Parts
from inboxd.errors import InboxdError
from inboxd.model.outcome import explain
from inboxd.settings import Queue
from inboxd.store import key_rates
from inboxd.store.pools import borrow
from inboxd.store.rows import ClaimedCommand
from inboxd.telemetry.logs import get_logger

_log = get_logger(__name__)


class KeyTurnDue(InboxdError):
    """The last start of the key was too recent: the command runs later, and keeps its position."""

    def __init__(self, seconds: float) -> None:
        """seconds: until the command may start."""
        super().__init__(seconds)
        self.seconds = seconds


def distance(queue: Queue | None) -> float | None:
    """Seconds between two starts of commands of a key; None: no limit."""
    if queue is None or queue.key_rate is None:
        return None
    return float(queue.key_rate.seconds / queue.key_rate.rows)


class KeyTurn:
    """The turn of one command. If its key has no rate, taking and giving back do nothing."""

    def __init__(self, parts: Parts, row: ClaimedCommand) -> None:
        self._parts = parts
        self._row = row
        self._next_at: datetime | None = None

    async def take(self) -> None:
        """Register the start of the command. Raises KeyTurnDue if it must wait."""
        parts, queue, key = self._parts, self._row["queue"], self._row["ordering_key"]
        seconds = distance(parts.queues.by_name.get(queue))
        if key is None or seconds is None:
            return
        async with borrow(parts.pool) as session:
            wait, self._next_at = await key_rates.take(session, queue, key, seconds)
        if wait > 0:
            parts.metrics.held_back.labels(queue, "key rate").inc()
            raise KeyTurnDue(wait)

    async def give_back(self) -> None:
        next_at, self._next_at = self._next_at, None
        key = self._row["ordering_key"]
        if next_at is None or key is None:
            return
        parts, queue = self._parts, self._row["queue"]
        try:
            async with borrow(parts.pool) as session:
                await key_rates.give_back(session, queue, key, next_at)
        except Exception as error:  # noqa: BLE001 - the start then counts, so the key waits
            reason = explain(error).error
            _log.warning(
                "a key's start is counted, but did not happen", queue=queue, key=key, reason=reason
            )
