"""The actions table: bulk actions that operators have ordered, and their progress.

Promises that workers claim different actions, and that progress commits with the changed rows.
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

# An action is paused after TRIES failed transactions in a row, which are AGAIN apart.
TRIES: Final = 3
AGAIN: Final = timedelta(seconds=5)
_TIMES: Final = ("since", "until")
# The newest actions among which the one that an entry of the audit ordered is looked for.
_LOOKED: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderedAction:
    """to: the rows' new time or priority. request: the id of the form that ordered it, if any."""

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
    """The work of one transaction; wait: before the next one, which retries the ids `passed`.

    canary: ids of rows that have to succeed first. note: why the action is paused.
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
    """Of this actor, and of all; locks out other orders until the transaction ends."""
    # Two statements: the second has to see the orders that the first has waited for.
    await session.execute("hold_orders")
    row = await session.one("count_open_actions", actor)
    return row["own"], row["whole"]


async def order(session: Session, action: OrderedAction) -> int | None:
    """Insert an action and return its id; None: its form has ordered one already."""
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
    given = json.loads(row["selection"])
    times = {each: datetime.fromisoformat(given[each]) for each in _TIMES if each in given}
    return Match(**{**given, **times}, tenants=row["tenants"])


async def listed(
    session: Session, tenants: Collection[str] | None, below: int | None, limit: int
) -> list[Row]:
    """Actions, newest first; tenants: only actions that are limited to some of these tenants."""
    of = None if tenants is None else sorted(tenants)
    return await session.fetch("list_actions", of, below, limit)


async def one(session: Session, id: int) -> Row | None:
    return await session.fetchrow("show_action", id)


async def ordered_by(session: Session, entries: Sequence[int]) -> dict[int, int]:
    """Bulk actions by the entries of the audit that ordered them, among the newest ones."""
    rows = await session.fetch("actions_of_entries", entries, _LOOKED) if entries else []
    return {row["audit_id"]: row["id"] for row in rows}


async def hold(session: Session, id: int) -> Row | None:
    """Lock an action until the transaction ends, so that no worker works on it."""
    return await session.fetchrow("lock_action", id)


async def pause(session: Session, id: int, why: str) -> None:
    await session.execute("pause_action", id, why)


async def resume(session: Session, id: int) -> None:
    await session.execute("resume_action", id)


async def abort(session: Session, id: int) -> None:
    await session.execute("abort_action", id)


# --------------------------------------------------------------------------------- working it off


async def claim(session: Session) -> Row | None:
    """Lock the next due action until the transaction ends; None: no action is due."""
    return await session.fetchrow("claim_action")


async def advance(session: Session, row: Row, progress: ActionProgress) -> None:
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
    """Postpone an action whose transaction met a lock that another session holds for too long."""
    await session.execute("put_off_action", id, AGAIN, why)


async def try_rows(
    session: Session, table: HotTable, ids: Sequence[int]
) -> tuple[list[Row], list[int]]:
    """Lock the free rows whose bucket is free; also returns the ids of other existing rows."""
    free = ids
    if table == "events":
        free = [row["id"] for row in await session.fetch("take_free_buckets", ids)]
    held = await session.fetch(f"take_free_{table}", free)
    left = sorted({*ids} - {row["id"] for row in held})
    # Searched after the lock attempt: a row that was settled meanwhile is in history.
    there = await session.fetch(f"there_{table}", left) if left else []
    return held, [row["id"] for row in there]


async def fail(session: Session, id: int, why: str) -> ActionStatus | None:
    """Count a failed transaction of an action; returns its new status, None if it has ended."""
    status: ActionStatus | None = await session.fetchval("fail_action", id, why, TRIES, AGAIN)
    return status


async def until_next(session: Session) -> timedelta | None:
    wait: timedelta | None = await session.fetchval("until_next_action")
    return wait


async def last_id(session: Session, table: HotTable) -> int:
    return int(await session.fetchval(f"last_id_{table}"))


async def ahead(
    session: Session, table: HotTable, match: Match, above: int, last: int, limit: int, look: int
) -> MatchedAhead:
    """The next matching rows among the next `look` rows, or among the dead letters."""
    if set(match.statuses) == {"failed"}:
        return await dead_ahead(session, table, match, above, last, limit, look)
    row = await session.one(f"match_ahead_{table}", *match.arguments(), above, last, limit, look)
    ids: list[int] = row["ids"]
    if len(ids) == limit:
        return MatchedAhead(ids, ids[-1], end=False)
    return MatchedAhead(ids, row["reached"] or last, end=row["looked"] < look)


async def canary_statuses(session: Session, table: HotTable, ids: Sequence[int]) -> list[Row]:
    """The rows' ids and statuses; None: the row is gone."""
    return await session.fetch(f"canary_{table}", ids)
