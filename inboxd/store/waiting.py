"""What may hold a row that is not settled: what its claims ask, as it stands now.

Owns the statements behind "why is it not running?". Promises that each is one snapshot, and that
its counts stop at a limit. Known limit: what claims take first is asked by itself, and only of a
command that nothing holds: it may be claimed in between. Who writes is known on the server where
they write, and not on a standby.
*See:* `inboxd/model/waiting_rules.py`, which judges.
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
    """Facts of a command; None: it is settled.

    bounds: of its queue; one: how many of the queue may run in one worker, all_: of all queues.
    """
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
    """How many due commands claims take before it: rows, and the queue of the first.

    queues: all that have settings.
    """
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
    """Facts of an event; None: it is settled."""
    found = await session.fetchval("explain_event", id, counted)
    return None if found is None else orjson.loads(found)
