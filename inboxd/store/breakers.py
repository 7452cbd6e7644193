"""The breakers table: which targets are down, as all workers know it.

Owns its statements. Promises that a change is written only by who knew the newest version, that at
most one worker has a probe, and that every change reaches all workers, since a trigger notifies;
and that a breaker which opened or closed is in `breaker_changes`, for charts.
Known limit: all of it is read each time.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TypedDict, cast
from uuid import UUID

from inboxd.resilience.breaker import WrittenBreaker
from inboxd.resilience.rules import Mode, State
from inboxd.store.connections import Connection
from inboxd.store.session import Session
from inboxd.store.statements import Statements


class BreakerRow(TypedDict):
    """A breaker as operators see it. rest: seconds until its break ends; prober: who probes."""

    name: str
    mode: Mode
    state: State
    opens: int
    open_until: datetime | None
    rest: float | None
    prober: str | None
    reason: str | None
    actor: str | None
    forced_for: str | None
    uses: list[str]
    changed_at: datetime


async def declare(
    connection: Connection, sql: Statements, uses: Iterable[tuple[str, str | None]]
) -> None:
    """Write down that breakers exist, and what needs them; None: nothing that is known."""
    pairs = sorted(set(uses), key=lambda pair: (pair[0], pair[1] or ""))
    if pairs:
        names, needed = [name for name, _ in pairs], [use for _, use in pairs]
        await connection.execute(sql["declare_breakers"], names, needed)


async def read(connection: Connection, sql: Statements, worker: UUID) -> dict[str, WrittenBreaker]:
    """All breakers, by name."""
    rows = await connection.fetch(sql["read_breakers"], worker)
    return {
        row["name"]: WrittenBreaker(
            mode=row["mode"],
            state=row["state"],
            opens=row["opens"],
            rest=row["rest"],
            probed=row["probed"],
            mine=row["mine"],
            version=row["version"],
        )
        for row in rows
    }


async def open_(
    connection: Connection,
    sql: Statements,
    name: str,
    version: int,
    seconds: float,
    opens: int,
    reason: str,
) -> int | None:
    """Open one; its version, or None: somebody changed it meanwhile."""
    found: int | None = await connection.fetchval(
        sql["open_breaker"], name, version, seconds, opens, reason
    )
    return found


async def close(connection: Connection, sql: Statements, name: str, version: int) -> int | None:
    """Close one after its probes; its version, or None: somebody changed it meanwhile."""
    found: int | None = await connection.fetchval(sql["close_breaker"], name, version)
    return found


async def take_probe(
    connection: Connection, sql: Statements, name: str, worker: UUID, seconds: float
) -> int | None:
    """Take the probe of one; its version, or None: there is none to take."""
    found: int | None = await connection.fetchval(sql["take_probe"], name, worker, seconds)
    return found


async def keep_probe(
    connection: Connection, sql: Statements, name: str, version: int, worker: UUID, seconds: float
) -> bool:
    """Keep a probe for longer; False: it is this worker's no more."""
    found = await connection.fetchval(sql["keep_probe"], name, version, worker, seconds)
    return found is not None


async def forget(connection: Connection, sql: Statements) -> None:
    """Forget those that nobody declares and of which nothing changed for a week; old changes."""
    await connection.execute(sql["forget_breakers"])
    await connection.execute(sql["forget_breaker_changes"])


async def listed(
    session: Session, name: str | None = None, uses: Sequence[str] | None = None
) -> list[BreakerRow]:
    """All of them, or the one of this name, or those that any of these needs."""
    return cast("list[BreakerRow]", await session.fetch("list_breakers", name, uses))


async def force(
    session: Session, name: str, mode: Mode, actor: str, reason: str | None, seen: str | None
) -> bool:
    """Whether it exists, was not in that mode already, and was in the one that was seen, if any."""
    forced = await session.fetchval("force_breaker", name, mode, actor, reason, seen)
    return forced is not None
