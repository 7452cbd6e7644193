"""The message_readers table: what workers tell of the sources of messages that they read.

Owns its statements. Promises that no clock but the database's counts. Known limit: a worker that
died tells what it told last, until it is declared dead.
*See:* `stream_positions.py`, for what is read.
"""

from datetime import datetime
from typing import Literal, TypedDict, cast
from uuid import UUID

from inboxd.store.connections import Connection
from inboxd.store.session import Session
from inboxd.store.statements import Statements

# standby: another worker reads it. away: its broker is. failing: the database, or what nobody
# foresaw. lost: its broker does not have any more what follows a stored position.
ReaderState = Literal["reading", "standby", "paused", "away", "failing", "lost"]


async def show(
    connection: Connection,
    sql: Statements,
    source: str,
    worker: UUID,
    *,
    broker: str,
    state: ReaderState,
    trouble: str | None,
    lag: int | None,
) -> None:
    """Tell of one source. trouble: why it is not read; lag: None if it is not known."""
    await connection.execute(sql["show_reader"], source, worker, broker, state, trouble, lag)


async def leave(connection: Connection, sql: Statements, worker: UUID) -> None:
    """Tell no more."""
    await connection.execute(sql["leave_reader"], worker)


async def forget(connection: Connection, sql: Statements) -> None:
    """Delete what workers told that are gone."""
    await connection.execute(sql["forget_readers"])


class ReaderRow(TypedDict):
    """What a living worker tells of a source."""

    source: str
    worker_id: UUID
    worker: str
    process: int | None
    host: str
    broker: str
    state: ReaderState
    trouble: str | None
    lag: int | None
    since: datetime
    shown_at: datetime


async def listed(session: Session, limit: int = 1000) -> list[ReaderRow]:
    """All of them, by source and worker."""
    return cast("list[ReaderRow]", await session.fetch("list_readers", limit))
