"""Queues with limits, and the lines of ordering keys: surveys and claims.

Promises that a claim never waits: it returns a reason and a time. Known limit: while an old
snapshot is held open, each look from the beginning passes the dead rows of finished lines.
*See:* `commands/sources/limited.py`, before it; `migrations/functions/claim_limited.sql`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import NamedTuple, TypedDict, cast
from uuid import UUID

from inboxd.model.lane import Lane
from inboxd.store.arrays import cursors
from inboxd.store.rows import ClaimedCommand
from inboxd.store.session import Session


class KeyedSighting(NamedTuple):
    """oldest: seconds that a due row has waited. next: seconds until a row is due; None: no row."""

    queue: str
    type: str
    oldest: float | None
    next: float | None
    seen_at: float


class Arrival(TypedDict):
    """A new row of a line, or one that is due again; run_at: seconds, None if due again."""

    type: str
    key: str
    run_at: float | None
    id: int


class WaitingKey(NamedTuple):
    """An ordering key with a line; free: no running or blocking command holds it."""

    key: str
    free: bool


@dataclass(frozen=True, slots=True)
class Bounds:
    """A queue's limits: total and rate over all workers, rate per `period` seconds, per key."""

    total: int | None = None
    rate: int | None = None
    period: float = 1.0
    key_concurrency: int = 1
    blocking: bool = True

    @property
    def over_all(self) -> bool:
        """Whether a limit over all workers applies, which counts rows without a key as well."""
        return self.total is not None or self.rate is not None

    @property
    def holders(self) -> tuple[str, str]:
        """The lowest and the highest status of rows that hold their key."""
        if self.key_concurrency > 1:
            return "running", "running"
        return ("failed" if self.blocking else "running"), "waiting"


@dataclass(slots=True)
class Wanted:
    """The request of one claim, with at most `share` rows per key.

    following: a time (the database's, in seconds): rows of `keys` that this worker claimed before
    it do not block this claim, whose rows run after them. suspects: a group whose members are
    claimed as well; alone: no other command runs on this worker.
    """

    rows: int
    types: Sequence[str]
    lanes: Sequence[Lane] = ()
    lanes_first: bool = False
    keys: Sequence[str] = ()
    share: int = 1
    following: float | None = None
    suspects: UUID | None = None
    alone: bool = False


@dataclass(slots=True)
class Claimed:
    """Claimed rows by lane, time and id; or why there are none, and when to ask again.

    at: seconds, by the database's clock. passed: keys that another claim had locked.
    """

    rows: list[ClaimedCommand] = field(default_factory=list)
    held_back: str | None = None
    again: float | None = None
    passed: list[str] = field(default_factory=list)
    at: float = 0.0


async def survey(session: Session) -> list[KeyedSighting]:
    return [KeyedSighting(*row) for row in await session.fetch("survey_lines")]


async def find_keys(
    session: Session, queue: str, after: str | None, bounds: Bounds, most: int
) -> list[WaitingKey]:
    at_once = bounds.key_concurrency
    rows = await session.fetch("find_keys", queue, after, most, *bounds.holders, at_once)
    return [WaitingKey(*row) for row in rows]


async def arrived(session: Session, queue: str, lanes: Sequence[Lane], most: int) -> list[Arrival]:
    rows = await session.fetch("arrived_keys", queue, *cursors(lanes, 1), most)
    return cast("list[Arrival]", rows)


async def claim(
    session: Session, worker: UUID, queue: str, bounds: Bounds, want: Wanted
) -> Claimed:
    rows = await session.fetch(
        "claim_limited",
        worker,
        queue,
        want.rows,
        bounds.total,
        bounds.rate,
        bounds.period,
        want.types,
        *cursors(want.lanes, 1, 2),
        want.lanes_first,
        want.keys,
        want.share,
        bounds.key_concurrency,
        bounds.blocking,
        want.following,
        want.suspects,
        want.alone,
    )
    passed: list[str] = next((row["passed"] for row in rows if row["passed"]), [])
    if rows and rows[0]["id"] is None:
        return Claimed([], rows[0]["held_back"], rows[0]["again"], passed)
    at = rows[-1]["run_at"] + rows[-1]["waited"] if rows else 0.0
    rows.sort(key=itemgetter("lane", "run_at", "id"))
    return Claimed(cast("list[ClaimedCommand]", rows), passed=passed, at=at)
