"""Types of fakes for a handler's connection: any object with a method that the handler calls.

Owns these protocols, one for each method of `Connection`, so that a type checker accepts a fake
that has only the methods which its handler needs. Known limit: a missing method is found when the
handler runs.
"""

from collections.abc import Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol, TypeAlias

from inboxd.api.connection import Connection


class _Executes(Protocol):
    async def execute(self, query: str, /, *args: Any) -> Any: ...


class _ExecutesMany(Protocol):
    async def executemany(self, query: str, args: Iterable[Sequence[Any]], /) -> Any: ...


class _Fetches(Protocol):
    async def fetch(self, query: str, /, *args: Any) -> Sequence[Any]: ...


class _FetchesRow(Protocol):
    async def fetchrow(self, query: str, /, *args: Any) -> Any: ...


class _FetchesValue(Protocol):
    async def fetchval(self, query: str, /, *args: Any) -> Any: ...


class _Transacts(Protocol):
    def transaction(self) -> AbstractAsyncContextManager[object]: ...


AnyConnection: TypeAlias = (
    Connection | _Executes | _ExecutesMany | _Fetches | _FetchesRow | _FetchesValue | _Transacts
)
