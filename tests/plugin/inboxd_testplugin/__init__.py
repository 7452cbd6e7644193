"""The plugin of the tests' workers, installed and found as a user's plugin is.

    row_id = await inbox.write("command", "test.ledger", {"n": 1, "sends": 2})

Well-behaved handlers write to `ledger(kind, row_id, note)` in their own transaction, so that a test
can count every effect; the others misbehave in the way that their name says. A sleep is a handler's
work, for as long as its row says, or its misbehaviour.
"""

import asyncio
import ctypes
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from inboxd import (
    BlockingCommandContext,
    Call,
    CommandContext,
    Defer,
    Event,
    EventContext,
    Fixed,
    Handlers,
    Proceed,
    Reject,
    Retry,
)
from inboxd_testplugin import (
    breaking,
    chaos,
    chunked,
    emitting,
    grouping,
    keyed,
    leaving,
    ordered,
    remote,
)

handlers = Handlers("testplugin")
leaving.add_to(handlers)
chaos.add_to(handlers)
keyed.add_to(handlers)
grouping.add_to(handlers)
ordered.add_to(handlers)
chunked.add_to(handlers)
emitting.add_to(handlers)
breaking.add_to(handlers)
remote.add_to(handlers)

QUICK = Fixed(base="100ms", attempts=3, jitter="none")


class Note(BaseModel):
    """The payload of most handlers; `n` numbers the input, `wait` is in seconds."""

    n: int = 0
    wait: float = 0
    sends: int = 0


async def _write(ctx: EventContext | CommandContext, kind: str, row_id: int, note: str) -> None:
    await ctx.connection.execute(
        "insert into ledger (kind, row_id, note) values ($1, $2, $3)", kind, row_id, note
    )


# ------------------------------------------------------------------------------ well-behaved


@handlers.event("test.noop")
async def noop_event(event: Event[Note], ctx: EventContext) -> None:
    """Do nothing, without a connection."""


@handlers.event("test.ledger", retry=QUICK)
async def ledger_event(event: Event[Note], ctx: EventContext) -> None:
    """Write one effect, wait, and send `sends` commands."""
    await _write(ctx, "event", event.id, str(event.payload.n))
    if event.payload.wait:
        await asyncio.sleep(event.payload.wait)
    for n in range(event.payload.sends):
        ctx.send({"n": n}, type="test.ledger")


@handlers.event("test.fan")
async def fan_event(event: Event[Note], ctx: EventContext) -> None:
    """Send `sends` commands that do nothing."""
    for n in range(event.payload.sends):
        ctx.send({"n": n}, type="test.noop")


@handlers.event("test.later", as_command=True, queue="later")
async def later_event(event: Event[Note], ctx: CommandContext) -> None:
    """Write one effect, as a command."""
    await _write(ctx, "later", event.id, str(event.payload.n))


@handlers.command("test.noop")
async def noop_command(command: Note, ctx: CommandContext) -> None:
    """Do nothing, without a connection."""


@handlers.command("test.ledger", retry=QUICK)
async def ledger_command(command: Note, ctx: CommandContext) -> dict[str, Any] | None:
    """Write one effect, wait, and send `sends` commands."""
    await _write(ctx, "command", ctx.id, str(command.n))
    if command.wait:
        await asyncio.sleep(command.wait)
    for n in range(command.sends):
        ctx.send({"n": n}, type="test.noop")
    return {"n": command.n} if command.n else None


@handlers.command("test.wait", queue="slow", retry=QUICK)
async def wait_command(command: Note, ctx: CommandContext) -> None:
    ctx.log.info("waiting", n=command.n)
    await asyncio.sleep(command.wait)


@handlers.event("test.block")
async def block_event(event: Event[dict[str, Any]], ctx: EventContext) -> None:
    """Write one effect, and block the event loop for `seconds`."""
    await _write(ctx, "event", event.id, "blocked")
    time.sleep(event.payload["seconds"])  # noqa: ASYNC251 - that is the misbehaviour


@handlers.command("test.block")
async def block_command(command: dict[str, Any], ctx: CommandContext) -> None:
    """Write one effect, and block the event loop for `seconds`."""
    await _write(ctx, "command", ctx.id, "blocked")
    time.sleep(command["seconds"])  # noqa: ASYNC251 - that is the misbehaviour


@handlers.command("test.thread")
def thread_command(command: Note, ctx: BlockingCommandContext) -> None:
    """Write one effect from a thread."""
    ctx.connection.execute(
        "insert into ledger (kind, row_id, note) values ('thread', $1, $2)", ctx.id, str(command.n)
    )


@handlers.command("test.process", executor="process", timeout="2s", retry=QUICK)
def process_command(command: Note) -> dict[str, int]:
    """Compute in a process of its own."""
    if command.wait:
        time.sleep(command.wait)
    return {"square": command.n**2, "pid": os.getpid()}


# -------------------------------------------------------------------------------- misbehaving


class Strict(BaseModel):
    """A payload with required fields."""

    name: str
    ages: list[int]


@handlers.event("test.strict", schema_version=2)
async def strict_event(event: Event[Strict], ctx: EventContext) -> None:
    """Accept version 2, or the upcaster's result for version 1."""


@handlers.upcaster("test.strict", from_version=1)
def strict_from_1(payload: Any) -> Any:
    """Version 1 had a single age."""
    return {"name": payload["name"], "ages": [payload["age"]]}


@handlers.event("test.misbehave", retry=QUICK)
async def misbehaving_event(event: Event[dict[str, Any]], ctx: EventContext) -> None:
    """Write an effect, and then misbehave as the payload says."""
    await _write(ctx, "event", event.id, "misbehaved")
    await _misbehave(event.payload, ctx)


@handlers.command("test.misbehave", retry=QUICK)
async def misbehaving_command(command: dict[str, Any], ctx: CommandContext) -> None:
    """Write an effect if `touch` is set, and then misbehave as the payload says."""
    if command.get("touch", True):
        await _write(ctx, "command", ctx.id, "misbehaved")
    await _misbehave(command, ctx)


@handlers.event("test.hangs", retry=QUICK, timeout="500ms")
async def hanging_event(event: Event[dict[str, Any]], ctx: EventContext) -> None:
    """Misbehave as `test.misbehave`, with a short timeout."""
    await misbehaving_event(event, ctx)


@handlers.command("test.hangs", retry=QUICK, timeout="500ms")
async def hanging_command(command: dict[str, Any], ctx: CommandContext) -> None:
    """Misbehave as `test.misbehave`, with a short timeout."""
    await misbehaving_command(command, ctx)


async def _misbehave(  # noqa: C901, PLR0912, PLR0915 - a table of ways, each a line or two
    how: dict[str, Any], ctx: EventContext | CommandContext
) -> None:
    match how["how"]:
        case "raise":
            raise ValueError(how.get("text", "as told"))
        case "base exception":
            raise SystemExit(3)
        case "cancelled":
            raise asyncio.CancelledError
        case "hang":
            await asyncio.Event().wait()  # until it is cancelled
        case "block":
            time.sleep(how["seconds"])  # noqa: ASYNC251 - that is the misbehaviour
        case "break transaction":
            with suppress(Exception):
                await ctx.connection.execute("select 1/0")
        case "commit":
            await ctx.connection.execute("commit")
        case "hidden commit":
            await ctx.connection.execute("/* */ commit")
        case "close":
            await ctx.connection.fetchval("select pg_terminate_backend(pg_backend_pid())")
        case "close quietly":
            with suppress(Exception):
                await ctx.connection.fetchval("select pg_terminate_backend(pg_backend_pid())")
        case "well hidden commit":
            await ctx.connection.execute("/* /* */ */ commit")
        case "speak of commit":
            await ctx.connection.execute("do $$ begin perform '; commit'; end $$")
            await ctx.connection.execute("select '; commit' as \"; commit\" -- ; commit")
        case "deferred":
            await ctx.connection.execute("insert into child (parent) values (-1)")
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "crash":
            ctypes.string_at(0)
        case "eat memory":
            # The test has bounded this control group; the kernel kills a process beyond the bound.
            (Path(how["group"]) / "cgroup.procs").write_text(str(os.getpid()))
            eaten = []
            while True:
                eaten.append(b"x" * 16_000_000)
        case "retry":
            raise Retry(after=0.05, reason="as told")
        case "reject":
            raise Reject("as told")
        case "defer":
            raise Defer(until=datetime.now(UTC) + timedelta(seconds=how["seconds"]))
        case "look":
            breakpoint()  # noqa: T100 - as somebody does who looks for a mistake
        case "never mind":
            return
        case "retry later":
            raise Retry(after=how["seconds"])
        case "defer until":
            if datetime.now(UTC) < datetime.fromisoformat(how["until"]):
                raise Defer(until=datetime.fromisoformat(how["until"]))
        case "defer for ever":
            raise Defer(until=datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=14))))
        case "send text with NUL":
            ctx.send({"inner": {"text": "a\0b"}}, type="test.noop")
        case "raise text with NUL":
            raise ValueError("a\0b")
        case "send to no queue":
            ctx.send({}, type="test.noop", queue="q" * 300)
        case "run sql":
            await ctx.connection.execute(how["sql"])
        case "ignore cancellation":
            deadline = time.monotonic() + how["seconds"]
            while time.monotonic() < deadline:
                try:
                    await asyncio.sleep(0.05)
                except asyncio.CancelledError:
                    continue


# ----------------------------------------------------------------- one behaviour each, by name


@handlers.event("test.pair", retry=QUICK)
async def first_of_pair(event: Event[dict[str, Any]], ctx: EventContext) -> None:
    """Write the first effect of two handlers of one event."""
    await _write(ctx, "first", event.id, str(event.attempt))
    ctx.send({}, type="test.noop")


@handlers.event("test.pair", retry=QUICK)
async def second_of_pair(event: Event[dict[str, Any]], ctx: EventContext) -> None:
    """Write the second effect, but fail in the first `failures` attempts."""
    await _write(ctx, "second", event.id, str(event.attempt))
    if event.attempt <= event.payload["failures"]:
        raise ValueError("the second of two")


@handlers.event("test.any")
async def any_event(event: Event[Any], ctx: EventContext) -> None:
    """Write the payload, of any JSON type."""
    await _write(ctx, "any", event.id, f"{type(event.payload).__name__} {event.payload!s:.20}")


@handlers.event("test.headers")
async def headers_event(event: Event[Any], ctx: EventContext) -> None:
    """Write the lengths of the headers and of the entity's id; send a command if asked to."""
    lengths = {name: len(str(value)) for name, value in event.headers.items()}
    await _write(ctx, "headers", event.id, f"{lengths} {len(event.entity_id or '')}")
    if event.payload:
        ctx.send({"n": 1}, type="test.noop")


@handlers.command("test.any")
async def any_command(command: Any, ctx: CommandContext) -> Any:
    """Return the payload; a text is cut."""
    return command[:10] if isinstance(command, str) else command


@handlers.command("test.fan")
async def fan_command(command: Note, ctx: CommandContext) -> None:
    """Send `sends` commands, without a transaction of its own."""
    for n in range(command.sends):
        ctx.send({"n": n}, type="test.noop")


@handlers.command("test.identity", retry=QUICK)
async def identity_command(command: dict[str, Any], ctx: CommandContext) -> dict[str, Any]:
    """Return the context's fields, but fail before attempt `at`."""
    if ctx.attempt < command.get("at", 1):
        raise ValueError(ctx.idempotency_key)
    return {
        "idempotency_key": ctx.idempotency_key,
        "attempt": ctx.attempt,
        "origin": [ctx.origin.kind, ctx.origin.id],
        "tenant": ctx.tenant,
    }


@handlers.command("test.span", queue="spans")
async def span_command(command: Note, ctx: CommandContext) -> dict[str, float]:
    """Wait, and return the times of begin and end."""
    began = time.monotonic()
    await asyncio.sleep(command.wait)
    return {"began": began, "ended": time.monotonic()}


@handlers.command("test.permanent", retry=Fixed(base="10ms", attempts=5, permanent=(LookupError,)))
async def permanent_command(command: dict[str, Any], ctx: CommandContext) -> None:
    """Raise an error that its policy calls permanent."""
    raise KeyError("gone for good")


@handlers.command("test.translated", retry=QUICK)
async def translated_command(command: dict[str, Any], ctx: CommandContext) -> str:
    """Raise an error that the middleware translates, if `fail` is set."""
    if command.get("fail"):
        raise ConnectionError("as told")
    return "told"


@handlers.middleware
async def translate(call: Call, proceed: Proceed) -> object:
    """Wrap one type's handler: reject its connection errors, and sign its results."""
    if call.type != "test.translated":
        return await proceed()
    try:
        return f"{await proceed()} by {call.handler.rpartition('.')[2]}"
    except ConnectionError as error:
        raise Reject("translated") from error


@handlers.command("test.slow_thread", timeout="300ms", retry=Fixed(base="1h"))
def slow_thread_command(command: dict[str, Any], ctx: BlockingCommandContext) -> None:
    """Outlive its timeout in a thread, and then try to write an effect."""
    time.sleep(command["seconds"])
    try:
        ctx.connection.execute(
            "insert into ledger (kind, row_id, note) values ('too late', $1, '')", ctx.id
        )
    except Exception as error:
        ctx.log.warning("refused", row_id=ctx.id, reason=str(error))
        raise


class Process(BaseModel):
    """The behaviour of a process, which first writes its pid to the file `path`."""

    path: Path
    how: str


@handlers.command("test.dying_process", executor="process", timeout="20s", retry=QUICK)
def dying_process_command(command: Process) -> str:
    """Write its pid to a file, and then hang, end itself, raise, or use its standard files."""
    with command.path.open("a") as file:
        print(os.getpid(), file=file, flush=True)
    match command.how:
        case "hang":
            time.sleep(3600)
        case "die":
            os._exit(9)
        case "die once":
            if len(command.path.read_text().split()) == 1:
                os._exit(9)
        case "raise":
            raise ValueError("from another process")
        case "write":
            os.write(1, b"RETURN 3\nhi\n")
            subprocess.run(["/bin/echo", "hi"], check=True)
            print("hi", file=sys.__stdout__, flush=True)
        case "read":
            subprocess.run(["/bin/cat"], check=True)
            return f"read {os.read(0, 1)!r}"
    return "lived"


class Steps(BaseModel):
    """How often progress is reported, and how long the handler goes on afterwards."""

    steps: int = 3
    wait: float = 0


@handlers.command("test.progress", timeout="30s")
async def progress_command(command: Steps, ctx: CommandContext) -> None:
    """Report each step, and wait."""
    for n in range(1, command.steps + 1):
        ctx.progress(n, command.steps, f"step {n}")
    await asyncio.sleep(command.wait)


@handlers.command("test.thread_progress", timeout="30s")
def thread_progress_command(command: Steps, ctx: BlockingCommandContext) -> None:
    """Report each step from a thread, and wait."""
    for n in range(1, command.steps + 1):
        ctx.progress(n)
    time.sleep(command.wait)


@handlers.command("test.patient", timeout="30s")
async def patient_command(command: dict[str, str], ctx: CommandContext) -> None:
    """Run the given SQL, however long it takes."""
    await ctx.connection.execute(command["sql"])
