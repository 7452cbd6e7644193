"""Carries out bulk actions in workers, a page of rows per transaction.

Promises: rows, progress and audit commit together, so a killed worker repeats and loses nothing; a
row is checked again while it is locked; each row is visited once; rows that were written later are
left out; a row or bucket that another transaction has locked is passed over and tried again later;
one worker at a time works on an action. Unless all rows of a canary succeed, the action pauses.
Known limits: it pauses after a few failing transactions, so one row that cannot be changed stops
it; it waits with `MOST_PASSED` rows passed over; rows that cannot be replayed, because their unique
key is held or their batch was cancelled, are counted as left out.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Final

from inboxd.model.lifecycle import Status
from inboxd.model.outcome import explain
from inboxd.operations.bulk_orders import LOOK
from inboxd.operations.held_rows import Done, in_chunk, listed, one
from inboxd.operations.rows import row_action
from inboxd.store import bulk_actions as store
from inboxd.store import operations as audit
from inboxd.store import wakeups
from inboxd.store.bulk_actions import ActionProgress
from inboxd.store.connections import LOST, Row, is_passing
from inboxd.store.session import Session
from inboxd.store.wakeups import HotTable
from inboxd.telemetry.logs import get_logger

_log = get_logger(__name__)

# The most rows per transaction.
PAGE: Final = 500
# At this number of passed-over rows, the action does not look for new rows.
MOST_PASSED: Final = 500
# Interval between two looks at a canary, or at rows that other sessions have locked.
_POLL_INTERVAL: Final = timedelta(seconds=1)
_UNSETTLED: Final = (Status.PENDING, Status.WAITING, Status.RUNNING)

Transact = Callable[[], AbstractAsyncContextManager[Session]]


@dataclass(frozen=True, slots=True)
class _Met:
    """passed: ids of rows that other sessions have locked."""

    met: int
    done: Done
    passed: Sequence[int] = ()

    @property
    def left_out(self) -> int:
        return self.met - len(self.done) - len(self.passed)


_NONE: Final = _Met(0, Done(()))


async def work_off(transact: Transact) -> bool:
    """Return False if no action is due."""
    row: Row | None = None
    try:
        async with transact() as session:
            row = await store.claim(session)
            if row is None:
                return False
            await session.execute("plan_each_time")
            await session.execute("wait_briefly")
            progress = await _progress(session, row)
            await store.advance(session, row, progress)
    except LOST:
        raise
    except Exception as error:
        if row is None:
            raise
        if is_passing(error):
            await _put_off(transact, row, explain(error).error)
        else:
            await _failed(transact, row, explain(error).error)
        return True
    if progress.status != row["status"]:
        _log.info(
            "bulk action", action=row["id"], verb=row["verb"], status=progress.status,
            done=row["done"] + progress.done, note=progress.note,
        )  # fmt: skip
    return True


async def until_next(transact: Transact) -> timedelta | None:
    """None: no action will be due by itself."""
    async with transact() as session:
        return await store.until_next(session)


async def _put_off(transact: Transact, row: Row, why: str) -> None:
    """Waiting too long for a lock is not a failure of a row."""
    async with transact() as session:
        await store.put_off(session, row["id"], why)
    _log.info("bulk action is put off", action=row["id"], reason=why)


async def _failed(transact: Transact, row: Row, why: str) -> None:
    async with transact() as session:
        status = await store.fail(session, row["id"], why)
    _log.warning("bulk action failed", action=row["id"], status=status, reason=why)


async def _progress(session: Session, row: Row) -> ActionProgress:
    left = 0
    if row["canary"] and row["status"] != "running":
        left = row["canary"] - len(row["canary_ids"])
        if row["canary_ids"]:
            watched = await _watched(session, row)
            if left <= 0 or _is_through(row) or watched.status == "paused":
                return watched
    return await _next_rows(session, row, left)


def _is_through(row: Row) -> bool:
    return row["above"] >= row["last_id"] and not row["passed_ids"]


async def _watched(session: Session, row: Row) -> ActionProgress:
    table, same = _table(row), partial(ActionProgress, above=row["above"], passed=row["passed_ids"])
    found = await store.canary_statuses(session, table, row["canary_ids"])
    expected = (*_UNSETTLED, Status.SUCCEEDED)
    if bad := [each for each in found if each["status"] not in expected]:
        states = [f"{each['id']} is {each['status'] or 'gone'}" for each in bad]
        note = (
            f"the canary failed: {len(bad)} of the first {len(found)} did not succeed: "
            f"{one(table)} {listed(states)}"
        )
        return same(status="paused", note=note)
    if any(each["status"] != Status.SUCCEEDED for each in found):
        return same(status="canary", wait=_POLL_INTERVAL)
    return same(status="completed" if _is_through(row) else "running")


async def _next_rows(session: Session, row: Row, canary: int) -> ActionProgress:
    """Rows passed over come first. canary: its remaining rows; 0: no canary."""
    limit = canary or _page(row["rate"])
    again, later = row["passed_ids"][:limit], row["passed_ids"][limit:]
    first = await _do(session, row, again)
    found, met = audit.MatchedAhead((), row["above"], end=row["above"] >= row["last_id"]), _NONE
    full = len(row["passed_ids"]) >= MOST_PASSED
    room = min(limit - len(first.done), MOST_PASSED - len(later) - len(first.passed))
    if not found.end and room > 0 and not full:
        found = await _found(session, row, room)
        met = await _do(session, row, found.ids)
    # Rows that were tried again go to the end, so that each gets its turn.
    passed = (*later, *first.passed, *met.passed)
    done = len(first.done) + len(met.done)
    ended = found.end and not passed and not (canary and (row["canary_ids"] or done))
    wait = timedelta(seconds=done / row["rate"]) if row["rate"] else timedelta(0)
    if passed and not done and (found.end or full):
        wait = _POLL_INTERVAL
    return ActionProgress(
        status="completed" if ended else "canary" if canary else "running",
        above=row["last_id"] if found.end else found.to,
        passed=passed,
        done=done,
        left_out=first.left_out + met.left_out,
        canary=(*first.done.new_ids, *met.done.new_ids) if canary else (),
        wait=wait,
    )


async def _do(session: Session, row: Row, ids: Sequence[int]) -> _Met:
    if not ids:
        return _NONE
    table, action = _table(row), row_action(row["verb"], row["run_at"] or row["priority"])
    held, passed = await store.try_rows(session, table, ids)
    able = [each for each in held if each["status"] in action.allowed]
    # The holder of the lock may have replayed the row, and it may have failed differently since.
    able = await audit.still_matching(session, table, store.match_of(row), able)
    if table == "events":
        able = [each for each in able if not in_chunk(each)]
    done = Done(())
    if able:
        able_ids = [each["id"] for each in able]
        done = await action.do(session, table, able_ids, row["actor"], row["reason"])
        await audit.record_more(session, row["audit_id"], len(done))
        await wakeups.notify(session, table)
    return _Met(len(ids), done, passed)


async def _found(session: Session, row: Row, limit: int) -> audit.MatchedAhead:
    return await store.ahead(
        session,
        _table(row),
        store.match_of(row),
        row["above"],
        row["last_id"],
        limit,
        LOOK,
    )


def _page(rate: float | None) -> int:
    return PAGE if rate is None else max(1, min(PAGE, int(rate)))


def _table(row: Row) -> HotTable:
    return "events" if row["kind"] == "event" else "commands"
