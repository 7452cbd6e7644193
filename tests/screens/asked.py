"""Statements that pages run, on all sessions of the screens.

Example:
    asked = listen(monkeypatch)
    await screens.get("/events")
    assert len(await asked.statements()) <= 8

Left out are the statements that begin and end a transaction, and those of the driver, which asks
for unknown types on a new connection.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import anyio.lowlevel
import pytest

from inboxd.store import pools
from inboxd.store.session import Session

_NOT_COUNTED = (
    *("begin;", "begin ", "commit", "rollback", "savepoint", "release"),
    *("select current_setting('jit')", "with recursive typeinfo"),
)


class AskedStatements:
    def __init__(self) -> None:
        self._asked: list[str] = []

    def begin(self) -> None:
        """Forget the statements so far."""
        self._asked.clear()

    async def statements(self) -> list[str]:
        """Each statement with its values; the driver reports the last one a moment later."""
        await anyio.lowlevel.checkpoint()
        return list(self._asked)

    def note(self, query: str, given: object) -> None:
        if not " ".join(query.split()).lower().startswith(_NOT_COUNTED):
            self._asked.append(f"{query}\n{given}")


def listen(monkeypatch: pytest.MonkeyPatch) -> AskedStatements:
    """Note each statement from now on."""
    found, look_at = AskedStatements(), pools.look_at

    @asynccontextmanager
    async def noted(pool: pools.Pool, within: float) -> AsyncIterator[Session]:
        async with look_at(pool, within) as session:
            with session.connection.query_logger(lambda query: found.note(query.query, query.args)):
                yield session

    monkeypatch.setattr("inboxd.store.operator_sessions.look_at", noted)
    return found
