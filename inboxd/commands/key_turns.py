"""When commands of ordering keys may start, in queues whose keys have a rate.

Promises: two starts of one key are as far apart as its rate says, over all workers; the first of a
line waits, with no attempt spent, and the others behind it, in their order. A command whose
deadline has passed waits for nothing. Known limit: a worker that does not know the rate, since its
settings are other ones, does not obey it.
*See:* `store/key_rates.py`; `migrations/0036_key_rates.sql`.
"""

from inboxd.engine.parts import Parts
from inboxd.errors import InboxdError
from inboxd.settings import Queue
from inboxd.store import key_rates
from inboxd.store.pools import borrow
from inboxd.store.rows import ClaimedCommand


class KeyTurnDue(InboxdError):
    """Another command of its key started less than a distance ago: later, in its place."""

    def __init__(self, seconds: float) -> None:
        """It may start in so many seconds."""
        super().__init__(seconds)
        self.seconds = seconds


def distance(queue: Queue | None) -> float | None:
    """Seconds between two starts of a key's commands; None: any."""
    if queue is None or queue.key_rate is None:
        return None
    return float(queue.key_rate.seconds / queue.key_rate.rows)


async def take_turn(parts: Parts, row: ClaimedCommand) -> None:
    """Let it start, which counts. Raises KeyTurnDue."""
    key, seconds = row["ordering_key"], distance(parts.queues.by_name.get(row["queue"]))
    if key is None or seconds is None or row["late"]:
        return
    async with borrow(parts.pool) as connection:
        wait = await key_rates.take(connection, parts.sql, row["queue"], key, seconds)
    if wait > 0:
        parts.metrics.held_back.labels(row["queue"], "key rate").inc()
        raise KeyTurnDue(wait)
