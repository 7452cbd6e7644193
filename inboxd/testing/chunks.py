"""The run of a chunk handler in a test.

Promises: the events are read as the daemon reads them, and the facts about the chunk (its period,
missing types) follow from the topic's declaration. Known limit: the chunk is run once, as it is
given: only the daemon decides when a chunk is due, and halves a failing chunk.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, cast

import anyio

from inboxd.api import clock
from inboxd.api.chunks import BlockingEventChunk, EventChunk
from inboxd.api.handlers import Handlers
from inboxd.api.messages import Event
from inboxd.api.records import EventHandler
from inboxd.errors import NoHandler, UsageError
from inboxd.events.chunks.due_chunk import info_of
from inboxd.events.chunks.reading import UnreadEvents, read_rows
from inboxd.model.backoff import Exponential
from inboxd.model.outcome import Outcome, Succeeded, decide
from inboxd.registry.plugins import build_registry
from inboxd.testing.fakes import AnyConnection
from inboxd.testing.resources import GivenResources
from inboxd.testing.running import (
    EVENT,
    ConnectionMissing,
    Longest,
    Result,
    call,
    composed,
    context_of,
    make_row,
    raw_of,
    told,
    well,
)
from inboxd.testing.sent import look


async def run_chunk(
    handlers: Handlers,
    topic: str,
    events: Sequence[tuple[str, object] | tuple[str, object, Mapping[str, Any]]],
    *,
    key: str = "",
    now: datetime | None = None,
    connection: AnyConnection | None = None,
    resources: Mapping[Any, object] | None = None,
) -> Result:
    """Run the chunk handler of a batch topic with these events, in this order.

    Each event is a type and a payload, and optionally columns of its row, such as `created_at`.
    `key` is their ordering key; `now` is the time when the chunk is taken, and of `ctx.now()`;
    `resources` is as in `run_event`. In the result, `items` has the outcome of each event. Raises
    PluginError for wrong declarations.
    """
    registry = build_registry([(f"Handlers({handlers.name!r})", handlers)])
    handler = registry.chunks.get(topic)
    if handler is None:
        raise NoHandler(f"{handlers!r} has no handler for chunks of the topic {topic!r}.")
    if not events:
        raise UsageError("A chunk has at least one event.")
    run = composed(handler.runs, GivenResources(registry, resources))
    taken_at = now or clock.now()
    rows = [
        _row(handler.readers, topic, key, number, taken_at, *given)
        for number, given in enumerate(events, 1)
    ]
    unread = UnreadEvents()
    read = read_rows(handler.readers, cast("Any", rows), {}, unread)

    async def portions() -> AsyncIterator[Sequence[Event[Any]]]:
        yield read

    make: Any = EventChunk if handler.runs.executor == "loop" else BlockingEventChunk
    types = {event.type for event in read}
    given_chunk = make(info_of(handler, cast("Any", rows[0]), len(read), types), portions)
    context = context_of(registry, handler.runs, rows[0], connection, None, [])
    judge = partial(_judge, handler.runs, taken_at)
    try:
        with told(now):
            await call(handler.runs, run, given_chunk, context)
        sent = look(context)
    except (anyio.get_cancelled_exc_class(), ConnectionMissing):
        raise
    except BaseException as error:  # noqa: BLE001 - whatever a handler raises is its failure
        return Result(outcome=judge(rows[0], error), error=error)
    finally:
        given_chunk.end()
        context.close()
    own: dict[int, tuple[Any, BaseException]] = {**unread.errors}
    own |= given_chunk.outcomes
    items = tuple(judge(*own[row["id"]]) if row["id"] in own else Succeeded() for row in rows)
    return well(Succeeded(), sent, items=items)


def _row(
    readers: Mapping[str, EventHandler],
    topic: str,
    key: str,
    number: int,
    now: datetime,
    type_: str,
    payload: object,
    fields: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    if type_ not in readers:
        raise NoHandler(f"The chunks of {topic!r} have no events of the type {type_!r}.")
    row = make_row(
        {**EVENT, "ordering_key": None},
        {"created_at": now, **(fields or {})},
        id=number,
        topic=topic,
        type=type_,
        ordering_key=key,
        schema_version=readers[type_].schema_version,
    )
    age = (now - row["created_at"]).total_seconds()
    return {**row, "payload": raw_of(payload), "body_id": None, "age": age}


def _judge(
    handler: EventHandler, now: datetime, row: Mapping[str, Any], error: BaseException
) -> Outcome:
    age = now - row["created_at"]
    return decide(error, handler.retry or Exponential(), row["attempts"], age, Longest())
