"""Works off bulk actions, a transaction of some rows at a time.

Promises: what is done to rows, how far the action has come and its line of the audit commit
together, so that a worker that is killed repeats nothing and loses nothing; a row is judged again
while it is locked, and left alone when it allows the action no more or matches no more; each row is
met once, and none that was made later; a row that somebody has in hand, or whose bucket, is passed
over for now and tried again, while the others are done: it waits for no lock, nor pauses for one;
of several workers one works on an action at a time. With a canary, the others are replayed only if
the first rows have all succeeded; if one does not, the action pauses.
Known limits: a transaction that fails is tried again some times, then its action pauses: one row
that cannot be changed holds it. No more than `MOST_PASSED` rows are passed over: then it waits.
What cannot be replayed, since its unique key is held or its batch was cancelled, is left, and
counted as such.
*See:* `operations/bulk_orders.py`, before it; `maintenance/bulk_actions.py`, who calls it.
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
from inboxd.operations.rows import deed_for
from inboxd.store import bulk_actions as store
from inboxd.store import operations as audit
from inboxd.store import wakeups
from inboxd.store.bulk_actions import ActionProgress
from inboxd.store.connections import LOST, Connection, Row, is_passing
from inboxd.store.session import Session
from inboxd.store.statements import Statements
from inboxd.store.wakeups import HotTable
from inboxd.telemetry.logs import get_logger

_log = get_logger(__name__)

# Rows of a transaction, at most.
PAGE: Final = 500
# Rows that are passed over, from which on no others are looked for.
MOST_PASSED: Final = 500
# Between two looks at what has become of a canary, and at rows that somebody has in hand.
_WATCH: Final = timedelta(seconds=1)
_UNSETTLED: Final = (Status.PENDING, Status.WAITING, Status.RUNNING)

Transact = Callable[[], AbstractAsyncContextManager[Connection]]


@dataclass(frozen=True, slots=True)
class _Met:
    """Rows that were met: how many, what was done, and which somebody has in hand."""

    met: int
    done: Done
    passed: Sequence[int] = ()

    @property
    def left_out(self) -> int:
        """How many did not allow it any more."""
        return self.met - len(self.done) - len(self.passed)


_NONE: Final = _Met(0, Done(()))


async def work_off(transact: Transact, sql: Statements) -> bool:
    """Do one transaction of the action whose turn it is; returns whether there was one."""
    row: Row | None = None
    try:
        async with transact() as connection:
            session = Session(connection, sql)
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
            await _put_off(transact, sql, row, explain(error).error)
        else:
            await _failed(transact, sql, row, explain(error).error)
        return True
    if progress.status != row["status"]:
        _log.info(
            "bulk action", action=row["id"], verb=row["verb"], status=progress.status,
            done=row["done"] + progress.done, note=progress.note,
        )  # fmt: skip
    return True


async def until_next(transact: Transact, sql: Statements) -> timedelta | None:
    """The time until an action goes on; None: none does by itself."""
    async with transact() as connection:
        return await store.until_next(Session(connection, sql))


async def _put_off(transact: Transact, sql: Statements, row: Row, why: str) -> None:
    """It met a lock for too long: that is no row's fault."""
    async with transact() as connection:
        await store.put_off(Session(connection, sql), row["id"], why)
    _log.info("bulk action is put off", action=row["id"], reason=why)


async def _failed(transact: Transact, sql: Statements, row: Row, why: str) -> None:
    async with transact() as connection:
        status = await store.fail(Session(connection, sql), row["id"], why)
    _log.warning("bulk action failed", action=row["id"], status=status, reason=why)


async def _progress(session: Session, row: Row) -> ActionProgress:
    """Do what is next of it."""
    left = 0
    if row["canary"] and row["status"] != "running":
        left = row["canary"] - len(row["canary_ids"])
        if row["canary_ids"]:
            watched = await _watched(session, row)
            if left <= 0 or _is_through(row) or watched.status == "paused":
                return watched
    return await _next_rows(session, row, left)


def _is_through(row: Row) -> bool:
    """Whether there is no row left to do it to."""
    return row["above"] >= row["last_id"] and not row["passed_ids"]


async def _watched(session: Session, row: Row) -> ActionProgress:
    """What has become of the canary."""
    table, same = _table(row), partial(ActionProgress, above=row["above"], passed=row["passed_ids"])
    found = await store.canary_statuses(session, table, row["canary_ids"])
    expected = (*_UNSETTLED, Status.SUCCEEDED)
    if bad := [each for each in found if each["status"] not in expected]:
        told = [f"{each['id']} is {each['status'] or 'gone'}" for each in bad]
        note = (
            f"the canary did not hold: of the first {len(found)}, {len(bad)} did not succeed: "
            f"{one(table)} {listed(told)}"
        )
        return same(status="paused", note=note)
    if any(each["status"] != Status.SUCCEEDED for each in found):
        return same(status="canary", wait=_WATCH)
    return same(status="completed" if _is_through(row) else "running")


async def _next_rows(session: Session, row: Row, canary: int) -> ActionProgress:
    """Do it to those that were passed over, then to the next. canary: so many first; 0: to any."""
    limit = canary or _page(row["rate"])
    again, later = row["passed_ids"][:limit], row["passed_ids"][limit:]
    first = await _do(session, row, again)
    found, met = audit.MatchedAhead((), row["above"], end=row["above"] >= row["last_id"]), _NONE
    full = len(row["passed_ids"]) >= MOST_PASSED
    room = min(limit - len(first.done), MOST_PASSED - len(later) - len(first.passed))
    if not found.end and room > 0 and not full:
        found = await _found(session, row, room)
        met = await _do(session, row, found.ids)
    # Those that were tried go behind the others, so that each has its turn.
    passed = (*later, *first.passed, *met.passed)
    done = len(first.done) + len(met.done)
    ended = found.end and not passed and not (canary and (row["canary_ids"] or done))
    wait = timedelta(seconds=done / row["rate"]) if row["rate"] else timedelta(0)
    if passed and not done and (found.end or full):
        wait = _WATCH
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
    """Do it to those that allow it, count them in the audit, and wake the workers."""
    if not ids:
        return _NONE
    table, deed = _table(row), deed_for(row["verb"], row["run_at"] or row["priority"])
    held, passed = await store.try_rows(session, table, ids)
    able = [each for each in held if each["status"] in deed.allowed]
    # Whoever had it in hand may have replayed it, and it has failed in another way since.
    able = await audit.still_matching(session, table, store.match_of(row), able)
    if table == "events":
        able = [each for each in able if not in_chunk(each)]
    done = Done(())
    if able:
        able_ids = [each["id"] for each in able]
        done = await deed.do(session, table, able_ids, row["actor"], row["reason"])
        await audit.record_more(session, row["audit_id"], len(done))
        await wakeups.notify(session.connection, session.sql, table)
    return _Met(len(ids), done, passed)


async def _found(session: Session, row: Row, limit: int) -> audit.MatchedAhead:
    """The next rows that match."""
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
