"""The controls table: what operators have paused.

Owns its statements. Promises that a pause and its end reach every worker that listens,
since a trigger notifies, whoever wrote the row. Known limit: all of it is read each time.
"""

from datetime import datetime
from typing import Literal, TypedDict, cast

from inboxd.store.connections import Connection
from inboxd.store.session import Session
from inboxd.store.statements import Statements

Kind = Literal["type", "topic", "queue", "schedule"]


class Control(TypedDict):
    """What is paused, by whom, and why."""

    kind: Kind
    name: str
    paused_at: datetime
    actor: str
    reason: str | None


async def read(connection: Connection, sql: Statements) -> list[Control]:
    """Everything that is paused."""
    return cast("list[Control]", await connection.fetch(sql["read_controls"]))


async def pause(session: Session, kind: Kind, name: str, actor: str, reason: str | None) -> bool:
    """Whether it was not paused already."""
    added = await session.fetchval("pause", kind, name, actor, reason)
    return added is not None


async def resume(session: Session, kind: Kind, name: str) -> datetime | None:
    """Since when it had been paused; None when it was not."""
    since: datetime | None = await session.fetchval("resume", kind, name)
    return since
