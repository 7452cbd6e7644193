"""Sources of whole workers from NATS JetStream: each message once, despite any death."""

import json
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any
from uuid import uuid4

import anyio
import pytest
from nats.js import JetStreamContext

from inboxd import operations
from tests.messages.consuming import (
    being_stored,
    body,
    consuming,
    forget,
    is_told,
    mortal,
    numbers,
    slow_commit,
    stored,
)
from tests.support import Config, Database, StartWorker, eventually
from tests.support.nats import NatsServer, jetstream, nats_client, nats_server
from tests.support.rows import daemon_session
from tests.support.verdicts import safety
from tests.support.waiting import patient

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def nats(one_nats: None) -> Iterator[NatsServer]:
    """A server that the tests of this module share."""
    with nats_server() as running:
        yield running


@pytest.fixture
async def js(nats: NatsServer) -> AsyncIterator[JetStreamContext]:
    """JetStream through a plain client, with a stream of the test's own."""
    async with jetstream(nats) as context:
        for info in await context.streams_info():
            await context.delete_stream(str(info.config.name))
        await context.add_stream(name="RESULTS", subjects=["results.>"])
        yield context


@pytest.fixture
def config(nats: NatsServer) -> Config:
    """The settings of a worker that reads the stream."""
    return _reading(nats)


def _reading(
    nats: NatsServer, others: Mapping[str, Mapping[str, Any]] | None = None, **source: Any
) -> Config:
    broker = {"kind": "nats", "servers": [nats.address]}
    return consuming(broker, {"nats_stream": "RESULTS", "page_rows": 50, **source}, others)


async def _publish(js: JetStreamContext, start: int, end: int, subject: str = "results.a") -> None:
    for number in range(start, end + 1):
        await js.publish(subject, body(number))


async def test_a_worker_killed_between_commit_and_acknowledgement_stores_once(
    database: Database, start_worker: StartWorker, js: JetStreamContext, config: Config
) -> None:
    worker = await start_worker(mortal(config))
    await _publish(js, 1, 1)
    await stored(database, 1)
    async with slow_commit(database):
        await _publish(js, 2, 10)
        await being_stored(database)
        worker.kill()
    await stored(database, 2)  # the server has received the statements, and commits
    await start_worker(mortal(config))
    await _publish(js, 11, 12)
    with safety():
        assert await stored(database, 12) == [*range(1, 13)]
    info = await js.stream_info("RESULTS")
    position = await database.fetchval("select position from inboxd.stream_positions")
    with safety():
        assert position == info.state.last_seq


async def test_a_commit_longer_than_ack_wait_stores_once(
    database: Database,
    start_worker: StartWorker,
    nats: NatsServer,
    js: JetStreamContext,
    config: Config,
) -> None:
    """All messages come again while they are being stored (R0.4)."""
    worker = await start_worker(config)
    await _publish(js, 1, 1)
    await stored(database, 1)
    await _shorten_ack_wait(nats)
    async with slow_commit(database):
        await _publish(js, 2, 10)
        await being_stored(database)

        async def have_come_again() -> bool:
            info = await js.consumer_info("RESULTS", "inboxd-results")
            return (info.num_redelivered or 0) >= 9

        await eventually(have_come_again)
    await _publish(js, 11, 12)
    with safety():
        assert await stored(database, 12) == [*range(1, 13)]

    async def all_are_acknowledged() -> bool:
        info = await js.consumer_info("RESULTS", "inboxd-results")
        floor = info.ack_floor
        return info.num_ack_pending == 0 and floor is not None and floor.stream_seq == 12

    await eventually(all_are_acknowledged)
    with safety():
        assert await numbers(database) == [*range(1, 13)]
    failures = 'inboxd_messages_acknowledge_failures_total{broker="main",source="results"}'
    assert await worker.metric(failures) == 0


async def _shorten_ack_wait(nats: NatsServer) -> None:
    """Deliver again after 100 ms what is not acknowledged; inboxd asks for many hours."""
    name, ack_wait = "RESULTS.inboxd-results", 10**8
    async with nats_client(nats) as client:

        async def ask(what: str, **body: object) -> dict[str, Any]:
            answer = await client.request(
                f"$JS.API.CONSUMER.{what}.{name}", json.dumps(body).encode(), timeout=patient()
            )
            told: dict[str, Any] = json.loads(answer.data)
            assert "error" not in told, told
            return told

        found = await ask("INFO")
        wanted = {**found["config"], "ack_wait": ack_wait}
        changed = await ask("DURABLE.CREATE", stream_name="RESULTS", config=wanted)
    assert (changed["config"]["ack_wait"], changed["created"]) == (ack_wait, found["created"])


@pytest.mark.long
async def test_workers_killed_under_load_store_each_message_once(
    database: Database, start_worker: StartWorker, js: JetStreamContext, config: Config
) -> None:
    config = mortal(config)
    workers = {each.process.pid: each for each in [await start_worker(config) for _ in range(2)]}
    await is_told(database, "reading", "standby")
    for first in (1, 501, 1001):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_publish, js, first, first + 499)
            await stored(database, first + 100)
            workers.pop(await _reader(database)).kill()
            another = await start_worker(config)
            workers[another.process.pid] = another
        with safety():
            assert await stored(database, first + 499) == [*range(1, first + 500)]


async def _reader(database: Database) -> int:
    """The pid of the process that reads the stream."""
    found: int = await database.fetchval(
        "select w.pid from inboxd.stream_positions s join inboxd.workers w on w.id = s.reader"
    )
    return found


async def test_a_worker_that_was_stopped_past_its_lease_stores_nothing(
    database: Database, start_worker: StartWorker, js: JetStreamContext, config: Config
) -> None:
    """Messages that it has received, or that wait in its socket, are another worker's by then."""
    first = await start_worker(mortal(config))
    await _publish(js, 1, 1)
    await stored(database, 1)
    first.pause()
    await _publish(js, 2, 50)
    await start_worker(mortal(config))
    await stored(database, 50)
    first.resume()
    await first.logged("declared dead")
    await _publish(js, 51, 60)
    with safety():
        assert await stored(database, 60) == [*range(1, 61)]


async def test_a_database_from_a_backup_gets_later_messages_again(
    database: Database, start_worker: StartWorker, js: JetStreamContext, config: Config
) -> None:
    worker = await start_worker(config)
    await _publish(js, 1, 20)
    await stored(database, 20)
    await worker.stop()
    await forget(database, above=5)
    await database.execute("update inboxd.stream_positions set position = 5")
    await start_worker(config)
    await _publish(js, 21, 22)
    with safety():
        assert await stored(database, 22) == [*range(1, 23)]


async def test_a_stream_that_was_made_anew_stops_its_source_until_it_is_reset(
    database: Database, start_worker: StartWorker, js: JetStreamContext, config: Config
) -> None:
    worker = await start_worker(config)
    await _publish(js, 1, 5)
    await stored(database, 5)
    await worker.stop()
    await js.delete_stream("RESULTS")
    await js.add_stream(name="RESULTS", subjects=["results.>"])
    await _publish(js, 6, 12)
    worker = await start_worker(config)
    await is_told(database, "lost")
    with safety():
        assert await numbers(database) == [1, 2, 3, 4, 5]
    lost = 'inboxd_messages_source_state{broker="main",source="results",state="lost"}'
    assert await worker.metric(lost) == 1
    async with daemon_session(database) as session:
        given = ("results", "RESULTS", "2")
        await operations.reset_stream(session, *given, actor="me")
    with safety():
        assert await stored(database, 10) == [1, 2, 3, 4, 5, 8, 9, 10, 11, 12]
    assert await worker.metric(lost) == 0


async def test_a_reset_takes_effect_in_a_running_worker(
    database: Database, start_worker: StartWorker, js: JetStreamContext, config: Config
) -> None:
    await start_worker(config)
    await _publish(js, 1, 5)
    await stored(database, 5)
    await forget(database)
    async with daemon_session(database) as session:
        given = ("results", "RESULTS", "oldest")
        await operations.reset_stream(session, *given, actor="me")
    with safety():
        assert await stored(database, 5) == [1, 2, 3, 4, 5]
    async with daemon_session(database) as session:
        given = ("results", "RESULTS", "newest")
        await operations.reset_stream(session, *given, actor="me")
    await is_told(database, "reading")

    async def is_at_the_end() -> bool:
        position = await database.fetchval("select position from inboxd.stream_positions")
        return bool(position == 5)

    await eventually(is_at_the_end)
    await _publish(js, 6, 6)
    with safety():
        assert await stored(database, 6) == [1, 2, 3, 4, 5, 6]


async def test_a_broker_restarted_under_load_brings_each_message_once(
    database: Database, start_worker: StartWorker
) -> None:
    with nats_server() as server:
        async with jetstream(server) as js:
            await js.add_stream(name="RESULTS", subjects=["results.>"])
            worker = await start_worker(_reading(server))
            await _publish(js, 1, 200)
        await stored(database, 50)
        await anyio.to_thread.run_sync(server.stop, "KILL")
        await worker.logged("a source of messages is not read")
        await is_told(database, "away")
        await anyio.to_thread.run_sync(server.start)
        async with jetstream(server) as js:
            await _publish(js, 201, 300)
        with safety():
            assert await stored(database, 300) == [*range(1, 301)]


async def test_several_sources_feed_one_topic(
    database: Database, start_worker: StartWorker, js: JetStreamContext, nats: NatsServer
) -> None:
    """Users and products of two streams (R0.42)."""
    await js.add_stream(name="USERS", subjects=["users.>"])
    users = {"nats_stream": "USERS", "topics": ["shop"], "type": "test.fan"}
    config = _reading(nats, {"users": users}, topics=["shop"])
    await start_worker(config)
    await _publish(js, 1, 5)
    await _publish(js, 6, 10, "users.new")
    with safety():
        assert await stored(database, 10) == [*range(1, 11)]
    rows = await database.fetch(
        "select source, type, topic, count(*) from (select source, type, topic from inboxd.events"
        " union all select source, type, topic from inboxd.events_history) each"
        " group by 1, 2, 3 order by 1"
    )
    with safety():
        assert [tuple(row) for row in rows] == [
            ("results", "test.noop", "shop", 5),
            ("users", "test.fan", "shop", 5),
        ]


async def test_a_stop_stores_and_acknowledges_what_was_received(
    database: Database, start_worker: StartWorker, js: JetStreamContext, config: Config
) -> None:
    worker = await start_worker(config)
    await _publish(js, 1, 1)
    await stored(database, 1)
    async with slow_commit(database):
        await _publish(js, 2, 20)
        await being_stored(database)
        worker.process.terminate()
        await worker.logged("draining")
    assert await worker.wait() == 0
    found = await numbers(database)
    (consumer,) = await js.consumers_info("RESULTS")
    assert consumer.ack_floor is not None
    with safety():
        assert consumer.ack_floor.stream_seq == len(found) > 1, "stored messages are acknowledged"


async def test_a_source_without_its_broker_reports_it_without_the_secret(
    database: Database, start_worker: StartWorker
) -> None:
    secret = uuid4().hex
    broker = {"kind": "nats", "servers": ["127.0.0.1:1"], "user": "u", "password": secret}
    worker = await start_worker(consuming(broker, {"nats_stream": "RESULTS"}))
    await is_told(database, "away")
    await worker.logged("a source of messages is not read")
    assert secret not in worker.output()
    trouble = await database.fetchval("select trouble from inboxd.message_readers")
    assert "main" in trouble
    assert secret not in trouble
