"""The processor's loop: rows that trickle in get a moment to gather, all others do not wait."""

from collections.abc import Iterator
from typing import cast

import pytest

from inboxd.engine.processor import Page, Processor, Survey
from inboxd.engine.wakeup import Cause, WakeUp
from inboxd.telemetry.metrics import Metrics

pytestmark = pytest.mark.anyio


class _Pages:
    """A work that claims these pages, and then tells its processor to stop."""

    def __init__(self, pages: list[Page]) -> None:
        self._pages: Iterator[Page] = iter(pages)
        self.processor: Processor | None = None
        # The time limit of each wait for room.
        self.waits: list[float | None] = []

    async def page(self) -> Page:
        page = next(self._pages, None)
        if page is None:
            assert self.processor is not None
            self.processor.stop()
        return page or Page(0)

    async def survey(self) -> Survey:
        return Survey(due=False, next=None)

    async def room(self, within: float | None = None) -> None:
        """Return at once, as if there is room."""
        self.waits.append(within)

    async def finish(self) -> None:
        """Return at once: no row is under way."""

    def forget(self) -> None:
        """Do nothing: it remembers nothing."""


class _Awake:
    """A wake-up that never sleeps."""

    table = "events"

    async def arm(self) -> bool:
        return True

    async def linger(self, _seconds: float) -> bool:
        return False

    async def sleep(self, _seconds: float | None) -> Cause:
        return "timer"

    def wake(self, _cause: Cause) -> None:
        """Do nothing: it never sleeps."""

    async def working(self, *, full_page: bool, has_room: bool) -> None:
        """Do nothing: the flag is not tested here."""

    async def start(self) -> None:
        """Do nothing, as in `working`."""

    leave = start


class _Due(_Pages):
    """Pages, and rows are due at every look."""

    async def survey(self) -> Survey:
        return Survey(due=True, next=None)


class _Sleepy(_Awake):
    """A wake-up that counts its sleeps."""

    slept = 0

    async def sleep(self, _seconds: float | None) -> Cause:
        self.slept += 1
        return "timer"


class _Silent(_Awake):
    """A wake-up whose producers are silent; it records its calls."""

    def __init__(self, *, silent: bool) -> None:
        self.silent = silent
        self.asked: list[str] = []

    async def linger(self, _seconds: float) -> bool:
        self.asked.append("linger")
        return self.silent

    async def arm(self) -> bool:
        self.asked.append("arm")
        return True


async def _pauses(monkeypatch: pytest.MonkeyPatch, pages: list[Page]) -> int:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr("inboxd.engine.processor.anyio.sleep", sleep)
    work = _Pages(pages)
    work.processor = Processor(work, cast("WakeUp", _Awake()), Metrics("test"), 60.0)
    await work.processor.run()
    return len(slept)


async def test_a_trickle_gathers_from_the_fourth_page_on(monkeypatch: pytest.MonkeyPatch) -> None:
    assert await _pauses(monkeypatch, [Page(1)] * 10) == 7


async def test_single_rows_do_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    assert await _pauses(monkeypatch, [Page(1), Page(0)] * 10) == 0


@pytest.mark.parametrize("page", [Page(1000, full=True), Page(1, busy=True)])
async def test_a_backlog_does_not_wait(monkeypatch: pytest.MonkeyPatch, page: Page) -> None:
    assert await _pauses(monkeypatch, [page] * 10) == 0


@pytest.mark.parametrize(("page", "slept"), [(Page(0, busy=True), 0), (Page(0), 1)])
async def test_the_processor_stays_awake_when_due_rows_wait_for_room(
    page: Page, slept: int
) -> None:
    """They may be rows of a page that did not commit, and was halved."""
    work, wakeup = _Due([Page(0), page, Page(1)]), _Sleepy()
    work.processor = Processor(work, cast("WakeUp", wakeup), Metrics("test"), 60.0)
    await work.processor.run()
    assert wakeup.slept == slept


async def test_a_wait_for_room_has_the_time_limit_of_its_page() -> None:
    """The next wait has no such limit: more looks would not find work sooner."""
    work = _Pages([Page(0, busy=True, again=0.003), Page(0, busy=True)])
    work.processor = Processor(work, cast("WakeUp", _Awake()), Metrics("test"), 60.0)
    await work.processor.run()
    assert work.waits == [0.003, None]


@pytest.mark.parametrize(
    ("rows", "silent", "asked"),
    [
        (500, True, ["linger", "linger", "linger"]),
        (500, False, ["linger", "arm", "linger", "arm", "linger", "arm"]),
        (5, True, ["arm", "arm", "arm"]),
    ],
)
async def test_producers_stay_silent_in_the_pauses_of_a_stream(
    rows: int, silent: bool, asked: list[str]
) -> None:
    """After the third empty page the processor is told to stop."""
    work, wakeup = _Pages([Page(rows), Page(0), Page(0)]), _Silent(silent=silent)
    work.processor = Processor(work, cast("WakeUp", wakeup), Metrics("test"), 60.0)
    await work.processor.run()
    assert wakeup.asked == asked
