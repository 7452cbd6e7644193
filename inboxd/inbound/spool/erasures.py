"""Keeps erased contents out of the database if their receipts were waiting in a spool.

Events whose subject was erased since their reception are left out, and their receipt is written
without body, headers and address. Known limits: a receipt that is drained during an erasure is
found by the next run of the erasure; the receiver's clock dates the reception, the database's clock
the erasure.
"""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from datetime import datetime
from typing import TypeAlias

from inboxd.inbound.group_commit import Write
from inboxd.model.receipt import Receipt, ReceivedEvent
from inboxd.store.erase import Subject
from inboxd.store.receipts import Stored

# Returns the subjects that were erased since that time, with their last erasure.
AskErased: TypeAlias = Callable[[Sequence[str], datetime], Awaitable[dict[str, datetime]]]


def without_erased(write: Write, ask: AskErased) -> Write:
    async def filtered(page: Sequence[Receipt]) -> Sequence[Stored]:
        subjects = {each for receipt in page for event in receipt.events for each in about(event)}
        if not subjects:
            return await write(page)
        since = min(receipt.received_at for receipt in page)
        erased = await ask(sorted(subjects), since)
        return await write([cleared(receipt, erased) for receipt in page])

    return filtered


def about(event: ReceivedEvent) -> Iterator[str]:
    """The subjects whose erasure includes this event, as the audit writes them."""
    if event.tenant is not None:
        yield str(Subject(event.tenant, None, None))
    if event.entity_type is not None and event.entity_id is not None:
        yield str(Subject(None, event.entity_type, event.entity_id))
        if event.tenant is not None:
            yield str(Subject(event.tenant, event.entity_type, event.entity_id))


def cleared(receipt: Receipt, erased: dict[str, datetime]) -> Receipt:
    """The receipt without erased contents. erased: subjects, and the time of their last erasure."""

    def stays(event: ReceivedEvent) -> bool:
        return not any(
            erased.get(each, receipt.received_at) > receipt.received_at for each in about(event)
        )

    left = [event for event in receipt.events if stays(event)]
    if len(left) == len(receipt.events):
        return receipt
    return Receipt(
        receipt_id=receipt.receipt_id,
        received_at=receipt.received_at,
        source=receipt.source,
        body=b"",
        content_type=receipt.content_type,
        headers=None,
        address=None,
        key_id=receipt.key_id,
        events=left,
        hold=receipt.hold,
    )
