"""What pages ask of the database: every statement of their sessions, by whoever it is asked.

Left out are the beginning and end of a transaction, and what the driver asks of a new connection
about the types that it meets.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import anyio.lowlevel
import pytest

from inboxd.store import pools
from inboxd.store.connections import Connection

_NOT_COUNTED = (
    *("begin;", "begin ", "commit", "rollback", "savepoint", "release"),
    *("select current_setting('jit')", "with recursive typeinfo"),
)


class AskedStatements:
    """The statements that were asked since the last `begin`."""

    def __init__(self) -> None:
        """None yet."""
        self._asked: list[str] = []

    def begin(self) -> None:
        """Count anew."""
        self._asked.clear()

    async def statements(self) -> list[str]:
        """Those that were asked, with what; the driver tells of the last one a moment later."""
        await anyio.lowlevel.checkpoint()
        return list(self._asked)

    def note(self, query: str, given: object) -> None:
        """One was asked."""
        if not " ".join(query.split()).lower().startswith(_NOT_COUNTED):
            self._asked.append(f"{query}\n{given}")


def listen(monkeypatch: pytest.MonkeyPatch) -> AskedStatements:
    """Note what is asked from now on."""
    found, look_at = AskedStatements(), pools.look_at

    @asynccontextmanager
    async def noted(pool: pools.Pool, within: float) -> AsyncIterator[Connection]:
        async with look_at(pool, within) as connection:
            with connection.query_logger(lambda query: found.note(query.query, query.args)):
                yield connection

    monkeypatch.setattr("inboxd.store.session.look_at", noted)
    return found
