"""The breakers table: which targets are down, shared by all workers.

Promises that only a caller that knows the newest version can write a change, that at most one
worker holds a breaker's probe, and that a trigger notifies all workers of each change.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TypedDict, cast
from uuid import UUID

from inboxd.resilience.breaker import WrittenBreaker
from inboxd.resilience.rules import Mode, State
from inboxd.store.session import Session


class BreakerRow(TypedDict):
    """A breaker for operators. rest: seconds until its break ends; prober: worker that probes."""

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


async def declare(session: Session, uses: Iterable[tuple[str, str | None]]) -> None:
    """Record breakers, and the types or topics that need them ("command shop.pay", or None)."""
    pairs = sorted(set(uses), key=lambda pair: (pair[0], pair[1] or ""))
    if pairs:
        names, needed = [name for name, _ in pairs], [use for _, use in pairs]
        await session.execute("declare_breakers", names, needed)


async def read(session: Session, worker: UUID) -> dict[str, WrittenBreaker]:
    rows = await session.fetch("read_breakers", worker)
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
    session: Session, name: str, version: int, seconds: float, opens: int, reason: str
) -> int | None:
    """Open a breaker; returns its new version, or None if its version had changed."""
    found: int | None = await session.fetchval(
        "open_breaker", name, version, seconds, opens, reason
    )
    return found


async def close(session: Session, name: str, version: int) -> int | None:
    """Close a breaker after its probes; returns its new version, or None if it had changed."""
    found: int | None = await session.fetchval("close_breaker", name, version)
    return found


async def take_probe(session: Session, name: str, worker: UUID, seconds: float) -> int | None:
    """Take a breaker's probe; returns the breaker's version, or None if no probe is free."""
    found: int | None = await session.fetchval("take_probe", name, worker, seconds)
    return found


async def keep_probe(
    session: Session, name: str, version: int, worker: UUID, seconds: float
) -> bool:
    """Prolong a probe; False: this worker has lost it."""
    found = await session.fetchval("keep_probe", name, version, worker, seconds)
    return found is not None


async def forget(session: Session) -> None:
    """Delete breakers that are not declared and unchanged for a week, and old changes."""
    await session.execute("forget_breakers")
    await session.execute("forget_breaker_changes")


async def listed(
    session: Session,
    name: str | None = None,
    uses: Sequence[str] | None = None,
    *,
    after: str | None = None,
    rows: int | None = None,
) -> list[BreakerRow]:
    """All, of one name, or needed by any of `uses`; or at most `rows`, after a name."""
    given = (name, uses, after, rows)
    return cast("list[BreakerRow]", await session.fetch("list_breakers", *given))


async def force(
    session: Session, name: str, mode: Mode, actor: str, reason: str | None, seen: str | None
) -> bool:
    """False: not found, in that mode already, or not in the mode `seen` (None: any)."""
    forced = await session.fetchval("force_breaker", name, mode, actor, reason, seen)
    return forced is not None
