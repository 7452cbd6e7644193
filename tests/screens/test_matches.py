"""The number of rows that match a filter, beside its button: bounded, and shared by visitors."""

import re
from typing import Any

import httpx
import pytest

from inboxd.operations.counting import count_found
from tests.screens.reading import read
from tests.support import Database
from tests.support.rows import emit, send

pytestmark = pytest.mark.anyio

PAGES = "inboxd.admin.screens.pages.matches"


@pytest.fixture(autouse=True)
def enough_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counting has enough time, however slow the machine is."""
    monkeypatch.setattr(f"{PAGES}._LEFT_SECONDS", 0.0)
    monkeypatch.setattr(f"{PAGES}._MOST_SECONDS", 3600.0)


async def _matches(screens: httpx.AsyncClient, path: str) -> str | None:
    found = re.search(r"Matches: ([\d,]+\+?)", (await read(screens, path)).text)
    return None if found is None else found[1]


async def test_the_matches_of_a_filter_are_counted(
    screens: httpx.AsyncClient, database: Database
) -> None:
    await send(database, 30, "test.many")
    await send(database, 5, "test.few")
    await emit(database, 25)
    await database.execute("update inboxd.commands set status = 'failed' where id <= 24")
    for path, number in (
        ("/commands?type=test.many", "30"),
        ("/commands?type=test.many&below=10", "30"),
        ("/commands?type=test.few", "5"),
        ("/commands?status=failed", "24"),
        ("/commands?type=none", "0"),
        ("/events?since=2h", "25"),
        ("/commands", None),
        ("/commands?span=day&limit=50", None),
    ):
        assert await _matches(screens, path) == number, path


async def test_the_matches_among_batches_are_counted(
    screens: httpx.AsyncClient, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    await database.execute(
        "insert into inboxd.batches (name, type, status) select 'n', 'mails', 'succeeded'"
        " from generate_series(1, 25)"
    )
    await database.execute("insert into inboxd.batches (name, kind) values ('n', 'workflow')")
    for path, number in (
        ("/batches?type=mails", "25"),
        ("/batches?status=succeeded&type=mails&name=n&since=1h", "25"),
        ("/batches?status=failed", "0"),
        ("/workflows?name=n", "1"),
        ("/batches", None),
    ):
        assert await _matches(screens, path) == number, path
    monkeypatch.setattr(f"{PAGES}._MOST", 10)
    assert await _matches(screens, "/batches?type=mails&name=n") == "9+", "one is a workflow"


async def test_counting_stops_at_a_bound_and_says_so(
    screens: httpx.AsyncClient, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    await send(database, 40, "test.many")
    monkeypatch.setattr(f"{PAGES}._MOST", 25)
    found = await _matches(screens, "/commands?type=test.many")
    assert found is not None
    assert found.endswith("+")
    assert 0 < int(found[:-1]) <= 25


async def test_a_page_without_time_left_does_not_count(
    screens: httpx.AsyncClient, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    await send(database, 30, "test.many")
    monkeypatch.setattr(f"{PAGES}._LEFT_SECONDS", 3600.0)
    assert await _matches(screens, "/commands?type=test.many") is None


async def test_visitors_with_the_same_filter_share_its_number(
    screens: httpx.AsyncClient, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    await send(database, 30, "test.many")
    counted = []

    async def count(*given: Any) -> Any:
        counted.append(given)
        return await count_found(*given)

    monkeypatch.setattr(f"{PAGES}.count_found", count)
    for _ in range(3):
        assert await _matches(screens, "/commands?since=2h") == "30"
    assert len(counted) == 1
