"""Looks up a text: a number, a uuid, a key, a correlation id, or a name.

Known limits: it finds keys only of unsettled rows; a correlation id other than a row's uuid only
among the newest rows of each table (`LOOKED_AT`); tenants and entities not at all.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID

from inboxd.errors import UsageError
from inboxd.model.row_id import read_row_id
from inboxd.model.story import RECEIPT
from inboxd.store import finding, names, receipts, story
from inboxd.store.connections import Row
from inboxd.store.session import Session

LOOKED_AT = 500
_MOST = 20
# Longer texts are not in an index.
_MOST_CHARACTERS = 500
_NAMED = re.compile(r"(event|command|batch|workflow|receipt)s?[\s:/#]+(\S+)", re.IGNORECASE)
# Kinds of names, in the order of hits.
NAME_KINDS = (
    *("event type", "command type", "topic", "queue", "schedule", "breaker", "endpoint", "source"),
)
_SETTLED_WITHIN = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Hit:
    """by: the property, such as "uuid". kind: the row's, or such as "topic", which has a name."""

    by: str
    kind: str
    id: int | None = None
    name: str | None = None
    type: str | None = None
    status: str | None = None


async def look_up(session: Session, text: str) -> list[Hit]:
    text = text.strip()
    if not text or len(text) > _MOST_CHARACTERS or "\0" in text:
        return []
    hits = await _rows(session, text)
    declared = await names.declared(session) or {}
    hits += [Hit("name", kind, name=text) for kind in NAME_KINDS if text in declared.get(kind, ())]
    if not any(hit.by in ("number", "uuid") for hit in hits):
        hits += await _others(session, text, declared)
    return hits


async def _rows(session: Session, text: str) -> list[Hit]:
    named = _NAMED.fullmatch(text)
    kind = named[1].lower() if named else None
    try:
        id = read_row_id(named[2] if named else text)
    except UsageError:
        return []
    by = "uuid" if isinstance(id, UUID) else "number"
    kind = "batch" if kind == "workflow" else kind
    found = [_hit(by, row) for row in await story.find(session, id) if kind in (None, row["kind"])]
    if not found and isinstance(id, UUID) and await receipts.one(session, id) is not None:
        found = [Hit(by, RECEIPT, name=str(id))]
    return found


async def _others(session: Session, text: str, declared: names.Names) -> list[Hit]:
    topics, queues, types = (
        declared.get(kind, frozenset()) for kind in ("topic", "queue", "command type")
    )
    keyed = await finding.of_key(session, text, topics, queues, types, _MOST)
    # Whole days: a search in part of a day might read all of its rows without a hit.
    since = datetime.now(UTC).replace(hour=0, minute=0, second=0) - _SETTLED_WITHIN
    correlated = await finding.correlated(session, text, LOOKED_AT, _MOST, since)
    return [
        *(_hit(row["what"], row) for row in keyed),
        *(_hit("correlation id", row) for row in correlated),
    ]


def _hit(by: str, row: Row) -> Hit:
    return Hit(by, row["kind"], row["id"], type=row["type"], status=row["status"])
