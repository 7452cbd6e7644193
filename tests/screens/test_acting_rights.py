"""Rights to act: roles, tenants, forged forms; a refused form changes nothing."""

import re
from collections.abc import AsyncIterator

import pytest

from inboxd.admin.screens.actions import ACTIONS
from inboxd.admin.screens.roles import Role
from inboxd.model.lineage import uuid7
from tests.screens.confirming import ask, confirm
from tests.screens.reading import Read
from tests.screens.test_acting import audit
from tests.screens.visiting import ADA, SAME, TOKENS, Visited, sign_in, user, visiting
from tests.support import Database
from tests.support.rows import emit, send

pytestmark = pytest.mark.anyio

# The role of each action that asks for another role than operator.
ROLES = dict.fromkeys(
    (
        *("/act/commands/replay-with", "/act/commands/edit", "/act/unsubscribe"),
        *("/act/emit", "/act/send", "/act/erase", "/act/webhooks/replay"),
        *("/act/schedules/add", "/act/schedules/change", "/act/schedules/remove"),
        *(each.path for each in ACTIONS if each.path.endswith("-all")),
        *("/act/action/resume", "/act/spool/discard", "/act/spool/discard-folder"),
        *(f"/act/endpoint/{verb}" for verb in ("add", "change", "remove", "rotate")),
    ),
    Role.ADMIN,
)
# An address of each action, with its query.
ABOUT = {
    "/act/pause": "?kind=queue&name=default",
    "/act/resume": "?kind=queue&name=default",
    "/act/flush": "?topic=a",
    "/act/unsubscribe": "?topic=a",
    "/act/run": "?schedule=a",
    "/act/schedules/add": "",
    "/act/schedules/change": "?schedule=a",
    "/act/schedules/remove": "?schedule=a",
    "/act/breaker": "?name=a&mode=open",
    **{each.path: "?name=a&id=1" for each in ACTIONS if each.path.startswith("/act/endpoint/")},
    **{each.path: "?host=node&name=1" for each in ACTIONS if each.path.startswith("/act/spool/")},
    "/act/failures/archive": "?group=f1",
    "/act/failures/unarchive": "?group=f1",
    "/act/stream/reset": "?source=a&stream=b",
    "/act/emit": "",
    "/act/send": "",
    "/act/erase": "?tenant=nobody",
    **{each.path: "?type=a.b" for each in ACTIONS if each.path.endswith("-all")},
    **{f"/act/action/{verb}": "?action=1" for verb in ("pause", "resume", "abort")},
}
FORGED: list[dict[str, str]] = [
    {},
    {"sec-fetch-site": "cross-site"},
    {"sec-fetch-site": "same-site", "origin": "http://localhost:8799"},
    {"sec-fetch-site": "none"},
    {"origin": "http://evil.example"},
    {"origin": "null"},
    {"sec-fetch-site": "cross-site", "origin": "http://localhost:8799"},
]


def _addresses() -> list[str]:
    return [f"{each.path}{ABOUT.get(each.path, '?id=1')}" for each in ACTIONS]


def _fields() -> dict[str, str]:
    return {"once": str(uuid7()), "seen": "", "reason": "why", "at": "now", "priority": "1"}


@pytest.fixture
async def site(database: Database) -> AsyncIterator[Visited]:
    await send(database, 1)
    await emit(database, 1)
    users = [user(each.name.lower(), each.name.lower()) for each in Role]
    async with visiting(database, users=users) as site:
        yield site


async def test_each_action_asks_for_its_role_by_get_and_by_post(
    site: Visited, database: Database
) -> None:
    for each in ACTIONS:
        assert each.role == ROLES.get(each.path, Role.OPERATOR), each.path
    async with site.client() as stranger:
        for path in _addresses():
            for answer in (
                await stranger.get(path),
                await stranger.post(path, data=_fields(), headers=SAME),
            ):
                assert answer.headers["location"].startswith("/sign-in?to=/act/"), path
    for role in Role:
        async with site.client() as client:
            await sign_in(client, role.name.lower())
            for path, action in zip(_addresses(), ACTIONS, strict=True):
                asked = await client.get(path)
                assert (asked.status_code == 403) == (role < action.role), (path, role)
                assert asked.status_code < 500, (path, role)
                if role < action.role:
                    sent = await client.post(path, data=_fields(), headers=SAME)
                    assert (sent.status_code, "the role" in sent.text) == (403, True)
    assert await audit(database) == []


async def test_only_allowed_actions_are_offered(site: Visited) -> None:
    for role in Role:
        async with site.client() as client:
            await sign_in(client, role.name.lower())
            offered = set[str]()
            for page in ("/commands/1", "/commands", "/queues/default", "/events", "/audit"):
                offered |= set(re.findall(r"/act/[a-z/-]+", (await client.get(page)).text))
            allowed = {each.path for each in ACTIONS if role >= each.role}
            assert offered <= allowed
            assert bool(offered) == (role >= Role.OPERATOR)


async def test_a_form_of_another_site_does_nothing(site: Visited, database: Database) -> None:
    async with site.client() as client:
        await sign_in(client, "admin")
        for forged in FORGED:
            for path in _addresses():
                answer = await client.post(path, data=_fields(), headers=forged)
                assert (answer.status_code, "another site" in answer.text) == (403, True)
        asked = await ask(client, "/act/commands/cancel?id=1")
        own = {"origin": "http://localhost:8799"}
        done = await client.post(asked.form.action, data=asked.form.fields, headers=own)
        assert done.status_code == 303
    assert len(await audit(database)) == 1


async def test_a_cookie_of_another_secret_is_not_accepted(
    site: Visited, database: Database
) -> None:
    admin = user("admin", "admin")
    async with visiting(database, users=[admin]) as other, other.client() as client:
        await sign_in(client, "admin")
        cookies = dict(client.cookies)
    async with site.client() as client:
        client.cookies.update(cookies)
        sent = await client.post("/act/commands/cancel?id=1", data=_fields(), headers=SAME)
        assert sent.headers["location"] == "/sign-in?to=/act/commands/cancel%3Fid%3D1"
        # The cookie of a result counts only for the visitor that it is signed for.
        client.cookies.set("inboxd_told", cookies.get("inboxd_session", "x"))
        assert 'id="told"' not in (await client.get("/sign-in")).text
    assert await audit(database) == []


async def test_a_malformed_form_is_refused_with_a_sentence(
    site: Visited, database: Database
) -> None:
    path = "/act/commands/cancel?id=1"
    async with site.client() as client:
        await sign_in(client, "operator")
        for fields, status in (
            ({}, 400),
            ({"once": "x"}, 400),
            ({"once": str(uuid7())}, 409),  # the form lacks the row's state
            ({**_fields(), "reason": "r" * 1001}, 400),
            ({**_fields(), "reason": "a\0b"}, 400),
            ({**_fields(), "reason": "r" * 20_000}, 413),
        ):
            answer = await client.post(path, data=fields, headers=SAME)
            assert answer.status_code == status, (fields, Read(answer.text).text)
        for query in ("", "?id=x", "?id=1&id=" + "&id=".join(map(str, range(2, 503)))):
            answer = await client.get(f"/act/commands/cancel{query}")
            assert answer.status_code == 400
        assert (await client.get("/act/commands/cancel?id=999")).status_code == 404
        assert (await client.put(path)).status_code == 405
    assert await audit(database) == []


async def test_a_visitor_of_certain_tenants_acts_on_their_rows_alone(database: Database) -> None:
    await database.execute(
        "insert into inboxd.commands (type, tenant, unique_key, status) values"
        " ('ours', 'acme', null, 'failed'), ('theirs', 'zeta', 'canary', 'failed')"
    )
    users = [{**user("eve", "admin"), "tenants": ["acme"]}, user("ada", "admin")]
    async with visiting(database, users=users) as site, site.client() as client:
        await sign_in(client, "eve")
        for each in ACTIONS:
            if each.for_tenants:
                continue
            path = f"{each.path}{ABOUT.get(each.path, '?id=1')}"
            for answer in (
                await client.get(path),
                await client.post(path, data=_fields(), headers=SAME),
            ):
                assert (answer.status_code, "all tenants" in answer.text) == (403, True), path
        uuid = await database.fetchval("select command_id from inboxd.commands where id = 2")
        missing = await client.get("/act/commands/replay?id=999")
        for theirs in ("id=2", f"id={uuid}", "id=1&id=2"):
            path = f"/act/commands/replay?{theirs}"
            for answer in (
                await client.get(path),
                await client.post(path, data=_fields(), headers=SAME),
            ):
                assert answer.status_code == missing.status_code == 404
                assert "zeta" not in answer.text
                assert "canary" not in answer.text
        asked = await ask(client, "/act/commands/replay?id=1")
        await database.execute(
            "update inboxd.commands set type = 'ours', status = 'pending'"
            " where id = 2; update inboxd.commands set unique_key = 'canary' where id = 1"
        )
        taken = await confirm(client, asked)
        assert (taken.status_code, "cannot be replayed now" in taken.text) == (409, True)
        for other in ("zeta", "canary", "another", "unique key", "batch"):
            assert other not in Read(taken.text).text
        await database.execute("delete from inboxd.commands where id = 2")
        assert (await confirm(client, asked)).status_code == 303
    assert await audit(database) == [("user eve", "replay", "commands 1", None, 1)]


async def test_a_token_acts_by_the_api_not_by_forms(database: Database) -> None:
    await send(database, 1)
    async with (
        visiting(database, tokens=TOKENS) as site,
        site.client(authorization=f"Bearer {ADA}") as client,
    ):
        path = "/act/commands/cancel?id=1"
        assert (await client.get(path)).status_code == 200
        assert (await client.post(path, data=_fields())).status_code == 403
    assert await audit(database) == []


async def test_an_unknown_host_name_does_nothing(site: Visited, database: Database) -> None:
    """DNS rebinding: the page of another site reaches the screens by its own host name."""
    async with site.client("http://evil.example") as client:
        for path in _addresses():
            sent = await client.post(path, data=_fields(), headers=SAME)
            assert sent.status_code == 403
    assert await audit(database) == []


async def test_each_page_names_its_command_and_json_and_shows_admins_the_sql(site: Visited) -> None:
    """SQL is shown with placeholders, without any value of the visit."""
    for role in (Role.OPERATOR, Role.ADMIN):
        async with site.client() as client:
            await sign_in(client, role.name.lower())
            page = (await client.get("/commands?type=canary&limit=50")).text
            assert "inboxd commands list --type canary" in page
            assert 'href="/commands.json?type=canary&amp;limit=50"' in page
            page = (await client.get("/commands?type=canary&sql=1")).text
            _, _, sql = page.partition("These SQL statements read the page")
            assert ("inboxd.commands_history" in sql) == (role == Role.ADMIN)
            assert "canary" not in sql
            assert 'href="/index.json"' in (await client.get("/")).text
