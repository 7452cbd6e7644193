"""The receivers table: processes that receive webhooks. A dead one is known by its silence only."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal, NamedTuple
from uuid import UUID

from inboxd.store.connections import Row
from inboxd.store.session import Session

State = Literal["running", "draining", "stopped"]


class SpoolSight(NamedTuple):
    """A receiver's spool: the sources that it spools, and why it accepts no more, if so."""

    sources: Sequence[str] = ()
    trouble: str | None = None


@dataclass(frozen=True, slots=True)
class ReceiverIdentity:
    """A receiving process; number: its place under a supervisor. `id` is new at every start."""

    id: UUID
    name: str
    number: int | None
    host: str
    pid: int
    version: str


async def show(
    session: Session,
    me: ReceiverIdentity,
    sources: Sequence[str],
    holds: Sequence[str],
    state: State,
    spool: SpoolSight,
) -> None:
    """Insert or renew the receiver's row. holds: the sources that its settings pause."""
    named = (me.id, me.name, me.number, me.host, me.pid, me.version)
    given = (sources, holds, state, list(spool.sources), spool.trouble)
    await session.execute("show_receiver", *named, *given)


async def forget(session: Session) -> None:
    await session.execute("forget_receivers")


async def listed(session: Session, silence: timedelta, limit: int) -> list[Row]:
    """A dead one is silent for `silence`; omits it if its supervisor has replaced it."""
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
    return row["name"], row["host"], row["process"]
