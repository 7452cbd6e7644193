"""What a page costs: at most eight statements, and what is shared is read once for all visitors.

Counted is all that is asked of the database for a page, but for the snapshot that all pages share,
which is read at most every two seconds. What visitors share besides (totals, figures, labels, an
examination) is read with the first page, and then again when some seconds are over: a page that is
the first to be opened asks for it too.
Known limits: a story asks one statement more for each level beyond its fourth; a list that begins
at a time may ask a ninth, which looks for its id.
"""

from typing import Final

import httpx
import pytest

from inboxd.admin.screens.pages import SCREENS
from tests.screens.asked import AskedStatements, listen
from tests.screens.visits import EXAMINED, VISITS, write_rows
from tests.support import Database

pytestmark = pytest.mark.anyio

MOST: Final = 8
# Of what is shared: totals (8), figures (3), names and labels. An examination is apart.
SHARED: Final = 13


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> AskedStatements:
    """The statements that pages ask; the snapshot and what is shared stay."""
    monkeypatch.setattr("inboxd.admin.screens.snapshot._FRESH", 3600.0)
    for name in (
        *("rows._TOTALS", "rows._FIGURES", "rows._NAMES", "batches._TOTALS"),
        *("titles._FRESH", "doctor._FRESH", "failures._FRESH"),
    ):
        monkeypatch.setattr(f"inboxd.admin.screens.pages.{name}", 3600.0)
    monkeypatch.setattr("inboxd.store.session._RIGHTS", 3600.0)
    return listen(monkeypatch)


@pytest.fixture
async def rows(database: Database) -> dict[str, object]:
    """What the pages are asked about."""
    return await write_rows(database)


async def _counted(screens: httpx.AsyncClient, asked: AskedStatements, path: str) -> list[str]:
    asked.begin()
    answer = await screens.get(path)
    assert answer.status_code in (200, 303, 307), (path, answer.status_code)
    return await asked.statements()


def test_each_page_of_the_router_is_visited() -> None:
    assert VISITS.keys() == {screen.path for screen in SCREENS}


async def test_a_page_asks_at_most_eight_statements(
    asked: AskedStatements, screens: httpx.AsyncClient, rows: dict[str, object]
) -> None:
    await screens.get("/spools")  # the snapshot
    beyond: dict[str, list[str]] = {}
    for path in (path.format(**rows) for paths in VISITS.values() for path in paths):
        first = await _counted(screens, asked, path)
        again = await _counted(screens, asked, path)
        if len(again) > MOST:
            beyond[path] = again
        if path != EXAMINED:
            assert len(first) <= MOST + SHARED, (path, first)
    assert beyond == {}


async def test_no_page_asks_the_same_twice(
    asked: AskedStatements, screens: httpx.AsyncClient, rows: dict[str, object]
) -> None:
    for path in (path.format(**rows) for paths in VISITS.values() for path in paths):
        await _counted(screens, asked, path)
        again = await _counted(screens, asked, path)
        assert {each for each in again if again.count(each) > 1} == set(), path


async def test_what_visitors_share_is_read_once(
    asked: AskedStatements, screens: httpx.AsyncClient, rows: dict[str, object]
) -> None:
    """Totals and figures cost fifty visitors what they cost one; an examination nothing more."""
    await screens.get("/events")
    await screens.get(EXAMINED)
    for _ in range(5):
        again = await _counted(screens, asked, "/events")
        assert not [query for query in again if "census" in query or "stats_" in query]
        assert await _counted(screens, asked, EXAMINED) == []
