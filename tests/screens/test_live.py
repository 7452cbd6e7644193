"""Polls of an open page, without a browser: their answers, and the sessions that they cost."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
from typing import cast

import anyio
import httpx
import pytest

from inboxd.admin.screens import readings, snapshot
from inboxd.admin.screens.access import Everybody
from inboxd.admin.screens.application import Screens
from inboxd.admin.screens.pages import SCREENS
from inboxd.embedded import Server
from inboxd.settings import Settings
from inboxd.store import samples
from inboxd.store.operator_sessions import Looks, open_looks
from inboxd.store.session import Session
from tests.support import Database
from tests.support.rows import send, settings_of
from tests.support.waiting import eventually

pytestmark = pytest.mark.anyio

PAGES = ("/", "/events", "/commands")


class CountedLooks:
    """Sessions of the screens, with the number of requests for one; each statement needs one."""

    def __init__(self, looks: Looks) -> None:
        self.count = 0
        self._looks = looks

    @asynccontextmanager
    async def look(self, within: float) -> AsyncIterator[Session]:
        self.count += 1
        async with self._looks.look(within) as session:
            yield session


@asynccontextmanager
async def visiting(database: Database) -> AsyncIterator[tuple[httpx.AsyncClient, CountedLooks]]:
    """A client of the screens, and the sessions that its pages are read on."""
    settings = Settings(database=settings_of(database))
    async with open_looks(settings.database, "screens", 3, timedelta(seconds=2)) as looks:
        counted = CountedLooks(looks)
        screens = Screens(settings, cast("Looks", counted), Everybody(), SCREENS)
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(screens.application()), base_url="http://screens"
        ) as client:
            yield client, counted


@pytest.fixture
async def visit(database: Database) -> AsyncIterator[tuple[httpx.AsyncClient, CountedLooks]]:
    async with visiting(database) as visit:
        yield visit


Visit = tuple[httpx.AsyncClient, CountedLooks]


async def _open(client: httpx.AsyncClient, path: str) -> dict[str, str]:
    """The header that a browser sends in polls of this page."""
    return {"x-revision": (await client.get(path)).headers["x-revision"]}


@pytest.fixture
def expired_readings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each poll reads its page anew, and counts."""
    monkeypatch.setattr(snapshot, "_FRESH_SECONDS", 0.0)
    monkeypatch.setattr(readings, "_FRESH_SECONDS", 0.0)
    monkeypatch.setattr(samples, "_AGAIN_SECONDS", 0.0)


async def test_polls_of_unchanged_pages_read_at_most_the_overview(visit: Visit) -> None:
    client, looks = visit
    known = {path: await _open(client, path) for path in PAGES}
    before = looks.count
    for path in PAGES * 5:
        answer = await client.get(path, headers=known[path])
        assert (answer.status_code, answer.content) == (204, b"")
    # At most one session, for the shared overview; none for the pages.
    assert looks.count - before <= 1


async def test_fifty_visitors_cost_no_more_than_one(
    visit: Visit, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, looks = visit
    known = {path: await _open(client, path) for path in PAGES}
    monkeypatch.setattr(readings, "_UNCHANGED_SECONDS", 0.0)
    monkeypatch.setattr(readings, "_FRESH_SECONDS", 0.0)

    async def poll(path: str) -> None:
        await client.get(path, headers=known[path])

    before = looks.count
    # Every reading has expired: each page is read once more, for all visitors.
    for path in PAGES:
        await poll(path)
    # Readings now outlast all polls, also on a busy machine.
    for good_for in ("_UNCHANGED_SECONDS", "_FRESH_SECONDS"):
        monkeypatch.setattr(readings, good_for, 3600.0)
    monkeypatch.setattr(snapshot, "_FRESH_SECONDS", 3600.0)
    async with anyio.create_task_group() as tasks:
        for path in PAGES * 50:
            tasks.start_soon(poll, path)
    assert looks.count - before <= 1 + len(PAGES)


async def test_without_a_leader_rows_are_counted_at_intervals_and_after_an_action(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot, "_FRESH_SECONDS", 0.0)
    settings = Settings(database=settings_of(database))
    async with open_looks(settings.database, "screens", 3, timedelta(seconds=2)) as looks:
        shared = snapshot.Snapshot(settings, partial(looks.look, 30.0))

        async def pending() -> list[int]:
            seen = await shared.seen()
            assert seen.document["sample"]["counted_by"] == "status"
            return [lane["pending"] for lane in seen.document["lanes"]]

        await send(database, 3)
        monkeypatch.setattr(samples, "_AGAIN_SECONDS", 3600.0)
        assert await pending() == [3]
        await send(database, 2)
        first = (await shared.seen()).document["sample"]
        assert await pending() == [3], "not counted again"
        second = (await shared.seen()).document["sample"]
        assert second["at"] == first["at"]
        assert second["age"] > first["age"]
        shared.expire()
        assert await pending() == [5], "an action is followed by a count"
        await send(database, 1)
        monkeypatch.setattr(samples, "_AGAIN_SECONDS", 0.0)
        assert await pending() == [6]


async def test_a_changed_page_is_sent_without_its_frame(
    visit: Visit, expired_readings: None, database: Database
) -> None:
    client, _ = visit
    known = await _open(client, "/commands")
    await send(database, 3)
    answer = await client.get("/commands", headers=known)
    assert answer.status_code == 200
    assert answer.text.startswith("<title>")
    assert '<nav class="pages"' not in answer.text
    assert answer.headers["x-revision"] != known["x-revision"]
    again = {"x-revision": answer.headers["x-revision"]}
    assert (await client.get("/commands", headers=again)).status_code == 204


async def test_an_opened_page_is_read_anew(visit: Visit, database: Database) -> None:
    client, _ = visit
    before = await client.get("/commands")
    await send(database, 1, "test.brand_new")
    assert "Test brand new" not in before.text
    assert "Test brand new" in (await client.get("/commands")).text


async def test_a_page_with_contents_is_read_for_one_visitor_once(
    visit: Visit, expired_readings: None, database: Database
) -> None:
    client, looks = visit
    (id_,) = await send(database, 1, note="only once")
    whole = await client.get(f"/commands/{id_}?payload=1")
    assert "only once" in whole.text
    assert "data-revision" not in whole.text
    before = looks.count
    answer = await client.get(f"/commands/{id_}?payload=1", headers={"x-revision": "any"})
    assert (answer.status_code, answer.content) == (204, b"")
    assert looks.count - before <= 1


async def test_the_last_reading_stays_while_the_database_is_away(
    restartable_server: Server, restartable_database: Database, expired_readings: None
) -> None:
    async with visiting(restartable_database) as (client, _):
        known = await _open(client, "/")
        await _open(client, "/commands")
        with restartable_server.outage():
            answer = await client.get("/", headers=known)
            assert answer.status_code == 200
            assert "The database cannot be read now" in answer.text
            assert "<h1>Overview</h1>" in answer.text
            for path in ("/", "/commands"):
                assert "The database cannot be read now" in (await client.get(path)).text
            never_opened = await client.get("/events")
            assert never_opened.status_code == 503
            assert "<main" in never_opened.text

        async def back() -> bool:
            return "cannot be read" not in (await client.get("/")).text

        await eventually(back)
