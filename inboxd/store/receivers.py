"""The receivers table: who receives webhooks, what, and since when.

Owns its statements. Promises that no clock but the database's counts. Known limit: a receiver that
died is known by its silence alone; nothing waits for it, so nobody declares it dead.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal, NamedTuple
from uuid import UUID

from inboxd.store.connections import Connection, Row
from inboxd.store.session import Session
from inboxd.store.statements import Statements

State = Literal["running", "draining", "stopped"]


class SpoolSight(NamedTuple):
    """What a receiver tells of its spool: the sources that it spools, and why it takes no more."""

    sources: Sequence[str] = ()
    trouble: str | None = None


@dataclass(frozen=True, slots=True)
class ReceiverIdentity:
    """One process that receives; number: under a supervisor. `id` is new at every start."""

    id: UUID
    name: str
    number: int | None
    host: str
    pid: int
    version: str


async def show(
    connection: Connection,
    sql: Statements,
    me: ReceiverIdentity,
    sources: Sequence[str],
    holds: Sequence[str],
    state: State,
    spool: SpoolSight,
) -> None:
    """Join, or show that it lives. holds: the sources that its settings pause."""
    named = (me.id, me.name, me.number, me.host, me.pid, me.version)
    given = (sources, holds, state, list(spool.sources), spool.trouble)
    await connection.execute(sql["show_receiver"], *named, *given)


async def forget(connection: Connection, sql: Statements) -> None:
    """Delete the rows of those that ended long ago."""
    await connection.execute(sql["forget_receivers"])


async def listed(session: Session, silence: timedelta, limit: int) -> list[Row]:
    """The receivers that live; those too that died a short time ago, after such a silence.

    Not one in whose place its supervisor has started another: nothing is to be done about it.
    """
    rows = await session.fetch("list_receivers", silence, limit)
    newest = {_place(row): row["started_at"] for row in rows if row["state"] != "dead"}
    return [
        row
        for row in rows
        if row["state"] != "dead"
        or row["process"] is None
        or newest.get(_place(row), row["started_at"]) <= row["started_at"]
    ]


def _place(row: Row) -> tuple[str, str, int | None]:
    """Which of a supervisor's processes it is."""
    return row["name"], row["host"], row["process"]
