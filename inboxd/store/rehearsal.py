"""The database side of a rehearsal: its row, its transaction, and the rows that it wrote.

Owns the transaction that is never committed. Promises that it locks nothing by itself, not even the
row; that it is always rolled back, by the server if this process is gone; and that rows which
handlers sent are written by the workers' statements, shortly before the end.
Known limit: effects outside of transactions stay, such as numbers drawn from sequences.
*See:* `inboxd/rehearsal/rehearsal.py`, which runs the handlers.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, NamedTuple
from uuid import UUID

from inboxd.api.drafts import EventDraft
from inboxd.store import batches, bodies, emitted
from inboxd.store.batches import Planned, Sent
from inboxd.store.connections import Row
from inboxd.store.emitted import Emitted
from inboxd.store.pools import Pool, lend
from inboxd.store.session import Session

Kind = Literal["event", "command"]


@dataclass(frozen=True, slots=True)
class RehearsedRow:
    """A row as a claim would return it, with its payload and headers; settled: it is in history.

    mode: of an event's topic. position: of a lined-up event in its line.
    """

    kind: Kind
    row: Any
    status: str
    settled: bool
    mode: str = ""
    position: int | None = None

    @property
    def uuid(self) -> UUID:
        found: UUID = self.row[f"{self.kind}_id"]
        return found

    @property
    def lane(self) -> str:
        return str(self.row["topic" if self.kind == "event" else "queue"])

    @property
    def has_ended(self) -> bool:
        """Whether only a replay would run it again."""
        return self.settled or self.status == "failed"


class TableWrites(NamedTuple):
    """The numbers of rows that were written to a table."""

    table: str
    inserted: int
    updated: int
    deleted: int


class WrittenRow(NamedTuple):
    """A command or event that was sent, as it was written; lane: its queue or topic."""

    uuid: UUID
    lane: str
    status: str
    run_at: datetime


async def find(session: Session, kind: Kind, id: int | UUID) -> RehearsedRow | None:
    """The row, unsettled or settled, if it exists."""
    number, uuid = (None, id) if isinstance(id, UUID) else (id, None)
    name = "rehearsed_event" if kind == "event" else "rehearsed_command"
    found = await session.fetchrow(name, number, uuid)
    if found is None:
        return None
    row = dict(found)
    if row["body_id"] is not None:
        payloads = await bodies.read(session, [found])  # type: ignore[list-item]
        row |= {"payload": payloads.get(row["body_id"]), "body_id": None}
    status, settled = row.pop("status"), row.pop("settled")
    if kind == "command":
        return RehearsedRow(kind, row, status, settled)
    row["headers"] = row.pop("all_headers")
    return RehearsedRow(kind, row, status, settled, row.pop("mode"), row["position"])


@asynccontextmanager
async def undone(pool: Pool) -> AsyncIterator[Session]:
    """A session in a transaction that `Pool.release` rolls back."""
    async with lend(pool) as session:
        begin = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"
        await session.connection.execute(f"{begin}; {pool.preamble}")
        yield session


async def session_of(session: Session) -> Row:
    """The session's role (`role`), and whether the server counts written rows (`counts`)."""
    return await session.one("rehearsing_session")


async def writes(session: Session) -> list[TableWrites]:
    """The rows that the transaction has written, by table; includes undone savepoints."""
    return [TableWrites(*row) for row in await session.fetch("written_rows")]


async def write_sent(
    session: Session, sent: Sent, planned: Sequence[Planned], events: Emitted
) -> tuple[list[WrittenRow], list[WrittenRow]]:
    """Write sent rows as their settlement would; returns the commands and the events.

    On an error the write is undone, and the error raised.
    """
    await session.connection.execute("SAVEPOINT rehearsal")
    try:
        await batches.write(session, sent, planned)
        await emitted.write(session, events)
        await session.connection.execute("SET CONSTRAINTS ALL IMMEDIATE")
    except Exception:
        if not session.connection.is_closed():
            await session.connection.execute("ROLLBACK TO SAVEPOINT rehearsal")
        raise
    commands = await session.fetch("written_commands", [draft.command_id for draft, _ in sent])
    ids = [draft.event_id for draft, _ in events if isinstance(draft, EventDraft)]
    rows = await session.fetch("written_events", ids)
    return [WrittenRow(*row) for row in commands], [WrittenRow(*row) for row in rows]
