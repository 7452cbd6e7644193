"""The run of one handler in a test: rows, contexts, calls, and outcomes.

Owns the code that `run_event`, `run_command` and `run_chunk` share. Promises: the payload is
encoded, upcast, decoded and checked as the daemon does it; middleware runs; sync handlers run in a
thread; the outcome is decided by the same code, with the wait unjittered, so that a test can name
it. Known limit: a handler declared for a process runs in a thread, where it cannot be killed;
settings are not read, so a type has the timeout and policy of its declaration, or else no timeout
and `Exponential()`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from functools import partial
from typing import Any, NoReturn, cast

import anyio
import anyio.to_thread
import structlog

from inboxd.api import clock
from inboxd.api.connection import BlockingConnection, Connection
from inboxd.api.context import CommandContext, EventContext
from inboxd.api.drafts import encode
from inboxd.api.handlers import Handlers
from inboxd.api.messages import Event, Row
from inboxd.api.middleware import AnyContext, Invoke, compose
from inboxd.api.payload import decode, decode_event_command, wrap_event
from inboxd.api.progress import Progress
from inboxd.api.records import CommandHandler, EventHandler, Handler
from inboxd.api.topics import DEFAULT
from inboxd.errors import HandlerTimeout, NoHandler, UsageError
from inboxd.model.backoff import Exponential
from inboxd.model.lineage import Lineage, OriginKind, child_of, uuid7
from inboxd.model.outcome import Dead, Outcome, Retrying, Succeeded, decide
from inboxd.registry.plugins import build_registry
from inboxd.registry.registry import Registry
from inboxd.testing.fakes import AnyConnection
from inboxd.testing.resources import GivenResources
from inboxd.testing.sent import AllSent, GivenResults, look


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Result(AllSent):
    """The outcome of a handler, and the rows that it sent: none unless it succeeded.

    `progress` is everything that it reported, for any outcome. `items`: for a chunk, the outcome of
    each of its events.
    """

    outcome: Outcome
    error: BaseException | None = None
    progress: tuple[Progress, ...] = ()
    items: tuple[Outcome, ...] = ()

    def __repr__(self) -> str:
        """The outcome, and the types of the sent rows, in one line."""
        parts = [_shown(self.outcome)]
        parts += [f"sent {each.type}" for each in self.commands]
        parts += [f"emitted {each.type}" for each in self.events]
        parts += [f"sent the webhook {each.type}" for each in self.webhooks]
        parts += [
            f"made {each.draft.kind} {each.name}" for each in (*self.batches, *self.workflows)
        ]
        parts += [f"event {n}: {_shown(each)}" for n, each in enumerate(self.items, 1)]
        return f"<Result: {', '.join(parts)}>"


def _shown(outcome: Outcome) -> str:
    match outcome:
        case Retrying(delay, failure):
            return f"Retrying in {delay:g} s after {failure.error}"
        case Dead(failure):
            return f"Dead of {failure.error}"
        case _:
            return str(outcome)


async def run_event(
    handlers: Handlers,
    type: str,
    payload: object,
    *,
    connection: AnyConnection | None = None,
    resources: Mapping[Any, object] | None = None,
    now: datetime | None = None,
    **fields: Any,
) -> Result:
    """Run all handlers of a topic for the event `type`; they succeed or fail together.

    `payload` is anything that fits JSON, or bytes that are JSON already. `fields` are columns of
    the event's row, such as `tenant`, `attempts` or `schema_version`. A handler declared with
    `as_command` is run at once, as its command would be. `topic` is needed only if handlers of
    several topics take the type: each topic has its own row. `connection` is any object with the
    methods that the handlers call; `now` is the time of `ctx.now()`. `resources` has the values
    that handlers and middleware take from the plugin's lifespans, by type: `{httpx.AsyncClient:
    fake}`. Raises PluginError for wrong declarations.
    """
    registry = build_registry([(f"Handlers({handlers.name!r})", handlers)])
    topic = fields["topic"] if "topic" in fields else _only_topic(registry, type)
    found = registry.handlers_of(topic, type)
    if not found:
        raise NoHandler(f"{handlers!r} has no handler for the event {type!r} in {topic!r}.")
    with told(now):
        columns = {**fields, "topic": topic}
        return await _run_all(registry, found, type, payload, connection, resources, columns)


def _only_topic(registry: Registry, type_: str) -> str:
    """The topic of an event of the type. Raises UsageError if there are several."""
    topics = sorted({each.topic or DEFAULT for each in registry.events.get(type_, ())})
    if len(topics) > 1:
        raise UsageError(
            f"{type_} goes to {len(topics)} topics, a row to each: name the topic to run, "
            f"topic={' or topic='.join(map(repr, topics))}."
        )
    return topics[0] if topics else DEFAULT


async def _run_all(
    registry: Registry,
    found: Sequence[EventHandler],
    type: str,
    payload: object,
    connection: AnyConnection | None,
    resources: Mapping[Any, object] | None,
    fields: Mapping[str, Any],
) -> Result:
    row = make_row(EVENT, fields, type=type, schema_version=found[0].schema_version)
    raw = raw_of(payload)
    given = GivenResources(registry, resources)
    sent, outcome = AllSent(), cast("Outcome", Succeeded())
    for handler in found:
        result = await _run_event(registry, handler, row, raw, given, connection)
        if result.error is not None:
            return result
        sent, outcome = sent.and_also(result), result.outcome
    return well(outcome, sent)


async def run_command(
    handlers: Handlers,
    type: str,
    payload: object,
    *,
    connection: AnyConnection | None = None,
    resources: Mapping[Any, object] | None = None,
    results: Mapping[str, Any] | None = None,
    now: datetime | None = None,
    **fields: Any,
) -> Result:
    """Run the handler of the command `type`; the arguments are as in `run_event`.

    `results` are the values of `ctx.result`: of earlier steps, by name.
    """
    registry = build_registry([(f"Handlers({handlers.name!r})", handlers)])
    handler = registry.commands.get(type)
    if handler is None:
        raise NoHandler(f"{handlers!r} has no handler for the command {type!r}.")
    given = GivenResources(registry, resources)
    with told(now):
        row = make_row(_COMMAND, fields, type=type, schema_version=handler.schema_version)
        return await _run(registry, handler, row, raw_of(payload), given, connection, results)


def well(outcome: Outcome, sent: AllSent, **more: Any) -> Result:
    """The result of a handler that succeeded."""
    parts = {each.name: getattr(sent, each.name) for each in fields(AllSent)}
    return Result(outcome=outcome, **parts, **more)


async def _run_event(
    registry: Registry,
    handler: EventHandler,
    row: Mapping[str, Any],
    raw: str,
    given: GivenResources,
    connection: AnyConnection | None,
) -> Result:
    if handler.command_type is None:
        return await _run(registry, handler, row, raw, given, connection)
    carrier = registry.command_of(handler)
    draft = wrap_event(carrier, row, raw)
    parent = Lineage(row["correlation_id"], row["causation_id"], row["traceparent"])
    command = {
        **_COMMAND,
        **{name: row[name] for name in _SHARED},
        **child_of(parent, row["event_id"])._asdict(),
        "command_id": draft.command_id,
        "origin_kind": OriginKind.EVENT,
        "origin_id": row["id"],
    }
    return await _run(registry, carrier, command, draft.payload, given, connection)


async def _run(
    registry: Registry,
    handler: Handler,
    row: Mapping[str, Any],
    raw: str,
    given: GivenResources,
    connection: AnyConnection | None,
    results: Mapping[str, Any] | None = None,
) -> Result:
    run = composed(handler, given)
    said: list[Progress] = []
    context = context_of(registry, handler, row, connection, results, said)
    try:
        value = await call(handler, run, _decode(handler, row, raw), context)
        outcome = Succeeded(None if value is None else encode(value))
        sent = look(context)
    except (anyio.get_cancelled_exc_class(), ConnectionMissing):
        raise
    except BaseException as error:  # noqa: BLE001 - whatever a handler raises is its failure
        age = clock.now() - row["created_at"]
        policy = handler.retry or Exponential()
        decided = decide(error, policy, row["attempts"], age, Longest())
        return Result(outcome=decided, error=error, progress=tuple(said))
    finally:
        context.close()
    return well(outcome, sent, progress=tuple(said))


def _decode(handler: Handler, row: Mapping[str, Any], raw: str) -> Any:
    if isinstance(handler, CommandHandler) and handler.event_type is not None:
        return decode_event_command(handler, raw, row["schema_version"], row["attempts"])
    payload = decode(handler, raw, row["schema_version"])
    return Event(row, payload) if isinstance(handler, EventHandler) else payload


def composed(handler: Handler, given: GivenResources) -> Invoke:
    """Call the handler in its executor, with middleware. Raises UsageError for a missing value."""
    func, chain = given.bound(handler)

    async def invoke(payload: Any, context: AnyContext) -> object:
        if handler.executor == "loop":
            return await func(payload, context)
        arguments = (payload,) if handler.executor == "process" else (payload, context)
        call = partial(func, *arguments)
        return await anyio.to_thread.run_sync(call, abandon_on_cancel=True)

    return compose(handler.type, handler.name, chain, invoke)


async def call(handler: Handler, run: Invoke, payload: Any, context: AnyContext) -> object:
    """Run the handler within its timeout."""
    with anyio.move_on_after(handler.timeout) as scope:
        return await run(payload, context)
    if scope.cancelled_caught:
        raise HandlerTimeout(f"{handler.name} ran longer than {handler.timeout} seconds.")
    return None


def context_of(
    registry: Registry,
    handler: Handler,
    row: Mapping[str, Any],
    connection: AnyConnection | None,
    results: Mapping[str, Any] | None,
    said: list[Progress],
) -> AnyContext:
    """The context for the handler; using `connection` without one is a mistake of the test."""
    given = cast("Connection", connection or _NoConnection())
    log = structlog.get_logger("inboxd.testing")
    blocking = handler.executor != "loop"
    fitting = BlockingConnection(given) if blocking else given
    if isinstance(handler, EventHandler):
        return cast("AnyContext", EventContext(row, lambda: fitting, registry, log))
    given_results = None if results is None else GivenResults(results, blocking=blocking)

    def say(_row: Row, progress: Progress) -> None:
        said.append(progress)

    context = CommandContext(row, lambda: fitting, registry, log, given_results, say)
    return cast("AnyContext", context)


@contextmanager
def told(now: datetime | None) -> Iterator[None]:
    """Set the time of `ctx.now()` for the block. Raises UsageError for a time without a zone."""
    if now is None:
        yield
        return
    if now.tzinfo is None:
        raise UsageError(f"now={now!r} has no time zone: give it one, such as UTC.")
    token = clock.clock.set(lambda: now.astimezone(UTC))
    try:
        yield
    finally:
        clock.clock.reset(token)


def raw_of(payload: object) -> str:
    """The payload as JSON text."""
    return payload.decode() if isinstance(payload, bytes) else encode(payload)


def make_row(defaults: dict[str, Any], fields: Mapping[str, Any], **known: Any) -> dict[str, Any]:
    """A row as the database would have it. Raises UsageError for an unknown column."""
    unknown = fields.keys() - defaults.keys()
    if unknown:
        raise UsageError(
            f"No such column: {', '.join(sorted(unknown))}. Columns: {list(defaults)}."
        )
    now = clock.now()
    fresh: dict[str, Any] = {"event_id": uuid7(), "command_id": uuid7()}
    fresh |= dict.fromkeys(("created_at", "occurred_at", "run_at"), now)
    return defaults | {name: fresh[name] for name in fresh if name in defaults} | known | {**fields}


class Longest:
    """The longest wait that a jitter could choose, so that a test knows it."""

    def uniform(self, a: float, b: float, /) -> float:
        """The larger number."""
        return max(a, b)


class ConnectionMissing(UsageError):
    """A mistake of the test, not an outcome of the handler."""


class _NoConnection:
    """Stands in for a connection that the test did not give."""

    def __getattr__(self, name: str) -> NoReturn:
        raise ConnectionMissing(
            f"ctx.connection.{name} was used: give the test's connection, connection=…."
        )


_SHARED: dict[str, Any] = {
    "id": 1,
    "type": "",
    "schema_version": 1,
    "tenant": None,
    "entity_type": None,
    "entity_id": None,
    "ordering_key": None,
    "correlation_id": None,
    "causation_id": None,
    "traceparent": None,
    "attempts": 0,
    "created_at": None,
}
EVENT = {
    **_SHARED,
    "event_id": None,
    "topic": "default",
    "source": None,
    "headers": None,
    "occurred_at": None,
    "run_at": None,
}
_COMMAND = {
    **_SHARED,
    "command_id": None,
    "queue": "default",
    "priority": 0,
    "deadline": None,
    "expires_at": None,
    "origin_kind": OriginKind.API,
    "origin_id": None,
}
