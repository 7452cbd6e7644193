"""What follows from an action on rows that are named: batches, what waits, keys in the way, order.

Promises that a row is counted once, and that a count which stops at `COUNTED_TO` says so.
Known limits: what the action itself will meet, such as a key that is taken a moment later, is not
seen; whether a queue keeps an order, and its dead letters hold their keys, is told by the settings
that are given, which workers elsewhere may not share.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from inboxd.settings import Settings
from inboxd.store import operations as store
from inboxd.store.connections import Row
from inboxd.store.session import Session
from inboxd.store.wakeups import HotTable

COUNTED_TO: Final = 1_000


@dataclass(frozen=True, slots=True)
class TouchedBatch:
    """A batch that some of the rows are members of."""

    id: int
    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class OthersTouched:
    """How many other rows an action brings on. more: there may be more of them."""

    count: int = 0
    more: bool = False


_NONE: Final = OthersTouched()


@dataclass(frozen=True, slots=True)
class Consequences:
    """What follows for other rows.

    batches: those of the rows. waiting: rows that wait for one of them. held: of rows whose unique
    key another unsettled command has, which one. in_place: how many keep their place in the order
    of their key; behind: rows that stand behind one which holds its key.
    """

    batches: tuple[TouchedBatch, ...] = ()
    waiting: OthersTouched = _NONE
    held: tuple[tuple[int, int], ...] = ()
    in_place: int = 0
    behind: OthersTouched = _NONE


async def consequences_of(
    session: Session, settings: Settings, table: HotTable, held: Sequence[Row]
) -> Consequences:
    """What follows for other rows than these. An event is in no batch, and nothing waits for it."""
    if table == "events":
        return Consequences(in_place=sum(row["mode"] == "sequential" for row in held))
    ids = [row["id"] for row in held]
    rows = await store.consequences(session, ids)
    queues = settings.all_queues.items()
    skipping = [name for name, queue in queues if queue.on_failure == "skip"]
    at_once = [name for name, queue in queues if queue.key_concurrency > 1]
    count = await store.count_consequences(session, ids, COUNTED_TO, skipping, at_once)
    batches = {
        row["batch_id"]: TouchedBatch(row["batch_id"], row["batch_kind"], row["batch_name"])
        for row in rows
        if row["batch_kind"] is not None
    }
    return Consequences(
        tuple(batches.values()),
        OthersTouched(count["waiting"], count["more_waiting"]),
        tuple((row["id"], row["held_by"]) for row in rows if row["held_by"] is not None),
        sum(row["ordered"] for row in rows),
        OthersTouched(count["behind"], count["more_behind"]),
    )
