"""A few commands and batches that each event of a list created; its cost ignores their age."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from inboxd.store import finding
from inboxd.store.session import Session

# Rows per event; one more row shows that there are more.
MOST = 10
# Days of history that are searched, for all events together.
_DAYS = 200


@dataclass(frozen=True, slots=True)
class Enqueued:
    """At most `MOST` + 1 rows per event's id. within: rows that ended later are missing."""

    of: Mapping[int, list[dict[str, Any]]]
    within: timedelta


async def enqueued_by(session: Session, events: Sequence[Mapping[str, Any]]) -> Enqueued:
    within = timedelta(days=max(1, _DAYS // max(1, len(events))))
    named = [(row["id"], row["event_id"], row["created_at"]) for row in events]
    found: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for row in await finding.commands_of(session, named, MOST + 1, within) if named else ():
        found[row["event"]].append({key: row[key] for key in ("kind", "id", "type", "status")})
    return Enqueued(found, within)
