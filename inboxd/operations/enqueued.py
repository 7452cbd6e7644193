"""What events of a list enqueued: a few commands and batches of each, with their statuses.

Promises that a list costs about the same however old its events are.
Known limit: of a command that ended long after its event only the event's own page tells:
`Enqueued.within` says how long.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from inboxd.store import finding
from inboxd.store.session import Session

# Of each event; one more tells that there are others.
MOST = 10
# Days of history in which commands are looked for, of all events together.
_DAYS = 200


@dataclass(frozen=True, slots=True)
class Enqueued:
    """By the event's id: kind, id, type, status of what it enqueued, at most `MOST` + 1.

    within: what ended later than that after its event is not among it.
    """

    of: Mapping[int, list[dict[str, Any]]]
    within: timedelta


async def enqueued_by(session: Session, events: Sequence[Mapping[str, Any]]) -> Enqueued:
    """Of events as a list has them."""
    within = timedelta(days=max(1, _DAYS // max(1, len(events))))
    named = [(row["id"], row["event_id"], row["created_at"]) for row in events]
    found: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for row in await finding.commands_of(session, named, MOST + 1, within) if named else ():
        found[row["event"]].append({key: row[key] for key in ("kind", "id", "type", "status")})
    return Enqueued(found, within)
