"""Statements of a page: at most eight, and values that visitors share are read once for all.

The tests count each statement of a page except those of the snapshot, which all pages share and
which is read at most every two seconds. Other shared values (totals, figures, labels, an
examination) are read with the first page, and again when they expire: a page that opens then runs
their statements too.
Known limits: a story runs one more statement for each level beyond its fourth; a list that begins
at a time may run a ninth, which finds the id of that time.
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
# Statements of shared values: totals (8), figures (3), matches (9), names and labels; without the
# doctor.
SHARED: Final = 22


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> AskedStatements:
    """Count statements of pages; snapshot and shared values do not expire."""
    monkeypatch.setattr("inboxd.admin.screens.snapshot._FRESH_SECONDS", 3600.0)
    for name in (
        *("rows._TOTALS_SECONDS", "rows._FIGURES_SECONDS", "rows._NAMES_SECONDS"),
        *("batches._TOTALS_SECONDS", "batches._FIGURES_SECONDS", "titles._FRESH_SECONDS"),
        *(
            "doctor._FRESH_SECONDS",
            "lanes._FRESH_SECONDS",
            "failures._FRESH_SECONDS",
            "row._ACTS_SECONDS",
            "matches._FRESH_SECONDS",
        ),
    ):
        monkeypatch.setattr(f"inboxd.admin.screens.pages.{name}", 3600.0)
    monkeypatch.setattr("inboxd.store.operator_sessions._RIGHTS", 3600.0)
    return listen(monkeypatch)


@pytest.fixture
async def rows(database: Database) -> dict[str, object]:
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
    await screens.get("/")  # reads the snapshot, and has the doctor examine
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


async def test_shared_values_are_read_once(
    asked: AskedStatements, screens: httpx.AsyncClient, rows: dict[str, object]
) -> None:
    """More visits run no statement for totals and figures; the doctor's page runs none at all."""
    await screens.get("/events")
    await screens.get(EXAMINED)
    for _ in range(5):
        again = await _counted(screens, asked, "/events")
        # A list asks which days it may leave out.
        counts = [query for query in again if "census" in query and "low_id" not in query]
        assert not [*counts, *(query for query in again if "stats_" in query)]
        assert await _counted(screens, asked, EXAMINED) == []
