"""Lists of the admin API equal those of the command line and of the screens, for each filter."""

from typing import Any

import httpx
import pytest

from inboxd.admin.openapi import openapi
from tests.browser import school
from tests.screens.terminal import printed
from tests.screens.visiting import ADA, EVE, TOKENS, visiting
from tests.support import Database
from tests.support.rows import emit, send

pytestmark = pytest.mark.anyio


def _told(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}", "accept": "application/json"}


async def test_a_list_is_the_command_lines_and_the_screens(database: Database) -> None:
    await school.fill(database)
    await database.execute("analyze")
    async with visiting(database, tokens=TOKENS) as site, site.client() as client:
        client.headers.update(_told(EVE))
        for table, query, options in (
            ("commands", "", ()),
            ("commands", "?status=failed&limit=100", ("--status", "failed", "--limit", 100)),
            ("commands", "?queue=email&tenant=malta", ("--queue", "email", "--tenant", "malta")),
            ("events", "?topic=default&since=2h", ("--topic", "default", "--since", "2h")),
            ("events", "?commands=failed&below=900", ("--commands", "failed", "--after", 900)),
            ("events", "?type=none&by=ended", ("--type", "none", "--by", "ended")),
        ):
            answer = await client.get(f"/api/{table}{query}")
            assert answer.headers["content-type"] == "application/json"
            found = answer.json()
            assert found == await printed(database, table, "list", *options), query
            assert found == (await client.get(f"/{table}.json{query}")).json()


async def test_pages_continue_by_next_until_all_rows_were_looked_at(database: Database) -> None:
    ids = await send(database, 45, "a")
    await send(database, 3, "b")
    seen, below = list[int](), ""
    async with visiting(database, tokens=TOKENS) as site, site.client() as client:
        client.headers.update(_told(EVE))
        while True:
            page: Any = (await client.get(f"/api/commands?type=a&limit=20{below}")).json()
            seen += [row["id"] for row in page["commands"]]
            if page["next"] is None:
                break
            below = f"&below={page['next']}"
    assert seen == sorted(ids, reverse=True)


async def test_an_invalid_filter_is_refused(database: Database) -> None:
    async with visiting(database, tokens=TOKENS) as site, site.client() as client:
        client.headers.update(_told(EVE))
        for path, said in (
            ("commands?staus=failed", "'staus' is not a valid filter: use below, by,"),
            ("commands?commands=failed", "'commands' is not a valid filter"),
            ("commands?topic=default", "'topic' is not a valid filter"),
            ("events?status=none", "'none' is not a valid status"),
            ("events?limit=101", "from 1 to 100"),
            ("events?below=x", "not a row number"),
            ("events?payload=x", "not a valid payload filter"),
        ):
            answer = await client.get(f"/api/{path}")
            assert answer.status_code == 400, path
            assert said in answer.json()["detail"]
        assert (await client.get("/api/batches")).status_code == 404
        hidden = await client.get("/api/events?payload=password%3Dx")
        assert hidden.status_code == 403
    async with visiting(database, tokens=TOKENS) as site, site.client() as stranger:
        assert (await stranger.get("/api/commands")).status_code == 401


async def test_a_search_in_contents_is_in_the_audit_if_settings_ask_for_it(
    database: Database,
) -> None:
    [event] = await emit(database, 1, customer=17)
    admin = {"audit_payloads": True, "tokens": TOKENS}
    async with visiting(database, **admin) as site, site.client() as client:
        client.headers.update(_told(ADA))
        assert (await client.get("/api/events")).is_success
        found: httpx.Response = await client.get("/api/events?payload=customer%3D17")
        assert [row["id"] for row in found.json()["events"]] == [event]
    lines = await database.fetch("select actor, action, target from inboxd.audit")
    assert [tuple(line) for line in lines] == [("token ada", "view", "events")]


@pytest.mark.parametrize("table", ["events", "commands"])
async def test_the_document_names_each_filter(database: Database, table: str) -> None:
    listed = openapi()["paths"][f"/api/{table}"]["get"]
    async with visiting(database, tokens=TOKENS) as site, site.client() as client:
        client.headers.update(_told(EVE))
        refused = (await client.get(f"/api/{table}?x=1")).json()["detail"]
        names = refused.partition(": use ")[2].split(", ")
        assert names == sorted(each["name"] for each in listed["parameters"])
        page = (await client.get(f"/api/{table}")).json()
        schema = listed["responses"]["200"]["content"]["application/json"]["schema"]
        assert page.keys() == schema["properties"].keys()
