"""The message_readers table: workers' reports of sources, kept until a worker is declared dead."""

from datetime import datetime
from typing import Literal, TypedDict, cast
from uuid import UUID

from inboxd.store.session import Session

# standby: another worker reads the source. away: the broker is unreachable. failing: the database
# or an unforeseen error. lost: the broker no longer has the messages after a stored position.
ReaderState = Literal["reading", "standby", "paused", "away", "failing", "lost"]


async def show(
    session: Session,
    source: str,
    worker: UUID,
    *,
    broker: str,
    state: ReaderState,
    trouble: str | None,
    lag: int | None,
) -> None:
    """Report the state of a source. trouble: why it is not read; lag: None if unknown."""
    await session.execute("show_reader", source, worker, broker, state, trouble, lag)


async def leave(session: Session, worker: UUID) -> None:
    await session.execute("leave_reader", worker)


async def forget(session: Session) -> None:
    await session.execute("forget_readers")


class ReaderRow(TypedDict):
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


async def listed(session: Session) -> list[ReaderRow]:
    return cast("list[ReaderRow]", await session.fetch("list_readers"))
