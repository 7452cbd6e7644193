"""Schedules: commands and events to send at certain times, as written and as checked.

Owns both records. Promises: a `Schedule` can be sent without further lookups; all its mistakes are
found when the plugins are loaded. Known limit: the payload is the same at each run, except for the
time in `time_field`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal, TypedDict

from inboxd.api.cron import Cron, Missed, check_missed
from inboxd.api.drafts import encode
from inboxd.api.groups import check_text
from inboxd.api.labels import check_label
from inboxd.api.routes import Resolve
from inboxd.errors import UsageError
from inboxd.model import checks, duration
from inboxd.model.duration import Duration
from inboxd.model.spelling import did_you_mean


class ScheduleOptions(TypedDict, total=False):
    """The options of a schedule besides its times and payload."""

    event: str | None
    command: str | None
    zone: str
    missed: Missed
    topic: str | None
    queue: str | None
    priority: int | None
    expires_after: Duration | None
    tenant: str | None
    time_field: str | None
    title: str | None
    description: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleDeclaration:
    """A schedule as a plugin or the settings declare it; None: not given."""

    name: str
    source: str
    cron: str
    payload: object = None
    event: str | None = None
    command: str | None = None
    zone: str = "UTC"
    missed: Missed = "once"
    topic: str | None = None
    queue: str | None = None
    priority: int | None = None
    expires_after: Duration | None = None
    tenant: str | None = None
    time_field: str | None = None
    title: str | None = None
    description: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """A schedule that can be sent. lane: its topic or queue; None: the declared one.

    expires_after: the time from a run to its command's `expires_at`.
    """

    name: str
    source: str
    cron: str
    zone: str
    missed: Missed
    kind: Literal["event", "command"]
    type: str
    schema_version: int
    lane: str | None
    priority: int
    tenant: str | None
    payload: str
    time_field: str | None
    expires_after: timedelta | None = None
    title: str | None = None
    description: str | None = None


def payload_at(payload: str, time_field: str | None, time: datetime) -> str:
    """The payload of the run at `time`, with its numbers as they were written."""
    if time_field is None:
        return payload
    # If a name occurs twice, the last field counts.
    field = f"{encode(time_field)}: {encode(time.isoformat())}"
    fields = payload.strip()[1:-1].strip()
    return f"{{{fields}, {field}}}" if fields else f"{{{field}}}"


def checked(
    declared: ScheduleDeclaration,
    resolve: Resolve,
    event_versions: Mapping[str, int],
    commands: Collection[str],
) -> Schedule:
    """Check a declaration against the known handlers. Raises UsageError."""
    check(declared)
    common: dict[str, Any] = {
        name: getattr(declared, name)
        for name in (
            *("name", "source", "cron", "zone", "missed", "tenant", "time_field"),
            *("title", "description"),
        )
    }
    common["payload"] = _payload(declared)
    if declared.event is not None:
        if declared.event not in event_versions:
            meant = did_you_mean(declared.event, event_versions) or "."
            raise UsageError(f"no plugin declares the event type {declared.event!r}{meant}")
        version = event_versions[declared.event]
        return Schedule(
            **common,
            kind="event",
            type=declared.event,
            schema_version=version,
            lane=declared.topic,
            priority=0,
        )
    expires = declared.expires_after
    route = resolve(declared.command or declared.payload.__class__)
    if route.type not in commands:
        meant = did_you_mean(route.type, commands) or "."
        raise UsageError(f"no plugin declares the command type {route.type!r}{meant}")
    return Schedule(
        **common,
        kind="command",
        type=route.type,
        schema_version=route.schema_version,
        lane=declared.queue,
        priority=route.priority if declared.priority is None else declared.priority,
        expires_after=None if expires is None else duration.parse(expires),
    )


def check(declared: ScheduleDeclaration) -> None:
    """Raise UsageError for mistakes that can be seen without knowing the handlers."""
    Cron(declared.cron, declared.zone)
    check_missed(declared.missed)
    for what in ("name", "event", "command", "topic", "queue"):
        text = getattr(declared, what)
        if text is not None:
            checks.refuse(f"the {what} {text!r:.60}", checks.plain(text))
    check_text("a tenant", declared.tenant)
    check_label("title", declared.title)
    check_label("description", declared.description)
    is_event = declared.event is not None
    if is_event and declared.command is not None:
        raise UsageError("give event= or command=, not both.")
    if is_event and (declared.queue is not None or declared.priority is not None):
        raise UsageError("queue and priority are a command's: an event has a topic.")
    if declared.expires_after is not None:
        _check_expiry(declared.expires_after, of_event=is_event)
    if not is_event and declared.topic is not None:
        raise UsageError("topic is an event's: a command has a queue.")
    if not is_event and declared.command is None and declared.payload is None:
        raise UsageError("it sends nothing: give a command's payload, command= or event=.")
    if declared.priority is not None:
        checks.refuse(f"priority={declared.priority!r}", checks.small(declared.priority))


def _check_expiry(after: Duration, *, of_event: bool) -> None:
    if of_event:
        raise UsageError("expires_after is a command's: an event does not expire.")
    if not duration.parse(after):
        raise UsageError("expires_after must be more than 0 s: the command could never start.")


def _payload(declared: ScheduleDeclaration) -> str:
    payload = encode({} if declared.payload is None else declared.payload)
    if declared.time_field is not None and not payload.startswith("{"):
        raise UsageError("time_field needs a payload that is an object.")
    return payload
