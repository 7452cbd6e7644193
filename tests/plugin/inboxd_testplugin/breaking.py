"""Handlers of a target that a test takes away: the table `target`, with its breaker.

Each call counts in the sequence `target_calls`, which no rollback takes back.
"""

import asyncio

from pydantic import BaseModel

from inboxd import (
    BlockingCommandContext,
    CommandContext,
    Event,
    EventChunk,
    EventContext,
    Fixed,
    Handlers,
    Reject,
)

TABLES = """
create table target (up boolean);
insert into target values (true);
create sequence target_calls;
create sequence target_overlaps minvalue 0 start 0;
select nextval('target_overlaps');
create table ledger (kind text, row_id bigint, note text);
"""

_QUICK = Fixed(base="50ms", attempts=30, jitter="none")
_HALF_OPEN = "select version from inboxd.breakers where name = 'target' and state = 'half_open'"
_CALL = "select up from target where nextval('target_calls') > 0"


class Call(BaseModel):
    """One call, which takes `wait` seconds; `invalid`: it is refused for good."""

    wait: float = 0
    invalid: bool = False


async def _call(ctx: CommandContext | EventContext, call: Call) -> None:
    if not await ctx.connection.fetchval("select pg_try_advisory_xact_lock(4711)"):
        version = await ctx.connection.fetchval(_HALF_OPEN)
        await asyncio.sleep(0.3)  # a worker that closes it goes on before it has written that
        if version and await ctx.connection.fetchval(_HALF_OPEN) == version:
            await ctx.connection.execute("select nextval('target_overlaps')")
    up = await ctx.connection.fetchval(_CALL)
    if call.wait:
        await asyncio.sleep(call.wait)  # its work
    if call.invalid:
        raise Reject("the target does not want it")
    if not up:
        raise ConnectionError("the target is down")


def add_to(handlers: Handlers) -> None:
    """Register them."""
    handlers.breaker(
        "target", consecutive_failures=3, first_break="1s", longest_break="1s", jitter=0, probes=1
    )

    @handlers.command("test.target", breaker="target", retry=_QUICK)
    async def target(command: Call, ctx: CommandContext) -> None:
        await _call(ctx, command)
        await ctx.connection.execute("insert into ledger values ('command', $1, '')", ctx.id)

    @handlers.event("test.target.told", breaker="target", retry=_QUICK)
    async def told(event: Event[Call], ctx: EventContext) -> None:
        await _call(ctx, event.payload)
        await ctx.connection.execute("insert into ledger values ('event', $1, '')", event.id)

    handlers.topic("target-chunks", mode="batch", count=5, age="1s")
    handlers.topic("target-keys", mode="sequential")

    @handlers.chunk("test.target.chunk", topic="target-chunks", breaker="target", retry=_QUICK)
    async def chunk(chunk: EventChunk[Call], ctx: EventContext) -> None:
        async for event in chunk:
            await _call(ctx, event.payload)
            await ctx.connection.execute("insert into ledger values ('event', $1, '')", event.id)

    @handlers.event("test.target.key", topic="target-keys", breaker="target", retry=_QUICK)
    async def key(event: Event[Call], ctx: EventContext) -> None:
        await _call(ctx, event.payload)
        await ctx.connection.execute("insert into ledger values ('event', $1, '')", event.id)

    _add_undeclared(handlers)

    @handlers.command("test.target.line", breaker="target", queue="target-lines", retry=_QUICK)
    async def line(command: Call, ctx: CommandContext) -> None:
        await _call(ctx, command)
        await ctx.connection.execute("insert into ledger values ('command', $1, '')", ctx.id)


def _add_undeclared(handlers: Handlers) -> None:
    """Those that declare no breaker."""

    @handlers.command("test.target.plain", retry=_QUICK)
    async def plain(command: Call, ctx: CommandContext) -> None:
        """It declares no breaker; its queue may have one."""
        await _call(ctx, command)
        await ctx.connection.execute("insert into ledger values ('command', $1, '')", ctx.id)

    @handlers.event("test.target.own", retry=_QUICK)
    async def own(event: Event[Call], ctx: EventContext) -> None:
        """It calls the target itself, under its breaker."""
        async with ctx.breaker("target"):
            await _call(ctx, event.payload)
        await ctx.connection.execute("insert into ledger values ('event', $1, '')", event.id)

    @handlers.command("test.target.blocking", retry=_QUICK)
    def blocking(_command: Call, ctx: BlockingCommandContext) -> None:
        """The same from a thread."""
        with ctx.breaker("target"):
            if not ctx.connection.fetchval(_CALL):
                raise ConnectionError("the target is down")
