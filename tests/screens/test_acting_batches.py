"""Batches and workflows are cancelled, closed and resumed from the screens."""

from collections.abc import AsyncIterator

import httpx
import orjson
import pytest

from tests.screens.confirming import act, ask, confirm
from tests.screens.reading import Read
from tests.screens.test_acting import audit
from tests.screens.test_batches import THEN, send_batch, send_workflow
from tests.screens.visiting import Visited, sign_in, user, visiting
from tests.support import Database
from tests.support.bulk_actions import step
from tests.support.rows import daemon_session, join

pytestmark = pytest.mark.anyio


@pytest.fixture
async def site(database: Database) -> AsyncIterator[Visited]:
    async with visiting(database, users=[user("olga", "operator"), user("ada", "admin")]) as site:
        yield site


@pytest.fixture
async def olga(site: Visited) -> AsyncIterator[httpx.AsyncClient]:
    """An operator: the command line needs no more than this role."""
    async with site.client() as client:
        await sign_in(client, "olga")
        yield client


async def _refused(client: httpx.AsyncClient, path: str) -> str:
    """Return the text of an action that is refused before its confirmation."""
    answer = await client.get(path)
    assert answer.status_code == 409, Read(answer.text).text
    return Read(answer.text).text


async def test_cancel_of_a_large_batch_asks_for_the_number_of_its_commands(
    database: Database, olga: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("bulk", "batches"):
        monkeypatch.setattr(f"inboxd.admin.screens.actions.{module}.TYPED_FROM", 2)
    large, small = await send_batch(database, "large", 4), await send_batch(database, "small", 2)
    asked = await ask(olga, f"/act/batch/cancel?id={large}")
    assert "Type the number of rows: 4" in asked.text
    for typed, seen in (("", "4"), ("5", "4"), ("4", "5"), ("", ""), ("", "1"), ("4", "x")):
        refused = await confirm(olga, asked, rows=typed, seen=seen)
        assert refused.status_code == 400, (typed, seen)
    assert await audit(database) == []
    assert "Type the number" not in (await ask(olga, f"/act/batch/cancel?id={small}")).text
    await act(olga, f"/act/batch/cancel?id={small}")
    await act(olga, f"/act/batch/cancel?id={large}", rows="4")
    assert [line[-1] for line in await audit(database)] == [2, 4]


async def test_cancel_of_all_that_match_asks_for_their_number(
    database: Database, site: Visited, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("inboxd.admin.screens.actions.bulk.TYPED_FROM", 2)
    await send_batch(database, "mails", 3)
    async with site.client() as ada:
        await sign_in(ada, "ada")
        asked = await ask(ada, "/act/commands/cancel-all")
        assert "Type the number of rows: " in asked.text
        refused = await confirm(ada, asked, rows="1")
        assert (refused.status_code, "type that number" in refused.text) == (400, True)
    assert await audit(database) == []


async def test_batch_is_cancelled_after_its_consequences_are_shown(
    database: Database, olga: httpx.AsyncClient
) -> None:
    batch = await send_batch(database, "mails", 3)
    async with daemon_session(database) as session:
        worker = await join(session)
    await database.execute(
        "update inboxd.commands set status = 'running', fence = 1, worker_id = $1"
        " where id = (select min(id) from inboxd.commands where batch_id is not null)",
        worker,
    )
    path = f"/act/batch/cancel?id={batch}"
    page = (await olga.get(f"/batches/{batch}")).text
    assert path in page
    assert "/act/batch/close" not in page
    asked = await ask(olga, path)
    assert "Commands that have not ended: 3." in asked.text
    assert "Rows that wait for it: 1. Those that need its success end as skipped" in asked.text
    assert f"inboxd batches cancel {batch}" in asked.text
    late = await ask(olga, path)
    told = await act(olga, path, reason="sent twice")
    assert told == f"Cancelled: {batch} mails. Commands that had not ended: 3."
    rows = await database.fetch(
        "select status, cancel_requested, count(*) from inboxd.commands where batch_id is not null"
        " group by 1, 2 union all select status, false, count(*) from inboxd.commands_history"
        " where batch_id is not null group by 1 order by 1"
    )
    assert [tuple(row) for row in rows] == [("cancelled", False, 2), ("running", True, 1)]
    second = await confirm(olga, late)
    assert (second.status_code, "nothing was changed" in second.text) == (409, True)
    assert "is being cancelled already" in await _refused(olga, path)
    page = (await olga.get(f"/batches/{batch}")).text
    assert "It is being cancelled" in page
    assert "/act/batch/" not in page
    assert await audit(database) == [("user olga", "cancel", f"batch {batch}", "sent twice", 3)]


async def test_batches_in_a_batch_make_its_number_a_lower_bound(
    database: Database, olga: httpx.AsyncClient
) -> None:
    outer, inner = await send_batch(database, "all", 1), await send_batch(database, "mails", 3)
    await database.execute("update inboxd.batches set parent_id = $1 where id = $2", outer, inner)
    asked = await ask(olga, f"/act/batch/cancel?id={outer}")
    assert "at least 1. A batch in it counts as one here." in asked.text
    refused = await confirm(olga, asked)
    assert (refused.status_code, "more rows than could be counted" in refused.text) == (400, True)
    told = await act(olga, f"/act/batch/cancel?id={outer}", rows="all")
    assert told == f"Cancelled: {outer} all. Commands that had not ended: at least 1."


async def test_members_that_take_too_long_are_left_to_workers(
    database: Database, olga: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A member is locked: the batch is cancelled, and the request does not wait for its end."""
    monkeypatch.setattr("inboxd.admin.screens.actions.batches._SECONDS", 0.5)
    batch = await send_batch(database, "mails", 2)
    asked = await ask(olga, f"/act/batch/cancel?id={batch}")
    async with database.connect() as other, other.transaction():
        await other.execute("select from inboxd.commands where batch_id is not null for update")
        assert (await confirm(olga, asked)).status_code == 303
    assert await database.fetchval("select ending from inboxd.batches") == "cancelled"
    waiting = "select count(*) from inboxd.commands where batch_id is not null"
    assert await database.fetchval(waiting) == 2
    while (await database.fetch("select more from inboxd.fold_batch($1)", batch))[0]["more"]:
        pass
    assert await database.fetchval(waiting) == 0


async def test_open_batch_that_expired_is_closed(
    database: Database, olga: httpx.AsyncClient
) -> None:
    batch = await database.fetchval(
        "select id from inboxd.open_batch('big', $1)", orjson.dumps(THEN).decode()
    )
    await database.execute("update inboxd.batches set expired_at = now()")
    path = f"/act/batch/close?id={batch}"
    page = Read((await olga.get(f"/batches/{batch}")).text)
    assert path in page.links
    assert "It was not closed in time" in page.text
    asked = await ask(olga, path)
    assert "It takes no more commands" in asked.text
    assert "rows that wait for it go on, such as its next command: 1." in asked.text
    assert "Nothing in it is left: it ends at once." in asked.text
    assert f"inboxd batches close {batch}" in asked.text
    told = await act(olga, path, reason="its filler is gone")
    assert told == f"Closed: {batch} big. Commands that have not ended: 0."
    assert (await olga.get(f"/batches/{batch}.json")).json()["status"] == "succeeded"
    again = await confirm(olga, asked)
    assert (again.status_code, "is closed already" in again.text) == (409, True)
    for action in ("close", "cancel"):
        assert "nothing was changed" in await _refused(olga, f"/act/batch/{action}?id={batch}")
    assert await audit(database) == [
        ("user olga", "close", f"batch {batch}", "its filler is gone", 0)
    ]


async def test_workflow_is_cancelled_as_a_workflow(
    database: Database, olga: httpx.AsyncClient
) -> None:
    workflow = await send_workflow(database)
    uuid = await database.fetchval("select batch_id from inboxd.batches")
    asked = await ask(olga, f"/act/batch/cancel?id={uuid}")
    assert f"Workflow {workflow} (seed)" in asked.text
    assert f"inboxd workflows cancel {workflow}" in asked.text
    assert (await confirm(olga, asked)).headers["location"] == f"/batches/{workflow}"
    assert (await audit(database))[0][1:3] == ("cancel", f"workflow {workflow}")


async def test_workflow_is_resumed_from_its_dead_letters(
    database: Database, olga: httpx.AsyncClient
) -> None:
    workflow, batch = await send_workflow(database), await send_batch(database, "mails", 1)
    path = f"/act/workflow/resume?id={workflow}"
    assert "has no dead letter to resume from" in await _refused(olga, path)
    assert "/act/workflow/resume" not in (await olga.get(f"/batches/{workflow}")).text
    assert "is not a workflow" in await _refused(olga, f"/act/workflow/resume?id={batch}")
    await database.execute("update inboxd.commands set status = 'failed' where status = 'pending'")
    for each in (workflow, batch):
        await database.fetch("select inboxd.fold_batch($1)", each)
    assert path in (await olga.get(f"/batches/{workflow}")).text
    assert "/act/workflow/resume" not in (await olga.get(f"/batches/{batch}")).text
    asked = await ask(olga, path)
    assert "Its dead letters run again: 1." in asked.text
    assert "Steps that wait for them follow" in asked.text
    assert f"inboxd workflows resume {workflow}" in asked.text
    done = await confirm(olga, asked, reason="address mended", delay="0s")
    assert done.headers["location"] == "/actions/1"
    assert "Ordered: action 1 starts at" in (await olga.get("/actions/1")).text
    await step(database, 3)
    steps = (await olga.get(f"/batches/{workflow}.json")).json()["steps"]
    assert {each["name"]: each["status"] for each in steps} == {"a": "pending", "b": "waiting"}
    left = await database.fetch("select batch_id from inboxd.commands where status = 'failed'")
    assert [row["batch_id"] for row in left] == [batch]
    assert await audit(database) == [
        ("user olga", "replay", f"commands batch={workflow}", "address mended", 1)
    ]
    await database.execute("update inboxd.batches set ending = 'cancelled' where kind = 'workflow'")
    assert "was cancelled, so its steps cannot start any more" in await _refused(olga, path)


async def test_dead_letters_of_a_batch_are_replayed_together_by_an_admin(
    database: Database, site: Visited, olga: httpx.AsyncClient
) -> None:
    batch = await send_batch(database, "mails", 2)
    await database.execute("update inboxd.commands set status = 'failed' where status = 'pending'")
    await database.fetch("select inboxd.fold_batch($1)", batch)
    assert "replay-all" not in (await olga.get(f"/batches/{batch}")).text
    async with site.client() as ada:
        await sign_in(ada, "ada")
        page = Read((await ada.get(f"/batches/{batch}")).text)
        (link,) = (each for each in page.links if each.startswith("/act/commands/replay-all"))
        assert "2 commands" in (await ask(ada, link)).text


async def test_unknown_batch_is_named(olga: httpx.AsyncClient) -> None:
    for path in ("batch/cancel", "batch/close", "workflow/resume"):
        answer = await olga.get(f"/act/{path}?id=99")
        assert (answer.status_code, "there is no batch 99" in answer.text.lower()) == (404, True)
