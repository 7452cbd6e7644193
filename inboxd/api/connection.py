"""What a handler may do with the database: its part of the transaction that settles its row.

Owns two protocols' worth of methods, one to await and one for handlers in threads. Promises:
everything done through them commits together with the settlement, or not at all (promise 2).
Known limit: there is no COMMIT here, no cursor and no LISTEN; a handler that needs those opens a
connection of its own, outside that promise.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from functools import partial
from typing import Any, Protocol, TypeVar, overload

import anyio.from_thread

T = TypeVar("T")


class Record(Protocol):
    """A row as the driver gives it: by column name, or by position."""

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
        """Run a statement (or several, without parameters); the status, such as "INSERT 0 1"."""

    async def executemany(self, query: str, args: Iterable[Sequence[Any]]) -> None:
        """Run a statement once for each sequence of parameters."""

    async def fetch(self, query: str, *args: Any) -> Sequence[Record]:
        """All rows."""

    async def fetchrow(self, query: str, *args: Any) -> Record | None:
        """The first row, or None."""

    async def fetchval(self, query: str, *args: Any, column: int = 0) -> Any:
        """A value of the first row, or None where there is no row."""

    def transaction(self) -> AbstractAsyncContextManager[object]:
        """A savepoint: what happens inside is undone together if the block raises."""


class BlockingConnection:
    """The connection of a sync handler: the same methods, each blocking the handler's thread."""

    __slots__ = ("_connection",)

    def __init__(self, connection: Connection) -> None:
        """Speak to `connection` from a thread that the event loop's side started."""
        self._connection = connection

    def execute(self, query: str, *args: Any) -> str:
        """Run a statement (or several, without parameters); the status, such as "INSERT 0 1"."""
        return _from_thread(self._connection.execute, query, *args)

    def executemany(self, query: str, args: Iterable[Sequence[Any]]) -> None:
        """Run a statement once for each sequence of parameters."""
        _from_thread(self._connection.executemany, query, args)

    def fetch(self, query: str, *args: Any) -> Sequence[Record]:
        """All rows."""
        return _from_thread(self._connection.fetch, query, *args)

    def fetchrow(self, query: str, *args: Any) -> Record | None:
        """The first row, or None."""
        return _from_thread(self._connection.fetchrow, query, *args)

    def fetchval(self, query: str, *args: Any, column: int = 0) -> Any:
        """A value of the first row, or None where there is no row."""
        return _from_thread(self._connection.fetchval, query, *args, column=column)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """A savepoint: what happens inside is undone together if the block raises."""
        savepoint = self._connection.transaction()
        _from_thread(savepoint.__aenter__)
        try:
            yield
        except BaseException as error:
            _from_thread(savepoint.__aexit__, type(error), error, error.__traceback__)
            raise
        _from_thread(savepoint.__aexit__, None, None, None)


# Timeouts are the handler's, and `anyio.fail_after`: a second kind on each method adds nothing.
def _from_thread(function: Callable[..., Coroutine[Any, Any, T]], *args: Any, **options: Any) -> T:
    return anyio.from_thread.run(partial(function, *args, **options))
