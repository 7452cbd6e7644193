"""Consequences of an action on named rows: for batches, waiting rows, unique keys, and order.

Known limits: it does not see conflicts that come later, such as a key taken meanwhile; the rules of
queues come from the given settings, which may differ from the workers' settings.
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
    id: int
    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class OthersTouched:
    """more: there may be more of them."""

    count: int = 0
    more: bool = False


_NONE: Final = OthersTouched()


@dataclass(frozen=True, slots=True)
class Consequences:
    """Consequences for other rows.

    held: pairs of a row and the unsettled command that has its unique key. in_place: rows that keep
    their position in the line of their key; behind: rows behind a row that blocks its key.
    """

    batches: tuple[TouchedBatch, ...] = ()
    waiting: OthersTouched = _NONE
    held: tuple[tuple[int, int], ...] = ()
    in_place: int = 0
    behind: OthersTouched = _NONE


async def consequences_of(
    session: Session, settings: Settings, table: HotTable, ids: Sequence[int]
) -> Consequences:
    """An event is never in a batch, and nothing waits for its success."""
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
