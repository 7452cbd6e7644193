"""What each check is given: the session, the settings, and a way to ask.

Known limit: all of it is used inside the bounded transaction of one check.
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
    """A look at one schema with the settings that the operator's command reads."""

    session: Session
    settings: Settings

    @property
    def schema(self) -> str:
        """The schema's name."""
        return self.session.sql.schema

    async def rows(self, statement: str, *arguments: object) -> list[Row]:
        """All rows of a statement of the store."""
        return await self.session.fetch(statement, *arguments)

    async def row(self, statement: str, *arguments: object) -> Row:
        """The one row of a statement that always has one."""
        (row,) = await self.rows(statement, *arguments)
        return row


Check: TypeAlias = Callable[[Look], AsyncIterator[Finding]]
