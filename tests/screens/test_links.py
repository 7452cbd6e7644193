"""Links of the audit, bulk actions and Find lead to what they name."""

import httpx
import pytest

from tests.screens.reading import read
from tests.support import Database
from tests.support.bulk_actions import ordered
from tests.support.endpoints import add

pytestmark = pytest.mark.anyio


async def test_targets_of_the_audit_lead_to_their_pages(
    screens: httpx.AsyncClient, database: Database
) -> None:
    targets = {
        "commands 3, 17": ["/commands/3", "/commands/17"],
        "events 5": ["/events/5"],
        "batch 4": ["/batches/4"],
        "workflow 6": ["/batches/6"],
        "action 7": ["/actions/7"],
        "queue a/b c": ["/queues/a%2Fb%20c"],
        "topic orders": ["/topics/orders"],
        "endpoint acme": ["/endpoints/acme"],
        "schedule nightly": ["/schedules?q=nightly"],
        "breaker mail": ["/breakers?q=mail"],
        "source bank": ["/sources?q=bank"],
        "commands status failed": [],
        "type mail": [],
        "commands": [],
    }
    await database.execute(
        "insert into inboxd.audit (actor, action, target, count)"
        " select 'ana', 'pause', target, 1 from unnest($1::text[]) target",
        list(targets),
    )
    page = await read(screens, "/audit")
    leading = [link for link in page.links if not link.startswith(("/act/", "/audit?"))]
    assert sorted(leading) == sorted(link for links in targets.values() for link in links)
    assert "commands 3, 17" in page.text.replace(" ,", ",")


async def test_a_bulk_action_and_its_line_of_the_audit_lead_to_each_other(
    screens: httpx.AsyncClient, database: Database
) -> None:
    entry = await database.fetchval(
        "insert into inboxd.audit (actor, action, target, count)"
        " values ('ana', 'replay', 'commands status failed', 0) returning id"
    )
    action = await ordered(database)
    note = "the canary failed: 2 of the first 10 did not succeed: command 17 is failed, 18 is gone"
    await database.execute(
        "update inboxd.actions set audit_id = $1, status = 'paused', goes_on_as = 'canary',"
        " note = $2",
        *(entry, note),
    )
    page = await read(screens, f"/actions/{action}")
    assert {f"/audit?below={entry + 1}", "/commands/17", "/commands/18"} <= set(page.links)
    assert "command 17 is failed, 18 is gone" in page.text
    audit = await read(screens, f"/audit?below={entry + 1}")
    assert f"/actions/{action}" in audit.links


async def test_a_name_that_was_found_opens_its_page(
    screens: httpx.AsyncClient, database: Database
) -> None:
    await add(database, "acme")
    await database.execute(
        "insert into inboxd.breakers (name, mode, state, reason, uses)"
        " values ('mail down', 'auto', 'closed', null, '{}')"
    )
    for text, path in (("acme", "/endpoints/acme"), ("mail down", "/breakers?q=mail+down")):
        answer = await screens.get("/find", params={"q": text})
        assert (answer.status_code, answer.headers["location"]) == (307, path)
