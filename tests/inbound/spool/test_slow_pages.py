"""A page that takes the database too long: the slow receipt is isolated, and the others go on.

A slow write lasts an hour, until a time limit ends it, as in operation.
"""

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import anyio
import asyncpg
import pytest

from inboxd.errors import DatabaseError
from inboxd.inbound.spool.drain import Drain, DrainWays
from inboxd.inbound.spool.files import SystemFiles
from inboxd.model.receipt import Receipt
from inboxd.store.receipts import Stored
from tests.inbound.spool.test_spooling import Process, Tables, receipt
from tests.support.verdicts import safety
from tests.support.waiting import WITHIN, eventually

pytestmark = pytest.mark.anyio

_HOUR = 3600.0
_SHORT = 0.05


class SlowTables(Tables):
    """A database that is too slow for some bodies, always or within a short limit."""

    def __init__(self) -> None:
        super().__init__()
        self.endless: set[str] = set()
        self.long: set[str] = set()
        self.locked: set[str] = set()
        self.commits = True
        self.pages: list[list[str]] = []

    async def write(self, page: Sequence[Receipt]) -> list[Stored]:
        return await self._within(page, self.endless | self.long)

    async def write_directly(self, page: Sequence[Receipt]) -> list[Stored]:
        """Write for requests: the writer's own time limit ends it."""
        bodies = [each.body.decode() for each in page]
        self.pages.append(bodies)
        if self.endless.intersection(bodies):
            await anyio.sleep(_HOUR)
        return await super().write(page)

    async def write_alone(self, page: Sequence[Receipt]) -> list[Stored]:
        return await self._within(page, self.endless)

    async def _within(self, page: Sequence[Receipt], slow: set[str]) -> list[Stored]:
        bodies = [each.body.decode() for each in page]
        self.pages.append(bodies)
        if self.locked.intersection(bodies):
            raise asyncpg.LockNotAvailableError("it is locked")
        with anyio.fail_after(_SHORT):
            if slow.intersection(bodies):
                await anyio.sleep(_HOUR)
        return await super().write(page)

    async def commit(self) -> None:
        if not self.commits:
            raise TimeoutError


class SlowProcess(Process):
    """The spool of one process, with a slow database."""

    tables: SlowTables

    def __post_init__(self) -> None:
        super().__post_init__()
        self.writer._after = 2.0  # the probe begins after half of it
        self.writer._write_directly = self.tables.write_directly

    async def spool(self, *bodies: str, source: str = "results") -> None:
        self.tables.is_away = True
        assert await self.send(*bodies, source=source) == ["spooled"] * len(bodies)
        self.tables.is_away = False
        self.tables.pages.clear()

    def draining(self) -> Drain:
        tables = self.tables
        return Drain(
            self.path,
            SystemFiles(),
            self.writer.gates,
            tables.write,
            ways=DrainWays(alone=tables.write_alone, commit=tables.commit),
            remembers=None,
        )

    def apart(self) -> list[str]:
        """The bodies of receipts that are set apart."""
        found = (self.owned.folder / "apart").glob("*.bytes")
        return sorted(each.read_bytes().rpartition(b"}")[2].decode() for each in found)


@pytest.fixture
def tables() -> SlowTables:
    return SlowTables()


@pytest.fixture
def process(tables: SlowTables, tmp_path: Path) -> SlowProcess:
    return SlowProcess(tables, tmp_path)


# ------------------------------------------------------------------------------------ the drain


@pytest.mark.parametrize("poison", [["0"], ["7"], ["19"], ["3", "4", "12"]])
async def test_a_receipt_that_takes_too_long_alone_is_set_apart(
    process: SlowProcess, tables: SlowTables, poison: list[str]
) -> None:
    await process.spool(*map(str, range(20)))
    tables.endless = set(poison)
    with anyio.fail_after(WITHIN):
        await process.draining().finish()
    with safety():
        assert tables.bodies == [str(n) for n in range(20) if str(n) not in poison]
        assert process.apart() == sorted(poison)
        assert process.writer.gates.marked() == []


async def test_a_slow_receipt_gets_more_time_alone(
    process: SlowProcess, tables: SlowTables
) -> None:
    await process.spool(*map(str, range(8)))
    tables.long = {"5"}
    with anyio.fail_after(WITHIN):
        await process.draining().finish()
    with safety():
        assert tables.bodies == [str(n) for n in range(8)]
        assert process.apart() == []


async def test_pages_behind_a_slow_one_are_smaller_and_grow_again(
    process: SlowProcess, tables: SlowTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("inboxd.inbound.spool.drain._PAGE_ROWS", 8)
    monkeypatch.setattr("inboxd.inbound.spool.drain._FEWEST_ROWS", 1)
    await process.spool(*map(str, range(30)))
    tables.endless = {"0"}
    with anyio.fail_after(WITHIN):
        await process.draining().finish()
    # The first of these was read while the slow page was stored.
    assert [len(page) for page in tables.pages[-4:]] == [8, 2, 4, 8]


async def test_no_page_is_halved_or_set_apart_while_commits_fail(
    process: SlowProcess, tables: SlowTables
) -> None:
    """A primary without its synchronous standby answers reads only."""
    await process.spool("0", "1", "2")
    tables.endless, tables.commits = {"0", "1", "2"}, False
    for _ in range(3):
        with pytest.raises(TimeoutError):
            await process.draining().finish()
    with safety():
        assert process.apart() == []
    assert tables.pages == [["0", "1", "2"]] * 3
    tables.endless, tables.commits = set(), True
    await process.draining().finish()
    with safety():
        assert tables.bodies == ["0", "1", "2"]


async def test_a_receipt_that_waits_for_a_lock_is_not_set_apart(
    process: SlowProcess, tables: SlowTables
) -> None:
    await process.spool("0", "1", "2")
    tables.locked = {"1"}
    with pytest.raises(asyncpg.LockNotAvailableError):
        await process.draining().finish()
    tables.locked = set()
    await process.draining().finish()
    with safety():
        assert (tables.bodies, process.apart()) == (["0", "1", "2"], [])


async def test_a_receipt_that_waits_too_long_for_a_lock_is_set_apart(
    process: SlowProcess, tables: SlowTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("inboxd.inbound.spool.drain._LOCKED_SECONDS", 0)
    await process.spool("0", "1", "2")
    tables.locked = {"1"}
    with anyio.fail_after(WITHIN):
        await process.draining().finish()
    with safety():
        assert (tables.bodies, process.apart()) == (["0", "2"], ["1"])


async def test_a_slow_page_does_not_keep_the_gates_closed(
    process: SlowProcess, tables: SlowTables
) -> None:
    """The last receipts become a normal page if they are slow: no request waits for them."""
    await process.spool("0")
    drain = process.draining()
    tables.endless = {"1"}
    last: list[list[str]] = []

    async def write_last(page: Sequence[Receipt]) -> list[Stored]:
        last.append([each.body.decode() for each in page])
        return await tables.write(page)

    pages = drain._pages

    async def then_one_comes() -> bool:
        more = await pages()
        if not last:
            await process.send("1", "2")
        return more

    drain._write_last, drain._pages = write_last, then_one_comes  # type: ignore[method-assign]
    with anyio.fail_after(WITHIN):
        await drain.finish()
    assert last[0] == ["1", "2"]
    assert all("1" not in page for page in last[1:])
    with safety():
        assert (tables.bodies, process.apart()) == (["0", "2"], ["1"])


async def test_a_receipt_with_many_events_is_a_page_of_its_own(
    process: SlowProcess, tables: SlowTables
) -> None:
    """Otherwise other receipts would be written again while it is halved."""
    page = [receipt(str(n), "results") for n in range(5)]
    page[2].events *= 5_000
    tables.is_away = True
    await process.writer.write(page)
    tables.is_away = False
    tables.pages.clear()
    await process.draining().finish()
    assert tables.pages == [["0", "1"], ["2"], ["3", "4"]]


# ------------------------------------------------------------------------------------ the writer


async def _watched(process: SlowProcess, act: Callable[[], Awaitable[None]]) -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(process.writer.watch)
        await act()
        group.cancel_scope.cancel()


async def test_a_slow_page_does_not_mean_that_the_database_is_away(
    process: SlowProcess, tables: SlowTables
) -> None:
    tables.endless = {"slow"}

    async def sends() -> None:
        assert await process.send("slow", source="arrays") == ["spooled"]
        assert not process.writer.is_away
        assert await process.send("1") == ["stored"]
        assert await process.send("2", source="arrays") == ["spooled"], "it queues behind the first"

    await _watched(process, sends)
    with anyio.fail_after(WITHIN):
        await process.draining().finish()
    with safety():
        assert (tables.bodies, process.apart()) == (["1", "2"], ["slow"])
    assert await process.send("3", source="arrays") == ["stored"]


async def test_a_silent_database_is_away(process: SlowProcess, tables: SlowTables) -> None:
    tables.endless = {"1"}
    silent = True

    async def probe() -> None:
        if silent:
            await anyio.sleep(_HOUR)

    process.writer._probe = probe

    async def sends() -> None:
        nonlocal silent
        assert await process.send("1") == ["spooled"]
        assert process.writer.is_away
        tried = len(tables.pages)
        assert await process.send("2", source="others") == ["spooled"]
        assert len(tables.pages) == tried, "requests do not wait for the database"
        silent = False

        async def is_back() -> bool:
            return not process.writer.is_away

        await eventually(is_back)

    await _watched(process, sends)


@pytest.mark.parametrize(
    ("error", "is_away"),
    [
        (DatabaseError("it is away"), True),
        (ConnectionResetError(), True),
        (asyncpg.QueryCanceledError("statement timeout"), False),
        (asyncpg.LockNotAvailableError("lock timeout"), False),
        (asyncpg.DeadlockDetectedError("deadlock"), False),
        (asyncpg.InsufficientPrivilegeError("denied"), False),
    ],
)
async def test_only_errors_of_the_connection_mean_that_the_database_is_away(
    process: SlowProcess, error: Exception, is_away: bool
) -> None:
    async def fails(_: Sequence[Receipt]) -> list[Stored]:
        raise error

    process.writer._write_directly = fails
    assert await process.send("1") == ["spooled"]
    assert process.writer.is_away is is_away
