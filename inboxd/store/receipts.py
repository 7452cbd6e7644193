"""Receipts: HTTP requests of webhooks, written together with their events.

Promises that a page is one statement in one transaction, durable when `write` returns; that a
receipt which was already written gets the same answer, also on another day; and that held receipts
are released in order of arrival. Known limit: a receipt whose partition was dropped is written
again.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from datetime import UTC, datetime, timedelta
from typing import NamedTuple, NotRequired, TypedDict, cast
from uuid import UUID

import asyncpg

from inboxd.errors import DatabaseError
from inboxd.model.receipt import Receipt
from inboxd.store.arrays import columns, sparse
from inboxd.store.connections import Row, is_without_partition
from inboxd.store.session import Session

# Tries to write a page, if other processes write some of its receipts at the same time.
_TRIES = 5


# Held receipts per transaction of a release.
_PAGE = 500
# Events per receipt whose statuses are looked up.
_LOOK = 100
# An event is settled after its receipt was received; the slack allows for clocks set back.
_SLACK = timedelta(hours=1)
_EVER = datetime(1970, 1, 1, tzinfo=UTC)
# Outcomes whose event_ids may be those of earlier receipts.
_KNOWN = ("duplicate", "contradiction")


class Stored(NamedTuple):
    """The result for a receipt: stored, duplicate, contradiction, broken or held."""

    event_ids: list[UUID]
    outcome: str


async def write(
    session: Session,
    receipts: Sequence[Receipt],
    begin: Callable[[], AbstractAsyncContextManager[None]] = nullcontext,
) -> list[Stored]:
    """All or none, in the order given. Needs no open transaction. Raises the database's error.

    begin: opens a transaction for each statement, where a single statement is not one.
    """
    known: dict[UUID, Stored] = {}
    given = {each.receipt_id: each for each in receipts}
    has_days = False
    for _ in range(_TRIES):
        new = [each for id_, each in given.items() if id_ not in known]
        try:
            async with begin():
                known |= await _receive(session, new) if new else {}
        except asyncpg.UniqueViolationError as error:
            if "receipts" not in (error.table_name or ""):
                raise
            async with begin():
                known |= _answers(await session.fetch("answered", list(given)))
        except asyncpg.CheckViolationError as error:
            if has_days or not is_without_partition(error):
                raise
            async with begin():
                await session.fetchval("make_receipt_days", list(given))
            has_days = True
        else:
            return [known[each.receipt_id] for each in receipts]
    raise DatabaseError(
        f"other processes wrote some of these {len(given)} receipts at the same time, in {_TRIES} "
        "tries: try again"
    )


async def _receive(session: Session, receipts: Sequence[Receipt]) -> dict[UUID, Stored]:
    owners = [receipt for receipt in receipts for _ in receipt.events]
    events = [event for receipt in receipts for event in receipt.events]
    rows = await session.fetch(
        "receive",
        *columns(receipts, "receipt_id", "source", "body"),
        *columns(receipts, "content_type", "headers", "address", "key_id", "hold"),
        *columns(owners, "receipt_id", "source"),
        *columns(events, "event_id", "type", "payload"),
        *sparse(events, "topic", "ordering_key", "dedup_key", "tenant"),
        *sparse(events, "entity_type", "entity_id", "headers", "traceparent", "broken"),
    )
    return _answers(rows)


def _answers(rows: Sequence[Row]) -> dict[UUID, Stored]:
    return {row["receipt_id"]: Stored(row["event_ids"], row["outcome"]) for row in rows}


async def commit(session: Session) -> None:
    """Commit a minimal write. Raises the error that keeps the database from writing."""
    await session.execute("commit_nothing")


async def erased(session: Session, subjects: Sequence[str], since: datetime) -> dict[str, datetime]:
    """The subjects among these that were erased after `since`, with the newest erasure."""
    rows = await session.fetch("erased", subjects, since)
    return {row["subject"]: row["erased_at"] for row in rows}


class HeldSource(TypedDict):
    """A source with held receipts: their number, counted up to a limit, and since when."""

    source: str
    held_at: datetime
    receipts: int
    paused: bool


async def held(session: Session, most: int = 10_000) -> list[HeldSource]:
    """Sources with held receipts; paused: by an operator, or by a living receiver's settings."""
    return cast("list[HeldSource]", await session.fetch("held_sources", most))


async def release(session: Session, source: str) -> AsyncIterator[int]:
    """Oldest first; yields the number per page. A kill releases whole pages.

    Ends when none is held, when an operator pauses the source, or when another process releases it.
    """
    last, more = 0, True
    while more:
        released, last, more, _ = await session.one("release_receipts", source, last, _PAGE)
        if released:
            yield released


class ReceiptRow(TypedDict):
    """statuses: of its first hundred events. held: they are not written yet.

    became: pending, failed (an event is a dead letter, dismissed or cancelled), handled (all
    succeeded); None: history has lost them. body, headers: only with `raw`, and unless erased.
    """

    receipt_id: UUID
    received_at: datetime
    source: str
    outcome: str
    event_ids: list[UUID]
    body_bytes: int
    has_body: bool
    content_type: str | None
    address: str | None
    key_id: str | None
    held: bool
    statuses: dict[str, int]
    became: str | None
    body: NotRequired[bytes | None]
    headers: NotRequired[str | None]


async def page(
    session: Session, source: str | None = None, *, after: UUID | None = None, limit: int = 50
) -> list[ReceiptRow]:
    """Receipts, newest first; after: the last id of the previous page."""
    return await _with_statuses(session, await session.fetch("list_receipts", source, after, limit))


async def one(session: Session, receipt_id: UUID, *, raw: bool = False) -> ReceiptRow | None:
    found = await some(session, [receipt_id], raw=raw)
    return found[0] if found else None


async def some(
    session: Session, receipt_ids: Sequence[UUID], *, raw: bool = False
) -> list[ReceiptRow]:
    """The receipts among these ids that exist. Their events have this id as causation id."""
    if raw:
        session.refuse_withheld("webhooks as they came")
    rows = await session.fetch("show_receipts", receipt_ids, raw)
    return await _with_statuses(session, rows)


async def _with_statuses(session: Session, rows: Sequence[Row]) -> list[ReceiptRow]:
    given = [(row, event) for row in rows for event in row["event_ids"][:_LOOK]]
    # The event of a duplicate may have been settled long before the duplicate came.
    since = [_EVER if row["outcome"] in _KNOWN else row["received_at"] - _SLACK for row, _ in given]
    ids, events = [row["receipt_id"] for row, _ in given], [event for _, event in given]
    counts: dict[UUID, dict[str, int]] = {row["receipt_id"]: {} for row in rows}
    for found in await session.fetch("event_statuses", ids, events, since) if given else ():
        counts[found["receipt_id"]][found["status"]] = found["count"]
    return [_told(row, counts[row["receipt_id"]]) for row in rows]


def _told(row: Row, statuses: dict[str, int]) -> ReceiptRow:
    if row["held"]:
        statuses = {"held": len(row["event_ids"])}
    became = None
    if statuses.keys() & {"failed", "dismissed", "cancelled"}:
        became = "failed"
    elif statuses.keys() & {"held", "pending", "waiting"}:
        became = "pending"
    elif statuses:
        became = "handled"
    return cast("ReceiptRow", {**row, "statuses": statuses, "became": became})
