"""What operators see of queues: how much waits in each and why, and which keys stand still.

Owns the statements that look at whole queues. Promises that a look costs the same whatever the
tables hold: counts stop at a limit. A key is blocked when a dead letter holds it, or a command
that waits for its retry, and something due stands behind. Known limit: of the dead letters of a
queue, and of the retries of a type, the first thousand are looked at.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from inboxd.settings import Queue
from inboxd.store.connections import Connection
from inboxd.store.listing import COUNTED, lanes
from inboxd.store.session import Session
from inboxd.store.statements import Statements

HOLDERS = 1_000

_COUNTS = ("pending", "due", "running", "failed", "in_line", "unmet")


class Blocked(NamedTuple):
    """Keys of a queue that stand still; oldest: the longest that one behind was due, in seconds."""

    queue: str
    held_by: str
    keys: int
    oldest: float


async def blocked(
    connection: Connection, sql: Statements, queues: Mapping[str, Queue]
) -> list[Blocked]:
    """The blocked keys of each queue, as these settings have it."""
    at_once = [name for name, queue in queues.items() if queue.key_concurrency > 1]
    skipping = [name for name, queue in queues.items() if queue.on_failure == "skip"]
    rows = await connection.fetch(sql["count_blocked"], HOLDERS, [*at_once, *skipping], at_once)
    return [Blocked(*row) for row in rows]


async def listed(session: Session, queues: Mapping[str, Queue]) -> list[dict[str, Any]]:
    """Every queue that is declared, has rows or settings here, and what waits in it, for JSON."""
    declared = await session.fetch("declared_queues")
    found = {name: _empty(name) for name in [*queues, *(row["queue"] for row in declared)]}
    for lane in await lanes(session, "commands"):
        queue = found.setdefault(lane["queue"], _empty(lane["queue"]))
        for count in _COUNTS:
            queue[count] += lane[count]
        if lane["oldest"] is not None:
            queue["oldest"] = max(lane["oldest"], queue["oldest"] or 0.0)
    for row in await session.fetch("count_keys", COUNTED):
        found.setdefault(row["queue"], _empty(row["queue"]))["keys"] = row["keys"]
    for each in await blocked(session.connection, session.sql, queues):
        queue = found.setdefault(each.queue, _empty(each.queue))
        queue["blocked"][each.held_by] = {"keys": each.keys, "oldest": each.oldest}
    return [found[name] for name in sorted(found)]


async def blocked_keys(
    session: Session, name: str, settings: Queue, most: int
) -> list[dict[str, Any]]:
    """The blocked keys of one queue, those first whose line has waited longest."""
    holds = settings.key_concurrency == 1
    rows = await session.fetch(
        "blocked_keys",
        name,
        most,
        HOLDERS,
        holds and settings.on_failure == "block",
        holds,
        COUNTED,
    )
    return [dict(row) for row in rows]


def _empty(name: str) -> dict[str, Any]:
    counts = dict.fromkeys(_COUNTS, 0)
    return {"queue": name, **counts, "oldest": None, "keys": 0, "blocked": {}}
