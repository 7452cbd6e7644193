"""A sync handler's connection runs in a thread the same calls as an async one's."""

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import anyio.to_thread
import pytest

from inboxd.api.connection import BlockingConnection, Record

pytestmark = pytest.mark.anyio


class Recorder:
    """A connection that records its calls."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    async def execute(self, query: str, *args: Any) -> str:
        self.calls.append(("execute", query, args))
        return "INSERT 0 1"

    async def executemany(self, query: str, args: Iterable[Sequence[Any]]) -> None:
        self.calls.append(("executemany", query, list(args)))

    async def fetch(self, query: str, *args: Any) -> Sequence[Record]:
        self.calls.append(("fetch", query, args))
        return []

    async def fetchrow(self, query: str, *args: Any) -> Record | None:
        self.calls.append(("fetchrow", query, args))
        return None

    async def fetchval(self, query: str, *args: Any, column: int = 0) -> Any:
        self.calls.append(("fetchval", query, args, column))
        return 42

    def transaction(self) -> AbstractAsyncContextManager[object]:
        return self._savepoint()

    @asynccontextmanager
    async def _savepoint(self) -> AsyncIterator[None]:
        self.calls.append("begin")
        try:
            yield
        except ValueError:
            self.calls.append("undo")
            raise
        self.calls.append("release")


async def test_every_method_reaches_the_connection() -> None:
    recorder = Recorder()
    blocking = BlockingConnection(recorder)

    def handler() -> list[Any]:
        return [
            blocking.execute("a", 1),
            blocking.fetch("b"),
            blocking.fetchrow("c", 2, 3),
            blocking.fetchval("d", 4, column=1),
        ]

    assert await anyio.to_thread.run_sync(handler) == ["INSERT 0 1", [], None, 42]
    await anyio.to_thread.run_sync(blocking.executemany, "e", [(1,), (2,)])
    assert recorder.calls == [
        ("execute", "a", (1,)),
        ("fetch", "b", ()),
        ("fetchrow", "c", (2, 3)),
        ("fetchval", "d", (4,), 1),
        ("executemany", "e", [(1,), (2,)]),
    ]


async def test_a_savepoint_is_released_or_undone() -> None:
    recorder = Recorder()
    blocking = BlockingConnection(recorder)

    def handler() -> None:
        with blocking.transaction():
            blocking.execute("a")
        with blocking.transaction():
            raise ValueError("undo me")

    with pytest.raises(ValueError, match="undo me"):
        await anyio.to_thread.run_sync(handler)
    assert recorder.calls == ["begin", ("execute", "a", ()), "release", "begin", "undo"]
