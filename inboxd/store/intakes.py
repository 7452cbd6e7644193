"""Intakes: moving waiting events into topics that were declared after the events were written.

Owns their statements (ADR 18). Promises that each event goes exactly once to each topic that is
subscribed to its type, in pages and with concurrent takers, and that no arrival of a topic is
processed before all waiting events have been taken. Known limit: a transaction whose snapshot
is older than the declaration, and which begins to write after all other writers have ended, has its
events taken too, but later events may be handled before them.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

import asyncpg

from inboxd.api.topics import Topic
from inboxd.store.arrays import columns
from inboxd.store.connections import Connection
from inboxd.store.statements import Statements

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
        """The origin and the type."""
        return self.origin, self.type


async def announce(
    connection: Connection,
    sql: Statements,
    topics: Iterable[Topic],
    subscriptions: Sequence[tuple[str, str]],
) -> list[Intake]:
    """Announce a declaration's intakes; after the commit no worker processes their arrivals."""
    given = list(topics)
    rows = await connection.fetch(
        sql["announce_intakes"],
        *columns(given, "name", "mode"),
        [topic for topic, _ in subscriptions],
        [type_ for _, type_ in subscriptions],
    )
    return [Intake(*row) for row in rows]


async def hold(connection: Connection, sql: Statements, announced: Sequence[Intake]) -> bool:
    """Lock announced intakes until the transaction ends; False: one was withdrawn meanwhile."""
    rows = await connection.fetch(sql["lock_intakes"], *_columns(announced))
    return len(rows) == len(announced)


async def withdraw(connection: Connection, sql: Statements, announced: Sequence[Intake]) -> None:
    """Withdraw announced intakes whose topics are not declared after all."""
    await connection.execute(sql["withdraw_intakes"], *_columns(announced))


async def open_(connection: Connection, sql: Statements, announced: Sequence[Intake]) -> None:
    """Reserve the ids, in the transaction that holds the intakes and makes the declaration."""
    await connection.execute(sql["open_intakes"], *_columns(announced))


async def listed(connection: Connection, sql: Statements, *, late: bool = False) -> list[Waiting]:
    """Unfinished intakes; late: also finished ones for which events wait again."""
    rows = await connection.fetch(sql["list_intakes"], late)
    return [Waiting(**{**row, "topics": tuple(row["topics"])}) for row in rows]


async def writers(connection: Connection, sql: Statements) -> frozenset[str]:
    """The transactions that write events, or may write some: see `read_writers.sql`."""
    return frozenset(row["holder"] for row in await connection.fetch(sql["read_writers"]))


async def take(connection: Connection, sql: Statements, waiting: Waiting, most: int = PAGE) -> int:
    """Take a page; returns the number of events. 0 also if another transaction holds its locks."""
    try:
        taken = await connection.fetchval(sql["take_events"], *waiting.key, most)
    except (asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError):
        return 0
    return taken or 0


async def finish(
    connection: Connection, sql: Statements, waiting: Waiting, opened: datetime
) -> bool:
    """Finish an intake if no event waits any more; opened: when its last topic was declared."""
    return bool(await connection.fetch(sql["finish_intake"], *waiting.key, opened))


async def forget(connection: Connection, sql: Statements) -> None:
    """Delete finished intakes whose origins have no events left to take."""
    await connection.execute(sql["forget_intakes"])


async def held(connection: Connection, sql: Statements) -> int:
    """The number of topics whose arrivals no worker processes yet."""
    return int(await connection.fetchval(sql["count_held_topics"]))


async def count(
    connection: Connection, sql: Statements, origin: str, type_: str, most: int
) -> dict[str, int]:
    """The number of events to take, by type; counts at most `most`."""
    rows = await connection.fetch(sql["count_intake"], origin, type_, most)
    return {row["type"]: row["count"] for row in rows}


def _columns(announced: Sequence[Intake]) -> Iterator[list[str]]:
    return columns(announced, *Intake._fields)
