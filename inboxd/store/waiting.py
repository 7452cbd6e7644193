"""Facts about an unsettled row that waits: the conditions of its claims, at this moment.

Promises that each is one snapshot; its counts stop at a limit. Known limit: a command's turn is a
second statement. A standby does not know the open writers of events.
"""

from collections.abc import Mapping
from typing import Any

import orjson

from inboxd.settings import Queue
from inboxd.store.limits import Bounds
from inboxd.store.session import Session


async def of_command(
    session: Session, id: int, bounds: Bounds, one: int | None, all_: int, counted: int
) -> dict[str, Any] | None:
    """None: it is settled. one, all_: a worker's limits, for the queue and for all queues."""
    found = await session.fetchval(
        "explain_command",
        id,
        bounds.key_concurrency,
        bounds.blocking,
        bounds.total,
        bounds.rate,
        bounds.period,
        one,
        all_,
        counted,
    )
    return None if found is None else orjson.loads(found)


async def turn_of_command(
    session: Session, id: int, queues: Mapping[str, Queue], counted: int
) -> dict[str, Any] | None:
    """The number of due commands that are claimed before it, and the queue of the first."""
    found = await session.fetchrow(
        "explain_turn",
        id,
        list(queues),
        [each.priority for each in queues.values()],
        [each.total_concurrency is not None or each.rate is not None for each in queues.values()],
        [each.key_concurrency for each in queues.values()],
        [each.on_failure == "block" for each in queues.values()],
        counted,
    )
    return None if found is None else dict(found)


async def of_event(session: Session, id: int, counted: int) -> dict[str, Any] | None:
    """Facts about an event; None: it is settled."""
    found = await session.fetchval("explain_event", id, counted)
    return None if found is None else orjson.loads(found)
