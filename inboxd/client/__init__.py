"""For producers: emit events and send commands on the caller's own connection, in its transaction.

Owns `Inbox`, the client for Python services. Promises: its rows commit or roll back with the
caller's own rows; it needs only the standard library, so a service installs none of the daemon's
dependencies; every mistake that can be known is refused before the database sees it, so the
caller's transaction survives; memory holds one page of rows (two on an async connection). Known
limits: a receipt is kept for each row (about 0.2 KB), so a caller with tens of millions of rows
writes them in several calls; without a transaction each page of 1,000 rows commits by itself.
"""

from collections.abc import Callable, Coroutine, Iterable
from typing import Any, TypeAlias, Unpack, overload
from uuid import UUID

from inboxd.client import batches, results, webhooks
from inboxd.client.batches import ACommand, BatchFields, BatchSent, NewStep
from inboxd.client.drafts import (
    COMMANDS,
    EVENTS,
    Emitted,
    NewCommand,
    NewEvent,
    Sent,
)
from inboxd.client.drivers import (
    AsyncConnection,
    AsyncDatabase,
    SyncConnection,
    SyncDatabase,
    write,
)
from inboxd.client.pages import queries
from inboxd.client.webhooks import Delivery, NewWebhook, WebhookFields
from inboxd.errors import (
    CommandCancelled,
    CommandFailed,
    ResultTimeout,
    UnknownCommand,
    UsageError,
)
from inboxd.model.duration import Duration
from inboxd.model.naming import CommandPayload, EventPayload
from inboxd.model.row_columns import CommandFields, EventFields

# An event with its fields, or a payload whose class names its type.
AnEvent: TypeAlias = NewEvent | EventPayload

__all__ = [
    "AsyncConnection",
    "BatchSent",
    "CommandCancelled",
    "CommandFailed",
    "CommandPayload",
    "Delivery",
    "Emitted",
    "EventPayload",
    "Inbox",
    "NewCommand",
    "NewEvent",
    "NewStep",
    "NewWebhook",
    "ResultTimeout",
    "Sent",
    "SyncConnection",
    "UnknownCommand",
]


class Inbox:
    """The producer's client for one schema. It has no connection and no state, so one is enough.

    Every method takes a connection of asyncpg, psycopg 3, SQLAlchemy (Connection, Session and their
    async forms) or Django; methods that write also take a handler's `ctx.connection`. On a
    synchronous connection a method returns its result, on an async one an awaitable. Raises
    PayloadError (with the field's path) or UsageError for values that can never be stored, before
    anything is sent; an error of the database is the driver's own.
    """

    __slots__ = ("_schema",)

    def __init__(self, schema: str = "inboxd") -> None:
        """Write into `schema`. Raises UsageError for an invalid schema name."""
        if not (schema.isascii() and schema.isidentifier() and schema == schema.lower()):
            raise UsageError(
                f"{schema!r} is not a valid schema name: use lower-case letters, digits and "
                "underscores."
            )
        self._schema = schema

    def __repr__(self) -> str:
        return f"Inbox(schema={self._schema!r})"

    @overload
    def emit(
        self,
        connection: AsyncConnection,
        type: str,
        payload: object = None,
        **fields: Unpack[EventFields],
    ) -> Coroutine[Any, Any, Emitted]: ...

    @overload
    def emit(
        self, connection: AsyncConnection, type: EventPayload, **fields: Unpack[EventFields]
    ) -> Coroutine[Any, Any, Emitted]: ...

    @overload
    def emit(
        self,
        connection: SyncConnection,
        type: str,
        payload: object = None,
        **fields: Unpack[EventFields],
    ) -> Emitted: ...

    @overload
    def emit(
        self, connection: SyncConnection, type: EventPayload, **fields: Unpack[EventFields]
    ) -> Emitted: ...

    def emit(
        self,
        connection: AsyncConnection | SyncConnection,
        type: str | EventPayload,
        payload: object = None,
        **fields: Unpack[EventFields],
    ) -> Emitted | Coroutine[Any, Any, Emitted]:
        """Write one event; `fields` are the fields of `NewEvent`.

        In place of type and payload it takes a payload whose class names its type (`inboxd_event`).
        """
        draft: Callable[..., NewEvent] = NewEvent
        pages = queries(EVENTS, self._schema, [draft(type, payload, **fields)])
        return write(connection, pages, lambda receipts: receipts[0])

    @overload
    def emit_many(
        self, connection: AsyncConnection, events: Iterable[AnEvent]
    ) -> Coroutine[Any, Any, list[Emitted]]: ...

    @overload
    def emit_many(self, connection: SyncConnection, events: Iterable[AnEvent]) -> list[Emitted]: ...

    def emit_many(
        self,
        connection: AsyncConnection | SyncConnection,
        events: Iterable[AnEvent],
    ) -> list[Emitted] | Coroutine[Any, Any, list[Emitted]]:
        """Write events, a round trip for each page of 1,000; receipts are in the order given.

        Each is a `NewEvent`, or a payload whose class names its type. Events without an `event_id`
        of their own get row ids in the order given.
        """
        return write(connection, queries(EVENTS, self._schema, events), list)

    @overload
    def send(
        self,
        connection: AsyncConnection,
        type: str,
        payload: object = None,
        **fields: Unpack[CommandFields],
    ) -> Coroutine[Any, Any, Sent]: ...

    @overload
    def send(
        self, connection: AsyncConnection, type: CommandPayload, **fields: Unpack[CommandFields]
    ) -> Coroutine[Any, Any, Sent]: ...

    @overload
    def send(
        self,
        connection: SyncConnection,
        type: str,
        payload: object = None,
        **fields: Unpack[CommandFields],
    ) -> Sent: ...

    @overload
    def send(
        self, connection: SyncConnection, type: CommandPayload, **fields: Unpack[CommandFields]
    ) -> Sent: ...

    def send(
        self,
        connection: AsyncConnection | SyncConnection,
        type: str | CommandPayload,
        payload: object = None,
        **fields: Unpack[CommandFields],
    ) -> Sent | Coroutine[Any, Any, Sent]:
        """Write one command; `fields` are the fields of `NewCommand`.

        In place of type and payload it takes a payload whose class names its type
        (`inboxd_command`).
        """
        draft: Callable[..., NewCommand] = NewCommand
        pages = queries(COMMANDS, self._schema, [draft(type, payload, **fields)])
        return write(connection, pages, lambda receipts: receipts[0])

    @overload
    def send_many(
        self, connection: AsyncConnection, commands: Iterable[ACommand]
    ) -> Coroutine[Any, Any, list[Sent]]: ...

    @overload
    def send_many(self, connection: SyncConnection, commands: Iterable[ACommand]) -> list[Sent]: ...

    def send_many(
        self, connection: AsyncConnection | SyncConnection, commands: Iterable[ACommand]
    ) -> list[Sent] | Coroutine[Any, Any, list[Sent]]:
        """Write commands, a round trip for each page of 1,000; receipts are in the order given."""
        return write(connection, queries(COMMANDS, self._schema, commands), list)

    @overload
    def send_batch(
        self,
        connection: AsyncConnection,
        name: str,
        commands: Iterable[ACommand],
        **fields: Unpack[BatchFields],
    ) -> Coroutine[Any, Any, BatchSent]: ...

    @overload
    def send_batch(
        self,
        connection: SyncConnection,
        name: str,
        commands: Iterable[ACommand],
        **fields: Unpack[BatchFields],
    ) -> BatchSent: ...

    def send_batch(
        self,
        connection: AsyncConnection | SyncConnection,
        name: str,
        commands: Iterable[ACommand],
        **fields: Unpack[BatchFields],
    ) -> BatchSent | Coroutine[Any, Any, BatchSent]:
        """Write a whole batch with its continuations (see `BatchFields`).

        A batch of more than one page is opened, filled and closed.
        """
        calls = batches.send_batch(self._schema, name, commands, fields)
        return write(connection, calls, lambda receipts: receipts[0])

    @overload
    def open_batch(
        self,
        connection: AsyncConnection,
        name: str,
        *,
        expires: Duration = "1d",
        **fields: Unpack[BatchFields],
    ) -> Coroutine[Any, Any, BatchSent]: ...

    @overload
    def open_batch(
        self,
        connection: SyncConnection,
        name: str,
        *,
        expires: Duration = "1d",
        **fields: Unpack[BatchFields],
    ) -> BatchSent: ...

    def open_batch(
        self,
        connection: AsyncConnection | SyncConnection,
        name: str,
        *,
        expires: Duration = "1d",
        **fields: Unpack[BatchFields],
    ) -> BatchSent | Coroutine[Any, Any, BatchSent]:
        """Open a batch, to be filled with `add_to_batch` in any number of transactions.

        After `expires`, a batch that is still open takes no more members.
        """
        calls = batches.open_batch(self._schema, name, expires, fields)
        return write(connection, calls, lambda receipts: receipts[0])

    @overload
    def add_to_batch(
        self, connection: AsyncConnection, batch_id: UUID, commands: Iterable[ACommand]
    ) -> Coroutine[Any, Any, int]: ...

    @overload
    def add_to_batch(
        self, connection: SyncConnection, batch_id: UUID, commands: Iterable[ACommand]
    ) -> int: ...

    def add_to_batch(
        self,
        connection: AsyncConnection | SyncConnection,
        batch_id: UUID,
        commands: Iterable[ACommand],
    ) -> int | Coroutine[Any, Any, int]:
        """Add commands to an open batch, a round trip for each page; returns their number."""
        calls = batches.add_to_batch(self._schema, batch_id, commands)
        return write(connection, calls, _total)

    @overload
    def close_batch(
        self, connection: AsyncConnection, batch_id: UUID
    ) -> Coroutine[Any, Any, None]: ...

    @overload
    def close_batch(self, connection: SyncConnection, batch_id: UUID) -> None: ...

    def close_batch(
        self, connection: AsyncConnection | SyncConnection, batch_id: UUID
    ) -> Coroutine[Any, Any, None] | None:
        """Close a batch: it takes no more members, and ends when all of them have ended."""
        calls = iter([batches.close_batch(self._schema, batch_id)])
        return write(connection, calls, lambda _receipts: None)

    @overload
    def send_workflow(
        self,
        connection: AsyncConnection,
        name: str,
        steps: Iterable[NewStep],
        **fields: Unpack[BatchFields],
    ) -> Coroutine[Any, Any, BatchSent]: ...

    @overload
    def send_workflow(
        self,
        connection: SyncConnection,
        name: str,
        steps: Iterable[NewStep],
        **fields: Unpack[BatchFields],
    ) -> BatchSent: ...

    def send_workflow(
        self,
        connection: AsyncConnection | SyncConnection,
        name: str,
        steps: Iterable[NewStep],
        **fields: Unpack[BatchFields],
    ) -> BatchSent | Coroutine[Any, Any, BatchSent]:
        """Write a whole workflow. Raises UsageError for a cycle or an unknown step."""
        calls = batches.send_workflow(self._schema, name, steps, fields)
        return write(connection, calls, lambda receipts: receipts[0])

    @overload
    def send_webhook(
        self,
        connection: AsyncConnection,
        type: str,
        payload: object = None,
        **fields: Unpack[WebhookFields],
    ) -> Coroutine[Any, Any, list[Delivery]]: ...

    @overload
    def send_webhook(
        self,
        connection: SyncConnection,
        type: str,
        payload: object = None,
        **fields: Unpack[WebhookFields],
    ) -> list[Delivery]: ...

    def send_webhook(
        self,
        connection: AsyncConnection | SyncConnection,
        type: str,
        payload: object = None,
        **fields: Unpack[WebhookFields],
    ) -> list[Delivery] | Coroutine[Any, Any, list[Delivery]]:
        """Send one webhook; `fields` are the fields of `NewWebhook`.

        Returns a receipt for each endpoint that gets it; empty: its type matches no endpoint.
        """
        calls = webhooks.send(self._schema, [NewWebhook(type, payload, **fields)])
        return write(connection, calls, list)

    @overload
    def send_webhooks(
        self, connection: AsyncConnection, webhooks_: Iterable[NewWebhook], /
    ) -> Coroutine[Any, Any, list[Delivery]]: ...

    @overload
    def send_webhooks(
        self, connection: SyncConnection, webhooks_: Iterable[NewWebhook], /
    ) -> list[Delivery]: ...

    def send_webhooks(
        self, connection: AsyncConnection | SyncConnection, webhooks_: Iterable[NewWebhook], /
    ) -> list[Delivery] | Coroutine[Any, Any, list[Delivery]]:
        """Send webhooks, a round trip for each page of 1,000; receipts are in the order given."""
        return write(connection, webhooks.send(self._schema, webhooks_), list)

    @overload
    def result(
        self, connection: AsyncDatabase, command_id: UUID, *, timeout: Duration = "30s"
    ) -> Coroutine[Any, Any, Any]: ...

    @overload
    def result(
        self, connection: SyncDatabase, command_id: UUID, *, timeout: Duration = "30s"
    ) -> Any: ...

    def result(
        self,
        connection: AsyncDatabase | SyncDatabase,
        command_id: UUID,
        *,
        timeout: Duration = "30s",
    ) -> Any | Coroutine[Any, Any, Any]:
        """Wait for a command's result, on a connection whose transaction has ended, or by a pool.

        A connection of a pool or an engine is taken for each look, and not for the wait between
        looks. A look may take the remaining time, but at least one second, to get a connection and
        its answer; without asyncio this limits only psycopg's pool: SQLAlchemy's engine has its own
        `pool_timeout`. Raises CommandFailed, CommandCancelled, ResultTimeout (the command
        continues), or UnknownCommand (it has not committed, or its history was dropped).
        """
        return results.wait(connection, self._schema, command_id, timeout)


def _total(counts: list[int]) -> int:
    return sum(counts)
