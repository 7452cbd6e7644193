"""A connection with the statements of its schema."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from inboxd.errors import DatabaseError
from inboxd.store.connections import Connection, Row, one_row
from inboxd.store.statements import Kept, Statements


@dataclass(frozen=True, slots=True)
class Session:
    """A connection with the statements for its role.

    withheld: kinds of data that the role may not read; the statements have NULL instead.
    """

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

    async def fetch(self, statement: str, *arguments: object) -> list[Row]:
        """The rows of a statement, by the statement's name."""
        return await self.connection.fetch(self.sql[statement], *arguments)

    async def fetchrow(self, statement: str, *arguments: object) -> Row | None:
        return await self.connection.fetchrow(self.sql[statement], *arguments)

    async def one(self, statement: str, *arguments: object) -> Row:
        """The row of a statement that always returns one."""
        return await one_row(self.connection, self.sql[statement], *arguments)

    async def fetchval(self, statement: str, *arguments: object) -> Any:
        """The first value of a statement's first row."""
        return await self.connection.fetchval(self.sql[statement], *arguments)

    async def execute(self, statement: str, *arguments: object) -> None:
        """Run a statement without reading its rows."""
        await self.connection.execute(self.sql[statement], *arguments)

    @asynccontextmanager
    async def reading(self, *, snapshot: bool = False) -> AsyncIterator[None]:
        """A read-only transaction, also within another one; its settings end with it.

        snapshot: all of its statements see the state at its beginning.
        """
        isolation: Any = "repeatable_read" if snapshot else None
        transaction = self.connection.transaction(isolation=isolation, readonly=True)
        await transaction.start()
        try:
            yield
        finally:
            if not self.connection.is_closed():
                await transaction.rollback()
