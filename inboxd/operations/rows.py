"""Actions on named rows: replay, dismiss, cancel, reschedule, prioritize.

A command without an ordering key is replayed as a new row, which takes the old row's place in its
batch, for waiting rows and among a workflow's steps. A command with an ordering key has a position
in a line, and an event is a fact: both run again in place. For a batch, and for rows that wait for
it, a dismissed command counts as cancelled. Promises: of two actions on one row at the same time,
one is refused. Known limits: a running command stops at its worker's next heartbeat. A command
whose unique key is held cannot be replayed yet. In a busy lane, only the next sweep finds a row
that was moved to the front. *See:* `cli/actions.py`, before it; `store/operations.py`, after it.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Literal

from inboxd.errors import Conflict, UsageError
from inboxd.model import checks
from inboxd.model.lifecycle import Status
from inboxd.operations.held_rows import (
    ANY,
    ActOnRows,
    Done,
    ExpectedRows,
    RowAction,
    RowId,
    hold,
    listed,
    one,
    seen_as,
)
from inboxd.store import operations as store
from inboxd.store import wakeups
from inboxd.store.session import Session
from inboxd.store.wakeups import HotTable


async def _replay(
    session: Session, table: HotTable, ids: Sequence[int], actor: str, reason: str | None
) -> Done:
    rows = await store.replay_in_place(session, table, ids, actor, reason)
    if table == "commands" and len(rows) < len(ids):
        rows += await store.replay_as_new(session, ids, actor, reason)
    pairs = sorted((row["old_id"], row["new_id"]) for row in rows)
    return Done(tuple(old for old, _ in pairs), new_ids=tuple(new for _, new in pairs))


async def _dismiss(session: Session, table: HotTable, ids: Sequence[int], *_: str | None) -> Done:
    return Done(tuple(await store.dismiss(session, table, ids)))


async def _cancel(session: Session, table: HotTable, ids: Sequence[int], *_: str | None) -> Done:
    if table == "events":
        raise UsageError("an event cannot be cancelled: it is a fact")
    return Done(
        tuple(await store.cancel(session, ids)), tuple(await store.request_cancel(session, ids))
    )


async def _reschedule(
    run_at: datetime, session: Session, table: HotTable, ids: Sequence[int], *_: str | None
) -> Done:
    return Done(tuple(await store.reschedule(session, table, ids, run_at)))


async def _prioritize(
    priority: int, session: Session, _table: HotTable, ids: Sequence[int], *_: str | None
) -> Done:
    return Done(tuple(await store.reprioritize(session, ids, priority)))


Action = Literal["replay", "dismiss", "cancel"]
Move = Literal["reschedule", "prioritize"]
ROW_ACTIONS: dict[Action, RowAction] = {
    "replay": RowAction("replay", "replayed", (Status.FAILED,), _replay),
    "dismiss": RowAction("dismiss", "dismissed", (Status.FAILED,), _dismiss),
    "cancel": RowAction(
        "cancel", "cancelled", (Status.PENDING, Status.WAITING, Status.RUNNING), _cancel, ends=True
    ),
}
_MOVABLE = (Status.PENDING, Status.WAITING)


async def act(
    session: Session,
    table: HotTable,
    action: Action,
    ids: Sequence[RowId],
    *,
    actor: str,
    reason: str | None = None,
    expected: ExpectedRows = ANY,
) -> Done:
    """Replay, dismiss or cancel rows, all or none. ids: row numbers and uuids, mixed.

    A replayed row runs now, with attempts and crashes counted from 0. Raises NotFound; Conflict if
    a row's status does not allow it, its unique key is held, or its batch was cancelled.
    """
    return await _act(session, table, ROW_ACTIONS[action], ids, actor, reason, expected)


async def replay_with(
    session: Session,
    id: RowId,
    payload: str,
    *,
    actor: str,
    reason: str | None = None,
    expected: ExpectedRows = ANY,
) -> Done:
    """payload: JSON text, for a new row; the old row does not change. Raises as `act`.

    Raises UsageError for invalid JSON; Conflict for a command with an ordering key.
    """

    async def do(
        session: Session, table: HotTable, ids: Sequence[int], actor: str, reason: str | None
    ) -> Done:
        done = await _replay(session, table, ids, actor, reason)
        for new in done.new_ids:
            await store.replace_payload(session, new, payload)
        return done

    action = RowAction("replay", "replayed", (Status.FAILED,), do, "another payload", ordered=False)
    return await _act(session, "commands", action, [id], actor, reason, expected)


async def reschedule(
    session: Session,
    table: HotTable,
    ids: Sequence[RowId],
    run_at: datetime,
    *,
    actor: str,
    reason: str | None = None,
    expected: ExpectedRows = ANY,
) -> Done:
    """All rows or none; a time in the past means at once. Raises UsageError, NotFound, Conflict."""
    checks.refuse(f"the time {run_at}", checks.time(run_at))
    action = row_action("reschedule", run_at)
    return await _act(session, table, action, ids, actor, reason, expected)


async def prioritize(
    session: Session,
    ids: Sequence[RowId],
    priority: int,
    *,
    actor: str,
    reason: str | None = None,
    expected: ExpectedRows = ANY,
) -> Done:
    """Smaller numbers, of 16 bits, run first. Raises as `reschedule`."""
    checks.refuse(f"priority {priority}", checks.small(priority))
    action = row_action("prioritize", priority)
    return await _act(session, "commands", action, ids, actor, reason, expected)


def row_action(verb: Action | Move, to: datetime | int | None = None) -> RowAction:
    """to: the new time or priority of the rows."""
    if verb == "reschedule":
        assert isinstance(to, datetime)  # noqa: S101 - checked by callers and the table
        text = f"{to.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
        return _moving(verb, partial(_reschedule, to), text)
    if verb == "prioritize":
        assert isinstance(to, int)  # noqa: S101 - the same
        return _moving(verb, partial(_prioritize, to), str(to))
    return ROW_ACTIONS[verb]


def _moving(move: Move, do: ActOnRows, to: str) -> RowAction:
    done = "rescheduled" if move == "reschedule" else "given another priority"
    return RowAction(move, done, _MOVABLE, do, to)


async def movable(
    session: Session,
    table: HotTable,
    move: Move,
    ids: Sequence[RowId],
    expected: ExpectedRows = ANY,
) -> str:
    """Return the state of rows before a move. Raises as the move does."""
    action = _moving(move, _dismiss, "")
    async with session.transaction():
        return seen_as(await hold(session, table, ids, action, expected))


async def _act(
    session: Session,
    table: HotTable,
    action: RowAction,
    ids: Sequence[RowId],
    actor: str,
    reason: str | None,
    expected: ExpectedRows,
) -> Done:
    async with session.transaction():
        rows = await hold(session, table, ids, action, expected)
        held = [row["id"] for row in rows]
        done = await action.do(session, table, held, actor, reason)
        if left := sorted(set(held) - {*done.ids, *done.requested}):
            raise Conflict(f"{one(table)} {listed(left)}: {_why_left(expected)}")
        target = f"{table} {', '.join(map(str, held))}"
        await store.record(session, actor, action.word, target, reason, len(held), to=action.to)
        await wakeups.notify(session, table)
    return done


def _why_left(expected: ExpectedRows) -> str:
    """Only a visitor of all tenants learns about other rows."""
    if expected.tenants is not None:
        return (
            "cannot be replayed now; nothing was changed: ask an operator who may see all tenants "
            "for the reason"
        )
    return (
        "its batch was cancelled, or another unsettled command holds its unique key; nothing was "
        "changed: send it anew, or wait until that command has ended"
    )


def told(action: Action, done: Done) -> dict[str, object]:
    if action == "replay":
        pairs = zip(done.ids, done.new_ids, strict=True)
        return {"replayed": [{"old_id": old, "new_id": new} for old, new in pairs]}
    found: dict[str, object] = {ROW_ACTIONS[action].done: done.ids}
    return {**found, "requested": done.requested} if action == "cancel" else found
