"""Events of batch topics: each chunk writes a row to `chunks`, with its events in order."""

import asyncio
import os
import signal

from pydantic import BaseModel

from inboxd import (
    BlockingEventChunk,
    BlockingEventContext,
    Defer,
    EventChunk,
    EventContext,
    Fixed,
    Handlers,
    Reject,
)

TABLES = """
create table chunks (id serial, topic text, key text, ids bigint[], size int, since timestamptz,
                    until timestamptz, missing text[], short int, attempt int, pid int);
"""

_NOTE = (
    "insert into chunks (topic, key, ids, size, since, until, missing, short, attempt, pid) "
    "values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)"
)
_TOLD = "select exists (select from ledger where kind = 'told')"
_MENDED = "select exists (select from ledger where kind = 'mended' and note = $1)"
_QUICK = Fixed(base="50ms", attempts=3, jitter="none")


class Item(BaseModel):
    """The effect of one event on its chunk.

    wait: in seconds. deferred, broken: until the ledger has a row of the kind `told`, `mended`.
    """

    n: int = 0
    poison: bool = False
    rejected: bool = False
    again: bool = False
    kills: bool = False
    deferred: bool = False
    broken: bool = False
    refused: bool = False
    after: str = "200ms"
    sends: int = 0
    wait: float = 0
    spoils: bool = False


async def _suffer(item: Item, key: str, ctx: EventContext) -> None:
    if item.wait:
        await asyncio.sleep(item.wait)  # the handler's work
    if item.kills:
        os.kill(os.getpid(), signal.SIGKILL)
    if item.poison:
        raise ValueError("poison")
    if item.deferred and not await ctx.connection.fetchval(_TOLD):
        raise Defer(after=item.after)
    if item.refused:
        raise Reject("never")
    if item.broken and not await ctx.connection.fetchval(_MENDED, key):
        raise OSError("nobody answers")


async def _take(events: EventChunk[Item], ctx: EventContext) -> None:
    ids = []
    async for event in events:
        item = event.payload
        ids.append(event.id)
        await _suffer(item, events.key, ctx)
        if item.rejected:
            events.reject(event, "not this one")
        if item.again and event.attempt == 1:
            events.retry(event, after="50ms")
        for _ in range(item.sends):
            ctx.send({"n": item.n}, type="test.noop_command")
        if item.spoils:
            await ctx.connection.execute("insert into child values (1)")
    await ctx.connection.execute(
        _NOTE,
        events.topic,
        events.key,
        ids,
        len(events),
        events.since,
        events.until,
        list(events.missing),
        events.short,
        ctx.attempt,
        os.getpid(),
    )


async def _note_portions(events: EventChunk[Item], ctx: EventContext) -> None:
    async for portion in events.portions():
        note = "insert into ledger values ('portion', $1, $2)"
        await ctx.connection.execute(note, portion[0].id, str(len(portion)))
        if any(event.payload.poison for event in portion):
            raise ValueError("poison")


async def _count(events: EventChunk[Item], ctx: EventContext) -> None:
    note = "insert into chunks (topic, key, size) values ($1, $2, $3)"
    await ctx.connection.execute(note, events.topic, events.key, len(events))
    if events.key == "humble":  # a role that may read no table
        await ctx.connection.execute("set local role pg_monitor")


async def _fail(events: EventChunk[Item], ctx: EventContext) -> None:
    raise ValueError(f"no chunk of {len(events)} at attempt {ctx.attempt}")


def _take_in_thread(events: BlockingEventChunk[Item], ctx: BlockingEventContext) -> None:
    ids = [event.id for event in events]
    ctx.connection.execute(
        _NOTE,
        *(events.topic, events.key, ids, len(events), events.since, events.until),
        *(list(events.missing), events.short, ctx.attempt, os.getpid()),
    )


def add_to(handlers: Handlers) -> None:
    """Register the handlers of this module."""

    def topic(
        name: str,
        *types: str,
        func: object = _take,
        timeout: str | None = None,
        **options: object,
    ) -> None:
        handlers.topic(name, mode="batch", key="/key", **{"retry": _QUICK, **options})  # type: ignore[arg-type]
        chunk = handlers.chunk(*types or (f"chunked.{name}",), topic=name, timeout=timeout)
        chunk(func)  # type: ignore[type-var]

    topic("counted", count=5)
    topic("patient", count=5, retry=Fixed(base="100ms", attempts=100, jitter="none"))
    topic("hundreds", count=100)
    topic("aged", age="300ms")
    topic("old", age="1h")
    topic("daily", cron="0 0 * * *", zone="Europe/Berlin")
    topic("hourly", age="1h", cron="0 0 1 1 *", zone="Europe/Berlin")
    topic("nightly", age="2d", cron="0 0 * * *", zone="Europe/Berlin")
    topic("dozens", count=12, cron="0 0 * * *", zone="Europe/Berlin")
    topic(
        "paired",
        "chunked.left",
        "chunked.right",
        expect=["chunked.left", "chunked.right"],
        age="2s",
    )
    topic("three", expect=3, age="2s")
    topic("threaded", count=3, func=_take_in_thread)
    topic("hopeless", count=50, func=_fail)
    topic("portioned", count=250, func=_note_portions)
    topic("apportioned", count=250, page_rows=80, func=_note_portions)
    topic("skimmed", count=20, func=_count)
    topic("paced", count=20, timeout="400ms")
    handlers.topic("whole", mode="batch", count=4, retry=_QUICK)
    handlers.chunk("chunked.whole", topic="whole", split=False)(_take)
    handlers.topic("slow", mode="batch", count=4, retry=_QUICK)
    handlers.chunk("chunked.slow", topic="slow", timeout="400ms")(_take)
