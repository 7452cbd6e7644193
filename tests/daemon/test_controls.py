"""Pauses: all workers obey at once, and leave paused rows alone."""

from collections.abc import Sequence

import pytest

from inboxd import operations
from inboxd.errors import Conflict, NotFound, UsageError
from inboxd.store.controls import Kind
from tests.daemon.inbox import Inbox
from tests.support import Config, Database, StartWorker, Worker, eventually, looked_again
from tests.support.rows import create_ledger, daemon_session, effects, emit, send
from tests.support.verdicts import safety
from tests.support.waiting import WITHIN

pytestmark = pytest.mark.anyio

# Longer than any wait, so that a poll cannot help.
NO_POLL: Config = {"worker": {"poll_interval": "1h"}}


async def pause(database: Database, kind: Kind, name: str) -> int:
    async with daemon_session(database) as session:
        return await operations.pause(session, kind, name, actor="ada", reason="as told")


async def resume(database: Database, kind: Kind, name: str) -> int:
    async with daemon_session(database) as session:
        return await operations.resume(session, kind, name, actor="bob")


async def known(kind: Kind, *workers: Worker, paused: int = 1) -> None:
    """Wait until the metrics of all these workers show the pause."""

    async def all_have() -> bool:
        shown = [await each.metric(f'inboxd_paused{{kind="{kind}"}}') for each in workers]
        return set(shown) == {paused}

    await eventually(all_have)


async def all_settled(
    database: Database, table: str, ids: Sequence[int], within: float = WITHIN
) -> None:
    async def settled() -> bool:
        left = f"select count(*) from inboxd.{table} where id = any ($1)"
        return bool(await database.fetchval(left, ids) == 0)

    await eventually(settled, within)


@pytest.mark.parametrize(
    ("kind", "name"), [("type", "test.ledger"), ("queue", "default"), ("topic", "default")]
)
async def test_two_workers_obey_a_pause_and_its_end(
    database: Database, start_worker: StartWorker, kind: Kind, name: str
) -> None:
    """Rows arrive all the time; once both workers know of the pause, no paused row runs."""
    await create_ledger(database)
    workers = [await start_worker(NO_POLL) for _ in range(2)]
    table, insert = ("events", emit) if kind == "topic" else ("commands", send)
    await all_settled(database, table, await insert(database, 20))

    assert await pause(database, kind, name) == 0
    await known(kind, *workers)
    held = await insert(database, 50)
    others = await send(database, 20, "test.noop", queue="other")
    await all_settled(database, "commands", others)
    await looked_again(database, "event" if kind == "topic" else "command", *workers)
    fence = "0" if kind == "topic" else "fence"  # it grows with each claim
    left = await database.fetch(f"select id, status, {fence} from inboxd.{table} order by id")
    assert [tuple(row) for row in left] == [(id_, "pending", 0) for id_ in held]

    assert await resume(database, kind, name) == 50
    await all_settled(database, table, held)
    done = await effects(database, table.removesuffix("s"))
    with safety():
        assert set(done.values()) == {1}
    audit = await database.fetch("select actor, action, target, reason, count from inboxd.audit")
    assert [tuple(row) for row in audit] == [
        ("ada", "pause", f"{kind} {name}", "as told", 0),
        ("bob", "resume", f"{kind} {name}", None, 50),
    ]


async def test_workers_without_wake_ups_obey_a_pause(
    database: Database, start_worker: StartWorker
) -> None:
    """They poll the controls: no poll for rows and no heartbeat comes within an hour."""
    never = {"poll_interval": "1h", "heartbeat_interval": "1h", "lease": "4h"}
    config: Config = {"wakeups": {"mode": "off"}, "worker": never}
    workers = [await start_worker(config) for _ in range(2)]
    await pause(database, "type", "test.noop")
    await known("type", *workers)
    held, others = await send(database, 5, "test.noop"), await send(database, 5, "test.any")
    await pause(database, "type", "gone")  # a worker that learns of a change looks for rows
    await known("type", *workers, paused=2)
    await all_settled(database, "commands", others)
    left = await database.fetch("select id, status, fence from inboxd.commands order by id")
    assert [tuple(row) for row in left] == [(id_, "pending", 0) for id_ in held]
    await resume(database, "type", "test.noop")
    await all_settled(database, "commands", held)


async def test_a_pause_releases_leased_commands_and_lets_running_ones_end(
    own: Inbox, start_worker: StartWorker
) -> None:
    """When the pause comes, one command runs, and the rest of the page is leased behind it."""
    database = own.database
    worker = await start_worker({"commands": {"concurrency": 1}})
    async with database.connect() as connection, connection.transaction():
        quick = await send(connection, 600, "test.span", wait=0)
        slow = await send(connection, 300, "test.span", wait=0.9)

    async def slow_ones_are_leased() -> bool:
        count = "select count(*) from inboxd.commands where status = 'running' and id = any ($1)"
        return bool(await database.fetchval(count, slow) > 1)

    await eventually(slow_ones_are_leased)
    await all_settled(database, "commands", quick)  # so the first slow command runs
    await pause(database, "queue", "default")

    async def one_at_most_runs() -> bool:
        running = "select count(*) from inboxd.commands where status = 'running'"
        return bool(await database.fetchval(running) <= 1)

    await eventually(one_at_most_runs)

    async def none_runs() -> bool:
        running = "select count(*) from inboxd.commands where status = 'running'"
        return bool(await database.fetchval(running) == 0)

    await eventually(none_runs)
    done = await database.fetch(
        "select status, attempts from inboxd.commands_history where id = any ($1)", slow
    )
    assert {(row["status"], row["attempts"]) for row in done} == {("succeeded", 1)}
    left = await database.fetch("select status, attempts, crashes from inboxd.commands")
    with safety():
        assert len(left) + len(done) == len(slow)
    assert {tuple(row) for row in left} == {("pending", 0, 0)}
    assert "controls changed" in worker.output()
    assert "too long for their start" not in worker.output(), (
        "no command started late: the pause released them"
    )


async def test_a_page_of_events_ends_when_a_pause_begins(
    own: Inbox, start_worker: StartWorker
) -> None:
    """Fifty events of 100 ms each are one page; events that have not begun stay pending."""
    database = own.database
    await start_worker({"events": {"page_time": "8s"}})
    await emit(database, 50, wait=0.1)

    async def began() -> bool:
        # The page's transaction is open, so its rows are locked.
        free = "select count(*) from (select from inboxd.events for update skip locked) f"
        return bool(await database.fetchval(free) < 50)

    await eventually(began)
    await pause(database, "type", "test.ledger")

    async def page_ended() -> bool:
        free = "select count(*) from (select from inboxd.events for update skip locked) f"
        left = "select count(*) from inboxd.events"
        return bool(await database.fetchval(free) == await database.fetchval(left))

    await eventually(page_ended)
    left = await database.fetchval("select count(*) from inboxd.events")
    assert left > 0
    await resume(database, "type", "test.ledger")
    await all_settled(database, "events", list(range(1, 51)))
    with safety():
        assert set((await effects(database, "event")).values()) == {1}


async def test_paused_suspects_are_not_claimed(
    database: Database, start_worker: StartWorker
) -> None:
    await pause(database, "queue", "held")
    await pause(database, "type", "test.any")
    rows = await database.fetch(
        "insert into inboxd.commands (queue, type, payload, crashes) values"
        " ('held', 'test.noop', '{}', 1), ('free', 'test.any', '{}', 1),"
        " ('free', 'test.noop', '{}', 1) returning id"
    )
    await start_worker()
    await all_settled(database, "commands", [rows[2]["id"]])
    await all_settled(database, "commands", await send(database, 5, "test.noop"))
    left = await database.fetch("select id, status, fence from inboxd.commands order by id")
    assert [tuple(row) for row in left] == [(row["id"], "pending", 0) for row in rows[:2]]


async def test_a_paused_unhandled_type_is_not_a_dead_letter(
    database: Database, start_worker: StartWorker
) -> None:
    """The plugin may be away during the pause. Another unhandled type shows that the check ran."""
    await pause(database, "type", "gone.away")
    await pause(database, "topic", "quiet")
    await send(database, 1, "gone.away")
    await send(database, 1, "gone.astray")
    await database.execute("insert into inboxd.events (topic, type) values ('quiet', 'gone.too')")
    await start_worker({"worker": {"unhandled_grace": "500ms"}})

    async def judged() -> bool:
        status = "select status from inboxd.commands where type = 'gone.astray'"
        return bool(await database.fetchval(status) == "failed")

    await eventually(judged)
    for table in ("commands where type = 'gone.away'", "events"):
        assert await database.fetchval(f"select status from inboxd.{table}") == "pending"
    await resume(database, "type", "gone.away")

    async def all_judged() -> bool:
        dead = "select count(*) from inboxd.commands where status = 'failed'"
        return bool(await database.fetchval(dead) == 2)

    await eventually(all_judged)


async def test_bad_input_is_refused_and_changes_nothing(database: Database) -> None:
    await pause(database, "queue", "email")
    with pytest.raises(Conflict, match="queue 'email' is paused already: `inboxd paused`"):
        await pause(database, "queue", "email")
    with pytest.raises(Conflict, match="topic 'email' is not paused"):
        await resume(database, "topic", "email")
    with pytest.raises(NotFound, match="no schedule 'nightly'"):
        await pause(database, "schedule", "nightly")
    for name in ("", "a\0b", "x" * 256):
        with pytest.raises(UsageError, match="the queue '"):
            await pause(database, "queue", name)
    with pytest.raises(UsageError, match="'worker' cannot be paused"):
        await pause(database, "worker", "x")  # type: ignore[arg-type]
    assert await database.fetchval("select count(*) from inboxd.controls") == 1
    assert await database.fetchval("select count(*) from inboxd.audit") == 1
