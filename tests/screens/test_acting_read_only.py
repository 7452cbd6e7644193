"""While the database is read-only, the screens say so, offer no action, and recover by themselves.

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
def check_for_each_page(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check for each page whether the database is read-only."""
    monkeypatch.setattr("inboxd.admin.screens.writing._CHECK_SECONDS", 0.0)


async def _alter_database(database: Database, setting: str) -> None:
    name = await database.fetchval("select current_database()")
    await database.execute(f'alter database "{name}" {setting}')


async def test_no_action_is_offered_while_the_server_is_read_only(database: Database) -> None:
    await send(database, 1)
    async with visiting(database, users=[user("ada", "admin")]) as site, site.client() as client:
        await sign_in(client, "ada")
        asked = await ask(client, PATH)
        await _alter_database(database, "set default_transaction_read_only = on")
        page = await client.get("/commands/1")
        assert "The database is read-only now" in Read(page.text).text
        assert "/act/" not in page.text
        for answer in (await confirm(client, asked), await client.get(PATH)):
            assert (answer.status_code, "read-only now" in answer.text) == (503, True)
        # A poll of an open page brings the badge too.
        live = await client.get("/commands/1", headers={"x-revision": "another"})
        assert 'id="frozen"' in live.text
        await _alter_database(database, "reset default_transaction_read_only")
        page = await client.get("/commands/1")
        assert "read-only now" not in page.text
        assert PATH in page.text
        assert (await confirm(client, asked)).status_code == 303
    assert len(await audit(database)) == 1


@pytest.fixture
async def viewers_login(database: Database) -> AsyncIterator[Database]:
    """The database as a new login sees it that has the role viewer."""
    name = f"{database.name}_viewer"
    await database.execute(f"create role {name} login in role inboxd_viewer")
    parts = urlsplit(database.dsn)
    host = parts.netloc.rpartition("@")[2]
    yield replace(database, dsn=urlunsplit(parts._replace(netloc=f"{name}@{host}")))
    await database.execute(f"drop owned by {name}")
    await database.execute(f"drop role {name}")


@pytest.mark.direct("the pooler knows one role")
async def test_a_database_role_that_may_only_read_does_nothing(
    database: Database, viewers_login: Database
) -> None:
    await send(database, 1)
    users = [user("ada", "admin")]
    async with visiting(viewers_login, users=users) as site, site.client() as client:
        await sign_in(client, "ada")
        page = await client.get("/commands/1")
        assert "role in the database may only read" in page.text
        assert "/act/" not in page.text
        assert (await client.post(PATH, data={}, headers=SAME)).status_code == 400
        form = {"once": "0189c0de-0000-7000-8000-000000000000", "seen": ""}
        refused = await client.post(PATH, data=form, headers=SAME)
        assert (refused.status_code, "may only read" in refused.text) == (403, True)
    assert await audit(database) == []


async def test_a_reader_sees_no_banner_of_a_read_only_database(database: Database) -> None:
    await _alter_database(database, "set default_transaction_read_only = on")
    async with visiting(database, local_role="reader") as site, site.client() as client:
        assert "read-only now" not in (await client.get("/commands")).text


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
            await _alter_database(database, "set default_transaction_read_only = on")
            frozen = await client.get(f"/in/box{PATH.replace('1', '2')}")
            assert frozen.status_code == 503
    assert await audit(database) == [("shop ada", "cancel", "commands 1", None, 1)]


async def test_while_all_sessions_of_actions_are_taken_nothing_counts_as_read_only(
    database: Database,
) -> None:
    """Four of five forms hold all sessions of actions; pages read on other sessions."""
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


async def test_a_check_without_an_answer_in_time_changes_nothing(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    await send(database, 1)
    async with visiting(database, users=[user("ada", "admin")]) as site, site.client() as client:
        await sign_in(client, "ada")
        monkeypatch.setattr("inboxd.admin.screens.writing._ANSWER_SECONDS", 0.0)
        assert PATH in (await client.get("/commands/1")).text
        monkeypatch.undo()
        monkeypatch.setattr("inboxd.admin.screens.writing._CHECK_SECONDS", 0.0)
        await _alter_database(database, "set default_transaction_read_only = on")
        assert "read-only now" in (await client.get("/commands/1")).text
        monkeypatch.setattr("inboxd.admin.screens.writing._ANSWER_SECONDS", 0.0)
        assert "read-only now" in (await client.get("/commands/1")).text
