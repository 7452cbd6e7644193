"""The events and webhooks that handlers emitted, written as producers' are.

Owns the arrays that the statements take. Promises that a page's are few statements
(`inboxd.store.pages`), in the order in which they were emitted; that they go the way of every
producer's (events to each topic that is subscribed, by dedup key, under the locks of lines;
webhooks to each endpoint whose types match); that nothing is written but what the transaction
commits; and that a dedup key which is held for too long is told from other locks. Known limit:
dedup keys and message ids are locked in their own order within each statement only.
*See:* `api/drafts.py`, before it; `migrations/functions/write_webhooks.sql`, after it.
"""

import re
from collections.abc import Sequence
from typing import Any

import asyncpg

from inboxd.api.drafts import EmittedDraft, EventDraft, WebhookDraft
from inboxd.errors import DedupKeyHeld
from inboxd.store.arrays import columns, filled, sparse
from inboxd.store.connections import Connection
from inboxd.store.pages import pages
from inboxd.store.settlements import Parent
from inboxd.store.statements import Statements

# Where the server says what it waited for: the place of a row, and the table of keys. No field has
# that, so it is told by number and name, in any order: around them are words of the server's
# language. In the first line, and without a schema: statements, which may be there, have one.
_IN_DEDUP = re.compile(r"(?=[^\n]*\d, ?\d)[^\n]*(?<![\w.])dedup")

Emitted = Sequence[tuple[EmittedDraft, Parent]]


async def write(connection: Connection, sql: Statements, emitted: Emitted) -> None:
    """Write them, with their lineage, in the transaction of the handlers that emitted them.

    Raises DedupKeyHeld if another transaction kept one of their keys for longer than a statement
    may wait for a lock.
    """
    await _write_events(
        connection, sql, [(d, parent) for d, parent in emitted if isinstance(d, EventDraft)]
    )
    await _write_webhooks(
        connection, sql, [(d, parent) for d, parent in emitted if isinstance(d, WebhookDraft)]
    )


async def _write_events(
    connection: Connection, sql: Statements, emitted: Sequence[tuple[EventDraft, Parent]]
) -> None:
    for cut in pages(len(draft.payload) + len(draft.headers or "") for draft, _ in emitted):
        page = emitted[cut]
        drafts = [draft for draft, _ in page]
        parents = [parent for _, parent in page]
        await _execute(
            connection,
            sql["write_events"],
            *columns(drafts, "event_id", "type", "payload"),
            filled([d.schema_version for d in drafts], 1),
            *sparse(drafts, "topic", "source", "tenant", "entity_type", "entity_id", "headers"),
            *columns(parents, "lineage.correlation_id", "lineage.causation_id"),
            *sparse(parents, "lineage.traceparent"),
            *sparse(drafts, "occurred_at", "run_at", "mode", "ordering_key", "dedup_key"),
            *columns(parents, "kind", "id"),
            *sparse(drafts, "delay"),
        )


async def _write_webhooks(
    connection: Connection, sql: Statements, sent: Sequence[tuple[WebhookDraft, Parent]]
) -> None:
    for cut in pages(len(draft.payload) for draft, _ in sent):
        page = sent[cut]
        drafts = [draft for draft, _ in page]
        parents = [parent for _, parent in page]
        await connection.execute(
            sql["write_webhooks"],
            *columns(drafts, "type", "payload"),
            *sparse(drafts, "message_id", "endpoint", "ordering_key", "tenant"),
            *sparse(drafts, "entity_type", "entity_id", "occurred_at", "run_at"),
            *columns(parents, "lineage.correlation_id", "lineage.causation_id"),
            *sparse(parents, "lineage.traceparent"),
            *columns(parents, "kind", "id"),
            *sparse(drafts, "emitted"),
        )


async def _execute(connection: Connection, statement: str, *arrays: list[Any] | None) -> None:
    try:
        await connection.execute(statement, *arrays)
    except asyncpg.LockNotAvailableError as error:
        if _IN_DEDUP.match(error.context or ""):
            raise DedupKeyHeld(
                "an event that it emitted has a dedup key that is recorded in a transaction which "
                "is open for longer than database.lock_timeout: end that transaction"
            ) from error
        raise
