"""Breakers: while a target is down all workers leave its rows alone, one probes, then all go on."""

import json
import signal

import pytest

from inboxd import operations
from inboxd.resilience.rules import Mode
from inboxd_testplugin import breaking
from tests.support import Config, Database, StartWorker, Worker, eventually
from tests.support.rows import daemon_session, effects, emit, send
from tests.support.verdicts import safety

pytestmark = pytest.mark.anyio

# Longer than any wait, so that a poll cannot help.
NO_POLL: Config = {"worker": {"poll_interval": "1h"}}


@pytest.fixture
async def target(database: Database) -> "Target":
    """The target that handlers call."""
    async with database.connect() as connection:
        await connection.execute(breaking.TABLES)
    return Target(database)


class Target:
    """The target, and the breaker's row."""

    def __init__(self, database: Database) -> None:
        self.database = database

    async def go(self) -> None:
        await self.database.fetch("update target set up = false")

    async def come(self) -> None:
        await self.database.fetch("update target set up = true")

    async def calls(self) -> int:
        """The number of calls so far."""
        return int(await self.database.fetchval("select last_value from target_calls"))

    async def breaks(self, of: str = "target") -> int:
        """The number of breaks in a row."""
        opens = "select opens from inboxd.breakers where name = $1"
        return int(await self.database.fetchval(opens, of))

    async def is_(self, state: str, of: str = "target") -> None:
        """Wait for a state of the breaker."""

        async def written() -> bool:
            found = await self.database.fetchval(
                "select state from inboxd.breakers where name = $1", of
            )
            return bool(found == state)

        await eventually(written)


async def known(state: int, *workers: Worker, of: str = "target") -> None:
    """Wait until the metrics of all these workers show: 0 closed, 1 half-open, 2 open."""

    async def all_do() -> bool:
        name = f'inboxd_breaker_state{{name="{of}"}}'
        shown = {await each.metric(name) for each in workers}
        return shown == {state}

    await eventually(all_do)


async def force(database: Database, mode: Mode) -> None:
    """Force the breaker, as an operator does."""
    async with daemon_session(database) as session:
        await operations.force_breaker(session, "target", mode, actor="ada")


async def settled(database: Database, table: str, count: int) -> None:
    async def are() -> bool:
        found = await database.fetchval(
            f"select count(*) from inboxd.{table}_history where status = 'succeeded'"
        )
        return bool(found == count)

    await eventually(are)


@pytest.mark.parametrize(
    ("table", "type_"), [("commands", "test.target"), ("events", "test.target.told")]
)
async def test_rows_of_a_target_that_is_down_wait_without_attempts(
    database: Database, start_worker: StartWorker, target: Target, table: str, type_: str
) -> None:
    workers = [await start_worker(NO_POLL) for _ in range(2)]
    insert = send if table == "commands" else emit
    await target.go()
    await insert(database, 3, type_)
    await target.is_("open")
    await insert(database, 200, type_)
    await send(database, 20, "test.noop")
    await settled(database, "commands", 20)
    await known(2, *workers)
    # Between two breaks there is one call, a probe.
    before, breaks = await target.calls(), await target.breaks()
    await database.fetch(
        "update inboxd.breakers "
        "set open_until = open_until - interval '1 minute', version = version + 1"
    )
    await target.is_("half_open")
    await target.is_("open")
    # Read last: another call may be out already.
    assert await target.calls() - before <= await target.breaks() - breaks + 1
    spent = await database.fetchval(f"select sum(attempts) from inboxd.{table}")
    assert spent <= await target.calls()
    await target.come()
    await settled(database, table, 203 + (20 if table == "commands" else 0))
    await target.is_("closed")
    await known(0, *workers)
    done = await effects(database, table.removesuffix("s"))
    with safety():
        assert set(done.values()) == {1}
    log = [
        json.loads(line)
        for line in workers[0].output().splitlines() + workers[1].output().splitlines()
        if line.startswith("{")
    ]
    told = [line for line in log if line["message"].startswith("breaker")]
    changes = [
        await worker.metric(f'inboxd_breaker_transitions_total{{name="target",to="{to}"}}')
        for worker in workers
        for to in ("open", "half-open", "closed")
    ]
    # Each worker logs each change: one makes it, the other learns of it. Each probe is logged too.
    assert 0 < len(told) <= 4 * sum(changes)


async def test_a_handlers_own_call_delays_only_its_event(
    database: Database, start_worker: StartWorker, target: Target
) -> None:
    worker = await start_worker({})
    await target.go()
    await emit(database, 3, "test.target.own")
    await target.is_("open")
    await force(database, "open")

    async def is_forced() -> bool:
        return await worker.metric('inboxd_breaker_forced{name="target"}') == 1

    await eventually(is_forced)
    calls = await target.calls()
    await emit(database, 20, "test.target.own")
    others = await emit(database, 20, "test.ledger")

    async def done() -> bool:
        found = await effects(database, "event")
        return set(others) <= set(found)

    await eventually(done)
    spent = await database.fetch("select attempts from inboxd.events where type <> 'test.ledger'")
    assert sum(row["attempts"] for row in spent) <= await target.calls() == calls
    await target.come()
    await force(database, "auto")
    await settled(database, "events", 43)
    with safety():
        assert set((await effects(database, "event")).values()) == {1}


async def test_a_thread_calls_under_a_breaker(
    database: Database, start_worker: StartWorker, target: Target
) -> None:
    await start_worker({})
    await target.go()
    await send(database, 3, "test.target.blocking")
    await target.is_("open")
    await target.come()
    await settled(database, "commands", 3)
    await target.is_("closed")


async def half_open(database: Database, target: Target, rows: int) -> None:
    """Insert rows with slow calls, and wait until one of them runs as a probe."""
    await target.go()
    await send(database, 3, "test.target")
    await target.is_("open")
    await database.execute("delete from inboxd.commands")
    await send(database, rows, "test.target", wait=1)
    await target.come()

    async def one_runs() -> bool:
        running = await database.fetchval(
            "select count(*) from inboxd.commands where status = 'running'"
        )
        return bool(running == 1)

    await eventually(one_runs)


async def test_one_probe_runs_at_a_time(
    database: Database, start_worker: StartWorker, target: Target
) -> None:
    for _ in range(2):
        await start_worker(NO_POLL)
    await half_open(database, target, 10)
    await target.is_("closed")
    await settled(database, "commands", 10)
    assert await database.fetchval("select last_value from target_overlaps") == 0
    with safety():
        assert set((await effects(database, "command")).values()) == {1}


@pytest.mark.long
async def test_a_probe_of_a_dead_worker_is_taken_over(
    database: Database, start_worker: StartWorker, target: Target
) -> None:
    """The worker that has the right to probe dies: when its time is over, another worker probes."""
    workers = [await start_worker(NO_POLL) for _ in range(2)]
    await half_open(database, target, 10)
    pid = await database.fetchval(
        "select pid from inboxd.workers join inboxd.breakers on probe_by = id"
    )
    for worker in workers:
        if worker.process.pid == pid:
            worker.kill()
    await target.is_("closed")
    await settled(database, "commands", 10)
    assert await database.fetchval("select last_value from target_overlaps") == 0
    with safety():
        assert set((await effects(database, "command")).values()) == {1}


@pytest.mark.long
@pytest.mark.parametrize(
    ("topic", "type_"),
    [("target-chunks", "test.target.chunk"), ("target-keys", "test.target.key")],
)
async def test_topics_with_lines_stand_still_and_go_on(
    database: Database, start_worker: StartWorker, target: Target, topic: str, type_: str
) -> None:
    await start_worker({})
    await target.go()
    rows = "select $1, $2, '{}', 'k' || n % 4 from generate_series(1, $3) n"
    insert = f"insert into inboxd.events (topic, type, payload, ordering_key) {rows}"
    await database.execute(insert, topic, type_, 20)
    await target.is_("open")
    await force(database, "open")
    await database.execute(insert, topic, type_, 20)
    others = await emit(database, 20, "test.ledger")

    async def done() -> bool:
        return set(others) <= set(await effects(database, "event"))

    await eventually(done)
    assert await database.fetchval("select count(*) from inboxd.events") == 40
    await target.come()
    await force(database, "auto")
    await settled(database, "events", 60)
    await target.is_("closed")
    with safety():
        assert set((await effects(database, "event")).values()) == {1}


@pytest.mark.long
async def test_an_open_breaker_survives_restarts_and_loses_no_row(
    database: Database, start_worker: StartWorker, target: Target
) -> None:
    first = await start_worker(NO_POLL)
    await target.go()
    await send(database, 3, "test.target")
    await target.is_("open")
    await force(database, "open")
    await send(database, 30, "test.target")
    await first.stop()
    second = await start_worker(NO_POLL)
    await send(database, 5, "test.noop")
    await settled(database, "commands", 5)
    left = await database.fetch("select status, attempts from inboxd.commands order by id")
    assert {row["status"] for row in left} == {"pending"}
    assert [row["attempts"] for row in left[3:]] == [0] * 30
    await database.end_sessions()
    await target.come()
    await force(database, "auto")
    await settled(database, "commands", 38)
    with safety():
        assert set((await effects(database, "command")).values()) == {1}
    assert second.process.poll() is None


async def test_a_fallback_is_sent_instead(
    database: Database, start_worker: StartWorker, target: Target
) -> None:
    await start_worker({"breakers": {"target": {"fallback": "test.noop"}}})
    await force(database, "open")
    (id_,) = await send(database, 1, "test.target", wait=0)
    await settled(database, "commands", 2)
    row = (await database.fetch("select * from inboxd.commands_history where id = $1", id_))[0]
    told = json.loads(row["result"])["fallback"]
    sent = (await database.fetch("select * from inboxd.commands_history where id <> $1", id_))[0]
    assert told == {
        "breaker": "target",
        "type": "test.noop",
        "command_id": str(sent["command_id"]),
    }
    assert (sent["payload"], sent["causation_id"]) == (row["payload"], row["command_id"])
    assert await target.calls() == 1  # the initial last_value of a sequence that was not used


@pytest.mark.long
async def test_lines_of_keys_stand_still_and_go_on_in_order(
    database: Database, start_worker: StartWorker, target: Target
) -> None:
    await start_worker({"queues": {"target-lines": {"total_concurrency": 5}}})
    await target.go()
    for key in "abc":
        await database.execute(
            "insert into inboxd.commands (queue, type, payload, ordering_key) "
            "select 'target-lines', 'test.target.line', '{}', $1 from generate_series(1, 20)",
            key,
        )
    await target.is_("open")
    await target.come()
    await settled(database, "commands", 60)
    await target.is_("closed")
    with safety():
        assert set((await effects(database, "command")).values()) == {1}
    order = await database.fetch(
        "select row_id from ledger join inboxd.commands_history c on c.id = row_id "
        "order by ordering_key, finished_at"
    )
    with safety():
        assert [row["row_id"] for row in order] == sorted(row["row_id"] for row in order)


@pytest.mark.parametrize("limits", [{}, {"rate": "1000/s", "total_concurrency": 10}])
async def test_a_queue_needs_a_breaker_whatever_its_handlers_declare(
    database: Database, start_worker: StartWorker, target: Target, limits: Config
) -> None:
    """The same type in another queue goes on, and two breakers count one call."""
    settings: Config = {
        **NO_POLL,
        "queues": {"needing": {"breaker": "of-queue", **limits}},
        "breakers": {
            "of-queue": {"consecutive_failures": 3, "first_break": "1s", "probes": 1, "jitter": 0}
        },
    }
    workers = [await start_worker(settings) for _ in range(2)]
    uses = await database.fetchval("select uses from inboxd.breakers where name = 'of-queue'")
    assert uses == ["queue needing"]
    await target.go()
    insert = (
        "insert into inboxd.commands (queue, type, payload, ordering_key) "
        "select 'needing', 'test.target.plain', '{}', $1 from generate_series(1, $2)"
    )
    await database.execute(insert, None, 3)
    await target.is_("open", of="of-queue")
    breaks, before = await target.breaks("of-queue"), await target.calls()
    await database.execute(insert, None, 50)
    await database.execute(insert, "a", 20)
    await send(database, 20, "test.noop")
    await settled(database, "commands", 20)
    spent = await database.fetchval("select sum(attempts) from inboxd.commands")
    called = await target.calls()
    assert spent <= called
    probes = await target.breaks("of-queue") - breaks + 1
    assert called - before <= probes + 3, "one probe per break, besides three calls that had begun"
    await target.come()
    await settled(database, "commands", 93)
    await target.is_("closed", of="of-queue")
    with safety():
        assert set((await effects(database, "command")).values()) == {1}
    counted = 'inboxd_breaker_calls_total{name="of-queue",outcome="succeeded"}'

    async def all_are_counted() -> bool:
        return sum([await each.metric(counted) for each in workers]) == 73

    await eventually(all_are_counted)


async def test_a_queue_gets_its_breaker_while_the_worker_runs(
    database: Database, start_worker: StartWorker, target: Target
) -> None:
    worker = await start_worker({**NO_POLL, "queues": {"needing": {"concurrency": 5}}})
    settings = worker.log.with_suffix(".toml")
    text = settings.read_text().replace(
        "queues = {", 'queues = { "late" = { "breaker" = "of-late" },'
    )
    settings.write_text(text)
    worker.process.send_signal(signal.SIGHUP)
    await target.is_("closed", of="of-late")
    async with daemon_session(database) as session:
        await operations.force_breaker(session, "of-late", "open", actor="ada")
    await known(2, worker, of="of-late")
    await database.execute(
        "insert into inboxd.commands (queue, type, payload) "
        "values ('late', 'test.target.plain', '{}'), ('needing', 'test.target.plain', '{}')"
    )
    await settled(database, "commands", 1)
    left = await database.fetch("select queue, status, fence from inboxd.commands")
    assert [tuple(row) for row in left] == [("late", "pending", 0)]


async def test_rules_of_a_reload_are_written_at_once(
    database: Database, start_worker: StartWorker
) -> None:
    worker = await start_worker({**NO_POLL, "breakers": {"target": {"probes": 2}}})
    settings = worker.log.with_suffix(".toml")
    text = settings.read_text().replace("breakers = {", 'breakers = { "new" = { "probes" = 3 },')
    settings.write_text(text)
    worker.process.send_signal(signal.SIGHUP)

    async def is_written() -> bool:
        find = "select count(*) from inboxd.breakers where name = 'new'"
        return bool(await database.fetchval(find))

    await eventually(is_written)


async def test_all_workers_obey_a_forced_breaker_at_once(
    database: Database, start_worker: StartWorker, target: Target
) -> None:
    """Leased commands that have not started are released; later rows are not leased."""
    workers = [await start_worker(NO_POLL) for _ in range(2)]
    await force(database, "open")
    await known(2, *workers)
    ids = await send(database, 50, "test.target")
    await send(database, 20, "test.noop")
    await settled(database, "commands", 20)
    left = await database.fetch("select id, status, fence from inboxd.commands order by id")
    assert [tuple(row) for row in left] == [(id_, "pending", 0) for id_ in ids]
    await force(database, "metrics_only")
    await settled(database, "commands", 70)
    assert await target.calls() == 50


async def test_a_reload_changes_the_rules_of_a_running_worker(
    database: Database, start_worker: StartWorker, target: Target
) -> None:
    rules = {"consecutive_failures": 1000, "failure_ratio": 0}
    worker = await start_worker({"breakers": {"target": rules}})
    await target.go()
    await send(database, 2, "test.target")

    async def fail_often() -> bool:
        return await target.calls() > 20

    await eventually(fail_often)
    assert await worker.metric('inboxd_breaker_state{name="target"}') == 0
    settings = worker.log.with_suffix(".toml")
    settings.write_text(settings.read_text().replace("1000", "5"))
    worker.process.send_signal(signal.SIGHUP)
    await target.is_("open")
    told = [line for line in worker.output().splitlines() if "settings are reloaded" in line]
    assert json.loads(told[0])["live"] == ["breakers.target.consecutive_failures"]
    # New rules that replace these are applied as well: the rows no longer wait for the target.
    settings.write_text(
        settings.read_text().replace('"consecutive_failures" = 5', '"fallback" = "test.noop"')
    )
    worker.process.send_signal(signal.SIGHUP)
    await settled(database, "commands", 4)
