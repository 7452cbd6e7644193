"""Batches, workflows, stories and search: the same JSON as the command line; filters; members."""

import sys
from typing import Any

import httpx
import orjson
import pytest

from tests.screens.reading import document, read
from tests.screens.terminal import printed
from tests.support import Database
from tests.support.rows import daemon_session, join

pytestmark = pytest.mark.anyio

NOOP = {"type": "test.noop", "queue": "default"}
THEN = {"type": "test.then", "queue": "default"}


async def send_batch(database: Database, name: str, members: int, tenant: str | None = None) -> int:
    id_: int = await database.fetchval(
        "select id from inboxd.send_batch($1, $2, $3, tenant => $4)",
        name,
        orjson.dumps([NOOP] * members).decode(),
        orjson.dumps(THEN).decode(),
        tenant,
    )
    return id_


async def send_workflow(database: Database) -> int:
    steps = [{"name": "a", **NOOP}, {"name": "b", "after": "a", **NOOP}]
    id_: int = await database.fetchval(
        "select id from inboxd.send_workflow('seed', $1, $2)",
        orjson.dumps(steps).decode(),
        orjson.dumps(THEN).decode(),
    )
    return id_


async def test_lists_and_details_are_the_command_lines(
    screens: httpx.AsyncClient, database: Database
) -> None:
    first, second = (
        await send_batch(database, "mails", 2, "malta"),
        await send_batch(database, "empty", 0),
    )
    flow = await send_workflow(database)
    for what, query, options in (
        ("batches", "", ()),
        ("batches", "?status=pending&name=mails", ("--status", "pending", "--name", "mails")),
        ("batches", "?type=none", ("--type", "none")),
        ("batches", "?tenant=malta&since=1h", ("--tenant", "malta", "--since", "1h")),
        ("batches", f"?below={second}", ("--after", second)),
        ("batches", "?open=1", ("--open",)),
        ("workflows", "", ()),
    ):
        found = await document(screens, f"/{what}{query}")
        assert found == await printed(database, what, "list", *options), query
    assert await document(screens, f"/batches/{first}") == await printed(
        database, "batches", "show", first
    )
    assert await document(screens, f"/batches/{flow}") == await printed(
        database, "workflows", "show", flow
    )
    assert await document(screens, f"/story/batch/{flow}") == await printed(
        database, "trace", "batch", flow
    )


async def test_totals_and_filters_of_batches(
    screens: httpx.AsyncClient, database: Database
) -> None:
    """Requirement R2.30: totals and filters of the list."""
    await send_batch(database, "mails", 2, "malta")
    await send_batch(database, "empty", 0)
    page = await read(screens, "/batches")
    for said in ("Total 2", "Pending 1", "Running 0", "Failed 0", "Succeeded 1"):
        assert said in page.text
    malta = await read(screens, "/batches?tenant=malta")
    assert "mails" in malta.text
    assert "empty" not in malta.text.replace("Total", "")
    assert "No workflow yet" in (await read(screens, "/workflows")).text
    refused = await screens.get("/batches?status=dismissed")
    assert refused.status_code == 400


async def test_a_list_says_how_far_it_looked_and_goes_on(
    screens: httpx.AsyncClient, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rare batch is found on a later page; each page says how far back it searched."""
    monkeypatch.setattr(sys.modules["inboxd.operations.batch_details"], "LOOKED", 15)
    await send_batch(database, "rare", 0)
    await database.execute(
        "insert into inboxd.batches (kind, name, type)"
        " select 'batch', 'common', '' from generate_series(1, 40)"
    )
    path, pages = "/batches?name=rare", 1
    while "Rows on this page: 1" not in (page := await read(screens, path)).text:
        assert "Searched back to" in page.text
        assert "(15 rows): 0 found. Search further" in page.text
        assert "Nothing matches" not in page.text
        path = next(link for link in page.links if "below=" in link)
        pages += 1
    assert pages == 3


async def test_members_by_status_and_by_page(
    screens: httpx.AsyncClient, database: Database
) -> None:
    """Requirement R2.31: the number of commands, the next command, and each command."""
    batch = await send_batch(database, "mails", 45)
    ids = await database.fetch("select id from inboxd.commands where batch_id = $1", batch)
    dead, run = ids[7]["id"], ids[20]["id"]
    async with daemon_session(database) as session:
        worker = await join(session)
    await database.execute(
        "update inboxd.commands set status = 'running', fence = 1, worker_id = $2"
        " where id = any($1)",
        [dead, run],
        worker,
    )
    await database.execute(
        "update inboxd.commands set status = 'failed', worker_id = null, attempts = 1"
        " where id = $1",
        dead,
    )
    path, seen = f"/batches/{batch}", set[str]()
    page = await read(screens, path)
    assert "Test then" in page.text
    assert "succeeded" in page.text
    while path:
        page = await read(screens, path)
        seen |= {link for link in page.links if link.startswith("/commands/")}
        path = next((link for link in page.links if "after=" in link), "").partition("#")[0]
    assert {f"/commands/{row['id']}" for row in ids} <= seen
    for status, id_ in (("failed", dead), ("running", run)):
        found = await read(screens, f"/batches/{batch}?status={status}")
        members = found.links[found.links.index(f"/batches/{batch}?status=dismissed#members") :]
        assert set(members) & {f"/commands/{row['id']}" for row in ids} == {f"/commands/{id_}"}
    nothing = await read(screens, f"/batches/{batch}?status=succeeded")
    assert "None of its commands has this status." in nothing.text


async def test_a_story_is_a_tree_with_a_diagram(
    screens: httpx.AsyncClient, database: Database
) -> None:
    batch = await send_batch(database, "mails", 30)
    page = await read(screens, f"/story/batch/{batch}")
    assert "21 unsettled more" in page.text, "nine of 30 members are shown"
    assert "flowchart TD" in page.text
    assert f"/batches/{batch}" in page.links
    refused = await screens.get(f"/story/nothing/{batch}")
    assert refused.status_code == 400
    missing = await screens.get("/story/event/4711")
    assert missing.status_code == 404


async def _lands(screens: httpx.AsyncClient, text: object) -> str:
    answer = await screens.get("/find", params={"q": str(text)})
    assert answer.status_code == 307, answer.text
    return answer.headers["location"]


async def test_a_single_hit_is_opened_at_once(
    screens: httpx.AsyncClient, database: Database
) -> None:
    """One field takes a number, a uuid, a key, a correlation id or a name."""
    await send_batch(database, "mails", 1)
    uuid = await database.fetchval(
        "insert into inboxd.events (id, type, correlation_id) overriding system value"
        " values (4711, 'order.paid', 'visit 9') returning event_id"
    )
    command = await database.fetchval(
        "insert into inboxd.commands (id, type, queue, ordering_key, unique_key)"
        " overriding system value"
        " values (4712, 'mail', 'email', 'customer 17', 'mail 17') returning id"
    )
    await database.execute(
        "insert into inboxd.declared_types (kind, type, queue) values"
        " ('command', 'mail', 'email'), ('event', 'order.paid', null)"
    )
    for text, path in (
        (4711, "/events/4711"),
        (f"  {uuid} ", "/events/4711"),
        ("visit 9", "/events/4711"),
        ("customer 17", f"/commands/{command}"),
        ("mail 17", f"/commands/{command}"),
        ("command 4712", f"/commands/{command}"),
        ("order.paid", "/types/event/order.paid"),
        ("email", "/queues/email"),
    ):
        assert await _lands(screens, text) == path, text


async def test_several_hits_or_none_are_a_page(
    screens: httpx.AsyncClient, database: Database
) -> None:
    batch = await send_batch(database, "mails", 1)
    number = await database.fetchval("select min(id) from inboxd.commands")
    assert batch == number == 1, "a batch and a command have this number"
    several = await read(screens, "/find?q=1")
    assert {"/batches/1", "/commands/1"} <= set(several.links)
    assert await _lands(screens, "batch 1") == "/batches/1"
    nothing = await read(screens, "/find?q=nobody")
    assert "Nothing was found." in nothing.text
    assert "/events?tenant=nobody" in nothing.links
    assert "Enter a number" in (await read(screens, "/find")).text
    found: Any = await document(screens, "/find?q=1")
    assert {hit["kind"] for hit in found["found"]} == {"command", "batch"}
