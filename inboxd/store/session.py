"""One connection for one errand of an operator, with the statements of its schema.

Promises that a failure comes out as DatabaseError or SchemaError, in words to act on, and that no
wait is longer than the settings' time limits. Known limit: none of the daemon's pools is used, so
each errand costs a connection.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import anyio

from inboxd.errors import DatabaseError
from inboxd.settings import Database
from inboxd.store.connections import (
    ERRAND_PLANS,
    Connection,
    Row,
    connect,
    explained,
    one_row,
)
from inboxd.store.statements import Kept, Statements, render, shared

_GOODBYE_SECONDS = 2


@dataclass(frozen=True, slots=True)
class Session:
    """What an errand needs to talk to the database.

    withheld: what its role may not read; its statements have NULL instead.
    """

    connection: Connection
    sql: Statements
    withheld: frozenset[Kept] = frozenset()

    def refuse_withheld(self, what: str, kind: Kept = "content") -> None:
        """Raise DatabaseError if this role may not read what was asked for."""
        if kind in self.withheld:
            raise DatabaseError(
                f"this role may not read {what}: members of {self.sql.schema}_operator and "
                f"{self.sql.schema}_worker may"
            )

    async def fetch(self, statement: str, *arguments: object) -> list[Row]:
        """The rows of a statement, by its name."""
        return await self.connection.fetch(self.sql[statement], *arguments)

    async def fetchrow(self, statement: str, *arguments: object) -> Row | None:
        """Its first row."""
        return await self.connection.fetchrow(self.sql[statement], *arguments)

    async def one(self, statement: str, *arguments: object) -> Row:
        """The row of one that always has one."""
        return await one_row(self.connection, self.sql[statement], *arguments)

    async def fetchval(self, statement: str, *arguments: object) -> Any:
        """The first value of its first row."""
        return await self.connection.fetchval(self.sql[statement], *arguments)

    async def execute(self, statement: str, *arguments: object) -> None:
        """Run one whose rows nobody reads."""
        await self.connection.execute(self.sql[statement], *arguments)


@asynccontextmanager
async def open_session(
    database: Database, *, patient: bool = False, part: str = "cli"
) -> AsyncIterator[Session]:
    """A connection for the `async with` block; patient: its statements may take any time.

    part: whose it is, for the server's list of sessions.

    Raises DatabaseError or SchemaError.
    """
    plans = ERRAND_PLANS | ({"statement_timeout": "0"} if patient else {})
    connection = await connect(database, part, plans=plans)
    try:
        with explained(_denied(database)):
            withheld = await _withheld(connection, database)
            yield Session(connection, Statements(database.schema_name, withheld), withheld)
    finally:
        with anyio.move_on_after(_GOODBYE_SECONDS, shield=True):
            await connection.close()
        connection.terminate()


async def _withheld(connection: Connection, database: Database) -> frozenset[Kept]:
    """What its role may not read."""
    kept = await connection.fetch(render(shared("withheld"), database.schema_name))
    return frozenset(row["kind"] for row in kept)


def _denied(database: Database) -> str:
    """What is said to a role that may not do something."""
    schema = database.schema_name
    return (
        f"members of {schema}_viewer may look, those of {schema}_operator also act on rows, "
        f"those of {schema}_producer emit and send, those of {schema}_worker do all of it: "
        "connect as one, or GRANT that role TO this one; see: inboxd check"
    )
