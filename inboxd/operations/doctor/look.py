"""The argument of a check; it is used only inside the bounded transaction of the check."""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias, cast

from inboxd.operations.doctor.finding import Finding
from inboxd.settings import Settings
from inboxd.store.connections import Row
from inboxd.store.session import Session


@dataclass(frozen=True, slots=True)
class Look:
    """The settings are those of the operator's command."""

    session: Session
    settings: Settings

    @property
    def schema(self) -> str:
        return self.session.sql.schema

    async def rows(self, statement: str, *arguments: object) -> list[Row]:
        return await self.session.fetch(statement, *arguments)

    async def row(self, statement: str, *arguments: object) -> Row:
        """The statement always returns exactly one row."""
        (row,) = await self.rows(statement, *arguments)
        return row

    async def now(self) -> datetime:
        """The database's clock also wrote the times of rows."""
        (now,) = await self.row("clock")
        return cast("datetime", now)


Check: TypeAlias = Callable[[Look], AsyncIterator[Finding]]
