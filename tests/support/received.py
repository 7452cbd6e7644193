"""Compares a provider's ledger with the tables: the requests sent, and the rows written.

In a test: `await verify(database, provider)`. Promises: each broken promise of the receiver is one
finding that names the request (tests/receiver/test_ledger.py).

See: tests/support/sender.py, the ledger.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import orjson

from tests.support.databases import Database
from tests.support.sender import Entry, Provider
from tests.support.verdicts import Violation

_RECEIPTS = (
    "select receipt_id::text, headers ->> 'webhook-id', outcome, body, event_ids::text[]"
    " from inboxd.{} where source = $1"
)
_EVENTS = (
    "select id, event_id::text, payload::text, causation_id::text from inboxd.{} where source = $1"
)


class ReceiptRow(NamedTuple):
    """A row of `receipts`, or of `kept_receipts`."""

    receipt_id: str
    message_id: str
    outcome: str
    body: bytes | None
    event_ids: Sequence[str]


class EventRow(NamedTuple):
    """A row of `events`, or of its history."""

    id: int
    event_id: str
    payload: Mapping[str, Any]
    receipt_id: str


async def verify(database: Database, provider: Provider, *, again: bool = False) -> None:
    """Compare the tables with the ledger. Raises Violation with the findings.

    again: requests were sent repeatedly, and an answer may name event ids that are not written:
    whether a spooled request is a duplicate is known only when it is drained.
    """
    receipts = [
        ReceiptRow(*row)
        for table in ("receipts", "kept_receipts")
        for row in await database.fetch(_RECEIPTS.format(table), provider.source)
    ]
    events = [
        EventRow(row[0], row[1], orjson.loads(row[2]), row[3])
        for table in ("events", "events_history")
        for row in await database.fetch(_EVENTS.format(table), provider.source)
    ]
    found = list(judge(provider.ledger, receipts, events, again=again))
    if found:
        raise Violation(f"{len(found)} findings: {found[:10]}; tries ended so: {provider.ended}")


def judge(
    ledger: Sequence[Entry],
    receipts: Iterable[ReceiptRow],
    events: Iterable[EventRow],
    *,
    again: bool = False,
) -> Iterator[str]:
    """Yield a sentence for each contradiction."""
    receipts, events = list(receipts), list(events)
    yield from _receipts(ledger, receipts)
    yield from _events(ledger, receipts, events, again=again)
    yield from _order(ledger, events)


def _receipts(ledger: Sequence[Entry], receipts: Sequence[ReceiptRow]) -> Iterator[str]:
    entries = {entry.message_id: entry for entry in ledger}
    written: dict[str, list[ReceiptRow]] = defaultdict(list)
    for receipt in receipts:
        if receipt.message_id in entries:
            written[receipt.message_id].append(receipt)
        else:
            yield f"{receipt.message_id}: a receipt of what nobody sent"
    for name, entry in entries.items():
        own = written[name]
        known = {receipt.receipt_id for receipt in own}
        promised = [str(answer.json["receipt"]) for answer in entry.answers if answer.accepted]
        if missing := [receipt for receipt in promised if receipt not in known]:
            yield f"{name}: answered 2xx with receipts that are not there: {missing}"
        unsure = entry.lost + sum(answer.status >= 500 for answer in entry.answers)
        if len(own) > len(promised) + unsure:
            yield f"{name}: {len(own)} receipts, with {len(promised)} times 2xx and {unsure} unsure"
        firsts = [receipt for receipt in own if receipt.outcome in ("stored", "held")]
        if own and len(firsts) != 1:
            yield f"{name}: written {len(firsts)} times, not once"
        yield from (
            f"{name}: another body than was sent"
            for receipt in own
            if receipt.body is not None and bytes(receipt.body) != entry.body
        )
        yield from (
            f"{name}: a receipt of another outcome: {receipt.outcome}"
            for receipt in own
            if receipt.outcome not in ("stored", "held", "duplicate")
        )


def _events(
    ledger: Sequence[Entry],
    receipts: Sequence[ReceiptRow],
    events: Sequence[EventRow],
    *,
    again: bool,
) -> Iterator[str]:
    seen = Counter(_name(event.payload) for event in events)
    by_name = {_name(event.payload): event for event in events}
    names = {receipt.receipt_id: receipt.message_id for receipt in receipts}
    for entry in ledger:
        counts = [seen.pop(_name(payload), 0) for payload in entry.events]
        if entry.accepted and any(count != 1 for count in counts):
            yield f"{entry.message_id}: accepted, and its events are there {counts} times"
        if not entry.accepted and set(counts) not in ({0}, {1}):
            yield f"{entry.message_id}: not accepted, and its events are there {counts} times"
        if counts[0] and not entry.lost and all(400 <= a.status < 500 for a in entry.answers):
            yield f"{entry.message_id}: refused, and there"
        own = [by_name[_name(payload)] for payload in entry.events if _name(payload) in by_name]
        if any(names.get(event.receipt_id) != entry.message_id for event in own):
            yield f"{entry.message_id}: its events have another receipt"
        promised = {str(name) for a in entry.answers if a.accepted for name in _ids(a.json)}
        if again and entry.lost + len(entry.answers) > 1:
            continue
        if promised and promised != {event.event_id for event in own}:
            yield f"{entry.message_id}: answered with other events than are there"
    yield from (f"{name}: an event that nobody sent" for name in seen)


def _order(ledger: Sequence[Entry], events: Sequence[EventRow]) -> Iterator[str]:
    places: dict[tuple[str, int], list[tuple[int, int]]] = defaultdict(list)
    for event in events:
        match, number, item = _name(event.payload)
        places[match, number].append((event.id, item))
    for entry in ledger:
        mine = sorted(places.get((entry.key, entry.number), []))
        if [item for _, item in mine] != sorted(item for _, item in mine):
            yield f"{entry.message_id}: its own events are out of order"
        before = places.get((entry.key, entry.after), [])
        if mine and before and max(before)[0] > mine[0][0]:
            yield f"{entry.message_id}: before what was accepted before it was sent ({entry.key})"


def _name(payload: Mapping[str, Any]) -> tuple[str, int, int]:
    return payload["match"], payload["number"], payload["item"]


def _ids(answer: Mapping[str, Any]) -> Sequence[object]:
    found: Sequence[object] = answer["events"]
    return found
