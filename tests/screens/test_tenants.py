"""Users of certain tenants see rows of no other tenant, on each page and with each query.

Rows of the other tenant have `canary` in every field; rows of their own say `ours`.
"""

import re
from collections.abc import Iterator
from html import unescape
from typing import Any
from urllib.parse import quote

import pytest

from inboxd.admin.screens.pages import SCREENS
from inboxd.admin.screens.roles import Role
from tests.screens.visiting import sign_in, user, visiting
from tests.support import Database
from tests.support.bulk_actions import ordered

pytestmark = pytest.mark.anyio

# Pages for users of certain tenants; each other page refuses them.
FOR_TENANTS = {
    *("/", "/events", "/commands", "/events/{id}", "/commands/{id}"),
    *("/actions", "/actions/{id}"),
}
FILTERS = (
    "",
    "?status=failed",
    "?status=pending&limit=100",
    "?type=canary.event",
    "?type=canary.command",
    "?queue=canary-queue",
    "?topic=canary-topic",
    "?entity=canary-thing",
    "?entity=canary-thing:canary-1",
    "?error=went",
    "?since=2h",
    "?span=day",
    "?span=week",
    "?span=quarter",
    "?below=9",
)
CONTENTS = ("?payload=1", "?raw=1", "?headers=1", "?result=1")


async def _fill(database: Database) -> None:
    """Rows of two tenants, created by rows of the other tenant and replaying them."""
    for tenant, mark in (("acme", "ours"), ("zeta", "canary")):
        for _ in range(2):
            await database.execute(
                "insert into inboxd.events (topic, type, tenant, entity_type, entity_id,"
                " payload, headers, correlation_id, source, dedup_key)"
                " values ($1 || '-topic', $1 || '.event', $2, $1 || '-thing',"
                " $1 || '-1', jsonb_build_object('of', $1), jsonb_build_object('by', $1),"
                " $1 || '-story', $1 || '-source', $1 || gen_random_uuid())",
                *(mark, tenant),
            )
            await database.execute(
                "insert into inboxd.commands (queue, type, tenant, entity_type, entity_id, payload,"
                " correlation_id, unique_key, origin_kind, origin_id, causation_id, result,"
                " progress) select $1 || '-queue', $1 || '.command', $2, $1 || '-thing',"
                " $1 || '-1', jsonb_build_object('of', $1), $1 || '-story',"
                " $1 || gen_random_uuid(), 'event', id, event_id, jsonb_build_object('of', $1),"
                " jsonb_build_object('of', $1)"
                " from inboxd.events where tenant = 'acme' order by id limit 1",
                *(mark, tenant),
            )
        for table in ("events", "commands"):
            await database.execute(
                f"update inboxd.{table} set status = 'failed', attempts = 1, errors = $2"
                f" where id = (select max(id) from inboxd.{table} where tenant = $1)",
                *(tenant, f'[{{"error": "{mark} went wrong", "attempt": 1}}]'),
            )
    await database.execute(
        "insert into inboxd.events (topic, type, payload)"
        " values ('canary-topic', 'canary.event', '\"canary of nobody\"')"
    )
    await database.execute(
        "update inboxd.commands set replay_of = (select min(id) from inboxd.commands)"
        " where tenant = 'zeta'"
    )
    await ordered(database, actor="canary", reason="canary", tenants=["zeta"])
    await ordered(database, actor="canary", reason="canary", tenants=None)
    await database.execute(
        "insert into inboxd.breakers (name, mode, state, reason, uses) values ('canary', 'auto',"
        " 'closed', 'canary is down', '{command ours.command, event ours.event}'), ('canary-2',"
        " 'open', 'closed', 'canary is down', '{command ours.command, event ours.event}')"
    )
    await database.execute(
        "insert into inboxd.audit (at, actor, action, target, reason, count) values"
        " (now() - interval '2 h', 'canary', 'pause', 'type ours.event', 'canary', 1);"
        "insert into inboxd.breaker_changes (at, name, state) values"
        " (now() - interval '2 h', 'canary', 'open')"
    )
    await database.execute(
        "insert into inboxd.controls (kind, name, actor, reason) values"
        " ('type', 'ours.event', 'canary', 'canary'), ('type', 'ours.command', 'canary', 'canary')"
    )
    await database.execute(
        "insert into inboxd.stats_series (kind, lane, type, outcome, after) values"
        " ('event', 'x', 'ours.event', 'succeeded', ''),"
        " ('event', 'x', 'canary.event', 'succeeded', '')"
    )
    for part in ("hours", "days"):
        await database.execute(
            f"insert into inboxd.stats_tenant_{part} (tenant, at, series, count)"
            f" select case type when 'ours.event' then 'acme' else 'zeta' end,"
            f" date_trunc('{part[:-1]}', now()), id, 7 from inboxd.stats_series"
        )


def _paths(ids: list[Any]) -> Iterator[tuple[str, str]]:
    """Each page of the router as HTML and as JSON, for each id and uuid."""
    for screen in SCREENS:
        for id_ in ids if "{" in screen.path else [""]:
            path = re.sub(r"\{kind\}", "command", screen.path)
            path = re.sub(r"\{[^}]+\}", str(id_), path)
            yield screen.path, path
            yield screen.path, f"{path.rstrip('/') or '/index'}.json"


@pytest.mark.timeout(300)
async def test_role_by_route_by_tenant_nothing_of_another_tenant_shows(database: Database) -> None:
    await _fill(database)
    ids = {
        table: [
            each
            for row in await database.fetch(f"select id, {table[:-1]}_id from inboxd.{table}")
            for each in row.values()
        ]
        for table in ("events", "commands")
    }
    users = [{**user(each.name.lower(), each.name.lower()), "tenants": ["acme"]} for each in Role]
    rows = [*ids["events"], *ids["commands"], 999]
    seen: set[str] = set()
    async with visiting(database, users=users) as site:
        for role in Role:
            async with site.client() as client:
                await sign_in(client, role.name.lower())
                for page, path in _paths(rows):
                    queries = [*FILTERS, *CONTENTS] if page in ("/events", "/commands") else [""]
                    if page.endswith("/{id}") and role >= Role.READER:
                        queries = ["", *CONTENTS]
                    for query in queries:
                        answer = await client.get(f"{path}{query}")
                        _shows_nothing(answer.text, path, query)
                        assert answer.status_code < 500, (path, query)
                        if page not in FOR_TENANTS:
                            assert answer.status_code == 403, (path, role)
                            assert "shows all tenants" in answer.text
                        elif "ours went wrong" in answer.text:
                            seen.add(page)
                for table in ("events", "commands"):
                    listed = (await client.get(f"/{table}.json?limit=100")).json()[table]
                    assert {row["tenant"] for row in listed} == {"acme"}
                    assert len(listed) == 2
    assert {"/events/{id}", "/commands/{id}"} <= seen, "their own rows are shown"


def _shows_nothing(text: str, path: str, query: str) -> None:
    """A page repeats the query in fields, links and command lines, so that text is ignored."""
    asked = query.partition("=")[2]
    quoted = quote(asked, safe="")
    for each in {asked, quoted, quote(quoted)} - {""}:
        text = text.replace(each, "")
    assert "canary" not in text, (path, query)
    assert "zeta" not in text, (path, query)


async def test_rows_of_another_tenant_are_as_if_they_were_not_there(database: Database) -> None:
    await _fill(database)
    theirs = await database.fetch(
        "select id, command_id as uuid from inboxd.commands where tenant = 'zeta'"
    )
    users = [{**user("ada", "reader"), "tenants": ["acme"]}]
    async with visiting(database, users=users) as site, site.client() as client:
        await sign_in(client, "ada")
        missing = await client.get("/commands/999.json")
        for row in theirs:
            found = await client.get(f"/commands/{row['id']}.json")
            assert (found.status_code, missing.status_code) == (404, 404)
            assert found.text.replace(f"command {row['id']}:", "command 999:") == missing.text
            assert (await client.get(f"/commands/{row['uuid']}")).status_code == 404
        other = await client.get("/events?tenant=zeta")
        assert (other.status_code, "of these tenants: acme" in other.text) == (403, True)
        nobody = await client.get("/events?commands=failed")
        assert (nobody.status_code, "may be of any tenant" in nobody.text) == (403, True)
        own = (await client.get("/commands/1.json")).json()
        for name in ("children", "replays", "waits_for", "breakers"):
            assert own[name] == []


async def test_pages_link_only_to_pages_that_the_visitor_may_see(database: Database) -> None:
    await _fill(database)
    users = [{**user("ada", "admin"), "tenants": ["acme", "b & c"]}, user("bob", "viewer")]
    async with visiting(database, users=users) as site:
        async with site.client() as client:
            await sign_in(client, "ada")
            first = await client.get("/")
            assert first.headers["location"] == "/events"
            page = await client.get("/events")
            assert "Only rows of the tenant acme are shown." in page.text
            assert 'href="/events?tenant=b%20%26%20c"' in page.text
            assert 'action="/find"' not in page.text
            assert "/story/" not in (await client.get("/commands/1")).text
            for each in await _of_acme(database):
                page = await client.get(each)
                for link in {unescape(each) for each in re.findall(r'href="(/[^"#]*)', page.text)}:
                    assert (await client.get(link)).status_code != 403, f"{link} on {each}"
            other = await client.get("/events?tenant=b+%26+c")
            assert (other.status_code, "ours" in other.text) == (200, False)
        async with site.client() as client:
            await sign_in(client, "bob")
            assert "canary.event" in (await client.get("/events")).text
            assert 'href="/queues"' in (await client.get("/")).text


async def _of_acme(database: Database) -> list[str]:
    """The pages of rows of acme, of which one is in a batch, and one came in a webhook."""
    await database.execute(
        "insert into inboxd.batches (kind, type) values ('batch', '');"
        "update inboxd.commands set batch_id = (select max(id) from inboxd.batches),"
        " ordering_key = 'a key' where tenant = 'acme'"
    )
    await database.execute(
        "insert into inboxd.events (type, tenant, origin_kind, source, correlation_id)"
        " values ('ours.event', 'acme', 'receipt', 'bank', 'a visit'),"
        " ('ours.event', 'acme', 'schedule', 'nightly', null)"
    )
    rows = await database.fetch(
        "select '/events/' || id as path from inboxd.events where tenant = 'acme'"
        " union all select '/commands/' || id from inboxd.commands where tenant = 'acme'"
    )
    return ["/events?limit=100", "/commands", "/actions", *(row["path"] for row in rows)]


async def test_hidden_rows_are_not_said_to_be_missing(database: Database) -> None:
    """A row that an event created was not written by a producer, and may have created others."""
    await _fill(database)
    users = [{**user("ada", "reader"), "tenants": ["acme"]}]
    async with visiting(database, users=users) as site, site.client() as client:
        await sign_in(client, "ada")
        page = (await client.get("/commands/1")).text
        assert "Its origin is another row, which is not shown to you." in page
        assert "The rows that came of it are not shown to you." in page
        assert "A producer wrote it." not in page
        assert "Subcommands: none." not in page
        assert "A producer wrote it." in (await client.get("/events/1")).text
        old = await database.fetchval("select max(id) from inboxd.commands where tenant = 'acme'")
        await database.fetch("select inboxd.replay_commands($1, 'me', null)", [old])
        replayed = (await client.get(f"/commands/{old}")).text
        assert "It was a dead letter and was replayed as another row." in replayed


async def test_a_reload_takes_tenants_over(database: Database) -> None:
    await _fill(database)
    ada = user("ada", "reader")
    async with visiting(database, users=[ada]) as site, site.client() as client:
        await sign_in(client, "ada")
        assert (await client.get("/queues")).status_code == 200
        site.reload({"users": [{**ada, "tenants": ["acme"]}]})
        assert (await client.get("/queues")).status_code == 403
        assert "canary" not in (await client.get("/events")).text


def test_pages_for_tenants_are_those_that_this_test_knows() -> None:
    """A new page refuses these users until it is listed here, which tests it."""
    assert {each.path for each in SCREENS if each.for_tenants} == FOR_TENANTS
