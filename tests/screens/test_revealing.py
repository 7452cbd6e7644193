"""With audit_payloads an audit entry is written before contents are shown."""

import pytest

from tests.screens.confirming import act
from tests.screens.reading import Read
from tests.screens.visiting import ADA, TOKENS, Visited, sign_in, user, visiting
from tests.support import Database
from tests.support.rows import emit, send

pytestmark = pytest.mark.anyio

_LINES = "select actor, action, target, count from inboxd.audit order by id"


async def _lines(database: Database) -> list[tuple[object, ...]]:
    return [tuple(each) for each in await database.fetch(_LINES)]


async def test_each_view_of_contents_is_an_audit_entry(database: Database) -> None:
    [command] = await send(database, 1)
    [event] = await emit(database, 1)
    uuid = await database.fetchval("select event_id from inboxd.events")
    users = [user("ada", "reader"), user("eve")]
    async with visiting(database, audit_payloads=True, users=users, tokens=TOKENS) as site:
        async with site.client() as client:
            await sign_in(client, "ada")
            assert (await client.get(f"/commands/{command}")).status_code == 200
            assert (await client.get(f"/commands/{command}?payload=1")).status_code == 200
            assert (await client.get(f"/events/{event}.json?payload=1")).status_code == 200
            assert (await client.get(f"/events/{uuid}?payload=1")).status_code == 307
            assert (await client.get("/events/99?payload=1")).status_code == 404
        async with site.client() as client:
            await sign_in(client, "eve")
            assert (await client.get(f"/commands/{command}?payload=1")).status_code == 403
        async with site.client(authorization=f"Bearer {ADA}") as client:
            assert (await client.get(f"/api/events/{uuid}?payload=true")).status_code == 200
            assert (await client.get(f"/api/events/{uuid}?payload=false")).status_code == 200
    assert await _lines(database) == [
        ("user ada", "view", f"commands {command}", 1),
        ("user ada", "view", f"events {event}", 1),
        ("token ada", "view", f"events {event}", 1),
    ]


async def test_a_form_that_shows_contents_is_a_view_of_them(database: Database) -> None:
    [waiting, dead] = await send(database, 2)
    await database.execute(
        "update inboxd.commands set status = 'failed', attempts = 1, fingerprint = 'f'"
        " where id = $1",
        dead,
    )
    await database.execute(
        "insert into inboxd.declared_types (kind, type, queue) values ('command', 'a.b', 'default')"
    )
    users = [user("ada", "admin")]
    async with visiting(database, audit_payloads=True, users=users) as site, site.client() as ada:
        await sign_in(ada, "ada")
        await act(ada, "/act/schedules/add", name="nightly", cron="0 3 * * *", type="a.b")
        for path in (
            f"/act/commands/edit?id={waiting}",
            f"/act/commands/replay-with?id={dead}",
            "/act/schedules/change?schedule=nightly",
        ):
            assert (await ada.get(path)).status_code == 200, path
    views = [line for line in await _lines(database) if line[1] == "view"]
    assert views == [
        ("user ada", "view", f"commands {waiting}", 1),
        ("user ada", "view", f"commands {dead}", 1),
        ("user ada", "view", "schedule nightly", 1),
    ]


async def test_viewed_contents_are_listed_on_the_audit_page(database: Database) -> None:
    [command] = await send(database, 1)
    users = [user("ada", "reader")]
    async with visiting(database, audit_payloads=True, users=users) as site, site.client() as ada:
        await sign_in(ada, "ada")
        await ada.get(f"/commands/{command}?payload=1")
        for query in ("action=view", f"target=commands+{command}", "actor=ada"):
            listed = Read((await ada.get(f"/audit?{query}")).text).text
            assert "user ada" in listed, query
            assert f"commands {command}" in listed, query


async def test_a_filter_that_is_left_empty_asks_for_no_contents(database: Database) -> None:
    """A browser sends the empty fields of a list's form too."""
    [event] = await emit(database, 1, note="not to be seen")
    users = [user("eve"), user("ada", "reader")]
    async with visiting(database, audit_payloads=True, users=users) as site:
        async with site.client() as client:
            await sign_in(client, "ada")
            for path in (f"/events/{event}", f"/events/{event}.json"):
                shown = await client.get(f"{path}?payload=&raw=")
                assert (shown.status_code, "not to be seen" in shown.text) == (200, False)
        await _look_as_a_viewer(site)
    assert await _lines(database) == []


async def _look_as_a_viewer(site: Visited) -> None:
    async with site.client() as client:
        await sign_in(client, "eve")
        listed = await client.get("/events?type=&payload=&status=pending")
        assert listed.status_code == 200
        assert "data-revision" in listed.text  # the page refreshes itself, as each list does
        for asked in ("payload=%7B%7D", "payload=&payload=1", "headers=0"):
            assert (await client.get(f"/events?{asked}")).status_code == 403


async def test_viewed_contents_are_not_audited_by_default(database: Database) -> None:
    [command] = await send(database, 1)
    async with visiting(database, local_role="reader") as site, site.client() as client:
        assert (await client.get(f"/commands/{command}?payload=1")).status_code == 200
    assert await _lines(database) == []


async def test_contents_are_not_shown_if_no_audit_entry_can_be_written(database: Database) -> None:
    [command] = await send(database, 1, canary="a-canary")
    [event] = await emit(database, 1, canary="a-canary")
    admin = {"audit_payloads": True, "tokens": TOKENS}
    async with visiting(database, **admin) as site:
        async with database.connect() as connection:
            await connection.execute(
                "alter table inboxd.audit add constraint audit_check check (false) not valid"
            )
        async with site.client(authorization=f"Bearer {ADA}") as client:
            for path in (
                f"/commands/{command}?payload=1",
                f"/events/{event}.json?payload=1",
                f"/api/events/{event}?payload=1",
            ):
                refused = await client.get(path)
                assert refused.status_code == 503, path
                assert "audit_payloads of [admin] requires an audit entry" in refused.text
                assert "a-canary" not in refused.text
        async with database.connect() as connection:
            await connection.execute("alter table inboxd.audit drop constraint audit_check")
