"""What operators see of queues: how much waits in each and why, and which keys stand still.

Owns the statements that look at whole queues. Promises that a look costs the same whatever the
tables hold: counts stop at a limit. A key is blocked when a dead letter holds it, or a command
that waits for its retry, and something due stands behind. Known limit: of the dead letters of a
queue, and of the retries of a type, the first thousand are looked at.
"""

from collections.abc import Mapping, Sequence
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


async def listed(
    session: Session,
    queues: Mapping[str, Queue],
    counted: Sequence[Mapping[str, Any]] | None = None,
    standing: Sequence[Blocked] | None = None,
) -> list[dict[str, Any]]:
    """Every queue that is declared, has rows or settings here, and what waits in it, for JSON.

    counted, standing: lanes and blocked keys as somebody has counted them; None: it is done now.
    """
    declared = await session.fetch("declared_queues")
    found = {name: empty(name) for name in [*queues, *(row["queue"] for row in declared)]}
    if counted is None:
        counted = await lanes(session, "commands")
    if standing is None:
        standing = await blocked(session.connection, session.sql, queues)
    for lane in counted:
        queue = found.setdefault(lane["queue"], empty(lane["queue"]))
        for count in _COUNTS:
            queue[count] += lane[count]
        if lane["oldest"] is not None:
            queue["oldest"] = max(lane["oldest"], queue["oldest"] or 0.0)
    for row in await session.fetch("count_keys", COUNTED):
        found.setdefault(row["queue"], empty(row["queue"]))["keys"] = row["keys"]
    for each in standing:
        queue = found.setdefault(each.queue, empty(each.queue))
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


def empty(name: str) -> dict[str, Any]:
    """A queue in which nothing waits."""
    counts = dict.fromkeys(_COUNTS, 0)
    return {"queue": name, **counts, "oldest": None, "keys": 0, "blocked": {}}
