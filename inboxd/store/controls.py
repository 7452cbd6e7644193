"""The controls table: what operators have paused.

Owns its statements. Promises that a pause and its end reach every worker that listens,
since a trigger notifies, whoever wrote the row. Known limit: all of it is read each time.
"""

from datetime import datetime
from typing import Literal, TypedDict, cast

from inboxd.store.connections import Connection
from inboxd.store.session import Session
from inboxd.store.statements import Statements

Kind = Literal["type", "topic", "queue", "schedule", "source"]
Mode = Literal["hold", "refuse"]


class Control(TypedDict):
    """What is paused, by whom, and why. mode: "refuse" of a webhook source that answers 503."""

    kind: Kind
    name: str
    paused_at: datetime
    actor: str
    reason: str | None
    mode: Mode


async def read(connection: Connection, sql: Statements) -> list[Control]:
    """Everything that is paused."""
    return cast("list[Control]", await connection.fetch(sql["read_controls"]))


async def pause(
    session: Session, kind: Kind, name: str, actor: str, reason: str | None, mode: Mode = "hold"
) -> bool:
    """Whether it was not paused already, in that mode."""
    added = await session.fetchval("pause", kind, name, actor, reason, mode)
    return added is not None


async def resume(session: Session, kind: Kind, name: str) -> datetime | None:
    """Since when it had been paused; None when it was not."""
    since: datetime | None = await session.fetchval("resume", kind, name)
    return since
