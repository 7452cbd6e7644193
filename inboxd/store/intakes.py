"""Intakes: moving waiting events into topics that were declared after the events were written.

Promises that each event goes exactly once to each topic that is subscribed to its type, and that a
topic's new events are processed only after all older ones have been moved (ADR 18). Known limit:
the events of a writer with a snapshot from before the declaration may be late.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

import asyncpg

from inboxd.api.topics import Topic
from inboxd.store.arrays import columns
from inboxd.store.session import Session

# An error of the server, in contrast to a lost connection.
Refused = asyncpg.PostgresError

# Events per statement: producers with the same keys wait for it.
PAGE = 1_000


class Intake(NamedTuple):
    """Events of a type ('': any) that wait in `origin` for `topic`, or for its lines."""

    origin: str
    type: str
    topic: str


@dataclass(frozen=True, slots=True)
class Waiting:
    """Intakes of one origin and type. opened: None if only announced; age: seconds."""

    origin: str
    type: str
    opened: datetime | None
    finished: bool
    topics: tuple[str, ...]
    taken: int
    age: float

    @property
    def key(self) -> tuple[str, str]:
        return self.origin, self.type


async def announce(
    session: Session, topics: Iterable[Topic], subscriptions: Sequence[tuple[str, str]]
) -> list[Intake]:
    """Announce a declaration's intakes; after the commit no worker processes their arrivals."""
    given = list(topics)
    rows = await session.fetch(
        "announce_intakes",
        *columns(given, "name", "mode"),
        [topic for topic, _ in subscriptions],
        [type_ for _, type_ in subscriptions],
    )
    return [Intake(*row) for row in rows]


async def hold(session: Session, announced: Sequence[Intake]) -> bool:
    """Lock announced intakes until the transaction ends; False: one was withdrawn meanwhile."""
    rows = await session.fetch("lock_intakes", *_columns(announced))
    return len(rows) == len(announced)


async def withdraw(session: Session, announced: Sequence[Intake]) -> None:
    await session.execute("withdraw_intakes", *_columns(announced))


async def open_(session: Session, announced: Sequence[Intake]) -> None:
    """Reserve the ids, in the transaction that holds the intakes and makes the declaration."""
    await session.execute("open_intakes", *_columns(announced))


async def listed(session: Session, *, late: bool = False) -> list[Waiting]:
    """Unfinished intakes; late: also finished ones for which events wait again."""
    rows = await session.fetch("list_intakes", late)
    return [Waiting(**{**row, "topics": tuple(row["topics"])}) for row in rows]


async def writers(session: Session) -> frozenset[str]:
    return frozenset(row["holder"] for row in await session.fetch("read_writers"))


async def take(session: Session, waiting: Waiting, most: int = PAGE) -> int:
    """Take a page; returns the number of events. 0 also if another transaction holds its locks."""
    try:
        taken = await session.fetchval("take_events", *waiting.key, most)
    except (asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError):
        return 0
    return taken or 0


async def finish(session: Session, waiting: Waiting, opened: datetime) -> bool:
    """Finish an intake if no event waits any more; opened: when its last topic was declared."""
    return bool(await session.fetch("finish_intake", *waiting.key, opened))


async def forget(session: Session) -> None:
    await session.execute("forget_intakes")


async def held(session: Session) -> int:
    """The number of topics whose arrivals no worker processes yet."""
    return int(await session.fetchval("count_held_topics"))


async def count(session: Session, origin: str, type_: str, most: int) -> dict[str, int]:
    rows = await session.fetch("count_intake", origin, type_, most)
    return {row["type"]: row["count"] for row in rows}


def _columns(announced: Sequence[Intake]) -> Iterator[list[str]]:
    return columns(announced, *Intake._fields)
