"""Archived failure groups: hidden until they grow; and replay of a group's rows."""

import sys
from collections.abc import AsyncIterator

import httpx
import pytest

from tests.screens.confirming import act, ask, confirm
from tests.screens.reading import read
from tests.screens.test_acting import audit
from tests.screens.visiting import Visited, sign_in, user, visiting
from tests.support import Database
from tests.support.verdicts import safety

pytestmark = pytest.mark.anyio

ARCHIVE = "/act/failures/archive?group=g1"


@pytest.fixture
async def site(database: Database) -> AsyncIterator[Visited]:
    users = [user("ada", "admin"), user("bob", "operator")]
    async with visiting(database, users=users) as site:
        yield site


@pytest.fixture
async def ada(site: Visited) -> AsyncIterator[httpx.AsyncClient]:
    async with site.client() as client:
        await sign_in(client, "ada")
        yield client


async def _die(database: Database, count: int, group: str = "g1") -> None:
    await database.execute(
        "insert into inboxd.commands (type, status, fingerprint, errors)"
        """ select 'mail.send', 'failed', $2, '[{"error": "no such mailbox"}]'"""
        " from generate_series(1, $1)",
        count,
        group,
    )


async def _listed(client: httpx.AsyncClient, query: str = "") -> list[tuple[str, int]]:
    found = (await client.get(f"/failures.json{query}")).json()["groups"]
    return [(each["fingerprint"], each["count"]) for each in found]


async def test_an_archived_group_is_left_out_until_it_grows(
    database: Database, ada: httpx.AsyncClient
) -> None:
    await _die(database, 3)
    await _die(database, 1, "g2")
    told = await act(ada, ARCHIVE, reason="mended on Monday")
    assert told == "Archived: failure group g1."
    assert await _listed(ada) == [("g2", 1)]
    assert await _listed(ada, "?archived=1") == [("g1", 3)]
    page = await read(ada, "/failures?archived=1")
    for text in ("mended on Monday", "by user ada", "inboxd failures list --archived"):
        assert text in page.text
    assert "/failures/g1" not in (await read(ada, "/")).links
    shown = await read(ada, "/failures/g1")
    assert "mended on Monday" in shown.text
    assert "Unarchive" in shown.text
    await database.execute(
        "delete from inboxd.commands where id = (select min(id) from inboxd.commands)"
    )
    assert await _listed(ada) == [("g2", 1)], "the group has shrunk"
    await _die(database, 1)
    with safety():
        assert await _listed(ada) == [("g1", 3), ("g2", 1)], "the group has a newer row"
        assert await _listed(ada, "?archived=1") == []
    assert "/failures/g1" in (await read(ada, "/")).links
    assert await audit(database) == [("user ada", "archive", "failures g1", "mended on Monday", 3)]


async def test_a_group_that_is_not_counted_in_full_says_what_lists_it_again(
    database: Database, ada: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules["inboxd.operations.failures"], "COUNTED_EACH", 2)
    await _die(database, 3)
    newer = "It has more rows than are counted: a newer row lists it again"
    assert newer in (await ask(ada, ARCHIVE)).text
    await act(ada, ARCHIVE)
    assert newer in (await read(ada, "/failures/g1")).text
    await _die(database, 1)
    assert await _listed(ada) == [("g1", 2)]


async def test_an_unarchived_group_is_listed_again(
    database: Database, ada: httpx.AsyncClient
) -> None:
    await _die(database, 2)
    await act(ada, ARCHIVE)
    again = await ada.get(ARCHIVE)
    assert (again.status_code, "archived already" in again.text) == (409, True)
    told = await act(ada, "/act/failures/unarchive?group=g1")
    assert told == "Listed again: failure group g1."
    assert await _listed(ada) == [("g1", 2)]
    none = await ada.get("/act/failures/unarchive?group=g1")
    assert (none.status_code, "not archived" in none.text) == (409, True)
    unknown = await ada.get("/act/failures/archive?group=zz")
    assert unknown.status_code == 404
    assert [line[1:3] for line in await audit(database)] == [
        ("archive", "failures g1"),
        ("unarchive", "failures g1"),
    ]


async def test_a_group_that_has_grown_since_it_was_shown_is_not_archived(
    database: Database, ada: httpx.AsyncClient
) -> None:
    await _die(database, 2)
    asked = await ask(ada, ARCHIVE)
    await _die(database, 1)
    late = await confirm(ada, asked)
    with safety():
        assert (late.status_code, "has grown or shrunk" in late.text) == (409, True)
        main = late.text.partition('id="refused"')[2].partition("</section>")[0]
        assert "#icon-error" in main, "a conflict is shown as one"
        assert await _listed(ada) == [("g1", 3)]
        assert await audit(database) == []


async def test_an_operator_replays_the_rows_of_a_group(database: Database, site: Visited) -> None:
    await _die(database, 3)
    async with site.client() as client:
        await sign_in(client, "bob")
        page = await read(client, "/failures/g1")
        (these,) = [link for link in page.links if link.startswith("/act/commands/replay?")]
        assert await act(client, these, reason="mended") == "Replayed: 3 run again."
        assert await _listed(client) == []
    assert await audit(database) == [("user bob", "replay", "commands 1, 2, 3", "mended", 3)]
