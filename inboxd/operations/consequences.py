"""Consequences of an action on named rows: for batches, waiting rows, unique keys, and order.

Promises that a row is counted once, and that a count which stops at `COUNTED_TO` is marked. Known
limits: it does not see conflicts that the action meets later, such as a key taken meanwhile;
whether a queue keeps an order, and whether its dead letters block their keys, comes from the given
settings, which may differ from the settings of workers elsewhere.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from inboxd.settings import Settings
from inboxd.store import operations as store
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
    """The number of other rows that an action affects. more: there may be more of them."""

    count: int = 0
    more: bool = False


_NONE: Final = OthersTouched()


@dataclass(frozen=True, slots=True)
class Consequences:
    """Consequences for other rows.

    batches: of the rows. waiting: rows that wait for one of the rows. held: pairs of a row and the
    unsettled command that has its unique key. in_place: number of rows that keep their position in
    the line of their key; behind: rows behind a row that blocks its key.
    """

    batches: tuple[TouchedBatch, ...] = ()
    waiting: OthersTouched = _NONE
    held: tuple[tuple[int, int], ...] = ()
    in_place: int = 0
    behind: OthersTouched = _NONE


async def consequences_of(
    session: Session, settings: Settings, table: HotTable, ids: Sequence[int]
) -> Consequences:
    """Find the consequences. An event is never in a batch, and nothing waits for its success."""
    if table == "events":
        line = await store.count_line_of_events(session, ids, COUNTED_TO)
        behind = OthersTouched(line["behind"], line["more_behind"])
        return Consequences(in_place=line["in_place"], behind=behind)
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
