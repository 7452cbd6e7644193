"""What an operator does to rows that are named: replay, dismiss, cancel, reschedule, prioritize.

A command without an ordering key is replayed as a new row, which takes the old one's place in its
batch, in what waits for it and among a workflow's steps; the old row goes to history. With one it
has a position in a line, and an event is a fact: those run again in place. `replays` lists them
all. To a batch, and to what waits for it, a dismissed command counts as cancelled.

Promises: a row's status is judged while the row is locked, and a refusal
names each row that does not allow the action. Of two actions on one row at once, one is refused.
Known limits: a running command is only asked to end: its worker learns of it with its next
heartbeat. A command whose unique key another unsettled one holds cannot be replayed before that
one has ended. A dismissed row can only be sent anew. In a busy lane a row that was moved to the
front is found by the next sweep, not by the next page.
*See:* `cli/actions.py`, before it; `store/operations.py`, after it.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Literal, TypeVar
from uuid import UUID

from inboxd.errors import Conflict, NotFound, UsageError
from inboxd.model import checks
from inboxd.model.lifecycle import Status
from inboxd.store import operations as store
from inboxd.store import wakeups
from inboxd.store.connections import Row
from inboxd.store.session import Session
from inboxd.store.wakeups import HotTable

RowId = int | UUID
T = TypeVar("T", int, UUID)


@dataclass(frozen=True, slots=True)
class Done:
    """The rows that an action was done to.

    requested: commands that run; their workers were asked to end them. new_ids: the rows that run
    again for `ids`, in the same order; each is a row's own number where it runs in place.
    """

    ids: tuple[int, ...]
    requested: tuple[int, ...] = ()
    new_ids: tuple[int, ...] = ()

    def __len__(self) -> int:
        """How many rows."""
        return len(self.ids) + len(self.requested)


# Does it to locked rows of the right status, for an actor and a reason.
Do = Callable[[Session, HotTable, Sequence[int], str, str | None], Awaitable[Done]]


@dataclass(frozen=True, slots=True)
class _Deed:
    """An action: its word in the audit, its participle, the statuses that allow it."""

    word: store.Audited
    done: str
    allowed: tuple[Status, ...]
    do: Do
    to: str | None = None  # what a row is changed to, for the audit


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
DEEDS: dict[Action, _Deed] = {
    "replay": _Deed("replay", "replayed", (Status.FAILED,), _replay),
    "dismiss": _Deed("dismiss", "dismissed", (Status.FAILED,), _dismiss),
    "cancel": _Deed(
        "cancel", "cancelled", (Status.PENDING, Status.WAITING, Status.RUNNING), _cancel
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
) -> Done:
    """Replay, dismiss or cancel rows: all or none.

    A replayed row runs now, its attempts and crashes counted anew; a dismissed one goes to history;
    a cancelled command ends at once, or by its worker when it runs. ids: row numbers and uuids,
    mixed. Raises NotFound, or Conflict when a row's status does not allow the action, or a replay
    meets a unique key that is held or a batch that was cancelled; then nothing is changed.
    """
    return await _act(session, table, DEEDS[action], ids, actor, reason)


async def reschedule(
    session: Session,
    table: HotTable,
    ids: Sequence[RowId],
    run_at: datetime,
    *,
    actor: str,
    reason: str | None = None,
) -> Done:
    """Let rows run at another time, at once if it has passed: all or none.

    ids: row numbers and uuids, mixed. Raises UsageError for a time without a zone, NotFound, or
    Conflict when one of the rows runs, has ended, or waits in a chunk; then nothing is changed.
    """
    checks.refuse(f"the time {run_at}", checks.time(run_at))
    to, do = f"{run_at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}", partial(_reschedule, run_at)
    deed = _Deed("reschedule", "rescheduled", _MOVABLE, do, to)
    return await _act(session, table, deed, ids, actor, reason)


async def prioritize(
    session: Session,
    ids: Sequence[RowId],
    priority: int,
    *,
    actor: str,
    reason: str | None = None,
) -> Done:
    """Give commands another priority, the smallest runs first: all or none.

    As `reschedule`; raises UsageError for a priority of more than 16 bits.
    """
    checks.refuse(f"priority {priority}", checks.small(priority))
    do = partial(_prioritize, priority)
    deed = _Deed("prioritize", "given another priority", _MOVABLE, do, str(priority))
    return await _act(session, "commands", deed, ids, actor, reason)


async def _act(
    session: Session,
    table: HotTable,
    deed: _Deed,
    ids: Sequence[RowId],
    actor: str,
    reason: str | None,
) -> Done:
    async with session.connection.transaction():
        held = await hold(session, table, ids, deed)
        done = await deed.do(session, table, held, actor, reason)
        if left := sorted(set(held) - {*done.ids, *done.requested}):
            raise Conflict(
                f"{one(table)} {listed(left)}: its batch was cancelled, or another unsettled "
                "command holds its unique key; nothing was changed: send it anew, or wait until "
                "the other one has ended"
            )
        target = f"{table} {', '.join(map(str, held))}"
        await store.record(session, actor, deed.word, target, reason, len(held), to=deed.to)
        await wakeups.notify(session.connection, session.sql, table)
    return done


async def hold(session: Session, table: HotTable, ids: Sequence[RowId], deed: _Deed) -> list[int]:
    """Lock the rows until the transaction ends; returns their numbers.

    Raises NotFound, naming the ids that no row has, or Conflict, naming the rows that do not allow
    the action.
    """
    numbers = [id for id in ids if isinstance(id, int)]
    uuids = [id for id in ids if isinstance(id, UUID)]
    rows = await store.lock(session, table, numbers, uuids)
    numbers, uuids = _without(rows, numbers), _without(rows, uuids)
    if numbers or uuids:
        # Looked for afterwards: a row that was just settled is found in history.
        rows += await store.settled(session, table, numbers, uuids)
    if unknown := [*_without(rows, numbers), *_without(rows, uuids)]:
        raise NotFound(
            f"there is no {one(table)} {listed(unknown)}; nothing was changed: "
            f"look the id up with `inboxd {table} list`"
        )
    wrong = [_how(row) for row in rows if not row["hot"] or row["status"] not in deed.allowed]
    if wrong:
        raise Conflict(
            f"{one(table)} {listed(wrong)}: only {' or '.join(deed.allowed)} can be {deed.done}; "
            "nothing was changed"
        )
    if table == "events" and deed.word == "reschedule":
        _refuse_in_chunks(rows)
    return [row["id"] for row in rows]


def _without(rows: Sequence[Row], ids: Sequence[T]) -> list[T]:
    found = {key for row in rows for key in (row["id"], row["uuid"])}
    return [id for id in ids if id not in found]


def _how(row: Row) -> str:
    if row["status"] == Status.FAILED and not row["hot"]:
        return f"{row['id']} was replayed as another row"
    return f"{row['id']} is {row['status']}"


def _refuse_in_chunks(rows: Sequence[Row]) -> None:
    """Raise Conflict when an event waits in a chunk: that has a time, its events have none."""
    found = [row for row in rows if row["mode"] == "batch" and row["status"] == Status.WAITING]
    if found:
        where, topic = [f"{row['id']} of {row['topic']}" for row in found], found[0]["topic"]
        raise Conflict(
            f"event {listed(where)}: waits in a chunk of a batch topic, which is run when the "
            "topic's rule says, not at the times of its events; nothing was changed: `inboxd "
            f"topics flush {topic}` runs its chunks now, `inboxd pause topic {topic}` holds them"
        )


def told(action: Action, done: Done) -> dict[str, object]:
    """What was done, as the command line and the admin API tell it in JSON."""
    if action == "replay":
        pairs = zip(done.ids, done.new_ids, strict=True)
        return {"replayed": [{"old_id": old, "new_id": new} for old, new in pairs]}
    found: dict[str, object] = {DEEDS[action].done: done.ids}
    return {**found, "requested": done.requested} if action == "cancel" else found


def one(table: HotTable) -> str:
    """What a single row of the table is called."""
    return table.removesuffix("s")


_SHOWN = 10


def listed(items: Sequence[object]) -> str:
    """The first of them, and how many more there are."""
    more = f" and {len(items) - _SHOWN} more" if len(items) > _SHOWN else ""
    return ", ".join(map(str, items[:_SHOWN])) + more
