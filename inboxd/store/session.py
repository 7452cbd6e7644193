"""A connection with the statements of its schema, by which everything reads and writes."""

from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import asyncpg
from asyncpg.transaction import Transaction

from inboxd.errors import DatabaseError
from inboxd.settings import Database
from inboxd.store.connections import (
    LOST,
    OWN_PLANS,
    Connection,
    Row,
    arguments,
    dial,
    explain_connecting,
)
from inboxd.store.statements import Kept, Statements


@dataclass(frozen=True, slots=True, eq=False)
class Session:
    """withheld: kinds of data that the role may not read; the statements have NULL instead."""

    connection: Connection
    sql: Statements
    withheld: frozenset[Kept] = frozenset()

    def refuse_withheld(self, what: str, kind: Kept = "content") -> None:
        """Raise DatabaseError if this role may not read `what`."""
        if kind in self.withheld:
            raise DatabaseError(
                f"this role may not read {what}: members of {self.sql.schema}_operator and "
                f"{self.sql.schema}_worker may"
            )

    # Each returns the driver's own coroutine: a second one would cost an allocation per statement.

    def fetch(self, name: str, *arguments: object) -> Coroutine[Any, Any, list[Row]]:
        return self.connection.fetch(self.sql[name], *arguments)

    def fetchrow(self, name: str, *arguments: object) -> Coroutine[Any, Any, Row | None]:
        return self.connection.fetchrow(self.sql[name], *arguments)

    def fetchval(self, name: str, *arguments: object) -> Coroutine[Any, Any, Any]:
        return self.connection.fetchval(self.sql[name], *arguments)

    def execute(self, name: str, *arguments: object) -> Coroutine[Any, Any, str]:
        """Run a statement without reading its rows; returns the status, such as "INSERT 0 1"."""
        return self.connection.execute(self.sql[name], *arguments)

    async def one(self, name: str, *arguments: object) -> Row:
        """The row of a statement that always returns one, such as an aggregate."""
        row = await self.connection.fetchrow(self.sql[name], *arguments)
        assert row is not None  # noqa: S101 - by what the statement is
        return row

    def transaction(self, **options: Any) -> Transaction:
        """A transaction, or a savepoint within one, for an `async with` block."""
        return self.connection.transaction(**options)

    @asynccontextmanager
    async def apart(self) -> AsyncIterator[None]:
        """A block whose failure does not abort an open transaction."""
        if self.connection.is_in_transaction():
            async with self.transaction():
                yield
        else:
            yield

    @asynccontextmanager
    async def reading(self, *, snapshot: bool = False) -> AsyncIterator[None]:
        """A read-only transaction; snapshot: all statements see the state at its beginning."""
        isolation: Any = "repeatable_read" if snapshot else None
        transaction = self.transaction(isolation=isolation, readonly=True)
        await transaction.start()
        try:
            yield
        finally:
            if not self.connection.is_closed():
                await transaction.rollback()


async def connect(
    database: Database, purpose: str, plans: Mapping[str, str] = OWN_PLANS
) -> Session:
    try:
        connection = await dial(database, **arguments(database, purpose, plans))
    except (*LOST, asyncpg.PostgresError) as error:
        raise explain_connecting(error, database) from error
    return Session(connection, Statements(database.schema_name))
