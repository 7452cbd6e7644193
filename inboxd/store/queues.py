"""Queues for operators: waiting commands per queue and their causes, blocked keys.

A key is blocked if a dead letter or a command that waits for its retry holds it, and a due command
stands behind. Only the first HOLDERS of a queue or type are looked at.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from inboxd.settings import Queue
from inboxd.store.listing import COUNTED, lanes
from inboxd.store.session import Session

HOLDERS = 1_000

_COUNTS = ("pending", "due", "running", "failed", "in_line", "unmet")


class Blocked(NamedTuple):
    """Blocked keys of a queue; oldest: seconds that the longest due command behind has waited."""

    queue: str
    held_by: str
    keys: int
    oldest: float


async def blocked(session: Session, queues: Mapping[str, Queue]) -> list[Blocked]:
    at_once = [name for name, queue in queues.items() if queue.key_concurrency > 1]
    skipping = [name for name, queue in queues.items() if queue.on_failure == "skip"]
    rows = await session.fetch("count_blocked", HOLDERS, [*at_once, *skipping], at_once)
    return [Blocked(*row) for row in rows]


async def listed(
    session: Session,
    queues: Mapping[str, Queue],
    counted: Sequence[Mapping[str, Any]] | None = None,
    standing: Sequence[Blocked] | None = None,
) -> list[dict[str, Any]]:
    """Queues with a declaration, rows or settings. counted, standing: None to count them now."""
    declared = await session.fetch("declared_queues")
    found = {name: empty(name) for name in [*queues, *(row["queue"] for row in declared)]}
    if counted is None:
        counted = await lanes(session, "commands")
    if standing is None:
        standing = await blocked(session, queues)
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
    counts = dict.fromkeys(_COUNTS, 0)
    return {"queue": name, **counts, "oldest": None, "keys": 0, "blocked": {}}
