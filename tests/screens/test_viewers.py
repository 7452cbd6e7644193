"""Fifty viewers of open pages cost the database what one viewer costs.

The test counts all statements of the screens' sessions while it moves a clock and writes rows. A
page that a visitor opens is always read anew, so opening is counted apart.
"""

from typing import Final

import anyio
import httpx
import pytest

from tests.browser import school
from tests.screens.asked import AskedStatements, listen
from tests.support import Database
from tests.support.rows import send

pytestmark = pytest.mark.anyio

PAGES: Final = ("/", "/events", "/failures", "/queues")
VIEWERS: Final = 50
# Polls of each viewer, two seconds apart; a row is written before each poll.
POLLS: Final = 16
# One more reading of each page, since a reading may begin just before or after a change.
SLACK: Final = 8 * len(PAGES)


class MovedClock:
    """A monotonic clock that advances only when a test moves it."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> MovedClock:
    """The clock by which readings expire."""
    moved = MovedClock()
    for module in ("snapshot", "readings", "shared"):
        monkeypatch.setattr(f"inboxd.admin.screens.{module}.monotonic", moved)
    monkeypatch.setattr("inboxd.store.operator_sessions.monotonic", moved)
    # The number of its statements depends on the time that they take.
    monkeypatch.setattr("inboxd.admin.screens.pages.doctor._FRESH_SECONDS", 3600.0)
    return moved


@pytest.fixture
async def asked(monkeypatch: pytest.MonkeyPatch, database: Database) -> AskedStatements:
    """Statements on a school without a sample, which would age as the clock moves."""
    await school.fill(database)
    await database.execute("delete from inboxd.newest_sample")
    return listen(monkeypatch)


class _Viewer:
    """A visitor who keeps a page open."""

    def __init__(self, screens: httpx.AsyncClient, path: str) -> None:
        self._screens, self._path, self._revision = screens, path, ""

    async def open(self) -> None:
        self._revision = (await self._screens.get(self._path)).headers["x-revision"]

    async def poll(self) -> None:
        """Ask whether the page has changed, as the script of the page does."""
        headers = {"x-revision": self._revision}
        answer = await self._screens.get(self._path, headers=headers)
        assert answer.status_code in (200, 204)
        self._revision = answer.headers["x-revision"]


async def _statements(
    screens: httpx.AsyncClient,
    asked: AskedStatements,
    clock: MovedClock,
    database: Database,
    viewers: int,
) -> tuple[int, int]:
    """Statements of `viewers` viewers of each page: to open the pages, and to keep them open."""
    asked.begin()
    there = [_Viewer(screens, path) for path in PAGES for _ in range(viewers)]
    for viewer in there:
        await viewer.open()
    opened = len(await asked.statements())
    asked.begin()
    for _ in range(POLLS):
        clock.now += 2.0
        await send(database, 1)  # by now each reading has expired
        async with anyio.create_task_group() as tasks:
            for viewer in there:
                tasks.start_soon(viewer.poll)
    return opened, len(await asked.statements())


@pytest.mark.timeout(240)
async def test_fifty_viewers_cost_no_more_statements_than_one(
    screens: httpx.AsyncClient, asked: AskedStatements, clock: MovedClock, database: Database
) -> None:
    _, one = await _statements(screens, asked, clock, database, 1)
    opened, many = await _statements(screens, asked, clock, database, VIEWERS)
    assert one > POLLS * len(PAGES)  # all pages were read repeatedly
    assert many <= one + SLACK
    # An opened page does not read the shared values again.
    assert opened <= VIEWERS * len(PAGES) * 8 + SLACK
