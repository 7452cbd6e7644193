"""The options of `send`, `emit` and `webhook`, and the drafts made from them.

Promises: a value that its column cannot hold is refused here, with its name and size, while the
handler can still react.
Known limit: only the database knows whether a topic has the given mode.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final, TypedDict

from inboxd.api.drafts import CommandDraft, EventDraft, WebhookDraft, encode
from inboxd.api.routes import Routes
from inboxd.errors import PayloadError, UsageError
from inboxd.model import checks, duration
from inboxd.model.checks import OnConflict
from inboxd.model.duration import Duration
from inboxd.model.lineage import uuid7
from inboxd.model.row_columns import (
    Check,
    CommandOptionColumns,
    EventOptionColumns,
    options_of,
)


class SendOptions(CommandOptionColumns, total=False):
    """The options of a member of a batch or workflow: columns of its command.

    `delay` counts from the settlement.
    """

    type: str | None
    priority: int | None
    delay: Duration | None


class SendAloneOptions(SendOptions, total=False):
    """The options of `ctx.send`; no batch counts a command that may be kept or replaced."""

    unique_key: str | None
    on_conflict: OnConflict


class EmitOptions(EventOptionColumns, total=False):
    """The options of `emit`: fields of an event, as a producer gives them.

    And `delay`, which counts from the settlement.
    """

    schema_version: int | None
    delay: Duration | None


class WebhookOptions(TypedDict, total=False):
    """The options of `webhook`, as in `send_webhook`."""

    ordering_key: str | None
    message_id: str | None
    tenant: str | None
    endpoint: str | None
    occurred_at: datetime | None
    run_at: datetime | None
    entity_type: str | None
    entity_id: str | None


# Means that no payload was given; None is a payload: {}, as for a producer.
NOTHING: Final = object()

# None in place of a check: the value is read by `_given`.
_Columns = Mapping[str, Check | None]

# (A queue of no characters is the declared one.)
_OF_COMMANDS: _Columns = {**options_of("command"), "queue": checks.short, "delay": None}
_OF_EVENTS: _Columns = {**options_of("event"), "headers": None, "delay": None}
_OF_WEBHOOKS: _Columns = {
    "ordering_key": checks.key,
    "message_id": checks.message_id,
    "tenant": checks.short,
    "endpoint": checks.name,
    "occurred_at": checks.time,
    "run_at": checks.time,
    "entity_type": checks.short,
    "entity_id": checks.short,
}


def command_draft(
    routes: Routes, command: object, options: SendAloneOptions, tenant: str | None
) -> CommandDraft:
    """Draft a command; `tenant` is the default tenant.

    Raises UsageError for invalid options, PayloadError for a payload that cannot be stored.
    """
    columns: dict[str, Any] = {**options}
    named = columns.pop("type", None)
    route = routes.resolve(command.__class__ if named is None else named)
    given = _given("send", route.type, columns, _OF_COMMANDS)
    if given.get("on_conflict", "keep") != "keep" and "unique_key" not in given:
        raise UsageError(f"{route.type}: on_conflict={given['on_conflict']!r} needs a unique_key=.")
    given["queue"] = given.get("queue") or route.queue
    usual = {"priority": route.priority, "tenant": tenant}
    return CommandDraft(uuid7(), route.type, encode(command), route.schema_version, **usual | given)


def event_draft(
    routes: Routes, event: object, payload: object, options: EmitOptions, tenant: str | None
) -> EventDraft:
    """Draft an event; `tenant` is the default tenant.

    Raises UsageError for invalid options, PayloadError for a payload that cannot be stored.
    """
    if isinstance(event, str):
        type_, version = routes.resolve_event(event)
        if problem := checks.name(type_):
            raise UsageError(f"{type_!r:.40} is not a valid event type: it {problem}.")
        body = {} if payload is NOTHING or payload is None else payload
    else:
        type_, version = routes.resolve_event(event.__class__)
        if payload is not NOTHING:
            raise UsageError(f"{type_}: give the payload alone, or its type and the payload.")
        body = event
    given = _given("emit", type_, options, _OF_EVENTS)
    return EventDraft(
        uuid7(), type_, encode(body), **{"schema_version": version, "tenant": tenant} | given
    )


def webhook_draft(
    type_: object, payload: object, options: WebhookOptions, tenant: str | None
) -> WebhookDraft:
    """Draft a webhook; `tenant` is the default tenant.

    Raises UsageError for invalid options, PayloadError for a payload that cannot be stored.
    """
    if problem := checks.name(type_):
        raise UsageError(f"{type_!r:.40} is not a valid type of webhooks: it {problem}.")
    given = _given("webhook", str(type_), options, _OF_WEBHOOKS)
    body = {} if payload is None else payload
    return WebhookDraft(str(type_), encode(body), **{"tenant": tenant} | given)


def _given(call: str, type_: str, options: Mapping[str, Any], columns: _Columns) -> dict[str, Any]:
    """The given columns, checked; None means not given."""
    given: dict[str, Any] = {}
    for name, value in options.items():
        if name not in columns:
            raise TypeError(f"{call}() got an unexpected keyword argument {name!r}")
        if value is None:
            continue
        check = columns[name]
        if name == "delay":
            given[name] = duration.seconds(value)
        elif name == "headers":
            given[name] = _headers(type_, value)
        elif check is not None and (problem := check(value)):
            raise UsageError(f"{type_}: {name} {problem}.")
        else:
            given[name] = value
    if "delay" in given and "run_at" in given:
        raise UsageError(f"{type_}: give delay= or run_at=, not both.")
    return given


def _headers(type_: str, headers: object) -> str:
    try:
        text = encode(headers)
    except PayloadError as error:
        raise PayloadError(f"{error.message} (headers of {type_})", error.path) from None
    if problem := checks.headers(text):
        raise UsageError(f"{type_}: headers {problem}.")
    return text
