"""For Django: emit and send in `transaction.atomic`, and read-only models of the rows.

An app for INSTALLED_APPS (extra `django`). INBOXD is `{"SCHEMA": "inboxd", "DATABASE": "default"}`
by default. The functions write on this thread's connection to that database, so in the caller's
`atomic`; `inboxd migrate` makes the tables, not Django. Known limit: admin and models need SELECT
on the tables, which a producer's role does not have (docs/frameworks.md).
"""

from collections.abc import Iterable
from typing import Any, Unpack
from uuid import UUID

from inboxd.client import Emitted, NewCommand, NewEvent, Sent
from inboxd.client.batches import ACommand
from inboxd.contrib.django.config import connection, inbox
from inboxd.model.duration import Duration
from inboxd.model.naming import CommandPayload, EventPayload
from inboxd.model.row_columns import CommandFields, EventFields

__all__ = ["emit", "emit_many", "inbox", "result", "send", "send_many"]


def emit(
    type: str | EventPayload, payload: object = None, **fields: Unpack[EventFields]
) -> Emitted:
    """Write one event, in the caller's transaction: `Inbox.emit` on Django's connection."""
    draft: Any = NewEvent
    return emit_many([draft(type, payload, **fields)])[0]


def emit_many(events: Iterable[NewEvent | EventPayload]) -> list[Emitted]:
    return inbox().emit_many(connection(), events)


def send(
    type: str | CommandPayload, payload: object = None, **fields: Unpack[CommandFields]
) -> Sent:
    """Write one command, in the caller's transaction: `Inbox.send` on Django's connection."""
    draft: Any = NewCommand
    return send_many([draft(type, payload, **fields)])[0]


def send_many(commands: Iterable[ACommand]) -> list[Sent]:
    return inbox().send_many(connection(), commands)


def result(command_id: UUID, timeout: Duration = "30s") -> Any:
    """Wait for a command's result, outside of `atomic`: `Inbox.result` on Django's connection."""
    return inbox().result(connection(), command_id, timeout=timeout)
