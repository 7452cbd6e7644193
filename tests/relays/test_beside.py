"""Relays beside each other and beside other work: several pages, few connections, stops."""

import pytest

from tests.relays.relaying import attempts, emit, in_order, relaying, settled
from tests.support import Config, Database, StartWorker
from tests.support.line_broker import LineBroker, Message, Refusal
from tests.support.verdicts import safety

pytestmark = pytest.mark.anyio


async def test_two_pages_of_one_worker_with_lines_that_wait(
    database: Database, start_worker: StartWorker, broker: LineBroker
) -> None:
    """No key is in both pages; events that are lined up after refusals come once, in order."""
    refused: set[object] = set()

    def now_and_then(message: Message) -> Refusal | str | None:
        number = message["body"]
        if number % 3 == 0 and number not in refused:
            refused.add(number)
            return Refusal()
        return "slow" if number % 10 == 0 else None

    broker.judge = now_and_then
    await start_worker(relaying(broker, {"page_rows": 40, "concurrency": 2}))
    await emit(database, [f"k{n % 50}" for n in range(400)])
    await settled(database, 400)
    with safety():
        in_order(broker.taken)
    assert len(broker.taken) == 400
    assert broker.connections == 2
    with safety():
        assert await attempts(database) == {1, 2}


async def test_a_suspended_page_is_published_when_work_continues(
    database: Database, start_worker: StartWorker, broker: LineBroker
) -> None:
    broker.judge = lambda _: "silent"
    own: Config = {"worker": {"lease": "6s", "heartbeat_interval": "500ms"}}
    worker = await start_worker(relaying(broker, {"timeout": "60s"}, own))
    await emit(database, ["k"] * 5)
    await broker.until(lambda: len(broker.taken) == 1)
    async with database.connect() as other, other.transaction():
        await other.execute("select from inboxd.workers for update")  # it blocks heartbeats
        await worker.logged("work is suspended")
        broker.judge = lambda _: None
    await worker.logged("work goes on")
    await settled(database, 5)
    with safety():
        assert [each["body"] for each in broker.taken] == [1, 1, 2, 3, 4, 5]
        assert await attempts(database) == {1}


@pytest.mark.parametrize("relay", [{}, {"concurrency": 4, "page_rows": 20}])
async def test_few_connections_to_the_database_are_enough(
    database: Database, start_worker: StartWorker, broker: LineBroker, relay: dict[str, object]
) -> None:
    few: Config = {"database": {"pool_size": 2}, "events": {"chunk_concurrency": 1}}
    await start_worker(relaying(broker, relay, few))
    await emit(database, [f"k{n % 50}" for n in range(300)])
    await database.execute(
        "insert into inboxd.events (type, payload) select 'test.noop', '{}' "
        "from generate_series(1, 50)"
    )
    await settled(database, 350)
    with safety():
        in_order(broker.taken)
    assert len(broker.taken) == 300


async def test_slow_handlers_of_other_events_delay_no_relay(
    database: Database, start_worker: StartWorker, broker: LineBroker
) -> None:
    await database.execute("create table ledger (kind text, row_id bigint, note text)")
    await start_worker(relaying(broker, None, {"events": {"page_time": "20s"}}))
    await emit(database, ["k"])
    await broker.until(lambda: len(broker.taken) == 1)
    await database.execute(
        "insert into inboxd.events (type, payload) select 'test.ledger', '{\"wait\": 0.25}' "
        "from generate_series(1, 16)"
    )
    await emit(database, ["k"] * 20, start=2)
    await settled(database, 21)
    still = "select count(*) from inboxd.events where type = 'test.ledger'"
    assert await database.fetchval(still) == 16
    with safety():
        in_order(broker.taken)


async def test_a_worker_that_drains_settles_the_pages_of_all_its_relays(
    database: Database, start_worker: StartWorker, broker: LineBroker
) -> None:
    broker.judge = lambda _: "silent"
    both = {"results": "match.result", "goals": "match.goal"}
    relays = {
        name: {"broker": "lines", "types": [type_], "timeout": "60s"}
        for name, type_ in both.items()
    }
    worker = await start_worker(relaying(broker, None, {"relays": relays}))
    await emit(database, ["a", "b", "b"])
    await emit(database, ["c"], start=4, type_="match.goal")
    await emit(database, ["d"], start=5)
    await broker.until(lambda: {1, 2, 4, 5} == {each["body"] for each in broker.taken})
    worker.process.terminate()
    await worker.logged("draining")
    broker.judge = lambda _: None
    broker.confirm()
    assert await worker.wait() == 0
    await settled(database, 4)
    # Another worker publishes the events behind the wave that was under way.
    with safety():
        assert sorted(each["body"] for each in broker.taken) == [1, 2, 4, 5]
        assert await database.fetchval("select count(worker_id) from inboxd.relay_leases") == 0
