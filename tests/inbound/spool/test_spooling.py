"""The writer and the drain on a real folder: which receipts are spooled, and their order."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID, uuid4

import anyio
import asyncpg
import pytest

from inboxd.errors import DatabaseError, SpoolOwned
from inboxd.inbound.spool.drain import Drain
from inboxd.inbound.spool.files import SystemFiles
from inboxd.inbound.spool.folder import own
from inboxd.inbound.spool.log import APART, Appender
from inboxd.inbound.spool.markers import Gates
from inboxd.inbound.spool.writer import SpoolingWriter
from inboxd.model.receipt import Receipt, ReceivedEvent
from inboxd.store.receipts import Stored
from tests.support.waiting import bounded

pytestmark = [pytest.mark.anyio, pytest.mark.safety]


@dataclass
class Tables:
    """A database, with the behaviour that the spool depends on."""

    receipts: dict[UUID, str] = field(default_factory=dict)
    is_away: bool = False
    answers_are_lost: bool = False
    refused: set[str] = field(default_factory=set)
    writes: int = 0

    async def write(self, page: Sequence[Receipt]) -> list[Stored]:
        self.writes += 1
        if self.is_away:
            raise DatabaseError("it is away")
        for each in page:
            if each.body.decode() in self.refused:
                raise asyncpg.DataError("the test refuses it")
        for each in page:
            self.receipts.setdefault(each.receipt_id, each.body.decode())
        if self.answers_are_lost:
            raise DatabaseError("the answer is lost")
        return [Stored([event.event_id for event in each.events], "stored") for each in page]

    async def probe(self) -> None:
        if self.is_away:
            raise DatabaseError("it is away")

    @property
    def bodies(self) -> list[str]:
        return list(self.receipts.values())


@dataclass
class Process:
    """The spool of one process."""

    tables: Tables
    path: Path

    def __post_init__(self) -> None:
        self.owned = own(self.path)
        log = Appender(self.owned.folder, SystemFiles(), quota=1 << 20, segment_bytes=1 << 16)
        self.writer = SpoolingWriter(
            self.tables.write, self.tables.probe, log, self.path, after=0.5
        )

    async def send(self, *bodies: str, source: str = "results") -> list[str]:
        page = [receipt(body, source) for body in bodies]
        ended = await self.writer.write(page)
        return [each.outcome if isinstance(each, Stored) else str(each) for each in ended]

    def drain(self, remembers: timedelta = timedelta(days=30)) -> Drain:
        return Drain(
            self.path, SystemFiles(), self.writer.gates, self.tables.write, remembers=remembers
        )

    async def is_back(self) -> None:
        """Wait until the writer knows that the database is back."""
        async with anyio.create_task_group() as group:
            group.start_soon(self.writer.watch)
            with bounded():
                while self.writer.is_away:
                    await anyio.lowlevel.checkpoint()
            group.cancel_scope.cancel()


def receipt(body: str, source: str, at: datetime | None = None) -> Receipt:
    return Receipt(
        receipt_id=uuid4(),
        received_at=at or datetime.now(UTC),
        source=source,
        body=body.encode(),
        content_type="application/json",
        headers='{"webhook-id": "1"}',
        address="192.0.2.7",
        key_id="2026",
        events=[ReceivedEvent(event_id=uuid4(), type="match.result", payload=body)],
    )


@pytest.fixture
def tables() -> Tables:
    return Tables()


@pytest.fixture
def process(tables: Tables, tmp_path: Path) -> Process:
    return Process(tables, tmp_path)


async def test_receipts_go_to_the_database_while_it_answers(
    process: Process, tables: Tables
) -> None:
    assert await process.send("1", "2") == ["stored", "stored"]
    assert tables.bodies == ["1", "2"]
    assert process.writer.gates.marked() == []


async def test_an_outage_is_spooled_and_drained_in_order(process: Process, tables: Tables) -> None:
    await process.send("1")
    tables.is_away = True
    assert await process.send("2", "3") == ["spooled", "spooled"]
    assert await process.send("4") == ["spooled"]
    tables.is_away = False
    await process.is_back()

    assert await process.send("5") == ["spooled"], "it queues behind the spooled ones"
    assert await process.send("other", source="others") == ["stored"]
    await process.drain().finish()

    assert tables.bodies == ["1", "other", "2", "3", "4", "5"]
    assert await process.send("6") == ["stored"]


async def test_requests_do_not_wait_for_an_absent_database(
    process: Process, tables: Tables
) -> None:
    tables.is_away = True
    await process.send("1")
    tried = tables.writes
    for number in range(5):
        await process.send(str(number))
    assert tables.writes == tried


async def test_a_page_that_hangs_is_spooled(process: Process, tables: Tables) -> None:
    async def hang(_: Sequence[Receipt]) -> list[Stored]:
        await anyio.sleep_forever()
        raise AssertionError

    process.writer._write_directly = hang
    process.writer._after = 0.05
    assert await process.send("1") == ["spooled"]


async def test_a_lost_answer_doubles_no_receipt(process: Process, tables: Tables) -> None:
    tables.answers_are_lost = True
    assert await process.send("1", "2") == ["spooled", "spooled"]
    tables.answers_are_lost = False
    await process.drain().finish()
    assert tables.bodies == ["1", "2"]


async def test_a_killed_drain_is_repeated(process: Process, tables: Tables) -> None:
    tables.is_away = True
    await process.send(*map(str, range(20)))
    tables.is_away = False
    tables.answers_are_lost = True
    with pytest.raises(DatabaseError):
        await process.drain().finish()
    tables.answers_are_lost = False
    await process.drain().finish()
    assert tables.bodies == [str(number) for number in range(20)]


async def test_a_cancelled_drain_continues_behind_its_stored_pages(
    process: Process, tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unlike after a kill, no page is read, stored and counted twice."""
    monkeypatch.setattr("inboxd.inbound.spool.drain._PAGE_ROWS", 1)
    names = [f"{number}" for number in range(6)]
    tables.is_away = True
    await process.send(*names)
    tables.is_away = False
    hangs = anyio.Event()

    async def write(page: Sequence[Receipt]) -> list[Stored]:
        if len(tables.receipts) == 3:
            hangs.set()
            await anyio.sleep_forever()
        return await tables.write(page)

    gates = process.writer.gates
    async with anyio.create_task_group() as group:
        group.start_soon(Drain(process.path, SystemFiles(), gates, write, remembers=None).finish)
        await hangs.wait()
        group.cancel_scope.cancel()
    assert tables.bodies == names[:3]
    rest = process.drain()
    await rest.finish()
    assert tables.bodies == names
    assert rest.drained == 3


async def test_receipts_of_two_processes_are_drained_in_one_order(
    tables: Tables, tmp_path: Path
) -> None:
    one, two = Process(tables, tmp_path), Process(tables, tmp_path)
    assert one.owned.folder != two.owned.folder
    tables.is_away = True
    for number in range(0, 2_400, 8):
        await (one, two)[number % 3 == 0].send(*map(str, range(number, number + 8)))
    tables.is_away = False
    await two.drain().finish()
    assert tables.bodies == [str(number) for number in range(2_400)]


async def test_another_process_of_the_host_spools_a_marked_source(
    tables: Tables, tmp_path: Path
) -> None:
    one, two = Process(tables, tmp_path), Process(tables, tmp_path)
    tables.is_away = True
    await one.send("1")
    tables.is_away = False
    assert await two.send("2") == ["spooled"]
    await one.drain().finish()
    assert tables.bodies == ["1", "2"]


async def test_a_drain_ends_while_new_receipts_arrive(process: Process, tables: Tables) -> None:
    """Each spooled receipt triggers the next: without gates the spool would never be empty."""
    tables.is_away = True
    await process.send("0")
    tables.is_away = False
    await process.is_back()
    sent = 1
    outcomes = []

    async def load() -> None:
        nonlocal sent
        while "stored" not in outcomes:
            outcomes.extend(await process.send(str(sent)))
            sent += 1
            await anyio.lowlevel.checkpoint()

    async with anyio.create_task_group() as group:
        group.start_soon(load)
        with bounded():
            await process.drain().finish()
    assert tables.bodies == [str(number) for number in range(sent)]


async def test_only_one_process_of_a_host_drains(process: Process, tables: Tables) -> None:
    tables.is_away = True
    await process.send("1")
    tables.is_away = False
    hindered = anyio.Event()
    arrived = asyncio.Event()

    async def slow(page: Sequence[Receipt]) -> list[Stored]:
        arrived.set()
        await hindered.wait()
        return await Tables.write(tables, page)

    first = process.drain()
    first._write = slow
    async with anyio.create_task_group() as group:
        group.start_soon(first.finish)
        await arrived.wait()
        with pytest.raises(SpoolOwned):
            await process.drain().finish()
        hindered.set()
    assert tables.bodies == ["1"]


async def test_the_folder_of_a_dead_process_is_taken_over(process: Process, tables: Tables) -> None:
    tables.is_away = True
    await process.send("1", "2")
    process.owned.release()  # what the end of a process does
    successor = Process(tables, process.path)
    assert successor.owned.folder == process.owned.folder
    await successor.send("3")
    tables.is_away = False
    await successor.drain().finish()
    assert tables.bodies == ["1", "2", "3"]


def _apart(process: Process) -> list[str]:
    return sorted(each.name for each in (process.owned.folder / APART).glob("*.json"))


async def test_a_receipt_that_the_database_refuses_is_set_apart(
    process: Process, tables: Tables
) -> None:
    tables.is_away = True
    await process.send("1", "2", "3", "4", "5")
    tables.is_away = False
    tables.refused = {"3"}
    await process.drain().finish()
    assert tables.bodies == ["1", "2", "4", "5"]
    assert len(_apart(process)) == 1


async def test_a_receipt_older_than_the_database_s_memory_is_set_apart(
    process: Process, tables: Tables
) -> None:
    tables.is_away = True
    old = receipt("1", "results", datetime.now(UTC) - timedelta(days=31))
    await process.writer.write([old, receipt("2", "results")])
    tables.is_away = False
    await process.drain().finish()
    assert tables.bodies == ["2"]
    assert len(_apart(process)) == 1


@pytest.mark.parametrize(
    "spoil", [lambda data: data[:4], lambda _: b"", lambda data: data.replace(b"form", b"from")]
)
async def test_a_frame_without_a_receipt_is_set_apart(
    process: Process, tables: Tables, spoil: Callable[[bytes], bytes]
) -> None:
    tables.is_away = True
    await process.send("1")
    [path] = process.owned.folder.glob("*.segment")
    log = process.writer._log
    with path.open("rb") as file:
        log.append([spoil(file.read()[24:])])
    await process.send("2")
    tables.is_away = False
    await process.drain().finish()
    assert tables.bodies == ["1", "2"]
    assert len(_apart(process)) == 1


async def test_a_spooled_receipt_is_unchanged(process: Process, tables: Tables) -> None:
    plain = receipt('{"a": "\N{SNOWMAN}"}', "results")
    odd = receipt("not JSON", "results")
    odd.body, odd.events[0].broken, odd.hold, odd.address = b"\xff\x00", "not JSON", True, None
    seen: list[Receipt] = []

    async def look(page: Sequence[Receipt]) -> list[Stored]:
        seen.extend(page)
        return [Stored([], "stored") for _ in page]

    tables.is_away = True
    await process.writer.write([plain, odd])
    drain = process.drain()
    drain._write = look
    await drain.finish()
    assert seen == [plain, odd]


def test_a_source_s_name_cannot_be_a_path(tmp_path: Path) -> None:
    gates = Gates(tmp_path)
    gates.mark("../../etc/x y")
    assert gates.marked() == ["../../etc/x y"]
    assert gates.is_marked("../../etc/x y")
    gates.unmark("../../etc/x y")
    assert gates.marked() == []
