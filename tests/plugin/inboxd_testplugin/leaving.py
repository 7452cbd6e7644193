"""Handlers that leave state behind, and one that looks for it: effects of a row on the next one.

All ways have one type for events and one for commands, so that they share a page and a runner.
"""

import asyncio
import contextvars
import gc
from contextlib import suppress
from typing import Any

from inboxd import (
    BlockingEventContext,
    CommandContext,
    Event,
    EventContext,
    Fixed,
    Handlers,
)

_QUICK = Fixed(base="100ms", attempts=2, jitter="none")
# Seconds, more than the limit of the tests that use it.
_IDLE = 3
_var = contextvars.ContextVar("left_behind", default="clean")
_tasks: list[asyncio.Task[Any]] = []

_SESSION = """
set search_path to nowhere; set local app.tenant to 'A'; set statement_timeout to '7s';
create temp table left_behind (n int); declare left_open cursor with hold for select 1;
select pg_advisory_lock(4711); listen left_behind; set role inboxd_worker
"""
_LOOK = """
insert into public.ledger (kind, row_id, note) select $1, $2, concat_ws(' ',
    current_setting('search_path'), nullif(current_setting('app.tenant', true), ''),
    current_setting('statement_timeout'), to_regclass('pg_temp.left_behind'),
    (select string_agg(name, ' ') from pg_cursors where name = 'left_open'),
    (select string_agg(objid::text, ' ') from pg_locks where locktype = 'advisory'
        and pid = pg_backend_pid() and objid = 4711),
    (select string_agg(c, ' ') from pg_listening_channels() as c where c = 'left_behind'),
    current_user, $3::text)
"""


def add_to(handlers: Handlers) -> None:
    """Register the handlers of this module."""
    handlers.event("test.leave", retry=_QUICK, timeout="700ms")(leaving_event)
    handlers.command("test.leave", retry=_QUICK, timeout="700ms")(leaving_command)
    handlers.command("test.leave_idle", retry=_QUICK, timeout="1h")(leaving_command)
    handlers.command("test.garbage")(garbage_command)
    handlers.event("test.leave_thread", retry=_QUICK, timeout="300ms")(leaving_thread_event)


async def leaving_event(event: Event[dict[str, Any]], ctx: EventContext) -> None:
    """Leave the state behind that the payload names."""
    await _leave(event.payload["how"], ctx, "event", event.id)


async def leaving_command(command: dict[str, Any], ctx: CommandContext) -> None:
    """Leave the state behind that the payload names."""
    await _leave(command["how"], ctx, "command", ctx.id)


def leaving_thread_event(event: Event[dict[str, Any]], ctx: BlockingEventContext) -> None:
    """Run a statement beyond the timeout."""
    ctx.connection.execute("select pg_sleep($1)", float(event.payload["seconds"]))


async def _leave(  # noqa: C901, PLR0912, PLR0915 - a table of ways, each a line or two
    how: str, ctx: EventContext | CommandContext, kind: str, row_id: int
) -> None:
    match how:
        case "nothing":
            await ctx.connection.execute(_LOOK, kind, row_id, _var.get())
        case "hang":
            await asyncio.Event().wait()  # until it is cancelled
        case "cancellation":
            await _cancelled_and_caught()
            raise TimeoutError("as a library says")
        case "unmet cancellation":
            _myself().cancel()
        case "variable":
            _var.set("tenant A")
            await asyncio.sleep(0)  # let others run
            _var.set("tenant B")
        case "session":
            await ctx.connection.execute(_SESSION)
        case "locks":
            await ctx.connection.execute("select pg_advisory_lock(4711)")
            raise ValueError("as told")
        case "prepare":
            await ctx.connection.execute("prepare left_behind as select 1")
        case "prepare and fail":
            await ctx.connection.execute("prepare left_behind as select 1")
            raise ValueError("as told")
        case "deallocate":
            await ctx.connection.execute("deallocate all")
        case "deallocate out of sight":
            await ctx.connection.execute("select deallocate_out_of_sight()")
        case "prepare out of sight":
            await ctx.connection.execute("select prepare_out_of_sight()")
        case "star":
            await ctx.connection.fetchrow("select * from starred where n = $1", 1)
        case "its own mistake":
            await ctx.connection.execute("execute nobodys")
        case "idle":
            await ctx.connection.execute(_LOOK, kind, row_id, "before")
            await asyncio.sleep(_IDLE)
            await ctx.connection.execute(_LOOK, kind, row_id, "after")
        case "statement beside a failure":
            await asyncio.gather(
                ctx.connection.execute("select 1 / 0"), ctx.connection.execute(_LONG)
            )
        case "forgotten await":
            ctx.connection.execute("select 1")  # type: ignore[unused-coroutine] # the mistake
        case "forgotten task":
            _tasks.append(asyncio.create_task(ctx.connection.fetchval("select 1")))
        case "cancelled before it began":
            with suppress(TimeoutError):
                await asyncio.wait_for(ctx.connection.fetchval("select 1"), 0)
        case "statement":
            _tasks.append(asyncio.create_task(ctx.connection.execute(_LONG)))
            await asyncio.sleep(0.1)  # a handler cannot know when the server has it
        case "statements side by side":
            numbers = await asyncio.gather(
                *(ctx.connection.fetchval("select $1::int", n) for n in range(20))
            )
            assert numbers == list(range(20))


async def garbage_command(command: dict[str, Any], ctx: CommandContext) -> dict[str, int]:
    """Return the process's threshold for garbage collections, and the objects that these skip."""
    return {"objects": gc.get_threshold()[0], "frozen": gc.get_freeze_count()}


_LONG = "select pg_sleep(30)"


def _myself() -> asyncio.Task[Any]:
    task = asyncio.current_task()
    assert task is not None
    return task


async def _cancelled_and_caught() -> None:
    """Act as a library whose time limit cancels its task and does not take that back."""
    asyncio.get_running_loop().call_later(0.02, _myself().cancel)
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        return
