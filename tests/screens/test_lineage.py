"""Requirement R2.21: links lead from each row to its origin and to the rows that it created."""

import httpx
import pytest

from tests.screens.reading import Read, known, read
from tests.support import Database, StartWorker, eventually
from tests.support.rows import create_ledger

pytestmark = pytest.mark.anyio


@pytest.fixture
async def story(database: Database, start_worker: StartWorker) -> dict[str, int]:
    """Ids of two events: one made a batch with a dead letter, the other a workflow."""
    await create_ledger(database)
    event = await database.fetchval(
        "insert into inboxd.events (type, payload, tenant, entity_type, entity_id) values"
        """ ('batch.make', '{"members": ["ok", "fail"]}', 'malta', 'class', '7b') returning id"""
    )
    flow = await database.fetchval(
        "insert into inboxd.events (type, payload) values ('flow.make',"
        """ '{"steps": [["a", "ok", []], ["b", "ok", ["a"]]]}') returning id"""
    )
    await start_worker()
    told = "select count(*) = 4 from ledger where note in ('otherwise', 'then', 'finally')"
    await eventually(lambda: database.fetchval(told))
    done = "select count(*) = 2 from inboxd.batches where status in ('succeeded', 'failed')"
    await eventually(lambda: database.fetchval(done))
    return {"event": event, "flow": flow}


async def _reached(screens: httpx.AsyncClient, start: str, kinds: str) -> dict[str, Read]:
    """Follow links from `start` to pages whose path begins with one of `kinds`: path to page."""
    found: dict[str, Read] = {}
    todo = [start]
    while todo:
        path = todo.pop(0)
        if path in found:
            continue
        found[path] = await read(screens, path)
        todo += [link for link in known(found[path].links) if link.startswith(tuple(kinds.split()))]
    return found


async def test_from_the_last_command_up_to_the_event_and_down_again(
    screens: httpx.AsyncClient, database: Database, story: dict[str, int]
) -> None:
    """Up from the released command to its batch and event; down again to the batch's members."""
    last = await database.fetchval(
        "select id from inboxd.commands_history where type = 'batch.told'"
        " and origin_kind = 'batch' order by id limit 1"
    )
    command = await read(screens, f"/commands/{last}")
    assert "released when all commands of a batch had ended" in command.text
    (batch_path,) = {link for link in command.links if link.startswith("/batches/")}
    batch = await read(screens, batch_path)
    assert "It came from a domain event: Batch make" in batch.text
    event_path = next(link for link in batch.links if link.startswith("/events/"))
    event = await read(screens, event_path)
    assert event_path in (f"/events/{story['event']}", f"/events/{story['flow']}")
    assert batch_path in event.links
    members = {link for link in batch.links if link.startswith("/commands/")}
    assert len(members) >= 3, "members and released commands"
    for path in members:
        member = await read(screens, path)
        assert batch_path in member.links, member.text


async def test_every_row_is_reached_from_every_other(
    screens: httpx.AsyncClient, database: Database, story: dict[str, int]
) -> None:
    """Links of pages of rows and of stories suffice, from the lowest row and from the highest."""
    batch = await database.fetchval("select id from inboxd.batches where kind = 'batch'")
    commands = {
        f"/commands/{row['id']}"
        for row in await database.fetch(
            "select id from inboxd.story where kind = 'command' and correlation_id ="
            " (select correlation_id from inboxd.story where kind = 'batch' and id = $1)",
            batch,
        )
    }
    assert len(commands) == 5
    everything = {f"/events/{story['event']}", f"/batches/{batch}", *commands}
    for start in (max(commands), f"/events/{story['event']}"):
        found = await _reached(screens, start, "/events/ /commands/ /batches/ /story/")
        assert everything <= set(found), f"from {start}"


async def test_every_link_leads_to_a_page(
    screens: httpx.AsyncClient, database: Database, story: dict[str, int]
) -> None:
    starts = ["/events", "/commands", "/batches", "/workflows", "/find?q=4711"]
    starts += [f"/events/{id_}" for id_ in story.values()]
    ids = await database.fetch("select id from inboxd.batches")
    starts += [f"/batches/{row['id']}" for row in ids]
    starts += [f"/story/event/{story['event']}", f"/story/event/{story['flow']}"]
    links: set[str] = set()
    for start in starts:
        page = await read(screens, start)
        links.update(known(page.links))
    assert len(links) > 40
    for link in sorted(links):
        await read(screens, link)


async def test_details_say_what_the_requirement_names(
    screens: httpx.AsyncClient, database: Database, story: dict[str, int]
) -> None:
    """Requirements R2.25, R2.27 to R2.29, R2.31, R2.34."""
    event = await read(screens, f"/events/{story['event']}")
    for said in ("Batch make", "Occurred", "Processed", "Processing time", "ms"):
        assert said in event.text
    assert "It is about the class with the id 7b" in event.text
    assert "Batches that it created" in event.text
    dead = await database.fetchval("select id from inboxd.commands where status = 'failed'")
    command = await read(screens, f"/commands/{dead}")
    for said in (
        "as told",
        "It belongs to a batch",
        "Retry rule",
        "Attempts made",
        "Attempts left",
        "Subcommands",
    ):
        assert said in command.text
    id_ = await database.fetchval("select batch_id from inboxd.commands where id = $1", dead)
    batch = await read(screens, f"/batches/{id_}")
    for said in ("Created", "Processed", "Commands", "Next command", "Origin"):
        assert said in batch.text


async def test_a_workflow_says_its_steps(
    screens: httpx.AsyncClient, database: Database, story: dict[str, int]
) -> None:
    workflow = await database.fetchval("select id from inboxd.batches where kind = 'workflow'")
    page = await read(screens, f"/batches/{workflow}")
    assert "made" in page.text
    assert "Steps 2" in page.text
    assert "Step Status Row" in page.text
    # Step a has succeeded, so b no longer waits for it; the arrow is drawn still.
    text = (await screens.get(f"/batches/{workflow}")).text
    assert text.count('<path class="arrow succeeded"') == 1
    listed = await read(screens, "/workflows")
    assert f"/batches/{workflow}" in listed.links
