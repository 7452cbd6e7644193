"""Progress: kept in memory, written once a second, fenced, never waiting for a lock."""

import json
from typing import Any
from uuid import uuid4

import pytest

from inboxd.api.progress import Progress
from inboxd.commands.progress import Progresses
from tests.daemon.inbox import Inbox
from tests.support import Config, Database, StartWorker, eventually
from tests.support.rows import daemon_pool, send

pytestmark = pytest.mark.anyio


async def said(database: Database, id_: int) -> dict[str, Any] | None:
    text = await database.fetchval("select progress from inboxd.commands where id = $1", id_)
    return None if text is None else json.loads(text)


@pytest.mark.parametrize("type_", ["test.progress", "test.thread_progress"])
async def test_a_running_command_reports_its_progress(inbox: Inbox, type_: str) -> None:
    """Of ten thousand reports the newest is written, while the handler goes on."""
    id_ = await inbox.write("command", type_, {"steps": 10_000, "wait": 3})

    async def is_written() -> dict[str, Any] | None:
        return await said(inbox.database, id_)

    written = await eventually(is_written)
    assert written is not None
    assert written["done"] == 10_000
    if type_ == "test.progress":
        assert (written["of"], written["note"]) == (10_000, "step 10000")
    assert written["at"] is not None
    writes = "select count(*) from inboxd.commands where id = $1 and status = 'running'"
    assert await inbox.database.fetchval(writes, id_) == 1


async def running(database: Database, count: int) -> tuple[list[int], Any]:
    """Insert commands that run under a worker's lease; return their ids and the worker's id."""
    worker = uuid4()
    ids = await send(database, count)
    await database.execute(
        f"update inboxd.commands set status = 'running', fence = 1, worker_id = '{worker}'"
    )
    return ids, worker


async def test_progress_is_written_only_under_the_current_claim(database: Database) -> None:
    (mine, retaken, other), worker = await running(database, 3)
    await database.execute(f"update inboxd.commands set fence = 2 where id = {retaken}")
    await database.execute(
        f"update inboxd.commands set worker_id = gen_random_uuid() where id = {other}"
    )
    async with daemon_pool(database) as pool:
        progresses = Progresses(pool, worker)
        for id_ in (mine, retaken, other, 4711):
            progresses.say({"id": id_, "fence": 1}, Progress(1, 2, 'a "note"'))
        progresses.say({"id": mine, "fence": 1}, Progress(2, 2))
        await progresses.write()
        found = await said(database, mine)
        assert found is not None
        assert (found["done"], found["of"], found["note"]) == (2, 2, None)
        assert await said(database, retaken) is None
        assert await said(database, other) is None
        await database.execute("update inboxd.commands set progress = null")
        await progresses.write()
        assert await said(database, mine) is None, "written progress is not written again"


async def test_a_locked_row_is_skipped(database: Database) -> None:
    (held, free), worker = await running(database, 2)
    async with daemon_pool(database) as pool, database.connect() as other:
        progresses = Progresses(pool, worker)
        async with other.transaction():
            await other.execute("select from inboxd.commands where id = $1 for update", held)
            for id_ in (held, free):
                progresses.say({"id": id_, "fence": 1}, Progress(1))
            await progresses.write()
            assert await said(database, free) is not None
            assert await said(database, held) is None


async def test_workers_declare_their_retry_rules(
    database: Database, start_worker: StartWorker
) -> None:
    config: Config = {
        "types": {"test.noop": {"retry": {"attempts": 4}}, "test.ledger": {"timeout": "5s"}},
        "retry": {"attempts": 7},
    }
    await start_worker(config)
    rows = await database.fetch("select kind, type, queue, retry from inboxd.declared_types")
    rules = {(row["kind"], row["type"]): json.loads(row["retry"]) for row in rows}
    queues = {(row["kind"], row["type"]): row["queue"] for row in rows}
    assert queues["command", "test.wait"] == "slow"
    assert queues["event", "test.noop"] is None

    def shown(kind: str, type_: str) -> list[tuple[str, int]]:
        return [(rule["source"], rule["attempts"]) for rule in rules[kind, type_]]

    assert shown("command", "test.ledger") == [("plugin testplugin", 3)]
    assert shown("command", "test.noop") == [('[types."test.noop"] of the settings', 4)]
    assert shown("command", "test.wait") == [("plugin testplugin", 3)]
    assert shown("command", "test.any") == [("[retry] of the settings", 7)]
    assert [rule["handler"] for rule in rules["event", "test.pair"]] == [
        "inboxd_testplugin.first_of_pair",
        "inboxd_testplugin.second_of_pair",
    ]
    assert {rule["topic"] for rule in rules["event", "test.pair"]} == {None}
    assert rules["command", "test.ledger"][0]["policy"].startswith("fixed, attempts 3")
