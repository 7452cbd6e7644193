"""From a plugin's declarations to checked records, or to the list of their mistakes.

Owns the checks of declarations. Promises: all problems of a plugin are found at once, each with the
function's name, file and line; records are only made of valid declarations.
Known limit: conflicts between plugins are found where plugins meet, in `registry.plugins`.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypedDict, get_args

from pydantic import BaseModel, TypeAdapter

from inboxd.api.context import CommandContext, EventContext
from inboxd.api.functions import hints_of, name_of, where
from inboxd.api.hooks import Hook
from inboxd.api.labels import check_label, described
from inboxd.api.middleware import DeclaredMiddleware
from inboxd.api.payload import Envelope
from inboxd.api.records import CommandHandler, EventHandler, PayloadType, Upcaster
from inboxd.api.resources import Lifespan, Needs, needs_of
from inboxd.api.schedules import ScheduleDeclaration
from inboxd.api.secret_keys import secret_keys
from inboxd.api.signature import is_async, read_signature
from inboxd.api.topics import DEFAULT, TopicDeclaration
from inboxd.errors import UsageError
from inboxd.model import checks, duration
from inboxd.model.backoff import Policy
from inboxd.model.duration import Duration
from inboxd.model.naming import command_of, event_of
from inboxd.resilience.rules import BreakerRules


class HandlerOptions(TypedDict, total=False):
    """The options of each decorator: the schema version that is read (1), and overrides."""

    schema_version: int
    timeout: Duration | None
    retry: Policy | None
    breaker: str | None
    title: str | None
    description: str | None


class EventHandlerOptions(HandlerOptions, total=False):
    """The options of an event handler."""

    topic: str | None


class SentOnOptions(EventHandlerOptions, total=False):
    """The options of an event handler that runs as a command."""

    queue: str | None


class CommandHandlerOptions(HandlerOptions, total=False):
    """The options of a command handler; the defaults are queue "default" and priority 0."""

    queue: str
    priority: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HandlerDeclaration:
    """One use of a decorator, as written."""

    kind: Literal["event", "command"]
    func: Callable[..., Any]
    type: str
    schema_version: int = 1
    timeout: Duration | None = None
    retry: Policy | None = None
    as_command: bool = False
    queue: str | None = None
    priority: int = 0
    executor: Literal["process"] | None = None
    breaker: str | None = None
    title: str | None = None
    description: str | None = None
    topic: str | None = None
    # For a batch topic: the function takes chunks, and is declared once for each of its types.
    chunks: bool = False
    split: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Upcasting:
    """One upcaster, as written."""

    func: Upcaster
    type: str
    from_version: int


@dataclass(frozen=True, slots=True)
class Declared:
    """The checked declarations of a plugin, and its problems."""

    events: tuple[EventHandler, ...]
    commands: tuple[CommandHandler, ...]
    problems: tuple[str, ...]
    schedules: tuple[ScheduleDeclaration, ...] = ()
    topics: tuple[TopicDeclaration, ...] = ()
    lifespans: tuple[Lifespan, ...] = ()
    hooks: tuple[Hook, ...] = ()
    breakers: Mapping[str, BreakerRules] = field(default_factory=dict)


def build(
    plugin: str,
    declarations: Sequence[HandlerDeclaration],
    upcastings: Sequence[Upcasting],
    middleware: Sequence[Callable[..., Any]],
    lifespans: Sequence[Lifespan] | None = (),
) -> Declared:
    """Check all declarations; `lifespans`: None, if they are invalid themselves."""
    events: list[EventHandler] = []
    commands: list[CommandHandler] = []
    problems: list[str] = []
    around = _middleware(plugin, middleware, lifespans, problems)
    problems += _upcasting_problems(declarations, upcastings)
    for each in declarations:
        try:
            event, command = _records(plugin, each, upcastings, around, lifespans)
        except UsageError as error:
            problems.append(f"{where(each.func)}: {error}")
            continue
        events += [event] if event else []
        commands += [command] if command else []
    # A handler of chunks, declared once for each type, repeats its problems.
    return Declared(tuple(events), tuple(commands), tuple(dict.fromkeys(problems)))


def _records(
    plugin: str,
    declared: HandlerDeclaration,
    upcastings: Iterable[Upcasting],
    middleware: tuple[DeclaredMiddleware, ...],
    lifespans: Sequence[Lifespan] | None,
) -> tuple[EventHandler | None, CommandHandler | None]:
    """Make an event handler, a command handler, or, with `as_command`, both."""
    _check_options(plugin, declared)
    is_event = declared.kind == "event"
    signature = read_signature(
        declared.func,
        takes="chunk" if declared.chunks else declared.kind,
        context=EventContext if is_event and not declared.as_command else CommandContext,
        process=declared.executor == "process",
        offered=lifespans,
    )
    _check_named(declared, signature.payload)
    common: dict[str, Any] = {
        "plugin": plugin,
        "name": name_of(declared.func),
        "func": declared.func,
        "schema_version": declared.schema_version,
        "timeout": None if declared.timeout is None else duration.seconds(declared.timeout),
        "retry": declared.retry,
        "breaker": declared.breaker,
        "title": declared.title,
        "description": described(declared.description, declared.func),
        "executor": signature.executor,
        "upcasters": _upcasters(declared.type, upcastings),
        "middleware": middleware,
        "needs": signature.needs,
    }
    own: dict[str, Any] = {
        "adapter": _adapter(signature.payload),
        "payload_type": _own_class(signature.payload),
        "secret_keys": secret_keys(signature.payload),
    }
    sent: dict[str, Any] = {"queue": declared.queue or "default", "priority": declared.priority}
    if not is_event:
        return None, CommandHandler(**common, **own, **sent, type=declared.type)
    event = EventHandler(
        **common,
        **own,
        type=declared.type,
        topic=declared.topic,
        chunks=declared.chunks,
        split=declared.split,
    )
    if not declared.as_command:
        return event, None
    # The command that carries the event to its handler.
    carried = Envelope[signature.payload]  # type: ignore[name-defined] # made at run time
    command = CommandHandler(
        **common,
        **sent,
        type=f"{plugin}.{declared.func.__name__}",
        adapter=_adapter(carried),
        secret_keys=secret_keys(carried),
        event_type=declared.type,
    )
    return dataclasses.replace(event, command_type=command.type), command


def _adapter(annotation: Any) -> TypeAdapter[Any]:
    try:
        return TypeAdapter(annotation)
    except Exception as error:
        raise UsageError(f"its payload is not a type that pydantic can read: {error}") from error


def _own_class(annotation: Any) -> PayloadType | None:
    """The class by which `send` and `emit` find the type, if the plugin defines it."""
    if not isinstance(annotation, type):
        return None
    is_own = issubclass(annotation, BaseModel) or dataclasses.is_dataclass(annotation)
    return annotation if is_own else None


def _check_named(declared: HandlerDeclaration, payload: Any) -> None:
    """Refuse a class that names another type or version."""
    if not isinstance(payload, type):
        return
    named = (event_of if declared.kind == "event" else command_of)(payload)
    if named is None:
        return
    name = payload.__qualname__
    if named.type != declared.type:
        raise UsageError(
            f"it takes {name}, whose inboxd_{declared.kind} is {named.type!r}, for "
            f"{declared.type!r}: give each type a class of its own, or correct one of the two."
        )
    if named.schema_version != declared.schema_version:
        raise UsageError(
            f"it takes {name} as version {declared.schema_version}, but {name} is written as "
            f"version {named.schema_version}: correct its inboxd_version, or schema_version=."
        )


def _upcasters(type_: str, upcastings: Iterable[Upcasting]) -> Mapping[int, Upcaster]:
    return {each.from_version: each.func for each in upcastings if each.type == type_}


def _check_options(plugin: str, declared: HandlerDeclaration) -> None:
    for what, text in (
        ("plugin", plugin),
        ("type", declared.type),
        ("queue", declared.queue),
        ("topic", declared.topic),
        ("breaker", declared.breaker),
    ):
        if text is not None:
            checks.refuse(f"the {what} {text!r:.60}", checks.plain(text))
    if declared.topic == DEFAULT:
        raise UsageError('topic="default" is the topic of handlers without a topic: leave it out.')
    check_label("title", declared.title)
    check_label("description", declared.description)
    checks.refuse("schema_version", checks.count(declared.schema_version))
    checks.refuse("priority", checks.small(declared.priority))
    if not isinstance(declared.retry, (*get_args(Policy), type(None))):
        raise UsageError(
            f"retry={declared.retry!r}: give a policy such as Exponential(attempts=5)."
        )
    if declared.executor not in ("process", None):
        raise UsageError(f'executor={declared.executor!r}: only "process" is possible.')
    if declared.kind == "event" and not declared.as_command:
        _check_in_memory(declared)


def _check_in_memory(declared: HandlerDeclaration) -> None:
    """Refuse options of commands: an event handler runs inside its page's transaction."""
    if declared.queue is not None:
        raise UsageError("queue= belongs to commands: add as_command=True, or drop it.")
    if declared.executor is not None:
        raise UsageError('executor="process" is for slow work: add as_command=True.')


def _upcasting_problems(
    declarations: Sequence[HandlerDeclaration], upcastings: Sequence[Upcasting]
) -> list[str]:
    versions: dict[str, int] = {}
    for each in declarations:
        versions[each.type] = max(each.schema_version, versions.get(each.type, 0))
    seen: set[tuple[str, int]] = set()
    problems = []
    for one in upcastings:
        key = (one.type, one.from_version)
        if one.type not in versions:
            problems.append(f"{where(one.func)}: no handler of this plugin takes {one.type!r}.")
        elif not 1 <= one.from_version < versions[one.type]:
            newest = versions[one.type]
            problems.append(
                f"{where(one.func)}: from_version={one.from_version} leads nowhere: the handlers "
                f"of {one.type!r} take version {newest}, so give 1 to {newest - 1}."
            )
        elif key in seen:
            problems.append(f"{where(one.func)}: a second upcaster for {key}: drop one.")
        seen.add(key)
    return problems


def _middleware(
    plugin: str,
    middleware: Iterable[Callable[..., Any]],
    lifespans: Sequence[Lifespan] | None,
    problems: list[str],
) -> tuple[DeclaredMiddleware, ...]:
    """The middleware with its resources; problems are added to `problems`."""
    found = []
    for func in middleware:
        try:
            found.append(DeclaredMiddleware(plugin, func, _needs_around(func, lifespans)))
        except UsageError as error:
            problems.append(f"{where(func)}: {error}")
    return tuple(found)


def _needs_around(func: Callable[..., Any], lifespans: Sequence[Lifespan] | None) -> Needs:
    """The resources that middleware takes. Raises UsageError for an invalid function."""
    own, count = len(("call", "proceed")), len(inspect.signature(func).parameters)
    if not is_async(func) or count < own:
        raise UsageError("middleware must be async def, and take the call and proceed.")
    return needs_of(func, hints_of(func) if count > own else {}, lifespans, after=own)
