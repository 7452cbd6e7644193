"""Batches and workflows that a test describes in the payload.

`how` of a member: `ok`, `sql` (it writes in its own transaction), `fail` (for good, until the
ledger has the note "mended"). Continuations write their name to the ledger.
"""

import asyncio
from typing import Any
from uuid import UUID

from pydantic import BaseModel

from inboxd import (
    Batch,
    BlockingCommandContext,
    BlockingEventContext,
    CommandContext,
    Event,
    EventContext,
    Handlers,
    Reject,
    Workflow,
)


class Work(BaseModel):
    """A member or a step."""

    how: str = "ok"
    name: str = ""
    reads: list[str] = []


class Make(BaseModel):
    """A batch: its members, and those of inner batches."""

    members: list[str] = []
    times: int = 1
    inner: list[list[str]] = []
    open: bool = False
    expires: str = "1d"
    tell: bool = True


class Fill(BaseModel):
    """Members for a batch made elsewhere."""

    batch: UUID
    count: int = 0
    close: bool = False


class Flow(BaseModel):
    """Steps as (name, how, ["a" or "a failed", ...]); "batch" is a batch with two members.

    "nested" is a batch that contains a batch with one slow member and a continuation.
    """

    steps: list[tuple[str, str, list[str]]]
    sync: bool = False
    reads: bool = True


def add_to(handlers: Handlers) -> None:
    """Register the handlers of this module."""
    handlers.event("batch.make")(make_on_event)
    handlers.event("batch.make_sync")(make_in_thread)
    handlers.command("batch.make")(make_in_command)
    handlers.command("batch.fill")(fill)
    handlers.command("batch.work")(work)
    handlers.command("batch.work_sync")(work_in_thread)
    handlers.command("batch.told")(told)
    handlers.event("flow.make")(flow)


def _make(ctx: Any, made: Make) -> None:
    batch = ctx.batch(name="made", open=made.open, expires=made.expires)
    for _ in range(made.times):
        for how in made.members:
            batch.add(Work(how=how), type="batch.work")
    for number, inner in enumerate(made.inner):
        within = batch.batch((Work(how=how) for how in inner), name="inner", type="batch.work")
        _tell(within, f"inner {number} ")
    if made.tell:
        _tell(batch)


def _tell(what: Batch | Workflow, prefix: str = "") -> None:
    what.then({"say": f"{prefix}then"}, type="batch.told")
    what.otherwise({"say": f"{prefix}otherwise"}, type="batch.told")
    what.finally_({"say": f"{prefix}finally"}, type="batch.told")


async def make_on_event(event: Event[Make], ctx: EventContext) -> None:
    _make(ctx, event.payload)


def make_in_thread(event: Event[Make], ctx: BlockingEventContext) -> None:
    _make(ctx, event.payload)


async def make_in_command(command: Make, ctx: CommandContext) -> None:
    """Make a batch in a command's own transaction."""
    await ctx.connection.execute("select 1")
    _make(ctx, command)


async def fill(command: Fill, ctx: CommandContext) -> None:
    """Add members to a batch, and close it."""
    ctx.add_to(command.batch, [Work()] * command.count, type="batch.work")
    if command.close:
        ctx.close_batch(command.batch)


async def work(command: Work, ctx: CommandContext) -> Any:
    """Run a member or a step; a step returns its name and the results that it has read."""
    if command.how == "slow":
        await asyncio.sleep(0.2)  # its work
    if command.how == "sql":
        await ctx.connection.execute(
            "insert into ledger (kind, row_id, note) values ('command', $1, $2)",
            ctx.id,
            command.name or "member",
        )
    if command.how == "fail":
        mended = await ctx.connection.fetchval(
            "select exists (select from ledger where note = 'mended')"
        )
        if not mended:
            raise Reject("as told")
    if command.name:
        return {"name": command.name, "read": [await ctx.result(name) for name in command.reads]}
    return None


def work_in_thread(command: Work, ctx: BlockingCommandContext) -> Any:
    """Run a step in a thread."""
    return {"name": command.name, "read": [ctx.result(name) for name in command.reads]}


async def told(command: dict[str, str], ctx: CommandContext) -> None:
    """Write the continuation's name to the ledger."""
    await ctx.connection.execute(
        "insert into ledger (kind, row_id, note) values ('command', $1, $2)",
        ctx.id,
        command["say"],
    )


async def flow(event: Event[Flow], ctx: EventContext) -> None:
    workflow = ctx.workflow("made")
    known: dict[str, Any] = {}
    for name, how, after in event.payload.steps:
        wanted = []
        for each in after:
            step, _, condition = each.partition(" ")
            node = known.get(step, step)
            wanted.append(getattr(node, condition) if condition else node)
        if how == "batch":
            batch = workflow.batch(name, [Work(), Work()], after=wanted, type="batch.work")
            _tell(batch, f"{name} ")
            known[name] = batch
        elif how == "nested":
            outer = workflow.batch(name, after=wanted)
            outer.batch([Work(how="slow")], type="batch.work").then(
                {"say": f"{name} inner then"}, type="batch.told"
            )
            known[name] = outer
        else:
            blind = how == "blind" or not event.payload.reads
            reads = [] if blind else [each.partition(" ")[0] for each in after]
            payload = Work(how=how, name=name, reads=reads)
            type_ = "batch.work_sync" if event.payload.sync else "batch.work"
            known[name] = workflow.step(name, payload, after=wanted, type=type_)
    _tell(workflow)
