"""Intakes: taking events that wait into the topics that were declared after they were written.

Owns their statements (ADR 18). Promises that each event goes once to each topic that its type is
subscribed to, whoever takes, in pages or at the same time, and that no arrival of a topic is
processed before all that waited has been taken in front of it. Known limit: what a transaction
writes that took its snapshot before the declaration, and began to write when all others had ended,
is taken too, but what came meanwhile may be handled before it.
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

# What the server raises, unlike a connection that is lost.
Refused = asyncpg.PostgresError

# Of each statement that takes: producers with the same keys wait for it.
PAGE = 1_000


class Intake(NamedTuple):
    """Events of a type ('': any) that wait in a topic, for another one or for its lines."""

    origin: str
    type: str
    topic: str


@dataclass(frozen=True, slots=True)
class Waiting:
    """Intakes of one origin and type. opened: None while one is only announced; age in seconds."""

    origin: str
    type: str
    opened: datetime | None
    finished: bool
    topics: tuple[str, ...]
    taken: int
    age: float

    @property
    def key(self) -> tuple[str, str]:
        """What they are called by."""
        return self.origin, self.type


async def announce(
    connection: Connection,
    sql: Statements,
    topics: Iterable[Topic],
    subscriptions: Sequence[tuple[str, str]],
) -> list[Intake]:
    """What a declaration is to take; from the commit on, the topics' arrivals are left alone."""
    given = list(topics)
    rows = await connection.fetch(
        sql["announce_intakes"],
        *columns(given, "name", "mode"),
        [topic for topic, _ in subscriptions],
        [type_ for _, type_ in subscriptions],
    )
    return [Intake(*row) for row in rows]


async def hold(connection: Connection, sql: Statements, announced: Sequence[Intake]) -> bool:
    """Lock what was announced until the transaction ends; False: it was given up meanwhile."""
    rows = await connection.fetch(sql["lock_intakes"], *_columns(announced))
    return len(rows) == len(announced)


async def withdraw(connection: Connection, sql: Statements, announced: Sequence[Intake]) -> None:
    """Take back what was announced and is not going to be declared."""
    await connection.execute(sql["withdraw_intakes"], *_columns(announced))


async def open_(connection: Connection, sql: Statements, announced: Sequence[Intake]) -> None:
    """Reserve the ids, in the transaction that holds them and makes the declaration."""
    await connection.execute(sql["open_intakes"], *_columns(announced))


async def listed(connection: Connection, sql: Statements, *, late: bool = False) -> list[Waiting]:
    """What is not finished; late: and what is, though something waits again."""
    rows = await connection.fetch(sql["list_intakes"], late)
    return [Waiting(**{**row, "topics": tuple(row["topics"])}) for row in rows]


async def writers(connection: Connection, sql: Statements) -> frozenset[str]:
    """The transactions that write events, or may: see `read_writers.sql`."""
    return frozenset(row["holder"] for row in await connection.fetch(sql["read_writers"]))


async def take(connection: Connection, sql: Statements, waiting: Waiting, most: int = PAGE) -> int:
    """Take a page; how many, 0 also where others take, or have what would have to be waited for."""
    try:
        taken = await connection.fetchval(sql["take_events"], *waiting.key, most)
    except (asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError):
        return 0
    return taken or 0


async def finish(
    connection: Connection, sql: Statements, waiting: Waiting, opened: datetime
) -> bool:
    """Let the topics go on, if nothing waits any more; opened: when the last was declared."""
    return bool(await connection.fetch(sql["finish_intake"], *waiting.key, opened))


async def forget(connection: Connection, sql: Statements) -> None:
    """Remove those from which nothing is to be taken any more."""
    await connection.execute(sql["forget_intakes"])


async def held(connection: Connection, sql: Statements) -> int:
    """How many topics' arrivals are left alone."""
    return int(await connection.fetchval(sql["count_held_topics"]))


async def count(
    connection: Connection, sql: Statements, origin: str, type_: str, most: int
) -> dict[str, int]:
    """How many events wait to be taken, by type; no more than `most` are counted."""
    rows = await connection.fetch(sql["count_intake"], origin, type_, most)
    return {row["type"]: row["count"] for row in rows}


def _columns(announced: Sequence[Intake]) -> Iterator[list[str]]:
    return columns(announced, *Intake._fields)
