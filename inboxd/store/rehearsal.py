"""What a rehearsal asks of the database: its row, its transaction, and what that has written.

Owns the transaction that is never committed. Promises that it locks nothing by itself, the row
least of all; that it ends undone, however its block ends, by the server if this process is gone;
and that what handlers sent is written by the statements that workers use, shortly before the end.
Known limit: what no transaction undoes stays, as the numbers that are drawn from sequences.
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
from inboxd.store.connections import Connection, Row, one_row
from inboxd.store.emitted import Emitted
from inboxd.store.pools import Pool, lend
from inboxd.store.session import Session
from inboxd.store.statements import Statements

Kind = Literal["event", "command"]


@dataclass(frozen=True, slots=True)
class RehearsedRow:
    """A row as a claim would bring it, with its payload and headers; settled: it is in history.

    waits_in_line: an event that stands in the line of its key, at `position` if it is lined up.
    """

    kind: Kind
    row: Any
    status: str
    settled: bool
    mode: str = ""
    position: int | None = None

    @property
    def uuid(self) -> UUID:
        """The id that it is known by outside the database."""
        found: UUID = self.row[f"{self.kind}_id"]
        return found

    @property
    def lane(self) -> str:
        """Its topic or queue."""
        return str(self.row["topic" if self.kind == "event" else "queue"])

    @property
    def has_ended(self) -> bool:
        """Whether only a replay would run it again."""
        return self.settled or self.status == "failed"


class TableWrites(NamedTuple):
    """How many rows of a table were written."""

    table: str
    inserted: int
    updated: int
    deleted: int


class WrittenRow(NamedTuple):
    """What became of a command or event that was sent: its queue or topic, its status."""

    uuid: UUID
    lane: str
    status: str
    run_at: datetime


async def find(session: Session, kind: Kind, id: int | UUID) -> RehearsedRow | None:
    """The row, unsettled or settled; None when there is none."""
    number, uuid = (None, id) if isinstance(id, UUID) else (id, None)
    name = "rehearsed_event" if kind == "event" else "rehearsed_command"
    found = await session.fetchrow(name, number, uuid)
    if found is None:
        return None
    row = dict(found)
    if row["body_id"] is not None:
        payloads = await bodies.read(session.connection, session.sql, [found])  # type: ignore[list-item]
        row |= {"payload": payloads.get(row["body_id"]), "body_id": None}
    status, settled = row.pop("status"), row.pop("settled")
    if kind == "command":
        return RehearsedRow(kind, row, status, settled)
    row["headers"] = row.pop("all_headers")
    return RehearsedRow(kind, row, status, settled, row.pop("mode"), row["position"])


@asynccontextmanager
async def undone(pool: Pool) -> AsyncIterator[Connection]:
    """A connection in a transaction that is rolled back; `Pool.release` sees to that."""
    async with lend(pool) as connection:
        begin = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"
        await connection.execute(f"{begin}; {pool.preamble}")
        yield connection


async def session_of(connection: Connection, sql: Statements) -> Row:
    """As whom it runs (`role`), and whether the server counts what is written (`counts`)."""
    return await one_row(connection, sql["rehearsing_session"])


async def writes(connection: Connection, sql: Statements) -> list[TableWrites]:
    """What the transaction has written so far, by table; also what a savepoint undid."""
    return [TableWrites(*row) for row in await connection.fetch(sql["written_rows"])]


async def write_sent(
    connection: Connection,
    sql: Statements,
    sent: Sent,
    planned: Sequence[Planned],
    events: Emitted,
) -> tuple[list[WrittenRow], list[WrittenRow]]:
    """Write what handlers sent, as their settlement would; what became of commands and of events.

    What fails is undone by itself, and raised.
    """
    await connection.execute("SAVEPOINT rehearsal")
    try:
        await batches.write(connection, sql, sent, planned)
        await emitted.write(connection, sql, events)
        await connection.execute("SET CONSTRAINTS ALL IMMEDIATE")
    except Exception:
        if not connection.is_closed():
            await connection.execute("ROLLBACK TO SAVEPOINT rehearsal")
        raise
    commands = await connection.fetch(
        sql["written_commands"], [draft.command_id for draft, _ in sent]
    )
    ids = [draft.event_id for draft, _ in events if isinstance(draft, EventDraft)]
    rows = await connection.fetch(sql["written_events"], ids)
    return [WrittenRow(*row) for row in commands], [WrittenRow(*row) for row in rows]
