"""Fifty viewers of pages that are kept open cost the database what one costs.

Counted are all statements of the screens' sessions over some time of a clock that the test moves,
while rows come in. Who opens a page gets it read anew, so opening is counted apart.
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
# Polls of each viewer, two seconds apart; before each a row comes in.
POLLS: Final = 16
# One reading more of each page, since a reading may begin just before or after a change.
SLACK: Final = 8 * len(PAGES)


class MovedClock:
    """A monotonic clock that stands still until it is moved."""

    def __init__(self) -> None:
        """Begin somewhere."""
        self.now = 1_000.0

    def __call__(self) -> float:
        """What time it is."""
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> MovedClock:
    """The clock by which what was read counts as new."""
    moved = MovedClock()
    for module in ("snapshot", "readings", "shared"):
        monkeypatch.setattr(f"inboxd.admin.screens.{module}.monotonic", moved)
    monkeypatch.setattr("inboxd.store.session.monotonic", moved)
    return moved


@pytest.fixture
async def asked(monkeypatch: pytest.MonkeyPatch, database: Database) -> AskedStatements:
    """The statements of the screens of a school; nobody's sample grows old meanwhile."""
    await school.fill(database)
    await database.execute("delete from inboxd.newest_sample")
    return listen(monkeypatch)


class _Viewer:
    """Somebody who has a page open."""

    def __init__(self, screens: httpx.AsyncClient, path: str) -> None:
        """Of this page."""
        self._screens, self._path, self._revision = screens, path, ""

    async def open(self) -> None:
        """Open it."""
        self._revision = (await self._screens.get(self._path)).headers["x-revision"]

    async def poll(self) -> None:
        """Ask whether anything has changed, as the script does."""
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
    """How many statements so many viewers of each page cost: to open it, and to keep it open."""
    asked.begin()
    there = [_Viewer(screens, path) for path in PAGES for _ in range(viewers)]
    for viewer in there:
        await viewer.open()
    opened = len(await asked.statements())
    asked.begin()
    for _ in range(POLLS):
        clock.now += 2.0
        await send(database, 1)  # all that was read before is no longer good
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
    assert one > POLLS * len(PAGES)  # all pages were read again and again
    assert many <= one + SLACK
    # Nor does who opens a page read again what is shared.
    assert opened <= VIEWERS * len(PAGES) * 8 + SLACK
