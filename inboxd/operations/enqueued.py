"""The commands and batches that the events of a list created: a few of each event.

Promises that the cost of a list does not depend on the age of its events.
Known limit: a command that ended long after its event is missing (`Enqueued.within`); only the view
of that event shows it.
"""

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
    """Created rows by the event's id: kind, id, type, status, at most `MOST` + 1 per event.

    within: rows that ended later than this after their event are missing.
    """

    of: Mapping[int, list[dict[str, Any]]]
    within: timedelta


async def enqueued_by(session: Session, events: Sequence[Mapping[str, Any]]) -> Enqueued:
    """Find the rows that events created. events: rows of a list."""
    within = timedelta(days=max(1, _DAYS // max(1, len(events))))
    named = [(row["id"], row["event_id"], row["created_at"]) for row in events]
    found: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for row in await finding.commands_of(session, named, MOST + 1, within) if named else ():
        found[row["event"]].append({key: row[key] for key in ("kind", "id", "type", "status")})
    return Enqueued(found, within)
