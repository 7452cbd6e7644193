"""Receipts as a receiver makes and writes them.

In a test: `[stored] = await receive(database, receipt(received("order.paid")))`.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import orjson

from inboxd.model.lineage import uuid7
from inboxd.model.receipt import Receipt, ReceivedEvent
from inboxd.store import receipts
from inboxd.store.receipts import Stored
from tests.support.databases import Database
from tests.support.rows import daemon_session


def received(type_: str = "bet.result", payload: object = None, **given: Any) -> ReceivedEvent:
    """An event of a request."""
    return ReceivedEvent(uuid7(), type_, orjson.dumps(payload or {}).decode(), **given)


def receipt(*events: ReceivedEvent, source: str = "psp", **given: Any) -> Receipt:
    """A request; with one event unless some are given."""
    return Receipt(
        receipt_id=uuid7(),
        received_at=datetime.now(UTC),
        source=source,
        body=b'{"came": "so"}',
        content_type="application/json",
        headers='{"webhook-id": "msg_1"}',
        address="192.0.2.1",
        key_id="k1",
        events=list(events) or [received()],
        **given,
    )


def received_ago(days: int, *events: ReceivedEvent) -> Receipt:
    """A request of this many days ago; the id has that time too."""
    given = receipt(*events)
    milliseconds = days * 86_400_000
    given.receipt_id = UUID(int=given.receipt_id.int - (milliseconds << 80))
    given.received_at -= timedelta(days=days)
    return given


async def receive(database: Database, *page: Receipt) -> Sequence[Stored]:
    """Write requests, as a receiver does."""
    async with daemon_session(database) as session:
        return await receipts.write(session, page)


async def release(database: Database, source: str = "psp") -> list[int]:
    """Release the held receipts of a source; return the number in each page."""
    async with daemon_session(database) as session:
        return [count async for count in receipts.release(session, source)]
