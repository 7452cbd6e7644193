"""Events that a handler emits: what they may say, and how they become drafts.

Owns the options of `emit`. Promises: what a column cannot hold is refused here, by name and size,
while the handler can still do something about it.
Known limit: whether a topic has the mode that was given, the database knows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final, TypedDict, cast

from inboxd.api.drafts import EventDraft, encode
from inboxd.api.routes import Routes
from inboxd.errors import PayloadError, UsageError
from inboxd.model import checks, duration
from inboxd.model.checks import Mode
from inboxd.model.duration import Duration
from inboxd.model.lineage import uuid7


class EmitOptions(TypedDict, total=False):
    """What `emit` takes beside the payload: fields of an event, as a producer gives them.

    And `delay`, which counts from the settlement.
    """

    topic: str | None
    schema_version: int | None
    source: str | None
    tenant: str | None
    entity_type: str | None
    entity_id: str | None
    headers: Mapping[str, Any] | None
    occurred_at: datetime | None
    run_at: datetime | None
    delay: Duration | None
    mode: Mode | None
    ordering_key: str | None
    dedup_key: str | None


# Not given; None is a payload, as a producer's is: {}.
NOTHING: Final = object()

_CHECKS: Mapping[str, Callable[[object], str | None]] = {
    "topic": checks.name,
    "schema_version": checks.count,
    "source": checks.short,
    "tenant": checks.short,
    "entity_type": checks.short,
    "entity_id": checks.short,
    "occurred_at": checks.time,
    "run_at": checks.time,
    "mode": checks.mode,
    "ordering_key": checks.key,
    "dedup_key": checks.key,
}


def event_draft(
    routes: Routes, event: object, payload: object, options: EmitOptions, tenant: str | None
) -> EventDraft:
    """The event to be written; `tenant` is whose it is unless the options say otherwise.

    Raises UsageError for options that no event can have, PayloadError for what cannot be stored.
    """
    if isinstance(event, str):
        type_, version = routes.resolve_event(event)
        if problem := checks.name(type_):
            raise UsageError(f"{type_!r:.40} is no event type: it {problem}.")
        body = {} if payload is NOTHING or payload is None else payload
    else:
        type_, version = routes.resolve_event(event.__class__)
        if payload is not NOTHING:
            raise UsageError(f"{type_}: give the payload alone, or its type and the payload.")
        body = event
    given: dict[str, Any] = {}
    for name, value in options.items():
        if value is None:
            continue
        match name:
            case "headers":
                given[name] = _headers(type_, value)
            case "delay":
                given[name] = duration.seconds(cast("Duration", value))
            case _:
                given[name] = _checked(type_, name, value)
    if "delay" in given and "run_at" in given:
        raise UsageError(f"{type_}: give delay= or run_at=, not both.")
    return EventDraft(
        uuid7(), type_, encode(body), **{"schema_version": version, "tenant": tenant} | given
    )


def _checked(type_: str, name: str, value: object) -> object:
    check = _CHECKS.get(name)
    if check is None:
        raise TypeError(f"emit() got an unexpected keyword argument {name!r}")
    if problem := check(value):
        raise UsageError(f"{type_}: {name} {problem}.")
    return value


def _headers(type_: str, headers: object) -> str:
    try:
        text = encode(headers)
    except PayloadError as error:
        raise PayloadError(f"{error.message} (headers of {type_})", error.path) from None
    if problem := checks.headers(text):
        raise UsageError(f"{type_}: headers {problem}.")
    return text
