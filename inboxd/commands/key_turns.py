"""When commands of ordering keys may start, in queues whose keys have a rate.

Promises: two starts of one key are as far apart as its rate says, over all workers; the first of a
line waits without spending an attempt, and the others behind it, in order. A command whose deadline
has passed does not wait. Known limit: a worker whose settings do not have the rate does not keep
it.
*See:* `store/key_rates.py`; `migrations/0036_key_rates.sql`.
"""

from inboxd.engine.parts import Parts
from inboxd.errors import InboxdError
from inboxd.settings import Queue
from inboxd.store import key_rates
from inboxd.store.pools import borrow
from inboxd.store.rows import ClaimedCommand


class KeyTurnDue(InboxdError):
    """The last start of its key was less than a distance ago: run it later, in its place."""

    def __init__(self, seconds: float) -> None:
        """seconds: until it may start."""
        super().__init__(seconds)
        self.seconds = seconds


def distance(queue: Queue | None) -> float | None:
    """Seconds between two starts of commands of a key; None: no limit."""
    if queue is None or queue.key_rate is None:
        return None
    return float(queue.key_rate.seconds / queue.key_rate.rows)


async def take_turn(parts: Parts, row: ClaimedCommand) -> None:
    """Register the start of a command. Raises KeyTurnDue if it must wait."""
    key, seconds = row["ordering_key"], distance(parts.queues.by_name.get(row["queue"]))
    if key is None or seconds is None or row["late"]:
        return
    async with borrow(parts.pool) as connection:
        wait = await key_rates.take(connection, parts.sql, row["queue"], key, seconds)
    if wait > 0:
        parts.metrics.held_back.labels(row["queue"], "key rate").inc()
        raise KeyTurnDue(wait)
