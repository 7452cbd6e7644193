"""The argument of each check: the session, the settings, and functions to read rows.

Known limit: it is used only inside the bounded transaction of a check.
"""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import TypeAlias

from inboxd.operations.doctor.finding import Finding
from inboxd.settings import Settings
from inboxd.store.connections import Row
from inboxd.store.session import Session


@dataclass(frozen=True, slots=True)
class Look:
    """A session on one schema, with the settings of the operator's command."""

    session: Session
    settings: Settings

    @property
    def schema(self) -> str:
        return self.session.sql.schema

    async def rows(self, statement: str, *arguments: object) -> list[Row]:
        """Read all rows of a statement of the store."""
        return await self.session.fetch(statement, *arguments)

    async def row(self, statement: str, *arguments: object) -> Row:
        """Read the row of a statement that always has exactly one."""
        (row,) = await self.rows(statement, *arguments)
        return row


Check: TypeAlias = Callable[[Look], AsyncIterator[Finding]]
