"""Group commit: shared writes, the cost of failures, and the outcomes that requests get."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import anyio
import asyncpg
import pytest

from inboxd.errors import NotDurable
from inboxd.inbound.group_commit import GroupCommit
from inboxd.model.receipt import Receipt, ReceivedEvent
from inboxd.store.receipts import Stored
from inboxd.telemetry.logs import collected
from tests.support import eventually
from tests.support.waiting import bounded

pytestmark = pytest.mark.anyio


def _receipt(body: bytes = b"{}") -> Receipt:
    event = ReceivedEvent(uuid4(), "match.result", body.decode())
    now = datetime.now(UTC)
    return Receipt(uuid4(), now, "provider", body, None, None, None, None, [event])


class _Database:
    """A write that the test can block, let fail, and inspect."""

    def __init__(self) -> None:
        self.pages: list[list[bytes]] = []
        self.stored: list[bytes] = []
        self.fails: Callable[[Sequence[Receipt]], Exception | None] = lambda _: None
        self.gate = anyio.Event()
        self.gate.set()

    def close(self) -> None:
        self.gate = anyio.Event()

    async def __call__(self, page: Sequence[Receipt]) -> list[Stored]:
        self.pages.append([each.body for each in page])
        await self.gate.wait()
        if error := self.fails(page):
            raise error
        self.stored += [each.body for each in page]
        return [Stored([each.receipt_id], "stored") for each in page]


@asynccontextmanager
async def _running(database: _Database, **settings: Any) -> AsyncIterator[GroupCommit]:
    commit = GroupCommit(database, **{"writers": 1, **settings})
    async with anyio.create_task_group() as group:
        await group.start(commit.run)
        yield commit
        group.cancel_scope.cancel()


async def _outcome(commit: GroupCommit, receipt: Receipt) -> str:
    try:
        stored = await commit.store(receipt)
    except NotDurable:
        return "not durable"
    assert stored.event_ids == [receipt.receipt_id], "each request gets its own answer"
    return stored.outcome


async def _outcomes(commit: GroupCommit, bodies: Sequence[bytes]) -> list[str]:
    return await asyncio.gather(*(_outcome(commit, _receipt(body)) for body in bodies))


def _bodies(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


async def test_a_single_request_is_written_at_once() -> None:
    database = _Database()
    async with _running(database) as commit:
        for body in _bodies(3):
            assert await _outcome(commit, _receipt(body)) == "stored"
    assert database.pages == [[b"0"], [b"1"], [b"2"]]


async def test_requests_during_a_write_share_the_next_one() -> None:
    database = _Database()
    database.close()
    async with _running(database) as commit, anyio.create_task_group() as group:
        group.start_soon(_outcome, commit, _receipt(b"first"))
        await eventually(lambda: _is(len(database.pages) == 1))
        for body in _bodies(50):
            group.start_soon(_outcome, commit, _receipt(body))
        await eventually(lambda: _is(commit.waiting == 51))
        database.gate.set()
    assert [len(page) for page in database.pages] == [1, 50]
    assert database.pages[1] == _bodies(50), "in the order of the requests"


async def test_pages_are_bounded_in_rows_and_bytes() -> None:
    database = _Database()
    async with _running(database, max_page=10) as commit:
        assert await _outcomes(commit, _bodies(35)) == ["stored"] * 35
        assert max(map(len, database.pages)) == 10
        database.pages.clear()
        await _outcomes(commit, [b"x" * (5 << 20)] * 4)
        assert max(map(len, database.pages)) == 2


async def test_a_request_with_many_events_shares_no_page() -> None:
    database = _Database()
    database.close()
    page = [_receipt(body) for body in _bodies(5)]
    page[2].events *= 5_000
    async with _running(database) as commit, anyio.create_task_group() as group:
        group.start_soon(_outcome, commit, _receipt(b"first"))
        await eventually(lambda: _is(len(database.pages) == 1))
        for each in page:
            commit.submit(each, lambda _: None)
        database.gate.set()
        await eventually(lambda: _is(commit.waiting == 0))
    assert database.pages == [[b"first"], [b"0", b"1"], [b"2"], [b"3", b"4"]]


@pytest.mark.parametrize(
    "error",
    [
        TimeoutError(),
        asyncpg.QueryCanceledError("statement timeout"),
        asyncpg.LockNotAvailableError("lock timeout"),
    ],
)
async def test_a_slow_request_does_not_delay_the_others(error: Exception) -> None:
    """The slow request waits alone, as long as its sender does: an hour here."""
    database = _Database()
    database.fails = lambda page: error if any(each.body == b"7" for each in page) else None
    async with _running(database, max_page=100, writers=2, within=3_600) as commit:
        slow = asyncio.create_task(_outcome(commit, _receipt(b"7")))
        with anyio.fail_after(30):
            assert (
                await _outcomes(commit, [b for b in _bodies(100) if b != b"7"]) == ["stored"] * 99
            )
        assert not slow.done()
        database.fails = lambda _: None
        with anyio.fail_after(30):
            assert await slow == "stored"


async def test_several_writers_write_concurrently() -> None:
    database = _Database()
    database.close()
    async with _running(database, writers=2) as commit, anyio.create_task_group() as group:
        for body in _bodies(3):
            group.start_soon(_outcome, commit, _receipt(body))
            await eventually(lambda: _is(bool(database.pages)))
        await eventually(lambda: _is(len(database.pages) == 2))
        database.gate.set()
    assert sorted(database.stored) == _bodies(3)


@pytest.mark.parametrize("broken", [0, 7, 99])
async def test_a_failing_receipt_does_not_fail_its_page(broken: int) -> None:
    database = _Database()
    database.fails = lambda page: (
        ValueError("x") if any(each.body == b"%d" % broken for each in page) else None
    )
    async with _running(database, max_page=100) as commit:
        outcomes = await _outcomes(commit, _bodies(100))
    assert [number for number, each in enumerate(outcomes) if each != "stored"] == [broken]
    assert sorted(database.stored, key=int) == [b for b in _bodies(100) if b != b"%d" % broken]
    assert len(database.pages) < 20, "pages are halved, not written one by one"


async def test_a_refused_receipt_is_stored_as_a_dead_letter() -> None:
    database = _Database()
    database.fails = lambda page: (
        asyncpg.DataError("no")
        if any(event.broken is None for receipt in page for event in receipt.events)
        else None
    )
    with collected("debug") as lines:
        async with _running(database) as commit:
            receipt = _receipt(b'{"a": 1}')
            assert await _outcome(commit, receipt) == "stored"
    assert [line["message"] for line in lines] == ["a webhook is a dead letter"]


async def test_a_receipt_that_is_refused_twice_is_not_accepted() -> None:
    database = _Database()
    database.fails = lambda _: asyncpg.DataError("no")
    with collected("debug") as lines:
        async with _running(database) as commit:
            assert await _outcomes(commit, _bodies(3)) == ["not durable"] * 3
    assert lines[-1]["message"] == "a webhook cannot be written"


async def test_a_write_with_a_lost_answer_is_repeated_with_the_same_ids() -> None:
    database = _Database()
    ids: list[list[Any]] = []

    def fails(page: Sequence[Receipt]) -> Exception | None:
        ids.append([each.receipt_id for each in page])
        return asyncpg.ConnectionDoesNotExistError("gone") if len(ids) < 3 else None

    database.fails = fails
    async with _running(database) as commit:
        assert await _outcome(commit, _receipt()) == "stored"
    assert len(ids) == 3
    assert ids[0] == ids[1] == ids[2]


async def test_requests_are_answered_in_time_while_the_database_is_silent() -> None:
    database = _Database()
    database.close()
    async with _running(database, within=0.2) as commit, anyio.create_task_group() as group:
        with bounded():
            assert await _outcomes(commit, _bodies(20)) == ["not durable"] * 20
        # Receipts that the database never got are not written later.
        group.start_soon(_outcome, commit, _receipt(b"last"))
        database.gate.set()
    assert database.stored in ([b"0", b"last"], [*_bodies(20), b"last"])


async def test_an_expired_request_is_not_written() -> None:
    database = _Database()
    database.close()
    async with _running(database, within=0.2, max_page=1) as commit:
        with bounded():
            await _outcomes(commit, _bodies(5))
        database.gate.set()
        assert await _outcome(commit, _receipt(b"later")) == "stored"
        assert commit.waiting == 0
    assert database.stored == [b"0", b"later"]


async def test_the_first_attempt_after_an_outage_succeeds() -> None:
    database = _Database()
    database.fails = lambda _: OSError("away")
    async with _running(database) as commit, anyio.create_task_group() as group:
        outcomes: list[str] = []

        async def store(body: bytes) -> None:
            outcomes.append(await _outcome(commit, _receipt(body)))

        for body in _bodies(10):
            group.start_soon(store, body)
        await eventually(lambda: _is(len(database.pages) > 1))
        database.fails = lambda _: None
    assert outcomes == ["stored"] * 10


async def test_the_queue_is_bounded() -> None:
    database = _Database()
    database.close()
    async with _running(database, most_waiting=10, within=0.5) as commit:
        with bounded():
            outcomes = await _outcomes(commit, _bodies(10_000))
        assert commit.waiting <= 11
    assert outcomes == ["not durable"] * 10_000
    assert sum(map(len, database.pages)) <= 11


async def test_the_receipt_of_a_disconnected_client_is_written() -> None:
    database = _Database()
    database.close()
    async with _running(database) as commit, anyio.create_task_group() as group:
        leaving = [asyncio.create_task(commit.store(_receipt(b"a"))) for _ in range(1)]
        await eventually(lambda: _is(len(database.pages) == 1))
        leaving.append(asyncio.create_task(commit.store(_receipt(b"b"))))
        staying = asyncio.create_task(commit.store(_receipt(b"c")))
        await eventually(lambda: _is(commit.waiting == 3))
        for task in leaving:
            task.cancel()
        await asyncio.wait(leaving)
        assert all(task.cancelled() for task in leaving)
        database.gate.set()
        assert (await staying).outcome == "stored"
        group.cancel_scope.cancel()
    assert database.stored == [b"a", b"b", b"c"]


async def test_waiting_requests_are_answered_at_a_stop() -> None:
    database = _Database()
    database.close()
    async with _running(database) as commit:
        tasks = [asyncio.create_task(_outcome(commit, _receipt(body))) for body in _bodies(3)]
        await eventually(lambda: _is(commit.waiting == 3))
    assert await asyncio.gather(*tasks) == ["not durable"] * 3
    assert await _outcome(commit, _receipt()) == "not durable"


async def test_pages_are_measured() -> None:
    database, pages = _Database(), list[int]()
    async with _running(database, on_written=lambda receipts, _: pages.append(receipts)) as commit:
        await _outcomes(commit, _bodies(30))
    assert sum(pages) == 30


async def _is(condition: bool) -> bool:
    return condition
