"""Where nothing can be changed the screens say so, offer and do nothing; and go on by themselves.

*See:* `test_process.py`, for a standby that is promoted.
"""

from collections.abc import AsyncIterator
from dataclasses import replace
from urllib.parse import urlsplit, urlunsplit

import anyio
import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.routing import Mount

from inboxd.admin.screens.mounted import MountedScreens, Role, Visitor
from inboxd.settings import Settings
from tests.screens.confirming import Asked, act, ask, confirm
from tests.screens.reading import Read
from tests.screens.test_acting import audit
from tests.screens.visiting import SAME, sign_in, user, visiting
from tests.support import Database
from tests.support.locks import lock_awaited
from tests.support.rows import send, settings_of

pytestmark = pytest.mark.anyio

PATH = "/act/commands/cancel?id=1"


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether it can be changed is asked for each page."""
    monkeypatch.setattr("inboxd.admin.screens.writing._SURE", 0.0)


async def _say(database: Database, setting: str) -> None:
    name = await database.fetchval("select current_database()")
    await database.execute(f'alter database "{name}" {setting}')


async def test_a_server_that_only_reads_is_obeyed_until_that_ends(database: Database) -> None:
    await send(database, 1)
    async with visiting(database, users=[user("ada", "admin")]) as site, site.client() as client:
        await sign_in(client, "ada")
        asked = await ask(client, PATH)
        await _say(database, "set default_transaction_read_only = on")
        page = await client.get("/commands/1")
        assert "The database only reads now" in Read(page.text).text
        assert "/act/" not in page.text
        for answer in (await confirm(client, asked), await client.get(PATH)):
            assert (answer.status_code, "only reads now" in answer.text) == (503, True)
        # The badge is a part of the page that is kept up to date.
        live = await client.get("/commands/1", headers={"x-revision": "another"})
        assert 'id="frozen"' in live.text
        await _say(database, "reset default_transaction_read_only")
        page = await client.get("/commands/1")
        assert "only reads now" not in page.text
        assert PATH in page.text
        assert (await confirm(client, asked)).status_code == 303
    assert len(await audit(database)) == 1


@pytest.fixture
async def looking(database: Database) -> AsyncIterator[Database]:
    """The same database, as a login sees it that may only look."""
    name = f"{database.name}_viewer"
    await database.execute(f"create role {name} login in role inboxd_viewer")
    parts = urlsplit(database.dsn)
    host = parts.netloc.rpartition("@")[2]
    yield replace(database, dsn=urlunsplit(parts._replace(netloc=f"{name}@{host}")))
    await database.execute(f"drop owned by {name}")
    await database.execute(f"drop role {name}")


@pytest.mark.direct("the pooler knows one role")
async def test_a_role_that_may_only_look_does_nothing(
    database: Database, looking: Database
) -> None:
    await send(database, 1)
    users = [user("ada", "admin")]
    async with visiting(looking, users=users) as site, site.client() as client:
        await sign_in(client, "ada")
        page = await client.get("/commands/1")
        assert "role in the database may only look" in page.text
        assert "/act/" not in page.text
        assert (await client.post(PATH, data={}, headers=SAME)).status_code == 400
        form = {"once": "0189c0de-0000-7000-8000-000000000000", "seen": ""}
        refused = await client.post(PATH, data=form, headers=SAME)
        assert (refused.status_code, "may only look" in refused.text) == (403, True)
    assert await audit(database) == []


async def test_who_is_no_operator_is_told_nothing_of_it(database: Database) -> None:
    await _say(database, "set default_transaction_read_only = on")
    async with visiting(database, local_role="reader") as site, site.client() as client:
        assert "only reads now" not in (await client.get("/commands")).text


async def test_mounted_screens_act_for_the_applications_visitors(database: Database) -> None:
    await send(database, 2)

    async def authenticate(request: Request) -> Visitor | None:
        name = request.headers.get("x-name")
        return Visitor(name, Role.OPERATOR, f"shop {name}") if name else None

    settings = Settings().model_copy(update={"database": settings_of(database)})
    async with MountedScreens(settings, authenticate) as screens:
        app = Starlette(routes=[Mount("/in/box", screens)])
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://shop.example") as client:
            path = f"/in/box{PATH}"
            assert (await client.get(path)).status_code == 403
            client.headers["x-name"] = "ada"
            asked = await ask(client, path)
            forged = await client.post(path, data=asked.form.fields)
            assert forged.status_code == 403
            assert await act(client, path) == "Cancelled: 1."
            await _say(database, "set default_transaction_read_only = on")
            frozen = await client.get(f"/in/box{PATH.replace('1', '2')}")
            assert frozen.status_code == 503
    assert await audit(database) == [("shop ada", "cancel", "commands 1", None, 1)]


async def test_while_all_sessions_of_actions_are_taken_nothing_counts_as_read_only(
    database: Database,
) -> None:
    """Five wait for one row: four have the sessions, which the page that is looked at needs not."""
    await send(database, 1)
    async with (
        visiting(database, users=[user("ada", "admin")]) as site,
        site.client() as client,
        database.connect() as other,
    ):
        await sign_in(client, "ada")
        asked = [await ask(client, PATH) for _ in range(5)]
        statuses: list[int] = []

        async def send_form(form: Asked) -> None:
            statuses.append((await confirm(client, form)).status_code)

        async with anyio.create_task_group() as tasks, other.transaction():
            await other.execute("select from inboxd.commands where id = 1 for update")
            for each in asked:
                tasks.start_soon(send_form, each)
            await lock_awaited(database, 4)
            page = await client.get("/commands/1")
            assert PATH in page.text
            assert 'id="frozen"' not in page.text
        assert sorted(statuses) == [303, 409, 409, 409, 409]


async def test_an_answer_that_does_not_come_in_time_is_none(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    await send(database, 1)
    async with visiting(database, users=[user("ada", "admin")]) as site, site.client() as client:
        await sign_in(client, "ada")
        monkeypatch.setattr("inboxd.admin.screens.writing._ASKS", 0.0)
        assert PATH in (await client.get("/commands/1")).text
        monkeypatch.undo()
        monkeypatch.setattr("inboxd.admin.screens.writing._SURE", 0.0)
        await _say(database, "set default_transaction_read_only = on")
        assert "only reads now" in (await client.get("/commands/1")).text
        monkeypatch.setattr("inboxd.admin.screens.writing._ASKS", 0.0)
        assert "only reads now" in (await client.get("/commands/1")).text
