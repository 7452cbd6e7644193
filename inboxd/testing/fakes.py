"""What may stand for a handler's connection in a test: anything with a method that it calls.

Owns these protocols, one for each method of `Connection`, so that a type checker takes a fake which
has only what its handler needs. Known limit: which methods that are is seen when it runs.
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
