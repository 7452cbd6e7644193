"""The actions table: what operators have ordered for all rows that match, and how far it has come.

Owns its statements. Promises that of several who take up actions each gets another one, for as long
as its transaction lasts; that how far one has come commits with what was done to the rows.
*See:* `operations/bulk_orders.py`, who orders; `operations/bulk_runs.py`, who works them off.
"""

import json
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Final, Literal
from uuid import UUID

from inboxd.store.connections import Row
from inboxd.store.operations import Match, MatchedAhead, dead_ahead
from inboxd.store.session import Session
from inboxd.store.wakeups import HotTable

ActionStatus = Literal["scheduled", "canary", "running", "paused", "completed", "aborted"]

# Tries in a row that go wrong, until an action is paused, and the time between two.
TRIES: Final = 3
AGAIN: Final = timedelta(seconds=5)


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderedAction:
    """A bulk action as it is ordered. to: the time or the priority that rows are given.

    request: of the form that orders it; None: no form does.
    """

    table: HotTable
    verb: str
    to: datetime | int | None
    match: Match
    actor: str
    reason: str | None
    audit_id: int
    delay: timedelta
    rate: float | None
    canary: int
    first: int
    last: int
    counted: int
    whole: bool
    request: UUID | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionProgress:
    """What one transaction has done of an action; `wait`: until the next, as the action was taken.

    canary: ids of rows that have to succeed first. note: why it is paused by this. passed: rows
    that are tried again, since somebody had them in hand.
    """

    status: ActionStatus
    above: int
    passed: Sequence[int]
    done: int = 0
    left_out: int = 0
    canary: Sequence[int] = ()
    wait: timedelta = timedelta(0)
    note: str | None = None


async def count_open(session: Session, actor: str) -> tuple[int, int]:
    """How many have not ended: of an actor, and of all.

    Nobody else orders one until the transaction ends.
    """
    # Two statements: the second sees what those have written who were waited for.
    await session.execute("hold_orders")
    row = await session.one("count_open_actions", actor)
    return row["own"], row["whole"]


async def order(session: Session, action: OrderedAction) -> int | None:
    """Write it down; returns its number, or None: its form has ordered one already."""
    run_at = action.to if isinstance(action.to, datetime) else None
    priority = action.to if isinstance(action.to, int) else None
    id_: int | None = await session.fetchval(
        "order_action",
        action.table.removesuffix("s"),
        action.verb,
        run_at,
        priority,
        _selection(action.match),
        None if action.match.tenants is None else sorted(action.match.tenants),
        action.actor,
        action.reason,
        action.audit_id,
        action.delay,
        action.rate,
        action.canary,
        action.first,
        action.last,
        action.counted,
        action.whole,
        action.request,
    )
    return id_


def _selection(match: Match) -> str:
    given = {name: value for name, value in asdict(match).items() if value is not None}
    given.pop("tenants", None)
    return json.dumps(given | {"statuses": list(match.statuses)}, default=datetime.isoformat)


def match_of(row: Row) -> Match:
    """Which rows an action is meant for."""
    given = json.loads(row["selection"])
    if "since" in given:
        given["since"] = datetime.fromisoformat(given["since"])
    return Match(**given, tenants=row["tenants"])


async def listed(
    session: Session, tenants: Collection[str] | None, below: int | None, limit: int
) -> list[Row]:
    """Actions, the newest first; tenants: only those that meet rows of these alone."""
    of = None if tenants is None else sorted(tenants)
    return await session.fetch("list_actions", of, below, limit)


async def one(session: Session, id: int) -> Row | None:
    """One action."""
    return await session.fetchrow("show_action", id)


async def hold(session: Session, id: int) -> Row | None:
    """One action, held until the transaction ends: nothing is done of it meanwhile."""
    return await session.fetchrow("lock_action", id)


async def pause(session: Session, id: int, why: str) -> None:
    """Let one that is held wait until it is resumed."""
    await session.execute("pause_action", id, why)


async def resume(session: Session, id: int) -> None:
    """Let one that is held and paused go on."""
    await session.execute("resume_action", id)


async def abort(session: Session, id: int) -> None:
    """End one that is held where it is."""
    await session.execute("abort_action", id)


# --------------------------------------------------------------------------------- working it off


async def claim(session: Session) -> Row | None:
    """The action whose turn it is, held until the transaction ends; None: nothing is due."""
    return await session.fetchrow("claim_action")


async def advance(session: Session, row: Row, progress: ActionProgress) -> None:
    """Note how far an action has come that this transaction has claimed."""
    await session.execute(
        "advance_action",
        row["id"],
        progress.status,
        progress.above,
        progress.done,
        progress.left_out,
        list(progress.canary),
        progress.wait,
        row["now"],
        progress.note,
        list(progress.passed),
    )


async def put_off(session: Session, id: int, why: str) -> None:
    """A transaction of it met a lock that somebody has for too long."""
    await session.execute("put_off_action", id, AGAIN, why)


async def try_rows(
    session: Session, table: HotTable, ids: Sequence[int]
) -> tuple[list[Row], list[int]]:
    """Hold those rows that nobody has in hand, nor their bucket; and which others are there.

    Of those that are held: id, status; of events mode too.
    """
    free = ids
    if table == "events":
        free = [row["id"] for row in await session.fetch("take_free_buckets", ids)]
    held = await session.fetch(f"take_free_{table}", free)
    left = sorted({*ids} - {row["id"] for row in held})
    # Looked for afterwards: a row that was just settled is in history.
    there = await session.fetch(f"there_{table}", left) if left else []
    return held, [row["id"] for row in there]


async def fail(session: Session, id: int, why: str) -> ActionStatus | None:
    """A transaction of it went wrong; returns its status then, None: it has none to go on from."""
    status: ActionStatus | None = await session.fetchval("fail_action", id, why, TRIES, AGAIN)
    return status


async def until_next(session: Session) -> timedelta | None:
    """The time until one goes on; None: none does by itself."""
    wait: timedelta | None = await session.fetchval("until_next_action")
    return wait


async def last_id(session: Session, table: HotTable) -> int:
    """The largest id there is; 0: there is no row."""
    return int(await session.fetchval(f"last_id_{table}"))


async def ahead(
    session: Session, table: HotTable, match: Match, above: int, last: int, limit: int, look: int
) -> MatchedAhead:
    """The next rows that match, among the next `look` rows, or dead letters."""
    if set(match.statuses) == {"failed"}:
        return await dead_ahead(session, table, match, above, last, limit, look)
    row = await session.one(f"match_ahead_{table}", *match.arguments(), above, last, limit, look)
    ids: list[int] = row["ids"]
    if len(ids) == limit:
        return MatchedAhead(ids, ids[-1], end=False)
    return MatchedAhead(ids, row["reached"] or last, end=row["looked"] < look)


async def canary_statuses(session: Session, table: HotTable, ids: Sequence[int]) -> list[Row]:
    """What has become of rows: id, status (None: it is gone)."""
    return await session.fetch(f"canary_{table}", ids)
