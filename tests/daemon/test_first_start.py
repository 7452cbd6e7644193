"""Events from before the first worker: each is handled once, in its place (ADR 18)."""

import json
from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from typing import Any

import anyio
import asyncpg
import pytest

from inboxd_testplugin.chunked import TABLES
from tests.daemon.inbox import Inbox
from tests.support import Database, StartWorker, Worker, eventually
from tests.support.order import TRAIL, settled
from tests.support.worker import looked_again

pytestmark = pytest.mark.anyio

_WRITE = (
    "insert into inboxd.events (type, topic, payload) "
    "select $1, $2, p::jsonb from unnest($3::text[]) with ordinality as t(p, n) order by n"
)
_TOLD = (
    "select e.topic, e.ordering_key as key, (e.payload ->> 'n')::int as n, e.event_id"
    " from inboxd.events_history e order by e.topic, e.finished_at, e.id"
)


@pytest.fixture
async def virgin(own: Inbox) -> Database:
    """A database that no worker has used, with the tables of the handlers."""
    await own.database.execute(TRAIL + TABLES)
    return own.database


async def write(
    where: "Database | asyncpg.Connection",
    type_: str,
    numbers: Sequence[int],
    keys: int = 7,
    topic: str | None = None,
) -> None:
    """Insert an event for each number, over this many keys, in one statement."""
    payloads = [json.dumps({"key": f"k{n % keys}", "n": n}) for n in numbers]
    await where.execute(_WRITE, type_, topic, payloads)


async def shows_held(worker: Worker, count: int) -> bool:
    """Whether /metrics shows waiting topics: any for a count above 0, or else none."""
    found = await worker.metric("inboxd_held_topics")
    return found > 0 if count else found == 0


async def steps(database: Database, table: str = "trail") -> dict[str, list[int]]:
    """The numbers of each key's events, in the order in which they were handled."""
    ids = {"trail": "array[t.event]", "chunks": "t.ids"}[table]
    order = {"trail": "t.position", "chunks": "t.id"}[table]
    rows = await database.fetch(
        f"select e.ordering_key as key, (e.payload ->> 'n')::int as n from {table} t,"
        f" unnest({ids}) with ordinality as i(id, n)"
        f" join inboxd.events_history e on e.id = i.id order by {order}, i.n"
    )
    found = defaultdict(list)
    for row in rows:
        found[row["key"]].append(row["n"])
    return dict(found)


def expected(numbers: Sequence[int], keys: int = 7) -> dict[str, list[int]]:
    """The result of `steps` after `write`."""
    found = defaultdict(list)
    for n in numbers:
        found[f"k{n % keys}"].append(n)
    return dict(found)


async def dead(database: Database) -> list[Any]:
    return await database.fetch("select * from inboxd.events where status = 'failed'")


async def test_the_first_worker_handles_waiting_events(
    virgin: Database, start_worker: StartWorker
) -> None:
    """One topic has lines, one has chunks; later events run after the waiting ones."""
    await write(virgin, "test.turn", range(2_000), keys=50)
    await write(virgin, "chunked.counted", range(5_000), keys=10)
    await start_worker()
    await write(virgin, "test.turn", range(2_000, 2_100), keys=50)
    await settled(virgin, 7_100)
    assert await steps(virgin) == expected(range(2_100), keys=50)
    assert await steps(virgin, "chunks") == expected(range(5_000), keys=10)
    assert set(await sizes(virgin)) == {5}
    assert await dead(virgin) == []


async def sizes(database: Database) -> list[int]:
    return [row["size"] for row in await database.fetch("select size from chunks")]


async def test_producers_write_during_the_intake(
    virgin: Database, start_worker: StartWorker
) -> None:
    """Each producer has its own keys, so their order is known; some hold transactions open."""
    done, most = anyio.Event(), 4

    async def produce(number: int, *, patient: bool, isolation: Any) -> None:
        n = 0
        async with virgin.connect() as connection:
            while not done.is_set():
                async with connection.transaction(isolation=isolation):
                    for _ in range(3):
                        written[number].append(n)
                        payload = json.dumps({"key": f"p{number}", "n": n})
                        await connection.execute(
                            "insert into inboxd.events (type, payload) values ('test.turn', $1)",
                            payload,
                        )
                        n += 1
                        if patient:
                            await anyio.sleep(0.3)
                await anyio.sleep(0.01)

    async def each_has_written(count: int) -> bool:
        return len(written) == most and min(map(len, written.values())) >= count

    written: dict[int, list[int]] = defaultdict(list)
    await write(virgin, "test.turn", range(700))
    async with anyio.create_task_group() as tasks:
        for number in range(most):
            isolation = "repeatable_read" if number % 4 == 3 else "read_committed"
            patient = number % 2 == 0
            tasks.start_soon(partial(produce, number, patient=patient, isolation=isolation))
        await eventually(partial(each_has_written, 4))  # a transaction, and part of another
        await start_worker()
        await start_worker()
        await eventually(partial(virgin.fetchval, "select exists (select from trail)"))
        before = min(map(len, written.values()))
        await eventually(partial(each_has_written, before + 4))  # during the intake
        done.set()
    await settled(virgin, 700 + sum(map(len, written.values())), within=60)
    found = await steps(virgin)
    assert found == expected(range(700)) | {f"p{n}": each for n, each in written.items()}
    assert await dead(virgin) == []


async def test_events_of_an_older_open_transaction_come_first(
    virgin: Database, start_worker: StartWorker
) -> None:
    async with virgin.connect() as producer, producer.transaction():
        await write(producer, "test.turn", [0], keys=1)
        worker = await start_worker({"maintenance": {"interval": "1s"}})
        await write(virgin, "test.turn", [1], keys=1)
        held = "select topic from inboxd.intakes where type = 'test.turn' and finished_at is null"
        assert await virgin.fetchval(held) == "ordered"
        await looked_again(virgin, "event", worker)
        await eventually(partial(shows_held, worker, 1))
        assert await steps(virgin) == {}
    await settled(virgin, 2)
    await eventually(partial(shows_held, worker, 0))
    assert await steps(virgin) == {"k0": [0, 1]}


async def test_a_new_type_joins_a_topic_of_a_living_worker(
    virgin: Database, start_worker: StartWorker
) -> None:
    """The lines of the topic go on: waiting events come before new ones."""
    await start_worker()
    await virgin.execute(
        "delete from inboxd.subscriptions where type = 'test.other_turn';"
        "delete from inboxd.intakes where type = 'test.other_turn'"
    )
    await write(virgin, "test.turn", [0], keys=1)
    async with virgin.connect() as producer, producer.transaction():
        await write(producer, "test.other_turn", [1], keys=1)
        await start_worker()
        await write(virgin, "test.turn", [2], keys=1)
        await write(virgin, "test.other_turn", [3], keys=1)
    await settled(virgin, 4)
    assert await steps(virgin) == {"k0": [0, 1, 2, 3]}


@pytest.mark.long
async def test_a_killed_intake_is_continued_by_the_next_worker(
    virgin: Database, start_worker: StartWorker
) -> None:
    await write(virgin, "test.turn", range(1_500))
    async with virgin.connect() as operator, operator.transaction():
        last = "select from inboxd.events where id = (select max(id) from inboxd.events) for update"
        await operator.execute(last)  # so that the intake cannot finish
        first = await start_worker()
        begun = "select max(taken) = 1499 from inboxd.intakes"
        await eventually(partial(virgin.fetchval, begun))
        first.kill()
    assert await virgin.fetchval("select count(*) from inboxd.events_history") == 0
    await start_worker()
    await settled(virgin, 1_500)
    assert await steps(virgin) == expected(range(1_500))


async def test_two_first_workers_start_at_once(virgin: Database, start_worker: StartWorker) -> None:
    await write(virgin, "test.turn", range(1_000))
    await write(virgin, "chunked.counted", range(1_050))
    for worker in [await start_worker(ready=False) for _ in range(2)]:
        await worker.ready()
    await settled(virgin, 2_050)
    assert await steps(virgin) == expected(range(1_000))
    assert sum(await sizes(virgin)) == 1_050
    assert await dead(virgin) == []
