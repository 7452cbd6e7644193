"""Statements of lists, beside an operator's session."""

import anyio
import pytest

from inboxd.store import lists
from tests.support import Database
from tests.support.locks import lock_awaited
from tests.support.rows import SQL, daemon_session

pytestmark = pytest.mark.anyio

HEAD = """
insert into inboxd.topics (name, mode, source) values ('listed', 'batch', 'test');
insert into inboxd.events (topic, mode, type, ordering_key, bucket, status, head, place, run_at)
select 'listed', 'batch', 'item', 'k', inboxd.bucket_of('listed', 'k'), 'waiting', n = 1, n,
       now() + interval '1 h' from generate_series(1, 3) n
"""


async def test_the_time_an_operator_gives_meanwhile_stands(database: Database) -> None:
    await database.execute(HEAD)
    (head,) = await database.fetch("select id from inboxd.events where head")
    async with (
        daemon_session(database) as visit,
        database.connect() as operator,
        anyio.create_task_group() as tasks,
        operator.transaction(),
    ):
        await operator.fetch(SQL["lock_events"], [head["id"]], [])
        later = await operator.fetchval("select now() + interval '5 h'")
        await operator.fetch(SQL["reschedule_events"], [head["id"]], later)
        tasks.start_soon(lists.complete, visit, SQL, "listed", ["k"], 3, [])
        await lock_awaited(database, query="%UPDATE%inboxd.events e SET run_at%")
    left = "select run_at > now() + interval '4 h' from inboxd.events where head"
    assert await database.fetchval(left)


async def test_a_list_that_is_full_is_due_at_once(database: Database) -> None:
    await database.execute(HEAD)
    async with daemon_session(database) as visit:
        await lists.complete(visit, SQL, "listed", ["k"], 4, [])
        due = "select run_at <= clock_timestamp() from inboxd.events where head"
        assert not await database.fetchval(due)
        await lists.complete(visit, SQL, "listed", ["k"], 3, [])
        assert await database.fetchval(due)
