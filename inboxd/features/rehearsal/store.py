"""The database side of a rehearsal: its row, its transaction, and the rows that it wrote.

Promises that it locks nothing by itself, and that it is always rolled back, by the server if this
process is gone. Known limit: effects outside of transactions stay, such as numbers of sequences.
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
    """settled: it is in history. mode: of an event's topic. position: in an event's line."""

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
    table: str
    inserted: int
    updated: int
    deleted: int


class WrittenRow(NamedTuple):
    uuid: UUID
    lane: str
    status: str
    run_at: datetime


async def find(session: Session, kind: Kind, id: int | UUID) -> RehearsedRow | None:
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
    """Returns the commands and the events. An error undoes the write, and is raised."""
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
