"""Handlers of a target that a test takes down: the table `target`, with its breaker.

Each call increments the sequence `target_calls`, which no rollback undoes.
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
    """A call that takes `wait` seconds. invalid: the target refuses it for good."""

    wait: float = 0
    invalid: bool = False


async def _call(ctx: CommandContext | EventContext, call: Call) -> None:
    if not await ctx.connection.fetchval("select pg_try_advisory_xact_lock(4711)"):
        version = await ctx.connection.fetchval(_HALF_OPEN)
        await asyncio.sleep(0.3)  # a worker that closes the breaker goes on before it writes this
        if version and await ctx.connection.fetchval(_HALF_OPEN) == version:
            await ctx.connection.execute("select nextval('target_overlaps')")
    up = await ctx.connection.fetchval(_CALL)
    if call.wait:
        await asyncio.sleep(call.wait)  # the target's work
    if call.invalid:
        raise Reject("the target does not want it")
    if not up:
        raise ConnectionError("the target is down")


def add_to(handlers: Handlers) -> None:
    """Register the handlers of this module."""
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
    """Register handlers that declare no breaker."""

    @handlers.command("test.target.plain", retry=_QUICK)
    async def plain(command: Call, ctx: CommandContext) -> None:
        """Call the target without a breaker; the queue may have one."""
        await _call(ctx, command)
        await ctx.connection.execute("insert into ledger values ('command', $1, '')", ctx.id)

    @handlers.event("test.target.own", retry=_QUICK)
    async def own(event: Event[Call], ctx: EventContext) -> None:
        """Call the target under its breaker inside the handler."""
        async with ctx.breaker("target"):
            await _call(ctx, event.payload)
        await ctx.connection.execute("insert into ledger values ('event', $1, '')", event.id)

    @handlers.command("test.target.blocking", retry=_QUICK)
    def blocking(_command: Call, ctx: BlockingCommandContext) -> None:
        """Call the target under its breaker from a thread."""
        with ctx.breaker("target"):
            if not ctx.connection.fetchval(_CALL):
                raise ConnectionError("the target is down")
