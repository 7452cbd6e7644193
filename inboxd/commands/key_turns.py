"""Start times of commands with ordering keys, in queues whose keys have a rate.

The first command of a line waits without spending an attempt, the next ones behind it, in order. A
command takes its turn just before its handler begins, and gives it back if the handler got no
connection. Known limits: a worker whose settings do not have the rate does not keep it; a handler
that calls a service before its first statement and gets no connection calls it again.
"""

from datetime import datetime

from prometheus_client import Counter

from inboxd.commands.ended import Later
from inboxd.engine.queues import Queues
from inboxd.errors import InboxdError
from inboxd.model.outcome import explain
from inboxd.settings import Queue
from inboxd.store import key_rates
from inboxd.store.connections import is_passing
from inboxd.store.pools import Pool, borrow
from inboxd.store.rows import ClaimedCommand
from inboxd.telemetry.logs import get_logger
from inboxd.telemetry.metrics import Metrics

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


class KeyTurns:
    def __init__(self, pool: Pool, queues: Queues, metrics: Metrics) -> None:
        self._pool = pool
        self._queues = queues
        self._held_back = metrics.held_back

    def of(self, row: ClaimedCommand) -> "KeyTurn | None":
        """The turn of a command; None: its key has no rate."""
        queue, key = row["queue"], row["ordering_key"]
        if key is None:
            return None
        seconds = distance(self._queues.by_name.get(queue))
        return (
            None if seconds is None else KeyTurn(self._pool, self._held_back, queue, key, seconds)
        )


class KeyTurn:
    """The turn of one command."""

    def __init__(
        self, pool: Pool, held_back: Counter, queue: str, key: str, seconds: float
    ) -> None:
        """seconds: between two starts of the key."""
        self._pool = pool
        self._held_back = held_back
        self._queue = queue
        self._key = key
        self._seconds = seconds
        self._next_at: datetime | None = None

    async def take(self) -> None:
        """Register the start of the command. Raises KeyTurnDue, or Later in an outage."""
        try:
            async with borrow(self._pool) as session:
                start = await key_rates.take(session, self._queue, self._key, self._seconds)
        except Exception as error:
            if not is_passing(error):
                raise
            reason = explain(error).error
            raise Later(f"the rate of its key could not be read: {reason}") from error
        self._next_at = start.next_at
        if start.wait > 0:
            self._held_back.labels(self._queue, "key rate").inc()
            raise KeyTurnDue(start.wait)

    async def give_back(self) -> None:
        next_at, self._next_at = self._next_at, None
        if next_at is None:
            return
        try:
            async with borrow(self._pool) as session:
                await key_rates.give_back(session, self._queue, self._key, next_at)
        except Exception as error:  # noqa: BLE001 - the start then counts, so the key waits
            _log.warning(
                "a key's start is counted, but did not happen",
                queue=self._queue,
                key=self._key,
                reason=explain(error).error,
            )
