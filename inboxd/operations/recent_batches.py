"""Recently created batches and workflows, for charts of lists: in each step of a span, by type.

Known limit: steps before the oldest of the newest `LOOKED` rows of both kinds are unknown.
"""

from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from inboxd.operations.batches import Kind
from inboxd.operations.lately import Span, resolution_of, steps_of
from inboxd.store import batch_listing, statistics
from inboxd.store.batch_listing import BatchFilter
from inboxd.store.session import Session

LOOKED: Final = 5_000


@dataclass(frozen=True, slots=True)
class BatchStep:
    """Batches by their current status; None: unknown. ids: the smallest and the largest id."""

    at: datetime
    created: int | None
    succeeded: int | None
    failed: int | None
    ids: tuple[int, int] | None


@dataclass(frozen=True, slots=True)
class RecentBatches:
    """types: number of batches of each, most first."""

    span: Span
    steps: list[BatchStep]
    types: list[tuple[str, int]]


async def recent_batches(
    session: Session,
    kind: Kind,
    span: Span,
    *,
    type_: str | None = None,
    tenant: str | None = None,
) -> RecentBatches:
    begins = steps_of(span, await statistics.database_time(session))
    unit = begins[1] - begins[0]
    wanted = BatchFilter(kind=kind, type=type_, tenant=tenant)
    trunc = resolution_of(span).removesuffix("s")
    found = await batch_listing.recent(session, wanted, begins[0], trunc, LOOKED)
    (looked,) = (row for row in found if row["status"] is None)
    counts = [Counter[str]() for _ in begins]
    ids: list[list[int]] = [[] for _ in begins]
    types = Counter[str]()
    for row in found:
        if row["status"] is None:
            continue
        place = min((row["at"] - begins[0]) // unit, len(begins) - 1)
        counts[place][row["status"]] += row["count"]
        ids[place] += row["first_id"], row["last_id"]
        types[row["type"]] += row["count"]
    known_since = looked["at"] if looked["count"] >= LOOKED else begins[0]
    steps = [
        BatchStep(at, own.total(), own["succeeded"], own["failed"], _ends(theirs))
        if at >= known_since
        else BatchStep(at, None, None, None, None)
        for at, own, theirs in zip(begins, counts, ids, strict=True)
    ]
    return RecentBatches(span, steps, sorted(types.items(), key=lambda each: (-each[1], each[0])))


def _ends(ids: list[int]) -> tuple[int, int] | None:
    return (min(ids), max(ids)) if ids else None
