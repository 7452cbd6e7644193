"""Events and webhooks that handlers emitted, written in the same way as those of producers.

Promises few statements per page (`inboxd.store.pages`), in the order of emitting; that only the
handlers' transaction commits them; and that a dedup key which is locked for too long is told apart
from other locks. Known limit: locks of dedup keys and message ids are in order within a statement
only.
*See:* `api/drafts.py`, before it; `migrations/functions/write_webhooks.sql`, after it.
"""

import re
from collections.abc import Sequence
from typing import Any

import asyncpg

from inboxd.api.drafts import EmittedDraft, EventDraft, WebhookDraft
from inboxd.errors import DedupKeyHeld
from inboxd.store.arrays import columns, filled, sparse
from inboxd.store.pages import pages
from inboxd.store.session import Session
from inboxd.store.settlements import Parent

# Matches the server's context of a lock wait on the table of keys. No error field has this, so it
# is recognised by a row's place (numbers) and the table's name, in any order, among words of the
# server's language; in the first line, and without a schema: quoted statements have one.
_IN_DEDUP = re.compile(r"(?=[^\n]*\d, ?\d)[^\n]*(?<![\w.])dedup")

Emitted = Sequence[tuple[EmittedDraft, Parent]]


async def write(session: Session, emitted: Emitted) -> None:
    """Raises DedupKeyHeld if another transaction held a key for longer than the lock time limit."""
    await _write_events(
        session, [(d, parent) for d, parent in emitted if isinstance(d, EventDraft)]
    )
    await _write_webhooks(
        session, [(d, parent) for d, parent in emitted if isinstance(d, WebhookDraft)]
    )


async def _write_events(session: Session, emitted: Sequence[tuple[EventDraft, Parent]]) -> None:
    for cut in pages(len(draft.payload) + len(draft.headers or "") for draft, _ in emitted):
        page = emitted[cut]
        drafts = [draft for draft, _ in page]
        parents = [parent for _, parent in page]
        await _execute(
            session,
            "write_events",
            *columns(drafts, "event_id", "type", "payload"),
            filled([d.schema_version for d in drafts], 1),
            *sparse(drafts, "topic", "source", "tenant", "entity_type", "entity_id", "headers"),
            *columns(parents, "lineage.correlation_id", "lineage.causation_id"),
            *sparse(parents, "lineage.traceparent"),
            *sparse(drafts, "occurred_at", "run_at", "mode", "ordering_key", "dedup_key"),
            *columns(parents, "kind", "id"),
            *sparse(drafts, "delay"),
        )


async def _write_webhooks(session: Session, sent: Sequence[tuple[WebhookDraft, Parent]]) -> None:
    for cut in pages(len(draft.payload) for draft, _ in sent):
        page = sent[cut]
        drafts = [draft for draft, _ in page]
        parents = [parent for _, parent in page]
        await session.execute(
            "write_webhooks",
            *columns(drafts, "type", "payload"),
            *sparse(drafts, "message_id", "endpoint", "ordering_key", "tenant"),
            *sparse(drafts, "entity_type", "entity_id", "occurred_at", "run_at"),
            *columns(parents, "lineage.correlation_id", "lineage.causation_id"),
            *sparse(parents, "lineage.traceparent"),
            *columns(parents, "kind", "id"),
            *sparse(drafts, "emitted"),
        )


async def _execute(session: Session, statement: str, *arrays: list[Any] | None) -> None:
    try:
        await session.execute(statement, *arrays)
    except asyncpg.LockNotAvailableError as error:
        if _IN_DEDUP.match(error.context or ""):
            raise DedupKeyHeld(
                "an event that the handler emitted has a dedup key that another transaction has "
                "held for longer than database.lock_timeout: end that transaction"
            ) from error
        raise
