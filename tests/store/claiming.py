"""Claims of commands, for tests of the store.

    rows = await claim(session, worker, rows=2)
    assert ids_of(rows) == sent[:2]

Claimed commands have the type `test.noop`.
"""

from collections.abc import Mapping, Sequence
from uuid import UUID, uuid4

from inboxd.api import messages
from inboxd.model.lane import Lane
from inboxd.store import commands
from inboxd.store.rows import ClaimedCommand
from inboxd.store.session import Session


async def claim(
    session: Session, worker: UUID, rows: int = 100, room: int = 100, queue: str = "default"
) -> list[ClaimedCommand]:
    lane = Lane((queue, "test.noop", 0))
    return await commands.claim(session, worker, {queue: room}, [lane], rows)


def ids_of(rows: Sequence[messages.Row]) -> list[int]:
    return [row["id"] for row in rows]


GROUP = uuid4()


async def claim_suspects(
    session: Session,
    worker: UUID,
    room: Mapping[str, int] = {"default": 9},
    *,
    types: Sequence[str] = ("test.noop",),
    group: UUID = GROUP,
    rows: int = 9,
) -> list[int]:
    return ids_of(await commands.claim_suspects(session, worker, group, types, room, rows))
