"""Handlers for `make chaos`: each does what its row says, and leaves a trace that can be counted.

A row's payload is a `Script`. A trace is written before the handler misbehaves, so that what a
failed attempt leaves behind would be seen as an effect too many.
"""

import asyncio
import os
import time
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

from pydantic import BaseModel

from inboxd import (
    BlockingCommandContext,
    BlockingEventContext,
    CommandContext,
    Defer,
    Event,
    EventContext,
    Exponential,
    Handlers,
    Reject,
)

# Faults may cost attempts (a stopped process outlives its handlers' time limits), never all.
_MANY = Exponential(base="50ms", cap="1s", attempts=60)
_FEW = Exponential(base="50ms", cap="1s", attempts=3)
_TIMEOUT = "2s"
_EVENT_TIMEOUT = "800ms"

_TRACE = "insert into public.chaos_ledger (kind, key) values ($1, $2)"


class Script(BaseModel):
    """What a handler is to do, in this order; `n` numbers the children of one parent."""

    n: int = 0
    until: datetime | None = None  # deferred until then
    fails: int = 0  # raises at so many attempts
    hangs: int = 0  # runs into its timeout at so many attempts, after those
    refuses: bool = False
    wait: float = 0  # seconds
    children: list["Child"] = []
    traces: Path | None = None  # for handlers without a connection: a file
    expect: str = "succeeded"
    pad: str = ""


class Child(BaseModel):
    """A command that a handler sends."""

    type: str
    script: Script
    queue: str | None = None
    priority: int = 0
    delay: str | None = None


class AsTold(Exception):
    """A failure that the row asked for."""


def add_to(handlers: Handlers) -> None:
    """Register the handlers of this module."""
    handlers.event("chaos.fact", retry=_MANY, timeout=_EVENT_TIMEOUT)(fact)
    handlers.event("chaos.quick", retry=_MANY, timeout=_EVENT_TIMEOUT)(quick)
    handlers.event("chaos.thread_fact", retry=_MANY, timeout=_EVENT_TIMEOUT)(thread_fact)
    handlers.event("chaos.bad_fact", retry=_FEW, timeout=_EVENT_TIMEOUT)(fact)
    handlers.event("chaos.later", as_command=True, retry=_MANY, timeout=_TIMEOUT)(later)
    handlers.command("chaos.act", retry=_MANY, timeout=_TIMEOUT)(act)
    handlers.command("chaos.light", queue="light", retry=_MANY, timeout=_TIMEOUT)(light)
    handlers.command("chaos.thread", queue="threads", retry=_MANY, timeout=_TIMEOUT)(thread)
    handlers.command("chaos.bad_act", retry=_FEW, timeout=_TIMEOUT)(act)
    handlers.command("chaos.bad_light", queue="light", retry=_FEW, timeout=_TIMEOUT)(light)
    handlers.command(
        "chaos.process", queue="processes", executor="process", retry=_MANY, timeout="10s"
    )(process)


# ------------------------------------------------------------------------------------- events


async def fact(event: Event[Script], ctx: EventContext) -> None:
    """Leave a trace in the page's transaction."""
    await ctx.connection.execute(_TRACE, "event", event.event_id)
    await _play(event.payload, ctx)


async def quick(event: Event[Script], ctx: EventContext) -> None:
    """Send commands, with no connection."""
    await _play(event.payload, ctx)


def thread_fact(event: Event[Script], ctx: BlockingEventContext) -> None:
    """Leave a trace from a thread."""
    ctx.connection.execute(_TRACE, "event", event.event_id)
    _play_blocking(event.payload, ctx)


async def later(event: Event[Script], ctx: CommandContext) -> None:
    """Leave an event's trace from the command that carries it on."""
    await ctx.connection.execute(_TRACE, "later", event.event_id)
    await _play(event.payload, ctx)


# ----------------------------------------------------------------------------------- commands


async def act(command: Script, ctx: CommandContext) -> None:
    """Leave a trace in the command's own transaction."""
    await ctx.connection.execute(_TRACE, "command", ctx.command_id)
    await _play(command, ctx)


async def light(command: Script, ctx: CommandContext) -> None:
    """Leave a trace outside the database: at least once."""
    if command.traces is not None:
        _trace_outside(command.traces, ctx.command_id)
    await _play(command, ctx)


def thread(command: Script, ctx: BlockingCommandContext) -> None:
    """Leave a trace in the command's own transaction, from a thread."""
    ctx.connection.execute(_TRACE, "command", ctx.command_id)
    _play_blocking(command, ctx)


def process(command: Script) -> int:
    """Compute in another process."""
    time.sleep(command.wait)
    return os.getpid()


# ------------------------------------------------------------------------------ what they share


async def _play(script: Script, ctx: EventContext | CommandContext) -> None:
    if script.fails < ctx.attempt <= script.fails + script.hangs:
        await asyncio.sleep(3600)
    _misbehave(script, ctx.attempt)
    await asyncio.sleep(script.wait)
    _send(script, ctx)


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


def _send(
    script: Script,
    ctx: EventContext | CommandContext | BlockingEventContext | BlockingCommandContext,
) -> None:
    for child in script.children:
        ctx.send(
            child.script.model_dump(mode="json", exclude_unset=True),
            type=child.type,
            queue=child.queue,
            priority=child.priority,
            delay=child.delay,
        )


def _trace_outside(path: Path, key: UUID) -> None:
    with path.open("a") as file:
        file.write(f"{key}\n")
