"""Receipts: what came over HTTP, written with the events that are in it.

Promises that a page is one statement in one transaction, which is durable when `write` returns;
that a receipt which was written already is answered as it was then, and never written twice; that
a receipt of another day finds its partition; that held receipts are released in the order in which
they came.
Known limit: what was written in a partition that is gone meanwhile is written again.
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
from inboxd.store.connections import Connection, Row, is_without_partition, one_row
from inboxd.store.session import Session
from inboxd.store.statements import Statements

# How often a page is tried of which others write receipts at the same time.
_TRIES = 5


# Held receipts that are released in one transaction.
_PAGE = 500
# Events of a receipt whose statuses are looked up.
_LOOK = 100
# An event is not settled before its receipt was received; clocks may have been set back.
_SLACK = timedelta(hours=1)
_EVER = datetime(1970, 1, 1, tzinfo=UTC)
# The answer may name events of earlier receipts.
_KNOWN = ("duplicate", "contradiction")


class Stored(NamedTuple):
    """What became of a receipt: stored, duplicate, contradiction, broken or held."""

    event_ids: list[UUID]
    outcome: str


async def write(
    connection: Connection,
    sql: Statements,
    receipts: Sequence[Receipt],
    begin: Callable[[], AbstractAsyncContextManager[None]] = nullcontext,
) -> list[Stored]:
    """Write them, each once; answers in the order given. Outside of any transaction.

    All or none: raises what the database refuses, of any of them. begin: opens the transaction of
    each statement, where a statement alone is not one.
    """
    known: dict[UUID, Stored] = {}
    given = {each.receipt_id: each for each in receipts}
    has_days = False
    for _ in range(_TRIES):
        new = [each for id_, each in given.items() if id_ not in known]
        try:
            async with begin():
                known |= await _receive(connection, sql, new) if new else {}
        except asyncpg.UniqueViolationError as error:
            if "receipts" not in (error.table_name or ""):
                raise
            async with begin():
                known |= _answers(await connection.fetch(sql["answered"], list(given)))
        except asyncpg.CheckViolationError as error:
            if has_days or not is_without_partition(error):
                raise
            async with begin():
                await connection.fetchval(sql["make_receipt_days"], list(given))
            has_days = True
        else:
            return [known[each.receipt_id] for each in receipts]
    raise DatabaseError(
        f"{len(given)} receipts were written by somebody else at the same time, {_TRIES} times: "
        "try again"
    )


async def _receive(
    connection: Connection, sql: Statements, receipts: Sequence[Receipt]
) -> dict[UUID, Stored]:
    owners = [receipt for receipt in receipts for _ in receipt.events]
    events = [event for receipt in receipts for event in receipt.events]
    rows = await connection.fetch(
        sql["receive"],
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


async def commit(connection: Connection, sql: Statements) -> None:
    """Commit next to nothing. Raises what keeps the database from writing."""
    await connection.execute(sql["commit_nothing"])


async def erased(
    connection: Connection, sql: Statements, subjects: Sequence[str], since: datetime
) -> dict[str, datetime]:
    """Of these subjects, those that were erased since then, and when they last were."""
    rows = await connection.fetch(sql["erased"], subjects, since)
    return {row["subject"]: row["erased_at"] for row in rows}


class HeldSource(TypedDict):
    """A source of which receipts are held; how many, and since when; counted up to a limit."""

    source: str
    held_at: datetime
    receipts: int
    paused: bool


async def held(connection: Connection, sql: Statements, most: int = 10_000) -> list[HeldSource]:
    """The sources of which receipts are held; paused: by an operator, or by a living receiver."""
    return cast("list[HeldSource]", await connection.fetch(sql["held_sources"], most))


async def release(connection: Connection, sql: Statements, source: str) -> AsyncIterator[int]:
    """Write the events of what is held of a source, the oldest first; how many of each page.

    It ends when nothing is held any more, when an operator pauses the source, and when somebody
    else releases it. Whoever is killed has released whole pages.
    """
    last, more = 0, True
    while more:
        released, last, more, _ = await one_row(
            connection, sql["release_receipts"], source, last, _PAGE
        )
        if released:
            yield released


class ReceiptRow(TypedDict):
    """A receipt as operators see it.

    statuses: of its events (held: not written yet), up to a hundred. became: pending, failed (an
    event is a dead letter, or was put away), handled (all were); None: history has
    forgotten them. body, headers: with `raw` only; no body: a duplicate, or it was erased.
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
    """Receipts, the newest first; after: the last one of the page before."""
    return await _with_statuses(session, await session.fetch("list_receipts", source, after, limit))


async def one(session: Session, receipt_id: UUID, *, raw: bool = False) -> ReceiptRow | None:
    """A receipt; raw: with its body and headers."""
    found = await some(session, [receipt_id], raw=raw)
    return found[0] if found else None


async def some(
    session: Session, receipt_ids: Sequence[UUID], *, raw: bool = False
) -> list[ReceiptRow]:
    """Those of them that are there; events have the id of theirs as causation id."""
    if raw:
        session.refuse_withheld("webhooks as they came")
    rows = await session.fetch("show_receipts", receipt_ids, raw)
    return await _with_statuses(session, rows)


async def _with_statuses(session: Session, rows: Sequence[Row]) -> list[ReceiptRow]:
    """With what became of their events, of which the first hundred are looked at."""
    given = [(row, event) for row in rows for event in row["event_ids"][:_LOOK]]
    # An event may have been settled long before its duplicate came.
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
