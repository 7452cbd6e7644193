"""A page or an action that takes too long is a page with a sentence, and changes nothing."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import anyio
import httpx
import pytest

from inboxd.admin.screens.application import Screens
from inboxd.admin.screens.screen import PageVisit, Screen, ScreenPage
from tests.screens.confirming import ask, confirm
from tests.screens.reading import Read, read
from tests.screens.test_acting import audit, fail
from tests.screens.visiting import visiting
from tests.support import Database
from tests.support.rows import daemon_session, send

pytestmark = pytest.mark.anyio

HTML = {"accept": "text/html"}


@asynccontextmanager
async def _audit_is_locked(database: Database) -> AsyncIterator[None]:
    async with daemon_session(database) as other, other.transaction():
        await other.connection.execute("lock table inboxd.audit in access exclusive mode")
        yield


async def test_a_statement_that_times_out_is_a_sentence(
    screens: httpx.AsyncClient, database: Database
) -> None:
    async with _audit_is_locked(database):
        answer = await screens.get("/audit", headers=HTML)
        assert answer.status_code == 503
        assert "Try again in a moment" in Read(answer.text).text
        told = await screens.get("/audit.json")
        assert (told.status_code, told.json()["title"]) == (503, "Service Unavailable")
        assert "There is nothing here yet" in (await read(screens, "/events")).text
    assert "No operator has acted yet." in (await read(screens, "/audit")).text


async def test_a_page_that_is_not_read_in_time_is_a_sentence(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(_: PageVisit) -> ScreenPage:
        await anyio.sleep_forever()
        raise AssertionError

    monkeypatch.setattr(Screens._guarded, "__defaults__", (0.5,))
    async with visiting(database, [Screen("/slow", never)]) as site, site.client() as client:
        answer = await client.get("/slow")
    assert answer.status_code == 503
    told = "Not read within 0.5 s: narrow the filter, or try again later."
    assert told in Read(answer.text).text


async def test_an_action_that_is_not_answered_in_time_changes_nothing_and_says_so(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    await send(database, 1)
    await fail(database, "commands")
    local = partial(visiting, database, local_role="operator")
    async with local() as site, site.client() as client:
        asked = await ask(client, "/act/commands/dismiss?id=1")
    monkeypatch.setattr("inboxd.admin.screens.acting.TIMEOUT", 0.5)
    async with _audit_is_locked(database), local() as site, site.client() as client:
        answer = await confirm(client, asked)
    assert answer.status_code == 503
    told = "Not answered within 0.5 s: check whether it was done before you try again."
    assert told in Read(answer.text).text
    assert await audit(database) == []
    assert await database.fetchval("select status from inboxd.commands") == "failed"
