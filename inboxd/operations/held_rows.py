"""Rows that an operator names are locked and judged: which allow an action, how they were seen.

Promises that a refusal names each row that does not allow the action.
*See:* `operations/rows.py`, which acts on them.
"""

import hashlib
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar
from uuid import UUID

from inboxd.errors import Conflict, NotFound
from inboxd.model.lifecycle import Status
from inboxd.store import operations as store
from inboxd.store.connections import Row
from inboxd.store.session import Session
from inboxd.store.wakeups import HotTable

RowId = int | UUID
T = TypeVar("T", int, UUID)
_SHOWN: Final = 10


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


@dataclass(frozen=True, slots=True)
class ExpectedRows:
    """What rows must be besides, while they are locked: of these tenants, and as they were seen.

    tenants: rows of others are as if they were not there; None: any. seen: as a preview told.
    """

    tenants: Collection[str] | None = None
    seen: str | None = None


ANY: Final = ExpectedRows()
# Does it to locked rows of the right status, for an actor and a reason.
Do = Callable[[Session, HotTable, Sequence[int], str, str | None], Awaitable[Done]]


@dataclass(frozen=True, slots=True)
class Deed:
    """An action: its word in the audit, its participle, the statuses that allow it."""

    word: store.Audited
    done: str
    allowed: tuple[Status, ...]
    do: Do
    to: str | None = None  # what a row is changed to, for the audit
    ordered: bool = True  # whether rows with an ordering key may be meant
    ends: bool = False  # whether rows may end by it that themselves wait for others
    hint: str = ""  # what can be done to rows of other statuses


async def hold(
    session: Session,
    table: HotTable,
    ids: Sequence[RowId],
    deed: Deed,
    expected: ExpectedRows = ANY,
) -> list[Row]:
    """Lock the rows until the transaction ends, and judge them.

    Raises NotFound, naming the ids that no row has, or Conflict, naming the rows that do not allow
    the action, or telling that one has changed since it was seen.
    """
    numbers = [id for id in ids if isinstance(id, int)]
    uuids = [id for id in ids if isinstance(id, UUID)]
    rows = await store.lock(session, table, numbers, uuids, ending=deed.ends)
    left, left_uuids = _without(rows, numbers), _without(rows, uuids)
    if left or left_uuids:
        # Looked for afterwards: a row that was just settled is found in history.
        rows += await store.settled(session, table, left, left_uuids)
    if expected.tenants is not None:
        rows = [row for row in rows if row["tenant"] in expected.tenants]
    if unknown := [*_without(rows, numbers), *_without(rows, uuids)]:
        raise NotFound(
            f"there is no {one(table)} {listed(unknown)}; nothing was changed: "
            f"look the id up with `inboxd {table} list`"
        )
    wrong = [_how(row) for row in rows if not row["hot"] or row["status"] not in deed.allowed]
    if wrong:
        raise Conflict(
            f"{one(table)} {listed(wrong)}: only {' or '.join(deed.allowed)} can be {deed.done}; "
            f"nothing was changed{deed.hint}"
        )
    if table == "events" and deed.word == "reschedule":
        _refuse_in_chunks(rows)
    if not deed.ordered and (ordered := [row["id"] for row in rows if row["ordered"]]):
        raise Conflict(
            f"{one(table)} {listed(ordered)}: has an ordering key, so it runs again in its own "
            "place with its own payload; nothing was changed: replay it as it is, or send another"
        )
    if expected.seen is not None and seen_as(rows) != expected.seen:
        raise Conflict(
            f"{one(table)} {listed([row['id'] for row in rows])}: somebody else, or a worker, was "
            "first; nothing was changed: look again how things are"
        )
    return rows


def seen_as(rows: Sequence[Row]) -> str:
    """What stands for the state in which these rows are: another for each change of one."""
    states = sorted((row["id"], row["status"], row["updated_at"].isoformat()) for row in rows)
    return hashlib.blake2b(repr(states).encode(), digest_size=12).hexdigest()


def in_chunk(row: Row) -> bool:
    """Whether an event waits in a chunk: that has a time, its events have none."""
    return bool(row["mode"] == "batch" and row["status"] == Status.WAITING)


def _without(rows: Sequence[Row], ids: Sequence[T]) -> list[T]:
    found = {key for row in rows for key in (row["id"], row["uuid"])}
    return [id for id in ids if id not in found]


def _how(row: Row) -> str:
    if row["status"] == Status.FAILED and not row["hot"]:
        return f"{row['id']} was replayed as another row"
    return f"{row['id']} is {row['status']}"


def _refuse_in_chunks(rows: Sequence[Row]) -> None:
    """Raise Conflict when an event waits in a chunk: that has a time, its events have none."""
    found = [row for row in rows if in_chunk(row)]
    if found:
        where, topic = [f"{row['id']} of {row['topic']}" for row in found], found[0]["topic"]
        raise Conflict(
            f"event {listed(where)}: waits in a chunk of a batch topic, which is run when the "
            "topic's rule says, not at the times of its events; nothing was changed: `inboxd "
            f"topics flush {topic}` runs its chunks now, `inboxd pause topic {topic}` holds them"
        )


def one(table: HotTable) -> str:
    """What a single row of the table is called."""
    return table.removesuffix("s")


def listed(items: Sequence[object]) -> str:
    """The first of them, and how many more there are."""
    more = f" and {len(items) - _SHOWN} more" if len(items) > _SHOWN else ""
    return ", ".join(map(str, items[:_SHOWN])) + more
