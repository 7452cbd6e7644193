"""Locks the rows that an operator names; a refusal names each row that forbids the action."""

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
    """requested: commands asked to stop. new_ids: in the order of `ids`; same if in place."""

    ids: tuple[int, ...]
    requested: tuple[int, ...] = ()
    new_ids: tuple[int, ...] = ()

    def __len__(self) -> int:
        return len(self.ids) + len(self.requested)


@dataclass(frozen=True, slots=True)
class ExpectedRows:
    """tenants: rows of others count as missing; None: any. seen: the state in a preview."""

    tenants: Collection[str] | None = None
    seen: str | None = None


ANY: Final = ExpectedRows()
# Acts on locked rows in an allowed status, for an actor and a reason.
ActOnRows = Callable[[Session, HotTable, Sequence[int], str, str | None], Awaitable[Done]]


@dataclass(frozen=True, slots=True)
class RowAction:
    """word: in the audit; done: participle; allowed: statuses that allow it."""

    word: store.Audited
    done: str
    allowed: tuple[Status, ...]
    do: ActOnRows
    to: str | None = None  # the new value of a row, for the audit
    ordered: bool = True  # whether it allows rows with an ordering key
    ends: bool = False  # whether it may end rows that wait for others
    hint: str = ""  # for errors: actions for rows in other statuses


async def hold(
    session: Session,
    table: HotTable,
    ids: Sequence[RowId],
    action: RowAction,
    expected: ExpectedRows = ANY,
) -> list[Row]:
    """Lock until the transaction ends. Raises NotFound; Conflict for a wrong status or `seen`."""
    numbers = [id for id in ids if isinstance(id, int)]
    uuids = [id for id in ids if isinstance(id, UUID)]
    rows = await store.lock(session, table, numbers, uuids, ending=action.ends)
    left, left_uuids = _without(rows, numbers), _without(rows, uuids)
    if left or left_uuids:
        # History is searched second: a row that settles meanwhile is found there.
        rows += await store.settled(session, table, left, left_uuids)
    if expected.tenants is not None:
        rows = [row for row in rows if row["tenant"] in expected.tenants]
    if unknown := [*_without(rows, numbers), *_without(rows, uuids)]:
        raise NotFound(
            f"there is no {one(table)} {listed(unknown)}; nothing was changed: "
            f"look the id up with `inboxd {table} list`"
        )
    wrong = [_state(row) for row in rows if not row["hot"] or row["status"] not in action.allowed]
    if wrong:
        raise Conflict(
            f"{one(table)} {listed(wrong)}: only {' or '.join(action.allowed)} can be "
            f"{action.done}; nothing was changed{action.hint}"
        )
    if table == "events" and action.word == "reschedule":
        _refuse_in_chunks(rows)
    if not action.ordered and (ordered := [row["id"] for row in rows if row["ordered"]]):
        raise Conflict(
            f"{one(table)} {listed(ordered)}: has an ordering key, so it is replayed in place with "
            "its own payload; nothing was changed: replay it without a payload, or send a new one"
        )
    if expected.seen is not None and seen_as(rows) != expected.seen:
        raise Conflict(
            f"{one(table)} {listed([row['id'] for row in rows])}: another operator or a worker "
            "changed it meanwhile; nothing was changed: look at it again"
        )
    return rows


def seen_as(rows: Sequence[Row]) -> str:
    """The text changes with every change of one of the rows."""
    states = sorted((row["id"], row["status"], row["updated_at"].isoformat()) for row in rows)
    return hashlib.blake2b(repr(states).encode(), digest_size=12).hexdigest()


def in_chunk(row: Row) -> bool:
    """A chunk has a due time; its events have none."""
    return bool(row["mode"] == "batch" and row["status"] == Status.WAITING)


def _without(rows: Sequence[Row], ids: Sequence[T]) -> list[T]:
    found = {key for row in rows for key in (row["id"], row["uuid"])}
    return [id for id in ids if id not in found]


def _state(row: Row) -> str:
    if row["status"] == Status.FAILED and not row["hot"]:
        return f"{row['id']} was replayed as another row"
    return f"{row['id']} is {row['status']}"


def _refuse_in_chunks(rows: Sequence[Row]) -> None:
    found = [row for row in rows if in_chunk(row)]
    if found:
        where, topic = [f"{row['id']} of {row['topic']}" for row in found], found[0]["topic"]
        raise Conflict(
            f"event {listed(where)}: waits in a chunk of a batch topic, which runs by the topic's "
            "rule, not at the times of its events; nothing was changed: `inboxd topics flush "
            f"{topic}` runs its chunks now, `inboxd pause topic {topic}` holds them"
        )


def one(table: HotTable) -> str:
    return table.removesuffix("s")


def listed(items: Sequence[object]) -> str:
    more = f" and {len(items) - _SHOWN} more" if len(items) > _SHOWN else ""
    return ", ".join(map(str, items[:_SHOWN])) + more
