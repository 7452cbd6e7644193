"""Editing a waiting command: the page shows the changes, and refuses if a worker was first."""

import json
from collections.abc import AsyncIterator

import httpx
import pytest

from tests.screens.confirming import ReadForm, ask, confirm
from tests.screens.reading import Read
from tests.screens.test_acting import audit
from tests.screens.visiting import SAME, Visited, sign_in, user, visiting
from tests.support import Database
from tests.support.verdicts import safety

pytestmark = pytest.mark.anyio

PATH = "/act/commands/edit?id=1"
EXACT = '{"big": 12345678901234567890123, "long": 0.10000000000000000001}'


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


async def _waits(database: Database, payload: str = '{"n": 1}') -> None:
    await database.execute(
        "insert into inboxd.commands (type, payload, run_at)"
        " values ('a.do', $1::text::jsonb, '2030-01-01T03:00:00Z')",
        payload,
    )


async def test_an_edit_shows_its_changes_before_it_is_done(
    database: Database, ada: httpx.AsyncClient
) -> None:
    await _waits(database)
    assert PATH in (await ada.get("/commands/1")).text
    asked = await ask(ada, PATH)
    assert "inboxd commands edit 1" in asked.text
    assert asked.form.fields["at"] == "2030-01-01T03:00:00Z"
    shown = await confirm(ada, asked, payload='{"n": 2}', at="2030-01-02T03:00Z", priority="-5")
    assert shown.status_code == 200
    assert "<del>-   &#34;n&#34;: 1" in shown.text
    assert "<ins>+   &#34;n&#34;: 2" in shown.text
    for text in ("2030-01-01 03:00:00", "2030-01-02 03:00:00", "-5"):
        assert text in Read(shown.text).text
    assert await audit(database) == []
    form = ReadForm(shown.text)
    other = await ada.post(form.action, data=form.fields | {"priority": "-6"}, headers=SAME)
    assert (other.status_code, "Changes" in other.text) == (200, True), "-6 was not shown"
    done = await ada.post(form.action, data=form.fields | {"reason": "mended"}, headers=SAME)
    assert done.headers["location"] == "/commands/1"
    assert "Edited: 3 fields." in (await ada.get("/commands/1")).text
    (row,) = await database.fetch("select payload::text, run_at, priority from inboxd.commands")
    assert (json.loads(row["payload"]), row["priority"]) == ({"n": 2}, -5)
    assert f"{row['run_at']:%Y-%m-%dT%H:%M}" == "2030-01-02T03:00"
    assert await audit(database) == [
        (
            "user ada",
            "edit to another payload, 2030-01-02T03:00:00Z, priority -5",
            "commands 1",
            "mended",
            1,
        )
    ]


async def test_a_relative_time_is_fixed_when_it_is_shown(
    database: Database, ada: httpx.AsyncClient
) -> None:
    await _waits(database)
    shown = ReadForm((await confirm(ada, await ask(ada, PATH), at="2h")).text)
    fixed = shown.fields["at"]
    assert fixed.startswith("20")
    assert (await ada.post(shown.action, data=shown.fields, headers=SAME)).status_code == 303
    run_at = await database.fetchval("select run_at from inboxd.commands")
    assert f"{run_at:%Y-%m-%dT%H:%M:%SZ}" == fixed


async def test_a_command_is_not_edited_once_a_worker_has_it(
    database: Database, ada: httpx.AsyncClient
) -> None:
    """A worker takes it between page and click; once started, its payload is never edited."""
    await _waits(database)
    shown = ReadForm((await confirm(ada, await ask(ada, PATH), payload="[]")).text)
    await database.execute(
        "update inboxd.commands set status = 'running', fence = 1, worker_id = gen_random_uuid(),"
        " updated_at = clock_timestamp()"
    )
    late = await ada.post(shown.action, data=shown.fields, headers=SAME)
    with safety():
        assert late.status_code == 409
        assert "1 is running: only pending or waiting can be edited" in Read(late.text).text
        assert await database.fetchval("select payload::text from inboxd.commands") == '{"n": 1}'
        assert await audit(database) == []
    await database.execute(
        "update inboxd.commands set status = 'pending', worker_id = null,"
        " updated_at = clock_timestamp()"
    )
    asked = await ask(ada, PATH)
    assert "A worker has started it before" in asked.text
    assert "payload" not in asked.form.fields
    late = await ada.post(shown.action, data=shown.fields, headers=SAME)
    with safety():
        assert late.status_code != 303
        assert await database.fetchval("select payload::text from inboxd.commands") == '{"n": 1}'
    form = ReadForm((await confirm(ada, asked, priority="7")).text)
    assert (await ada.post(form.action, data=form.fields, headers=SAME)).status_code == 303


async def test_one_of_two_simultaneous_edits_is_refused(
    database: Database, site: Visited, ada: httpx.AsyncClient
) -> None:
    await _waits(database)
    mine = ReadForm((await confirm(ada, await ask(ada, PATH), payload='{"n": 2}')).text)
    yours = ReadForm((await confirm(ada, await ask(ada, PATH), payload='{"n": 3}')).text)
    assert (await ada.post(mine.action, data=mine.fields, headers=SAME)).status_code == 303
    late = await ada.post(yours.action, data=yours.fields, headers=SAME)
    with safety():
        assert (late.status_code, "changed it meanwhile" in late.text) == (409, True)
        assert await database.fetchval("select payload::text from inboxd.commands") == '{"n": 2}'
        assert len(await audit(database)) == 1
    async with site.client() as bob:
        await sign_in(bob, "bob")
        assert "/act/commands/edit" not in (await bob.get("/commands/1")).text
        assert (await bob.get(PATH)).status_code == 403


async def test_an_invalid_edit_is_asked_for_again(
    database: Database, ada: httpx.AsyncClient
) -> None:
    await _waits(database, EXACT)
    asked = await ask(ada, PATH)
    assert "12345678901234567890123" in asked.form.fields["payload"]
    for typed, told in (
        ({"payload": '{"n": 1,}'}, "not valid JSON"),
        ({"at": "<b>soon"}, "&lt;b&gt;soon"),
        ({"priority": "99999"}, "priority 99999"),
        ({"priority": "much"}, "is not a valid priority"),
    ):
        refused = await confirm(ada, asked, **typed)
        assert (refused.status_code, told in refused.text) == (400, True), typed
        (name, value) = next(iter(typed.items()))
        assert ReadForm(refused.text).fields[name].strip() == value
    same = await confirm(ada, asked)
    assert "Nothing would change: it stays as it is." in Read(same.text).text
    large = await confirm(ada, asked, payload='"' + "x" * 300_000 + '"')
    assert large.status_code == 413
    assert await audit(database) == []
