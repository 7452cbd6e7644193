"""Screens behind a pooler in transaction mode: each page is one read-only transaction.

Each test runs through PgBouncer, and in the same mode on a direct connection.
"""

from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from typing import Any

import anyio
import asyncpg
import httpx
import pytest

from inboxd.admin.screens.access import Everybody
from inboxd.admin.screens.application import Screens
from inboxd.admin.screens.pages import SCREENS, rows
from inboxd.errors import DatabaseError
from inboxd.settings import Database as DatabaseSettings
from inboxd.settings import Settings
from inboxd.store.operator_sessions import Looks, open_looks
from inboxd.store.session import Session
from tests.browser import school
from tests.screens.reading import read
from tests.screens.test_operating import PAGES
from tests.support import Database
from tests.support.pooler import pgbouncer

pytestmark = pytest.mark.anyio

_LISTS = (
    *("/", "/events", "/events?type=answer.given&status=succeeded", "/events?span=day"),
    *("/commands", "/commands?tenant=malta", "/commands?error=x", "/batches", "/workflows"),
    *("/find?q=answer.given", "/audit?actor=ada", "/audit?action=replay", "/actions"),
)
_SLOW = timedelta(seconds=1.5)


@pytest.fixture(params=["direct", "PgBouncer"])
def settings(request: pytest.FixtureRequest, database: Database) -> Iterator[Settings]:
    """Settings of one way to the database: through PgBouncer, or directly."""

    def by(dsn: str) -> Settings:
        own = {"dsn": dsn, "transaction_pooler": True}
        return Settings(database=DatabaseSettings.model_validate(own))

    if request.param == "direct":
        yield by(database.dsn)
        return
    with pgbouncer(database.dsn) as way:
        yield by(way.dsn)


@pytest.fixture
async def looks(settings: Settings) -> AsyncIterator[Looks]:
    """One session, so that each page would meet state that the page before left in it."""
    async with open_looks(settings.database, "screens", 1, timedelta(seconds=20)) as found:
        yield found


def _client(settings: Settings, looks: Looks) -> httpx.AsyncClient:
    application = Screens(settings, looks, Everybody(), SCREENS).application()
    transport = httpx.ASGITransport(application)
    return httpx.AsyncClient(transport=transport, base_url="http://screens", timeout=60)


async def test_every_page_is_read_behind_a_pooler(database: Database, settings: Settings) -> None:
    await school.fill(database)
    row = await database.fetchval("select id from inboxd.commands where status = 'failed' limit 1")
    event = await database.fetchval("select min(id) from inboxd.events")
    batch = await database.fetchval("select min(id) from inboxd.batches")
    known = [path for path in PAGES if path.count("/") == 1]
    rows_ = [f"/commands/{row}", f"/events/{event}?payload=1", f"/batches/{batch}"]
    paths = [*_LISTS, *known, *rows_, f"/story/command/{row}"]
    # Three sessions as in production, since a page reads the overview beside its own rows.
    async with (
        open_looks(settings.database, "screens", 3, timedelta(seconds=20)) as looks,
        _client(settings, looks) as client,
    ):
        for _ in range(2):
            for path in paths:
                page = await read(client, path)
                assert "The database cannot be read now" not in page.text, path


async def test_a_look_only_reads_and_leaves_nothing_behind(looks: Looks) -> None:
    asked = "select current_setting('{}')"
    for _ in range(2):
        async with looks.look(5) as session:
            setting = session.connection.fetchval
            assert await setting(asked.format("transaction_read_only")) == "on"
            assert await setting(asked.format("transaction_isolation")) == "repeatable read"
            assert await setting(asked.format("enable_bitmapscan")) == "on"
            async with session.reading(snapshot=True):
                await session.execute("plan_looks", True)
                assert await setting(asked.format("enable_bitmapscan")) == "off"
            assert await setting(asked.format("enable_bitmapscan")) == "on"
    with pytest.raises(DatabaseError, match="read-only"):
        async with looks.look(5) as session:
            await session.connection.execute("create table public.written ()")


async def test_a_shared_value_that_takes_too_long_is_only_missing(
    database: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def count(session: Session, *_: Any, **__: Any) -> None:
        await session.connection.execute("select pg_sleep(3600)")

    monkeypatch.setattr(rows, "count_all", count)
    await database.execute("insert into inboxd.events (type, payload) values ('test.shown', '{}')")
    async with open_looks(settings.database, "screens", 3, _SLOW) as looks:
        async with looks.look(5) as session:  # its timeout ends the reading, not the client's
            with pytest.raises(asyncpg.QueryCanceledError):
                await count(session)
        async with _client(settings, looks) as client:
            with anyio.fail_after(30):
                page = await read(client, "/events")
            assert "Test shown" in page.text
