"""Regressions: reused numbers, lost marks, a disk full of drained segments."""

import random
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from inboxd.errors import NotDurable, SpoolFull
from inboxd.inbound.spool import drain as draining
from inboxd.inbound.spool.files import SystemFiles
from inboxd.inbound.spool.folder import Lock, own
from inboxd.inbound.spool.frames import HEADER, encode
from inboxd.inbound.spool.log import (
    APART,
    Reader,
    read_cursor,
    segments,
    size_of,
    write_cursor,
)
from inboxd.model.receipt import Receipt
from inboxd.store.receipts import Stored
from tests.inbound.spool.test_log import FOLDER, appender, contents, no, written, yes
from tests.inbound.spool.test_spooling import Process, Tables, receipt
from tests.support.volatile import VolatileFiles
from tests.support.waiting import bounded

pytestmark = [pytest.mark.anyio, pytest.mark.safety]


@pytest.fixture
def disk() -> VolatileFiles:
    return VolatileFiles(random.Random(7))


@pytest.fixture
def tables() -> Tables:
    return Tables()


@pytest.fixture
def process(tables: Tables, tmp_path: Path) -> Process:
    return Process(tables, tmp_path)


def test_a_number_of_a_failed_write_is_not_reused(
    disk: VolatileFiles,
) -> None:
    """The drain read two frames of a page during its write, which then failed on a full disk."""
    log, reader = appender(disk), Reader(FOLDER, disk)
    log.append(written(1))
    seen = []
    write = VolatileFiles.write

    def torn(handle: int, data: bytes) -> None:
        write(disk, handle, data[: 2 * (HEADER + 9)])
        seen.extend(reader.page(99, 9999, owned=yes))
        disk.room = 0
        write(disk, handle, data)

    disk.write = torn  # type: ignore[method-assign]
    with pytest.raises(SpoolFull):
        log.append(written(3, 1))
    del disk.write
    disk.room = None
    assert len(seen) == 3
    reader.pass_by(seen[-1].number)
    log.append(written(2, 7))
    assert contents(reader, owned=yes) == written(2, 7)


@pytest.mark.parametrize("tail", [b"", b"\xf1", bytes(7), encode(1, b"receipt 0")[:30]])
def test_an_empty_segment_does_not_block_a_successor(disk: VolatileFiles, tail: bytes) -> None:
    disk.replace(FOLDER / f"{1:020d}.segment", tail)
    log, reader = appender(disk), Reader(FOLDER, disk)
    log.append(written(1))
    assert contents(reader) == written(1)
    reader.pass_by(log.next_number - 1)
    reader.tidy(owned=no)
    assert not segments(FOLDER, disk)


def test_drained_frames_of_one_segment_make_room(disk: VolatileFiles) -> None:
    log, reader = appender(disk, quota=100, segment_bytes=10_000), Reader(FOLDER, disk)
    log.append(written(2))
    with pytest.raises(SpoolFull):
        log.append(written(2, 2))
    log.leave_drained()
    assert size_of(FOLDER, disk) > 0, "its segment is there still"
    reader.pass_by(reader.page(9, 999, owned=yes)[-1].number)
    reader.tidy(owned=yes)
    log.leave_drained()
    assert size_of(FOLDER, disk) == 0
    log.append(written(2, 2))
    assert contents(reader, owned=yes) == written(2, 2)


def test_a_folder_taken_over_during_a_reading_keeps_its_new_segment(
    disk: VolatileFiles,
) -> None:
    appender(disk).append(written(1))
    reader = Reader(FOLDER, disk)
    successor = None

    def adopted() -> bool:
        nonlocal successor
        successor = appender(disk)
        successor.append(written(1, 1))
        return False  # not yet at the time of the check

    assert [each.content for each in reader.page(9, 999, owned=adopted)] == written(1)
    reader.pass_by(1)
    reader.tidy(owned=adopted)
    assert written(1, 1)[0] in contents(reader, owned=yes)


def test_the_cursor_is_written_on_a_full_disk(tmp_path: Path) -> None:
    class Full(SystemFiles):
        def replace(self, path: Path, data: bytes) -> None:
            del path, data
            raise OSError(28, "No space left on device")

    write_cursor(tmp_path, SystemFiles(), 4)
    write_cursor(tmp_path, Full(), 17)
    assert read_cursor(tmp_path, SystemFiles()) == 17


def test_checking_an_owner_does_not_take_the_folder(tmp_path: Path) -> None:
    own(tmp_path).release()
    [folder] = (tmp_path / "spools").iterdir()
    look = Lock(folder / "owner")

    timer = threading.Timer(0.01, look.release)
    timer.start()
    assert own(tmp_path).folder == folder
    timer.join()


async def test_frames_behind_one_that_cannot_be_set_apart_are_not_lost(
    process: Process, tables: Tables
) -> None:
    tables.is_away = True
    await process.send("1")
    process.writer._log.append([b"no receipt"])
    await process.send("2", "3")
    tables.is_away = False
    folder = process.owned.folder / APART
    folder.rmdir()
    drain = process.drain()
    assert not await drain._turn()
    assert tables.bodies in ([], ["1"])
    folder.mkdir()
    await drain.finish()
    assert tables.bodies == ["1", "2", "3"]


async def test_a_page_of_unreadable_frames_is_not_the_last(
    process: Process, tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(draining, "_PAGE_ROWS", 4)
    tables.is_away = True
    await process.send("1")
    process.writer._log.append([b"no receipt"] * 7)
    await process.send(*"23456789")
    tables.is_away = False
    drain = process.drain()
    await drain._unmark()
    assert process.writer.gates.marked(), "receipts wait still"
    await drain.finish()
    assert tables.bodies == list("123456789")


async def test_a_spool_without_its_marks_is_drained_in_order(
    process: Process, tables: Tables
) -> None:
    """Such a spool is one that an operator has restored from a copy."""
    tables.is_away = True
    await process.send("1", "2")
    tables.is_away = False
    process.writer.gates.unmark("results")
    drain = process.drain()
    while "2" not in tables.bodies:
        await drain._turn()
    assert tables.bodies == ["1", "2"]


async def test_a_full_spool_refuses_only_receipts_that_need_it(
    process: Process, tables: Tables
) -> None:
    tables.is_away = True
    await process.send("1")
    process.writer._log._quota = 0
    tables.is_away = False
    await process.is_back()
    process_page = [receipt("2", "results"), receipt("3", "others")]
    full, stored = await process.writer.write(process_page)
    assert isinstance(full, NotDurable)
    assert "quota" in str(full)
    assert isinstance(stored, Stored)


async def test_the_wait_for_a_gate_of_a_stopped_process_is_bounded(
    process: Process, tables: Tables
) -> None:
    tables.is_away = True
    await process.send("1")
    with process.writer.gates.closed(["results"], 1):
        [ended] = await process.writer.write([receipt("2", "results")])
    assert isinstance(ended, NotDurable)
    assert await process.send("3") == ["spooled"]


async def test_a_slow_page_is_split_into_smaller_ones(process: Process, tables: Tables) -> None:
    tables.is_away = True
    await process.send(*map(str, range(300)))
    tables.is_away = False
    drain = process.drain()

    async def slow(page: Sequence[Receipt]) -> Sequence[Stored]:
        if len(page) > 40:
            raise TimeoutError
        return await tables.write(page)

    drain._write = drain._write_last = slow
    with bounded():
        while len(tables.bodies) < 300:
            await drain._turn()
    assert tables.bodies == [str(number) for number in range(300)]


async def test_a_vanished_folder_does_not_stop_the_drain(process: Process, tables: Tables) -> None:
    tables.is_away = True
    await process.send("1")
    gone = Process(tables, process.path)
    await gone.send("2")
    tables.is_away = False
    drain = process.drain()
    page = await drain._read()
    for path in sorted(gone.owned.folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    gone.owned.folder.rmdir()
    await drain._store(page.rows)
    drain._pass_by(page.rows)
    await drain.finish()
    assert tables.bodies == ["1", "2"]


async def test_a_torn_end_is_logged_once(process: Process, tables: Tables) -> None:
    """Whether its webhook was answered is unknown: another program may have cut the file."""
    tables.is_away = True
    await process.send("1", "2")
    process.owned.release()
    [segment] = process.owned.folder.glob("*.segment")
    segment.write_bytes(segment.read_bytes()[:-5])
    drain = process.drain()
    with capture_logs() as logs:
        assert not await drain._turn(), "the drain begins again"
        tables.is_away = False
        await drain.finish()
    assert tables.bodies == ["1"]
    (line,) = [each for each in logs if "ends within a webhook" in each["event"]]
    assert (line["log_level"], line["file"]) == ("warning", str(segment))
    assert line["bytes"] > 0
