"""Workers killed during a bulk action: each row is changed once, the audit is exact."""

import random
from datetime import timedelta

import pytest

from inboxd import operations
from inboxd.operations import OrderTerms, Selection
from inboxd.store import bulk_actions
from tests.support import Database, StartWorker, eventually
from tests.support.locks import lock_awaited
from tests.support.rows import Hasty, daemon_session
from tests.support.worker import Worker

pytestmark = pytest.mark.anyio

# In a paused queue, so that replayed rows stay pending.
DEAD = """
insert into inboxd.commands (type, queue, status, attempts, errors, fingerprint)
select 'test.ledger', 'held', 'failed', 1, '[{"error": "E: it was down"}]', 'f'
  from generate_series(1, $1)
"""
# Locks by which a test stops a transaction of the action: before any of its rows is changed, after
# all of them are, and when only the progress is left to write.
REPLAYS = "lock table inboxd.replays in share mode"
AUDIT = "select from inboxd.audit where id = 1 for update"
CURSOR = "lock table inboxd.actions in share mode"
POINTS = (REPLAYS, AUDIT, CURSOR)


async def _order(database: Database, rows: int, **terms: object) -> None:
    await database.execute("insert into inboxd.controls (kind, name, actor) values "
                           "('queue', 'held', 'test')")  # fmt: skip
    await database.fetch(DEAD, rows)
    async with daemon_session(database) as session:
        await operations.order(
            session,
            "commands",
            "replay",
            Selection(group="f"),
            OrderTerms(**terms),  # type: ignore[arg-type]
            actor="me",
        )


async def _done(database: Database) -> int:
    done: int = await database.fetchval("select done from inboxd.actions")
    return done


async def _killed_where_it_is_held(database: Database, worker: Worker, point: str) -> None:
    """Kill a worker in a transaction of the action, at one of its points."""
    async with database.connect() as holder, holder.transaction():
        await holder.execute(point)
        await lock_awaited(database, who="inboxd%")
        worker.kill()


async def _killed_somewhere(database: Database, worker: Worker) -> None:
    """Kill a worker after a random number of further rows."""
    before = await _done(database) + random.randint(0, 400)

    async def has_come_further() -> bool:
        return await _done(database) > before

    await eventually(has_come_further)
    worker.kill()


@pytest.mark.parametrize(
    ("rows", "kills"),
    [
        (10_000, 5),
        pytest.param(100_000, 20, marks=[pytest.mark.long, pytest.mark.timeout(900)]),
    ],
)
async def test_each_row_is_changed_once_though_workers_are_killed(
    database: Database, start_worker: StartWorker, hasty: Hasty, rows: int, kills: int
) -> None:
    await _order(database, rows)
    for turn in range(kills):
        worker = await start_worker(hasty(), ready=False)
        if turn % 4 == 0:
            await _killed_somewhere(database, worker)
        else:
            await _killed_where_it_is_held(database, worker, POINTS[turn % 4 - 1])
    killed_at = await _done(database)
    # Two workers side by side: one at a time works on the action.
    await start_worker(hasty(), ready=False)
    await start_worker(hasty(), ready=False)

    async def completed() -> bool:
        return bool(await database.fetchval("select status = 'completed' from inboxd.actions"))

    await eventually(completed, within=rows / 100)
    assert 0 < killed_at < rows
    (action,) = await database.fetch("select done, left_out, counted from inboxd.actions")
    assert tuple(action) == (rows, 0, rows)
    audit = await database.fetch("select action, target, count from inboxd.audit")
    assert [tuple(line) for line in audit] == [("replay", "commands group=f", rows)]
    (replays,) = await database.fetch(
        "select count(*), count(distinct old_id), count(distinct new_id) from inboxd.replays"
    )
    assert tuple(replays) == (rows, rows, rows)
    (hot,) = await database.fetch(
        "select count(*), count(distinct replay_of), bool_and(status = 'pending')"
        " from inboxd.commands"
    )
    assert tuple(hot) == (rows, rows, True)
    assert await database.fetchval("select count(*) from inboxd.commands_history") == rows


async def test_one_worker_at_a_time_works_on_an_action(database: Database) -> None:
    """A second one would run its own canary, and double the rate."""
    await _order(database, 30, delay=timedelta(0))
    async with daemon_session(database) as one, daemon_session(database) as other:
        async with one.transaction():
            assert await bulk_actions.claim(one) is not None
            assert await bulk_actions.claim(other) is None
        assert await bulk_actions.claim(other) is not None


async def test_the_others_follow_when_the_canary_has_succeeded(
    database: Database, start_worker: StartWorker, hasty: Hasty
) -> None:
    """The worker also runs the replayed rows: failing ones would stop the others."""
    await database.execute("create table ledger (kind text, row_id bigint, note text)")
    await _order(database, 30, canary=True)
    await database.execute("delete from inboxd.controls")
    await start_worker(hasty())

    async def all_succeeded() -> bool:
        found: int = await database.fetchval(
            "select count(*) from inboxd.commands_history where status = 'succeeded'"
        )
        return found == 30

    await eventually(all_succeeded)
    (row,) = await database.fetch(
        "select count(*) filter (where rank <= 10 and finished_at < eleventh), count(*)"
        "  from (select rank() over (order by id) as rank, finished_at, (select min(created_at)"
        "          from (select created_at from inboxd.commands_history"
        "                 where status = 'succeeded' order by id offset 10) later) as eleventh"
        "          from inboxd.commands_history where status = 'succeeded') ran"
    )
    assert tuple(row) == (10, 30)
    assert await database.fetchval("select count from inboxd.audit") == 30
