"""Topics that are declared while events wait, and intakes that move these events.

    await emit(database, {"user": "a"}, {"user": "b"})
    await declare(session, [REWARDS], ("rewards", "a.b"))
    await taker(session).take()
    assert await told(database, "topic") == [("rewards",), ("rewards",)]

All events have the type `a.b`.
"""

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import asyncpg

from inboxd.api.topics import Topic
from inboxd.maintenance.intakes import Intakes
from inboxd.store import intakes, topics
from inboxd.store.session import Session
from tests.support import Database

REWARDS = Topic(name="rewards", source="test", mode="sequential", key_path=("user",))


AUDIT = Topic(name="audit", source="test")


LEDGER = Topic(name="ledger", source="test", mode="batch", key_path=("user",))


ROWS = "select * from inboxd.events order by topic, id"


@asynccontextmanager
async def announced(
    session: Session, given: Sequence[Topic], subscriptions: Sequence[tuple[str, str]]
) -> AsyncIterator[None]:
    """Announce a declaration; it is made at the end of the block."""
    found = await intakes.announce(session, given, subscriptions)
    yield
    async with session.transaction():
        assert await intakes.hold(session, found)
        await topics.declare(session, given, subscriptions)
        await intakes.open_(session, found)


async def declare(
    session: Session, given: Sequence[Topic], *subscriptions: tuple[str, str]
) -> None:
    """Announce and make a declaration, as a joining worker does."""
    async with announced(session, given, subscriptions):
        pass


def taker(session: Session) -> Intakes:
    """The task that a worker runs twice a second."""

    @asynccontextmanager
    async def borrow() -> AsyncIterator[Session]:
        yield session

    return Intakes(borrow, notify=True)


async def emit(
    where: "Database | asyncpg.Connection", *payloads: dict[str, Any], **columns: Any
) -> list[int]:
    """Insert events of the type a.b in this order; returns their ids."""
    names = "".join(f", {name}" for name in columns)
    values = "".join(f", ${n}" for n in range(2, 2 + len(columns)))
    rows = await where.fetch(
        f"insert into inboxd.events (type, payload{names}) select 'a.b', p::jsonb{values}"
        " from unnest($1::text[]) with ordinality as t(p, n) order by n returning id",
        [json.dumps(each) for each in payloads],
        *columns.values(),
    )
    return [row["id"] for row in rows]


async def told(database: Database, *columns: str) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in columns) for row in await database.fetch(ROWS)]
