"""For Django: emit and send in `transaction.atomic`, and read-only models of the rows.

An app for INSTALLED_APPS (`"inboxd.contrib.django"`, extra `django`). Owns the settings `INBOXD`:
the default is `{"SCHEMA": "inboxd", "DATABASE": "default"}`. Promises: the functions write on this
thread's connection to that database, and so in the caller's `atomic`; nothing waits for
`transaction.on_commit`, since rows that commit with the caller's own need no second step that could
be lost; the models cannot be saved or deleted; there are no Django migrations, as `inboxd migrate`
makes the tables. Known limit: the admin and the models need SELECT on the tables, which a
producer's role does not have (docs/frameworks.md).
"""

from collections.abc import Iterable
from typing import Any, Unpack
from uuid import UUID

from inboxd.client import Emitted, NewCommand, NewEvent, Sent
from inboxd.client.batches import ACommand
from inboxd.client.drafts import CommandFields, EventFields
from inboxd.contrib.django.config import connection, inbox
from inboxd.model.duration import Duration
from inboxd.model.naming import CommandPayload, EventPayload

__all__ = ["emit", "emit_many", "inbox", "result", "send", "send_many"]


def emit(
    type: str | EventPayload, payload: object = None, **fields: Unpack[EventFields]
) -> Emitted:
    """Write one event, in the caller's transaction: `Inbox.emit` on Django's connection."""
    draft: Any = NewEvent
    return emit_many([draft(type, payload, **fields)])[0]


def emit_many(events: Iterable[NewEvent | EventPayload]) -> list[Emitted]:
    """Write events, in the caller's transaction; the receipts are in the order given."""
    return inbox().emit_many(connection(), events)


def send(
    type: str | CommandPayload, payload: object = None, **fields: Unpack[CommandFields]
) -> Sent:
    """Write one command, in the caller's transaction: `Inbox.send` on Django's connection."""
    draft: Any = NewCommand
    return send_many([draft(type, payload, **fields)])[0]


def send_many(commands: Iterable[ACommand]) -> list[Sent]:
    """Write commands, in the caller's transaction; the receipts are in the order given."""
    return inbox().send_many(connection(), commands)


def result(command_id: UUID, timeout: Duration = "30s") -> Any:
    """Wait for a command's result, outside of `atomic`: `Inbox.result` on Django's connection."""
    return inbox().result(connection(), command_id, timeout=timeout)
