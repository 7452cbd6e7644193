"""Handlers for `make chaos`: each does what its row says, and writes a trace that can be counted.

A row's payload is a `Script` (`chaos_scripts`). A trace is written before the handler misbehaves,
so that a remaining effect of a failed attempt would be counted. A sleep is a handler's work, for as
long as its script says.
"""

import asyncio
import os
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

from inboxd import (
    BlockingCommandContext,
    BlockingEventContext,
    CommandContext,
    Defer,
    Event,
    EventChunk,
    EventContext,
    Exponential,
    Handlers,
    Reject,
)
from inboxd_testplugin.chaos_scripts import Group, Script

# Faults may spend some attempts (a stopped process exceeds its handlers' timeouts), never all.
_MANY = Exponential(base="50ms", cap="1s", attempts=60)
_FEW = Exponential(base="50ms", cap="1s", attempts=3)
_TIMEOUT = "2s"
_EVENT_TIMEOUT = "800ms"

# The most events of a chunk; its topic is `chaos_chunks`.
CHUNK = 7

_TRACE = "insert into public.chaos_ledger (kind, key, line) values ($1, $2, $3)"
_BEGUN = f"{_TRACE} returning place"
_ENDED = "update public.chaos_ledger set ended = clock_timestamp() where place = $1"
_CHUNKED = """
insert into public.chaos_ledger (kind, key, line, chunk)
select 'event', key, $2, $3 from unnest($1::uuid[]) with ordinality as t(key, n) order by n
"""
_MENDED = "select exists (select from public.chaos_mended where token = $1)"


class AsTold(Exception):
    """A failure that the script asks for."""


def add_to(handlers: Handlers) -> None:
    """Register the handlers of this module."""
    handlers.event("chaos.fact", retry=_MANY, timeout=_EVENT_TIMEOUT)(fact)
    handlers.event("chaos.quick", retry=_MANY, timeout=_EVENT_TIMEOUT)(quick)
    handlers.event("chaos.thread_fact", retry=_MANY, timeout=_EVENT_TIMEOUT)(thread_fact)
    handlers.event("chaos.bad_fact", retry=_FEW, timeout=_EVENT_TIMEOUT)(fact)
    for name, on_failure in (("lines", "block"), ("skips", "skip")):
        handlers.topic(
            f"chaos_{name}",
            mode="sequential",
            key="/line",
            on_failure=on_failure,  # type: ignore[arg-type]
            retry=_MANY,
        )
        handlers.event(f"chaos.of_{name}", topic=f"chaos_{name}", timeout=_EVENT_TIMEOUT)(turn)
    handlers.topic("chaos_chunks", mode="batch", key="/line", count=CHUNK, age="1s", retry=_MANY)
    handlers.chunk("chaos.of_chunks", topic="chaos_chunks", timeout=_TIMEOUT)(collect)
    handlers.event("chaos.group", retry=_MANY, timeout=_EVENT_TIMEOUT)(fact)
    handlers.event("chaos.once", retry=_MANY, timeout=_EVENT_TIMEOUT)(fact)
    handlers.event("chaos.struck", retry=_MANY, timeout=_EVENT_TIMEOUT)(fact)
    handlers.event("chaos.later", as_command=True, retry=_MANY, timeout=_TIMEOUT)(later)
    handlers.command("chaos.act", retry=_MANY, timeout=_TIMEOUT)(act)
    handlers.command("chaos.told", retry=_MANY, timeout=_TIMEOUT)(act)
    handlers.command("chaos.tick", retry=_MANY, timeout=_TIMEOUT)(act)
    for name in ("keyed", "scarce", "paced", "sole"):
        handlers.command(f"chaos.{name}", queue=f"chaos.{name}", retry=_MANY, timeout=_TIMEOUT)(
            timed
        )
    handlers.command("chaos.light", queue="light", retry=_MANY, timeout=_TIMEOUT)(light)
    handlers.command("chaos.thread", queue="threads", retry=_MANY, timeout=_TIMEOUT)(thread)
    handlers.command("chaos.bad_act", retry=_FEW, timeout=_TIMEOUT)(act)
    handlers.command("chaos.bad_light", queue="light", retry=_FEW, timeout=_TIMEOUT)(light)
    handlers.command(
        "chaos.process", queue="processes", executor="process", retry=_MANY, timeout="10s"
    )(process)


# ------------------------------------------------------------------------------------- events


async def fact(event: Event[Script], ctx: EventContext) -> None:
    """Write a trace in the page's transaction."""
    await ctx.connection.execute(_TRACE, "event", event.event_id, None)
    await _play(event.payload, ctx)


async def quick(event: Event[Script], ctx: EventContext) -> None:
    """Send commands, without a connection."""
    await _play(event.payload, ctx)


def thread_fact(event: Event[Script], ctx: BlockingEventContext) -> None:
    """Write a trace from a thread."""
    ctx.connection.execute(_TRACE, "event", event.event_id, None)
    _play_blocking(event.payload, ctx)


async def later(event: Event[Script], ctx: CommandContext) -> None:
    """Write the event's trace, as the command that handles it."""
    await ctx.connection.execute(_TRACE, "later", event.event_id, None)
    await _play(event.payload, ctx)


async def turn(event: Event[Script], ctx: EventContext) -> None:
    """Write a trace with the event's line."""
    line = f"{event.topic} {event.ordering_key}"
    await ctx.connection.execute(_TRACE, "event", event.event_id, line)
    await _play(event.payload, ctx)


async def collect(events: EventChunk[Script], ctx: EventContext) -> None:
    """Write a trace for each accepted event, with one uuid for the chunk."""
    taken: list[UUID] = []
    async for event in events:
        script = event.payload
        if script.heals is not None and not await ctx.connection.fetchval(_MENDED, script.heals):
            if script.n % 2:
                raise Reject(f"until mended {script.heals}")
            events.reject(event, f"until mended {script.heals}")
        elif script.refuses:
            events.reject(event, "as told")
        else:
            await _suffer(script, event.attempt)
            await asyncio.sleep(script.wait)
            taken.append(event.event_id)
    line = f"{events.topic} {events.key}"
    await ctx.connection.execute(_CHUNKED, taken, line, uuid4())


# ----------------------------------------------------------------------------------- commands


async def act(command: Script, ctx: CommandContext) -> None:
    """Write a trace in the command's own transaction."""
    await ctx.connection.execute(_TRACE, "command", ctx.command_id, None)
    await _play(command, ctx)


async def timed(command: Script, ctx: CommandContext) -> None:
    """Write a trace with the times of begin and end."""
    line = command.line or None
    place = await ctx.connection.fetchval(_BEGUN, "command", ctx.command_id, line)
    await _play(command, ctx)
    await ctx.connection.execute(_ENDED, place)


async def light(command: Script, ctx: CommandContext) -> None:
    """Write a trace outside the database: at least once."""
    if command.traces is not None:
        _trace_outside(command.traces, ctx.command_id)
    await _play(command, ctx)


def thread(command: Script, ctx: BlockingCommandContext) -> None:
    """Write a trace in the command's own transaction, from a thread."""
    ctx.connection.execute(_TRACE, "command", ctx.command_id, None)
    _play_blocking(command, ctx)


def process(command: Script) -> int:
    """Compute in a process of its own."""
    time.sleep(command.wait)
    return os.getpid()


# -------------------------------------------------------------------------- shared functions


async def _play(script: Script, ctx: EventContext | CommandContext) -> None:
    if script.heals is not None and not await ctx.connection.fetchval(_MENDED, script.heals):
        raise Reject(f"until mended {script.heals}")
    await _suffer(script, ctx.attempt)
    await asyncio.sleep(script.wait)
    _send(script, ctx)


async def _suffer(script: Script, attempt: int) -> None:
    if script.fails < attempt <= script.fails + script.hangs:
        await asyncio.Event().wait()  # until it is cancelled
    _misbehave(script, attempt)


def _play_blocking(script: Script, ctx: BlockingEventContext | BlockingCommandContext) -> None:
    _misbehave(script, ctx.attempt)
    time.sleep(script.wait)
    _send(script, ctx)


def _misbehave(script: Script, attempt: int) -> None:
    if script.until is not None and datetime.now(UTC) < script.until:
        raise Defer(until=script.until)
    if script.refuses:
        raise Reject("as told")
    if attempt <= script.fails:
        raise AsTold(f"attempt {attempt} of {script.fails} that fail")


def _send(script: Script, ctx: Any) -> None:
    for child in script.children:
        if child.event:
            ctx.emit(child.type, child.payload)
        else:
            ctx.send(child.payload, **child.options)
    if script.group is not None:
        _fill(ctx.batch(name="chaos"), script.group)
    if script.steps:
        _plan(ctx.workflow("chaos"), script)


def _fill(batch: Any, group: Group) -> None:
    """Add members, inner batches and continuations."""
    for child in group.members:
        batch.add(child.payload, **child.options)
    for inner in group.inner:
        _fill(batch.batch(name="inner"), inner)
    _follow(batch, group)


def _plan(workflow: Any, script: Script) -> None:
    """Add the steps of a workflow, each a command or a batch."""
    known: dict[str, Any] = {}
    for name, step, waits in script.steps:
        after = []
        for each in waits:
            needed, _, condition = each.partition(" ")
            after.append(getattr(known[needed], condition or "succeeded"))
        if step.group is None:
            payload = step.model_dump(mode="json", exclude_unset=True)
            known[name] = workflow.step(name, payload, after=after, type="chaos.act")
        else:
            known[name] = workflow.batch(name, after=after)
            _fill(known[name], step.group)
    if script.follows is not None:
        _follow(workflow, script.follows)


def _follow(whole: Any, group: Group) -> None:
    for follow, child in zip(
        (whole.then, whole.otherwise, whole.finally_), group.after, strict=True
    ):
        follow(child.payload, **child.options)


def _trace_outside(path: Path, key: UUID) -> None:
    with path.open("a") as file:
        file.write(f"{key}\n")
