"""What an operator's actions write: dead letters that run again, cancellations, the audit.

Owns the statements behind `inboxd.operations`. Promises that a row is locked before its status is
judged, and that a statement changes only rows of the status it is meant for (promise 8).
Known limit: all of them must run inside one transaction, the caller's.
"""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from inboxd.store.connections import Row
from inboxd.store.session import Session
from inboxd.store.wakeups import Place


async def lock(
    session: Session, place: Place, ids: Sequence[int], uuids: Sequence[UUID]
) -> list[Row]:
    """The hot rows among these, held until the transaction ends: id, uuid, status."""
    return await session.connection.fetch(session.sql[f"lock_{place}"], ids, uuids)


async def settled(
    session: Session, place: Place, ids: Sequence[int], uuids: Sequence[UUID]
) -> list[Row]:
    """Those among these that are in history: id, uuid, status."""
    return await session.connection.fetch(session.sql[f"settled_{place}"], ids, uuids)


async def retry(session: Session, place: Place, ids: Sequence[int]) -> list[int]:
    """Let dead letters run again; returns the ids of those that were."""
    rows = await session.connection.fetch(session.sql[f"retry_{place}"], ids)
    return [row["id"] for row in rows]


async def cancel(session: Session, ids: Sequence[int]) -> list[int]:
    """Move commands that do not run into history; returns the ids of those that did not."""
    rows = await session.connection.fetch(session.sql["cancel_commands"], ids)
    return [row["id"] for row in rows]


async def request_cancel(session: Session, ids: Sequence[int]) -> list[int]:
    """Ask for the end of commands that run; returns the ids of those that do."""
    rows = await session.connection.fetch(session.sql["request_cancel"], ids)
    return [row["id"] for row in rows]


async def reschedule(
    session: Session, place: Place, ids: Sequence[int], run_at: datetime
) -> list[int]:
    """Give rows that wait another time; returns the ids of those that did."""
    rows = await session.connection.fetch(session.sql[f"reschedule_{place}"], ids, run_at)
    return [row["id"] for row in rows]


async def reprioritize(session: Session, ids: Sequence[int], priority: int) -> list[int]:
    """Give commands that wait another priority; returns the ids of those that did."""
    rows = await session.connection.fetch(session.sql["reprioritize_commands"], ids, priority)
    return [row["id"] for row in rows]


async def record(
    session: Session, actor: str, action: str, target: str, reason: str | None, count: int
) -> None:
    """Write one line of the audit."""
    await session.connection.execute(
        session.sql["record_action"], actor, action, target, reason, count
    )
