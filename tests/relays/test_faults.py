"""Relays under faults: nothing lost or out of order, no attempt spent by an outage (R4.27)."""

import json
import random
from collections import Counter
from datetime import datetime

import anyio
import pytest

from tests.relays.relaying import attempts, emit, in_order, relaying, settled
from tests.support import Config, Database, StartWorker, eventually
from tests.support.line_broker import LineBroker, Message
from tests.support.proxy import proxy
from tests.support.rows import daemon_session, join
from tests.support.verdicts import safety
from tests.support.waiting import patient

pytestmark = pytest.mark.anyio

# A death is noticed within seconds, but a short pause of the machine does not count as one.
QUICK: Config = {"worker": {"lease": "6s", "heartbeat_interval": "500ms"}}
BREAKER: Config = {"breakers": {"broker.lines": {"first_break": "100ms", "longest_break": "300ms"}}}


def keys(rows: int, seed: int = 3) -> list[str | None]:
    """Keys in random order; some events without one."""
    chance = random.Random(seed)
    return [f"k{chance.randrange(20)}" if chance.random() < 0.8 else None for _ in range(rows)]


async def test_a_broker_that_is_away_spends_no_attempt(
    database: Database, start_worker: StartWorker, broker: LineBroker
) -> None:
    await broker.stop()
    worker = await start_worker(relaying(broker, {}, BREAKER))
    await emit(database, keys(2000))
    await worker.logged("publishing to a broker failed")

    await worker.logged("breaker opens")
    with safety():
        assert await database.fetchval("select max(attempts) from inboxd.events") == 0
    await broker.start()
    await settled(database, 2000)
    with safety():
        in_order(broker.taken)
        assert len({each["id"] for each in broker.taken}) == 2000
        assert await attempts(database) == {1}


async def test_cuts_between_publish_and_confirm_lose_nothing(
    database: Database, start_worker: StartWorker, broker: LineBroker
) -> None:
    chance = random.Random(7)

    def now_and_then(_: Message) -> str | None:
        if chance.random() < 0.99:
            return None
        return chance.choice(["cut", "lost"])

    broker.judge = now_and_then
    await start_worker(relaying(broker, {"page_rows": 100}, BREAKER))
    await emit(database, keys(1500))
    await settled(database, 1500)
    with safety():
        in_order(broker.taken)
        assert len({each["id"] for each in broker.taken}) == 1500
        assert await attempts(database) == {1}
    # Only messages that were sent together when a connection broke are repeated.
    assert len(broker.taken) < 1500 + 100 * broker.connections


async def test_a_broker_that_hangs_holds_no_transaction_and_no_other_topic(
    database: Database, start_worker: StartWorker, broker: LineBroker
) -> None:
    broker.judge = lambda _: "silent"
    await start_worker(relaying(broker, {"timeout": "10m"}))
    await emit(database, keys(50))
    await broker.until(lambda: len(broker.taken) > 20)
    await database.execute("insert into inboxd.events (type, payload) values ('test.noop', '{}')")
    await settled(database, 1)
    asked = await database.fetchval("select clock_timestamp()")

    async def none_is_older() -> bool:
        found = await database.fetchval(
            "select count(*) from pg_stat_activity where datname = current_database()"
            " and application_name like 'inboxd %' and xact_start < $1",
            asked,
        )
        return bool(found == 0)

    await eventually(none_is_older)
    broker.judge = lambda _: None
    broker.confirm()
    await settled(database, 51)
    with safety():
        assert await attempts(database) == {1}


@pytest.mark.long
@pytest.mark.timeout(300)
async def test_a_broker_that_hangs_for_a_minute_holds_no_transaction_meanwhile(
    database: Database, start_worker: StartWorker, broker: LineBroker
) -> None:
    """No transaction of the worker is older than a second while none of its statements runs."""
    broker.judge = lambda _: "silent"
    await start_worker(relaying(broker, {"timeout": "10m"}, {"worker": {"lease": "60s"}}))
    await emit(database, keys(50))
    await broker.until(lambda: len(broker.taken) > 20)
    # How often each transaction was found idle. Looks are counted, not seconds: while the machine
    # stands still, the test does not look either.
    found_idle: Counter[tuple[int, datetime]] = Counter()
    for _ in range(300):
        await database.execute(
            "insert into inboxd.events (type, payload) values ('test.noop', '{}')"
        )
        sessions = await database.fetch(
            "select pid, xact_start, state like 'idle in transaction%' as is_idle"
            " from pg_stat_activity"
            " where datname = current_database() and application_name like 'inboxd %'"
        )
        assert sessions
        idle = [each for each in sessions if each["is_idle"]]
        found_idle.update((each["pid"], each["xact_start"]) for each in idle)
        await anyio.sleep(0.2)
    assert {each: looks for each, looks in found_idle.items() if looks > patient(5)} == {}
    assert len(broker.taken) < 50, "the pages wait for their first answers"
    broker.judge = lambda _: None
    broker.confirm()
    await settled(database, 350)
    with safety():
        assert await attempts(database) == {1}


async def test_a_worker_that_was_stopped_past_its_lease_settles_nothing(
    database: Database, start_worker: StartWorker, broker: LineBroker
) -> None:
    broker.judge = lambda _: "silent"
    first = await start_worker(relaying(broker, {"timeout": "30s"}, QUICK))
    await emit(database, ["k"] * 5)
    await broker.until(lambda: len(broker.taken) == 1)
    first.pause()
    broker.judge = lambda _: None
    broker.confirm()  # the worker reads this when it runs again
    await start_worker(relaying(broker, {}, QUICK))
    await settled(database, 5)
    worker_of = "select distinct worker_id from inboxd.events_history"
    [settler] = await database.fetch(worker_of)
    await emit(database, ["k"] * 5, start=6)
    first.resume()
    await first.logged("this worker was declared dead")
    await settled(database, 10)
    again = await database.fetch("select worker_id from inboxd.events_history where payload = '1'")
    with safety():
        assert again == [settler]
        assert [each["body"] for each in broker.taken] == [1, *range(1, 11)]


@pytest.mark.long
async def test_workers_that_are_killed_and_cut_lose_nothing(
    database: Database, start_worker: StartWorker, broker: LineBroker
) -> None:
    """In the end all messages arrived in order, with no attempt spent."""
    chance = random.Random(11)
    broker.judge = lambda _: "cut" if chance.random() < 0.001 else None
    config = relaying(broker, {"page_rows": 200}, QUICK, BREAKER)
    workers = [await start_worker(config) for _ in range(2)]
    for turn in range(4):
        await emit(database, keys(3000, seed=turn), start=1 + 3000 * turn)
        await settled(database, 3000 * turn + 500)
        workers.pop(0).kill()
        workers.append(await start_worker(config))
    await settled(database, 12_000)
    with safety():
        in_order(broker.taken)
        assert len({each["id"] for each in broker.taken}) == 12_000
        assert await attempts(database) == {1}


async def test_a_broker_that_hangs_causes_no_busy_loop(
    database: Database, start_worker: StartWorker, broker: LineBroker
) -> None:
    broker.judge = lambda _: "silent"
    await start_worker(relaying(broker, {"timeout": "3s"}))
    committed = "select xact_commit from pg_stat_database where datname = current_database()"
    await emit(database, ["k"] * 3)
    await broker.until(lambda: len(broker.taken) == 1)
    before = await database.fetchval(committed)
    await broker.until(lambda: broker.connections == 2)
    # In three seconds, with the worker's other work; a loop without a pause makes 17,000.
    assert await database.fetchval(committed) - before < 1500


async def test_an_event_that_cannot_be_settled_yet_is_not_published_again(
    database: Database, start_worker: StartWorker, broker: LineBroker
) -> None:
    await database.execute(
        "create function refuse() returns trigger language plpgsql as "
        "$$ begin raise 'not now'; end $$; "
        "create trigger refuse before insert on inboxd.events_history "
        "for each row execute function refuse()"
    )
    worker = await start_worker(relaying(broker))
    await emit(database, ["k", "other", None])
    await worker.logged('"pause":0.4')
    assert len(broker.taken) == 3
    await database.execute("drop function refuse() cascade")
    await settled(database, 3)
    with safety():
        assert len(broker.taken) == 3


async def test_an_event_that_can_never_be_settled_is_a_dead_letter_and_blocks_no_other(
    database: Database, start_worker: StartWorker, broker: LineBroker
) -> None:
    await database.execute(
        "create function refuse() returns trigger language plpgsql as "
        "$$ begin if new.payload = '2' then raise 'poison'; end if; return new; end $$; "
        "create trigger refuse before insert on inboxd.events_history "
        "for each row execute function refuse()"
    )
    await start_worker(relaying(broker))
    await emit(database, ["k", "k", "k", "other", None])
    await settled(database, 4)
    await emit(database, ["k"], start=6)
    await settled(database, 5)
    with safety():
        assert sorted(each["body"] for each in broker.taken) == [1, 2, 3, 4, 5, 6]
        [dead] = await database.fetch("select status, payload, errors from inboxd.events")
        assert (dead["status"], dead["payload"]) == ("failed", "2")
    assert "it was published, but the database refuses to settle it" in dead["errors"]


async def test_lines_of_another_worker_hide_no_other_lines(
    database: Database, start_worker: StartWorker, broker: LineBroker
) -> None:
    await database.execute(
        "insert into inboxd.controls (kind, name, actor) values ('topic', 'results', 'me')"
    )
    await start_worker(relaying(broker))
    await emit(database, [f"k{n}" for n in range(300)] + ["free"])
    lined_up = "update inboxd.events set position = 1, head = true"  # as after a refusal
    await database.execute(lined_up)
    async with daemon_session(database) as session:
        another = await join(session)
        await database.execute(
            "insert into inboxd.relay_leases (topic, bucket, worker_id) "
            "select 'results', bucket, $1 from generate_series(0, 63) bucket where bucket <> "
            "(select bucket from inboxd.events where ordering_key = 'free') "
            "on conflict (topic, bucket) do update set worker_id = $1",
            another,
        )
        await database.execute("delete from inboxd.controls")
        await broker.until(lambda: any(each["key"] == "free" for each in broker.taken))
    assert len(broker.taken) < 30  # the other worker is alive


async def test_waiting_lines_take_at_most_the_buckets_of_a_worker(
    database: Database, start_worker: StartWorker, broker: LineBroker
) -> None:
    """A broker that hangs for one worker leaves the other workers their share."""
    broker.judge = lambda _: "silent"
    await database.execute(
        "insert into inboxd.controls (kind, name, actor) values ('topic', 'results', 'me')"
    )
    async with daemon_session(database) as session:
        await join(session)
        await start_worker(relaying(broker, {"timeout": "60s", "concurrency": 2}))
        await emit(database, [f"k{n}" for n in range(300)])
        await database.execute("update inboxd.events set position = 1, head = true")
        await database.execute("delete from inboxd.controls")
        await broker.until(lambda: broker.connections == 2)
    leased = await database.fetchval("select count(worker_id) from inboxd.relay_leases")
    assert 16 <= leased <= 32


@pytest.mark.long
async def test_a_lost_server_is_reported_while_a_page_waits_for_its_broker(
    database: Database, start_worker: StartWorker, broker: LineBroker
) -> None:
    broker.judge = lambda _: "silent"
    with proxy(database.dsn) as way:
        own: Config = {
            "database": {"dsn": way.dsn, "statement_timeout": "3s"},
            "worker": {"poll_interval": "500ms", "lease": "60s"},
        }
        worker = await start_worker(relaying(broker, {"timeout": "60s"}, own))
        await emit(database, ["k"])
        await broker.until(lambda: len(broker.taken) == 1)
        assert way.swallow("daemon") > 0

        async def is_unready() -> bool:
            _, page = await worker.get("/readyz")
            parts = {part["name"]: part["detail"] for part in json.loads(page)["parts"]}
            return bool(parts["events"] == "waits for the database")

        await eventually(is_unready)


async def test_a_hot_key_delays_no_other(
    database: Database, start_worker: StartWorker, broker: LineBroker
) -> None:
    """Each of its events waits for the confirmation of the one before."""
    broker.judge = lambda each: None if each["key"] == "other" else "slow"
    await start_worker(relaying(broker, {"page_rows": 10_000}))
    await emit(database, ["hot"] * 1000)
    await broker.until(lambda: len(broker.taken) > 20)
    await emit(database, [f"k{n}" for n in range(100)] + ["other"], start=1001)
    await broker.until(lambda: "other" in {each["key"] for each in broker.taken})
    assert len(broker.keys()["hot"]) < 900
    with safety():
        in_order(broker.taken)
