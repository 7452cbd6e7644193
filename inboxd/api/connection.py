"""A handler's access to the database: its part of the transaction that settles its row.

Owns the methods, once to await and once for handlers in threads. Promises: all that is done through
them commits together with the settlement, or not at all (promise 2). Known limit: there is no
COMMIT, no cursor and no LISTEN; a handler that needs these opens a connection of its own, which the
promise does not cover.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from functools import partial
from typing import Any, Protocol, TypeVar, overload

import anyio.from_thread

T = TypeVar("T")


class Record(Protocol):
    """A row of the driver: values by column name, or by position."""

    def __getitem__(self, key: str | int, /) -> Any: ...

    def __len__(self) -> int: ...

    @overload
    def get(self, key: str, /) -> Any | None: ...

    @overload
    def get(self, key: str, default: T, /) -> Any | T: ...

    def keys(self) -> Iterator[str]:
        """The columns' names."""

    def values(self) -> Iterator[Any]:
        """The columns' values."""

    def items(self) -> Iterator[tuple[str, Any]]:
        """Names with values."""


class Connection(Protocol):
    """The connection of an async handler; parameters are `$1`, `$2` and so on."""

    async def execute(self, query: str, *args: Any) -> str:
        """Run a statement (or several, without parameters). Returns its status: "INSERT 0 1"."""

    async def executemany(self, query: str, args: Iterable[Sequence[Any]]) -> None:
        """Run a statement once for each sequence of parameters."""

    async def fetch(self, query: str, *args: Any) -> Sequence[Record]:
        """Return all rows of a query."""

    async def fetchrow(self, query: str, *args: Any) -> Record | None:
        """Return the first row, or None."""

    async def fetchval(self, query: str, *args: Any, column: int = 0) -> Any:
        """Return a value of the first row, or None if there is no row."""

    def transaction(self) -> AbstractAsyncContextManager[object]:
        """Open a savepoint: if the block raises, all of it is rolled back."""


class BlockingConnection:
    """The connection of a sync handler: the same methods, each blocking the handler's thread."""

    __slots__ = ("_connection",)

    def __init__(self, connection: Connection) -> None:
        """Use `connection` from a thread that the event loop has started."""
        self._connection = connection

    def execute(self, query: str, *args: Any) -> str:
        """Run a statement (or several, without parameters). Returns its status: "INSERT 0 1"."""
        return _from_thread(self._connection.execute, query, *args)

    def executemany(self, query: str, args: Iterable[Sequence[Any]]) -> None:
        """Run a statement once for each sequence of parameters."""
        _from_thread(self._connection.executemany, query, args)

    def fetch(self, query: str, *args: Any) -> Sequence[Record]:
        """Return all rows of a query."""
        return _from_thread(self._connection.fetch, query, *args)

    def fetchrow(self, query: str, *args: Any) -> Record | None:
        """Return the first row, or None."""
        return _from_thread(self._connection.fetchrow, query, *args)

    def fetchval(self, query: str, *args: Any, column: int = 0) -> Any:
        """Return a value of the first row, or None if there is no row."""
        return _from_thread(self._connection.fetchval, query, *args, column=column)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Open a savepoint: if the block raises, all of it is rolled back."""
        savepoint = self._connection.transaction()
        _from_thread(savepoint.__aenter__)
        try:
            yield
        except BaseException as error:
            _from_thread(savepoint.__aexit__, type(error), error, error.__traceback__)
            raise
        _from_thread(savepoint.__aexit__, None, None, None)


# No timeout parameters: the handler has its own, and `anyio.fail_after`.
def _from_thread(function: Callable[..., Coroutine[Any, Any, T]], *args: Any, **options: Any) -> T:
    return anyio.from_thread.run(partial(function, *args, **options))
