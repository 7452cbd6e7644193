"""For producers: emit events and send commands on the caller's own connection, in its transaction.

Owns `Inbox`, the client for Python services. Promises: what it writes commits or rolls back with
the caller's own rows; it needs the standard library only, so a service installs none of the
daemon's dependencies; everything it can know to be wrong is refused before the database sees it,
so the caller's transaction survives; memory holds one page of rows (two on an async connection).
Known limits: a receipt is kept for each row (about 0.2 KB), so a caller with tens of millions
writes them in several calls; without a transaction each page of 1,000 commits by itself.
"""

from collections.abc import Coroutine, Iterable
from typing import Any, Unpack, overload

from inboxd.client.drafts import (
    COMMANDS,
    EVENTS,
    CommandFields,
    Emitted,
    EventFields,
    NewCommand,
    NewEvent,
    Sent,
)
from inboxd.client.drivers import AsyncConnection, SyncConnection, write
from inboxd.client.pages import queries
from inboxd.errors import UsageError

__all__ = [
    "AsyncConnection",
    "Emitted",
    "Inbox",
    "NewCommand",
    "NewEvent",
    "Sent",
    "SyncConnection",
]


class Inbox:
    """The way in, for one schema. Holds no connection and no state: one serves a whole service.

    Every method takes a connection of asyncpg, psycopg 3, SQLAlchemy (Connection, Session and their
    async forms), or a handler's `ctx.connection`. A synchronous one returns at once, an async one
    gives something to await. Raises PayloadError (with the field's path) or UsageError for what can
    never be stored, before anything is sent; what the database refuses is the driver's own error.
    """

    __slots__ = ("_schema",)

    def __init__(self, schema: str = "inboxd") -> None:
        """Write into `schema`. Raises UsageError for what is no schema name."""
        if not (schema.isascii() and schema.isidentifier() and schema == schema.lower()):
            raise UsageError(
                f"{schema!r} is no schema name: use lower-case letters, digits and underscores."
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
        self,
        connection: SyncConnection,
        type: str,
        payload: object = None,
        **fields: Unpack[EventFields],
    ) -> Emitted: ...

    def emit(
        self,
        connection: AsyncConnection | SyncConnection,
        type: str,
        payload: object = None,
        **fields: Unpack[EventFields],
    ) -> Emitted | Coroutine[Any, Any, Emitted]:
        """Write one event; `fields` are those of `NewEvent`."""
        pages = queries(EVENTS, self._schema, [NewEvent(type, payload, **fields)])
        return write(connection, pages, lambda receipts: receipts[0])

    @overload
    def emit_many(
        self, connection: AsyncConnection, events: Iterable[NewEvent]
    ) -> Coroutine[Any, Any, list[Emitted]]: ...

    @overload
    def emit_many(
        self, connection: SyncConnection, events: Iterable[NewEvent]
    ) -> list[Emitted]: ...

    def emit_many(
        self, connection: AsyncConnection | SyncConnection, events: Iterable[NewEvent]
    ) -> list[Emitted] | Coroutine[Any, Any, list[Emitted]]:
        """Write events, a round trip for each page of 1,000; the receipts in the order given.

        Events without an `event_id` of their own get row ids in the order given.
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
        self,
        connection: SyncConnection,
        type: str,
        payload: object = None,
        **fields: Unpack[CommandFields],
    ) -> Sent: ...

    def send(
        self,
        connection: AsyncConnection | SyncConnection,
        type: str,
        payload: object = None,
        **fields: Unpack[CommandFields],
    ) -> Sent | Coroutine[Any, Any, Sent]:
        """Write one command; `fields` are those of `NewCommand`."""
        pages = queries(COMMANDS, self._schema, [NewCommand(type, payload, **fields)])
        return write(connection, pages, lambda receipts: receipts[0])

    @overload
    def send_many(
        self, connection: AsyncConnection, commands: Iterable[NewCommand]
    ) -> Coroutine[Any, Any, list[Sent]]: ...

    @overload
    def send_many(
        self, connection: SyncConnection, commands: Iterable[NewCommand]
    ) -> list[Sent]: ...

    def send_many(
        self, connection: AsyncConnection | SyncConnection, commands: Iterable[NewCommand]
    ) -> list[Sent] | Coroutine[Any, Any, list[Sent]]:
        """Write commands, a round trip for each page of 1,000; the receipts in the order given."""
        return write(connection, queries(COMMANDS, self._schema, commands), list)
