"""Readings that visitors share: a visitor who opens a page never gets an older reading."""

from dataclasses import dataclass, field
from typing import cast

import anyio
import anyio.lowlevel
import pytest

from inboxd.admin.screens import readings
from inboxd.admin.screens.readings import Readings
from inboxd.admin.screens.screen import ScreenPage
from inboxd.admin.screens.snapshot import Seen
from inboxd.errors import DatabaseError
from inboxd.store.samples import Counts
from tests.support.waiting import bounded

pytestmark = pytest.mark.anyio

SEEN = Seen({}, cast("Counts", {}), "1", 0.0)


@dataclass
class _Reader:
    """Reads pages that show the number of their reading; each reading waits until `may_end`."""

    readings: Readings = field(default_factory=Readings)
    begun: int = 0
    may_end: anyio.Semaphore = field(default_factory=lambda: anyio.Semaphore(0))
    answers: list[object] = field(default_factory=list)

    async def open(self) -> None:
        """Open the page, and note the number of the reading that it shows."""
        found = await self.readings.opened("page", SEEN, self._read)
        assert isinstance(found.page, ScreenPage)
        self.answers.append(found.page.document["reading"])

    async def _read(self) -> ScreenPage:
        self.begun += 1
        number = self.begun
        await self.may_end.acquire()
        return ScreenPage("page.html", {"reading": number})

    async def begins(self, number: int) -> None:
        """Wait until `number` readings have begun."""
        with bounded():
            while self.begun < number:
                await anyio.lowlevel.checkpoint()


async def test_visitors_who_open_a_page_during_a_reading_share_the_next_one() -> None:
    reader = _Reader()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(reader.open)
        await reader.begins(1)
        for _ in range(50):
            tasks.start_soon(reader.open)
        await anyio.wait_all_tasks_blocked()
        reader.may_end.release()
        reader.may_end.release()
    assert reader.answers == [1, *[2] * 50]


async def test_a_page_opened_later_is_read_anew() -> None:
    reader = _Reader()
    for _ in range(3):
        reader.may_end.release()
        await reader.open()
    assert reader.answers == [1, 2, 3]


async def test_an_abandoned_reading_answers_no_request() -> None:
    reader = _Reader()
    reader.may_end.release()
    await reader.open()
    gone = anyio.CancelScope()

    async def leave() -> None:
        with gone:
            await reader.open()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(leave)
        await reader.begins(2)
        tasks.start_soon(reader.open)
        await anyio.wait_all_tasks_blocked()
        gone.cancel()
        reader.may_end.release()
    assert reader.answers == [1, 3]


async def test_a_failed_reading_answers_no_other_request() -> None:
    reader, failing = _Reader(), DatabaseError("away")

    async def fail() -> ScreenPage:
        raise failing

    with pytest.raises(DatabaseError):
        await reader.readings.opened("page", SEEN, fail)
    reader.may_end.release()
    await reader.open()
    assert reader.answers == [1]


async def test_a_page_that_is_slow_is_read_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    """A visitor waits a moment at most for a reading of others, and starts one."""
    monkeypatch.setattr("inboxd.admin.screens.readings._PATIENCE_SECONDS", 0.01)
    reader = _Reader()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(reader.open)
        await reader.begins(1)
        tasks.start_soon(reader.open)
        await reader.begins(2)
        reader.may_end.release()
        reader.may_end.release()
    assert sorted(map(str, reader.answers)) == ["1", "2"]


async def test_kept_readings_are_bounded_in_bytes_and_the_newest_stays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The bound counts bytes: five large pages weigh as much as thousands of small ones."""
    monkeypatch.setattr(readings, "_MOST_BYTES", 1_000_000)
    kept, read_again = Readings(), list[str]()

    async def ask(name: str, size: int) -> None:
        async def read() -> ScreenPage:
            read_again.append(name)
            return ScreenPage("page.html", {})

        found = await kept.kept(name, SEEN, read)
        found.drawn("en", lambda: "x" * size)

    for name in ("small", "large 1", "large 2", "large 3"):
        await ask(name, 100 if name == "small" else 200_000)
    await ask("small", 100)
    assert read_again == ["small", "large 1", "large 2", "large 3"], "all are kept up to the bound"
    await ask("large 4", 200_000)
    await ask("small", 100)
    await ask("large 4", 200_000)
    assert read_again[4:] == ["large 4"]
    await ask("large 1", 200_000)
    assert read_again[4:] == ["large 4", "large 1"]
    await ask("huge", 5_000_000)
    await ask("huge", 5_000_000)
    assert read_again.count("huge") == 1
