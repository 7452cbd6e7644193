"""Handlers of chunks: their declarations, their arguments, and outcomes of single events."""

import weakref
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import anyio.to_thread
import pytest
from pydantic import BaseModel

from inboxd import (
    BlockingEventChunk,
    BlockingEventContext,
    Event,
    EventChunk,
    EventContext,
    Handlers,
    Reject,
    Retry,
)
from inboxd.api.chunks import ChunkInfo
from inboxd.errors import NoHandler, PluginError, UsageError
from inboxd.events.chunks.reading import HeldChunk
from inboxd.model.backoff import Fixed
from inboxd.model.outcome import Dead, Retrying, Succeeded
from inboxd.registry.chunk_handlers import misfits
from inboxd.registry.plugins import build_registry
from inboxd.registry.registry import Registry
from inboxd.testing import run_chunk

pytestmark = pytest.mark.anyio


class Paid(BaseModel):
    cents: int


@pytest.fixture
def handlers() -> Handlers:
    return Handlers("shop")


def registry(handlers: Handlers) -> Registry:
    return build_registry([("a plugin", handlers)])


def wrong(handlers: Handlers) -> list[str]:
    """The mismatches, as the worker lists them at its start."""
    found = registry(handlers)
    flat = [each for one in found.events.values() for each in one]
    return [*misfits(flat, found.topics, sorted({each.name for each in found.declared_topics}))]


async def ship(events: EventChunk[Paid], ctx: EventContext) -> None: ...


def ship_in_thread(events: BlockingEventChunk[Paid], ctx: BlockingEventContext) -> None: ...


async def one(event: Event[Paid], ctx: EventContext) -> None: ...


# -------------------------------------------------------------------------------- declarations


def test_a_handler_of_chunks_takes_several_types(handlers: Handlers) -> None:
    handlers.topic("shipments", mode="batch", count=10, retry=Fixed(attempts=2))
    handlers.chunk(
        "order.paid", "order.packed", topic="shipments", schema_version={"order.paid": 2}
    )(ship)
    found = registry(handlers)
    chunks = found.chunks["shipments"]
    assert chunks.rule.full == 10
    assert chunks.may_split
    assert {type_: reader.schema_version for type_, reader in chunks.readers.items()} == {
        "order.paid": 2,
        "order.packed": 1,
    }
    assert (chunks.runs.type, chunks.runs.executor) == ("shipments", "loop")
    assert found.subscriptions == [("shipments", "order.packed"), ("shipments", "order.paid")]
    assert found.handlers_of("shipments", "order.paid") == (chunks.readers["order.paid"],)
    assert wrong(handlers) == []


def test_a_sync_handler_of_chunks_runs_in_a_thread(handlers: Handlers) -> None:
    handlers.topic("shipments", mode="batch", count=10)
    handlers.chunk("order.paid", topic="shipments", split=False, timeout="9s")(ship_in_thread)
    chunks = registry(handlers).chunks["shipments"]
    assert (chunks.runs.executor, chunks.runs.timeout) == ("thread", 9)
    assert not chunks.may_split


@pytest.mark.parametrize("expect", [["order.paid", "order.packed"], 2])
def test_expected_set_is_never_split(handlers: Handlers, expect: Any) -> None:
    handlers.topic("shipments", mode="batch", expect=expect, age="1h")
    handlers.chunk("order.paid", "order.packed", topic="shipments")(ship)
    assert not registry(handlers).chunks["shipments"].may_split


def test_single_handlers_do_not_serve_a_batch_topic(handlers: Handlers) -> None:
    handlers.topic("shipments", mode="batch", count=10)
    handlers.chunk("order.paid", topic="shipments")(ship)
    handlers.event("order.sent")(one)
    found = registry(handlers)
    assert found.handlers_of("shipments", "order.sent") == ()
    assert len(found.handlers_of("default", "order.sent")) == 1


@pytest.mark.parametrize(
    ("func", "says"),
    [
        (one, r"first parameter is .*Event.*: annotate it EventChunk\[YourPayload\]"),
        (ship_in_thread, None),
    ],
)
def test_wrong_signature_of_a_chunk_handler_is_refused(
    handlers: Handlers, func: Any, says: str | None
) -> None:
    handlers.topic("shipments", mode="batch", count=10)
    handlers.chunk("order.paid", "order.packed", topic="shipments")(func)
    if says is None:
        assert registry(handlers).chunks
        return
    with pytest.raises(PluginError, match=says) as raised:
        registry(handlers)
    assert str(raised.value).count("EventChunk[") == 1  # not once for each type


def test_chunk_as_command_or_event_is_refused(handlers: Handlers) -> None:
    handlers.command("ship")(ship)  # type: ignore[type-var]
    handlers.event("order.paid")(ship)  # type: ignore[type-var]
    with pytest.raises(PluginError, match="takes the command itself, not EventChunk") as raised:
        registry(handlers)
    assert "annotate it Event[YourPayload]" in str(raised.value)


def test_types_must_be_named(handlers: Handlers) -> None:
    with pytest.raises(UsageError, match="Name the types"):
        handlers.chunk(topic="shipments")
    with pytest.raises(UsageError, match="Name the types"):
        handlers.chunk(ship, topic="shipments")  # type: ignore[arg-type]


def test_topics_and_handlers_that_mismatch_are_refused(handlers: Handlers) -> None:
    handlers.topic("lonely", mode="batch", count=10)
    handlers.topic("twice", mode="batch", count=10)
    handlers.topic("single")
    handlers.chunk("a", topic="twice")(ship)
    handlers.chunk("b", topic="twice")(ship_in_thread)
    handlers.event("c", topic="twice")(one)
    handlers.chunk("d", topic="single")(ship)
    handlers.chunk("e", topic="unknown")(ship)
    said = wrong(handlers)
    for part in (
        "'lonely' is batch, and its chunks have no handler",
        "'twice' has several chunk handlers",
        "one takes single events of the topic 'twice', which is batch",
        "ship takes chunks of the topic 'single', which is single",
        "ship takes chunks of the topic 'unknown', which is not declared",
    ):
        assert any(part in each for each in said), (part, said)
    assert len(said) == 5


def test_expected_type_without_a_handler_is_refused(handlers: Handlers) -> None:
    handlers.topic("shipments", mode="batch", expect=["order.paid", "order.pakced"], age="1h")
    handlers.topic("unhandled", mode="batch", expect=["order.paid"], age="1h")
    handlers.chunk("order.paid", "order.packed", topic="shipments")(ship)
    typo, lonely = wrong(handlers)
    assert typo.startswith(
        "the topic 'shipments' expects 'order.pakced', and its handler takes 'order.packed', "
        "'order.paid':"
    )
    assert "'unhandled' is batch, and its chunks have no handler" in lonely


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({}, "no rule says when a chunk is due"),
        ({"cron": "0 0 * *"}, "five fields"),
        ({"cron": "0 0 * * *", "zone": "Europe/Atlantis"}, "zone 'Europe/Atlantis'"),
        ({"zone": "Europe/Berlin", "count": 3}, "zone= is the zone of cron="),
        ({"expect": ["a"]}, "expect= needs age="),
        ({"expect": ["a"], "age": "1h", "count": 3}, "goes without count="),
        ({"expect": ["a", "a"], "age": "1h"}, "each once"),
        ({"count": 0}, "count=0"),
        ({"age": "0s"}, "age='0s'"),
    ],
)
def test_impossible_topic_is_refused(
    handlers: Handlers, options: dict[str, Any], says: str
) -> None:
    handlers.topic("shipments", mode="batch", **options)
    handlers.chunk("order.paid", topic="shipments")(ship)
    with pytest.raises(PluginError, match=says):
        registry(handlers)


# ---------------------------------------------------------------------------------- the chunk


def info(size: int) -> ChunkInfo:
    now = datetime(2026, 6, 1, tzinfo=UTC)
    return ChunkInfo(topic="t", key="k", size=size, since=now - timedelta(days=1), until=now)


def events(count: int) -> list[Event[int]]:
    return [Event({"id": n, "type": "a"}, n) for n in range(count)]


async def portions_of_three(count: int) -> AsyncIterator[Sequence[Event[int]]]:
    found = events(count)
    for start in range(0, count, 3):
        yield found[start : start + 3]


async def test_chunk_is_read_in_order_and_more_than_once() -> None:
    found = EventChunk[int](info(7), lambda: portions_of_three(7))
    assert len(found) == 7
    for _ in range(2):
        assert [event.payload async for event in found] == list(range(7))
    assert [len(portion) async for portion in found.portions()] == [3, 3, 1]
    assert (found.topic, found.key, found.missing, found.short) == ("t", "k", (), 0)
    assert found.until - found.since == timedelta(days=1)


async def test_chunk_in_a_thread_is_read_with_for() -> None:
    found = BlockingEventChunk[int](info(7), lambda: portions_of_three(7))

    def read() -> list[int]:
        return [event.payload for event in found]

    assert await anyio.to_thread.run_sync(read) == list(range(7))
    sizes = await anyio.to_thread.run_sync(lambda: [len(part) for part in found.portions()])
    assert sizes == [3, 3, 1]


async def test_single_events_may_have_their_own_outcomes() -> None:
    found = EventChunk[int](info(3), lambda: portions_of_three(3))
    first, second, _ = events(3)
    found.reject(first, "not for sale")
    found.retry(second, after="5m", reason="later")
    assert {id_: type(error) for id_, (_, error) in found.outcomes.items()} == {0: Reject, 1: Retry}
    with pytest.raises(UsageError):
        found.retry(second, after="soon")


async def test_payloads_of_events_with_outcomes_are_freed() -> None:
    """Only a portion of a long chunk is in memory, whatever outcomes its events have."""

    class Payload:
        """A class whose instances can be weakly referenced."""

    found = EventChunk[Any](info(1), lambda: portions_of_three(1))
    event = Event({"id": 1, "type": "a"}, Payload())
    kept = weakref.ref(event.payload)
    found.reject(event)
    del event
    assert kept() is None


async def test_chunk_is_closed_after_its_handler() -> None:
    found = EventChunk[int](info(3), lambda: portions_of_three(3))
    found.end()
    with pytest.raises(UsageError, match="handler has ended"):
        found.reject(events(1)[0])
    with pytest.raises(UsageError, match="handler has ended"):
        [event async for event in found]


# ------------------------------------------------------------------------------- in plugins' tests


async def test_run_chunk_of_an_incomplete_set(handlers: Handlers) -> None:
    handlers.topic("shipments", mode="batch", expect=["order.paid", "order.packed"], age="1h")
    seen: list[tuple[int, tuple[str, ...], int, str]] = []

    @handlers.chunk("order.paid", "order.packed", topic="shipments")
    async def note(events: EventChunk[Paid], ctx: EventContext) -> None:
        seen.append((len(events), events.missing, events.short, events.key))
        async for event in events:
            if event.payload.cents < 0:
                events.retry(event, after="5m")
        ctx.send({"order": events.key}, type="ship")

    given = [("order.paid", {"cents": 1}), ("order.paid", {"cents": -1}), ("order.paid", {})]
    result = await run_chunk(handlers, "shipments", given, key="42")
    assert seen == [(2, ("order.packed",), 1, "42")]  # one cannot be read
    assert [type(item) for item in result.items] == [Succeeded, Retrying, Dead]
    assert [sent.type for sent in result.commands] == ["ship"]


async def test_run_chunk_that_fails(handlers: Handlers) -> None:
    handlers.topic("shipments", mode="batch", count=3)

    @handlers.chunk("order.paid", topic="shipments", retry=Fixed(attempts=1))
    def fail(events: BlockingEventChunk[Paid], ctx: BlockingEventContext) -> None:
        raise KeyError(len(list(events)))

    result = await run_chunk(handlers, "shipments", [("order.paid", {"cents": 1})])
    assert isinstance(result.outcome, Dead)
    assert isinstance(result.error, KeyError)
    with pytest.raises(NoHandler, match=r"no events of the type 'order\.lost'"):
        await run_chunk(handlers, "shipments", [("order.lost", {})])
    with pytest.raises(NoHandler, match="no handler for chunks of the topic 'nowhere'"):
        await run_chunk(handlers, "nowhere", [("order.paid", {})])
    with pytest.raises(UsageError, match="at least one event"):
        await run_chunk(handlers, "shipments", [])


def test_chunk_is_halved_by_rows_not_by_ids() -> None:
    """After a failover the server draws lower ids; the order is that of the line."""
    rows: Any = [{"id": id_} for id_ in (5, 3, 4, 6)]
    events: Any = [SimpleNamespace(id=id_) for id_ in (5, 3, 6)]  # 4 cannot be read
    older, newer = HeldChunk(rows, events).halves()
    assert [event.id for event in older.events] == [5, 3]
    assert [event.id for event in newer.events] == [6]
