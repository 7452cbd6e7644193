"""The life of a source: which worker reads it and when, and what stops it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit, urlunsplit

import anyio
import asyncpg
import pytest
from structlog.testing import capture_logs

from inboxd.errors import BrokerUnavailable, SettingsError, StreamLost
from inboxd.store import controls
from inboxd.store.session import Session
from tests.inbound.messages.conftest import Run
from tests.support import Database, eventually
from tests.support.memory_broker import MemoryBroker
from tests.support.rows import daemon_session
from tests.support.verdicts import safety

pytestmark = pytest.mark.anyio


async def _states(database: Database) -> list[str]:
    rows = await database.fetch("select state from inboxd.message_readers order by state")
    return [row["state"] for row in rows]


async def _is(database: Database, *states: str) -> None:
    """Wait until the workers report these states."""

    async def told() -> bool:
        return await _states(database) == [*states]

    await eventually(told)


async def _count(database: Database) -> int:
    found: int = await database.fetchval("select count(*) from inboxd.events")
    return found


@asynccontextmanager
async def _operator(database: Database) -> AsyncIterator[Session]:
    async with daemon_session(database) as session:
        yield session


@asynccontextmanager
async def _away(database: Database) -> AsyncIterator[None]:
    """Refuses connections to the database, and ends the existing ones."""
    connection = await asyncpg.connect(database.dsn.rpartition("/")[0] + "/postgres")
    name = database.name
    try:
        await connection.execute(f"alter database {name} allow_connections false")
        await connection.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity where datname = $1", name
        )
        yield
    finally:
        await connection.execute(f"alter database {name} allow_connections true")
        await connection.close()


# ------------------------------------------------------------------------------------------ pauses


async def test_a_paused_source_holds_nothing(
    database: Database, broker: MemoryBroker, run: Run
) -> None:
    async with _operator(database) as session, run():
        broker.put({"n": 1})
        await broker.until_acknowledged(1)
        await controls.pause(session, "source", "results", "me", None)
        await _is(database, "paused")
        assert not broker.consumers, "the broker has its messages again"
        broker.put({"n": 2})
        await controls.resume(session, "source", "results")
        await broker.until_acknowledged(2)
    with safety():
        assert await _count(database) == 2


async def test_a_paused_topic_of_the_settings_stops_the_source(
    database: Database, broker: MemoryBroker, run: Run
) -> None:
    broker.put({"n": 1})
    async with _operator(database) as session:
        await controls.pause(session, "topic", "two", "me", None)
        async with run(topics=["one", "two"]):
            await _is(database, "paused")
            assert broker.calls == []
            await controls.resume(session, "topic", "two")
            await broker.until_acknowledged(1)
    with safety():
        assert await _count(database) == 2


async def test_a_paused_topic_of_a_subscription_stops_the_source(
    database: Database, broker: MemoryBroker, run: Run
) -> None:
    """Messages that were received are not stored, and go back to the broker."""
    await database.execute("insert into inboxd.subscriptions values ('match.result', 'matches')")
    broker.put({"n": 1})
    async with _operator(database) as session:
        await controls.pause(session, "topic", "matches", "me", None)
        await controls.pause(session, "topic", "other", "me", None)
        async with run():
            await _is(database, "paused")
            with safety():
                assert await _count(database) == 0
            assert not broker.consumers
            with safety():
                assert broker.acknowledged == []
            await controls.resume(session, "topic", "matches")
            await broker.until_acknowledged(1)
    topics = await database.fetch("select topic from inboxd.events")
    with safety():
        assert [row["topic"] for row in topics] == ["matches"]


# ------------------------------------------------------------------------------------------ leases


@pytest.mark.parametrize("kind", ["nats", "rabbitmq"])
async def test_another_worker_reads_at_once_when_the_reader_leaves(
    database: Database, broker: MemoryBroker, run: Run, kind: str
) -> None:
    broker.positions = kind == "nats"
    leaves = anyio.Event()

    async def live() -> None:
        async with run(kind):
            await leaves.wait()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(live)
        await _is(database, "reading")
        async with run(kind):
            await _is(database, "reading", "standby")
            broker.put({"n": 1})
            await broker.until_acknowledged(1)
            leaves.set()
            broker.put({"n": 2})
            await broker.until_acknowledged(2)
            await _is(database, "reading")
    with safety():
        assert broker.most_consumers == 1
        assert await _count(database) == 2
    assert await _states(database) == [], "a worker that leaves removes its report"


async def test_a_worker_that_cannot_reach_the_broker_frees_the_lease(
    database: Database, broker: MemoryBroker, run: Run
) -> None:
    away = BrokerUnavailable("the broker 'memory' cannot be reached from here")
    broker.on_open = lambda settings: away if settings.prefetch == 21 else None
    with capture_logs() as logs:
        async with run(prefetch=21):
            await _is(database, "away")
            assert await database.fetchval("select trouble from inboxd.message_readers") == str(
                away
            )
            async with run(prefetch=22):
                broker.put({"n": 1})
                await broker.until_acknowledged(1)
    told = [each["event"] for each in logs if "source of messages" in each["event"]]
    assert told[:2] == ["a source of messages is not read", "a source of messages is read"]


async def test_all_workers_read_a_grouped_source(
    database: Database, broker: MemoryBroker, run: Run
) -> None:
    async with run("kafka"), run("kafka"):
        await _is(database, "reading", "reading")
    assert broker.most_consumers == 2


async def test_reports_of_dead_workers_are_removed(
    database: Database, broker: MemoryBroker, run: Run
) -> None:
    await database.execute(
        "insert into inboxd.message_readers (source, worker_id, broker, state)"
        " values ('old', gen_random_uuid(), 'memory', 'reading')"
    )
    async with run():
        await _is(database, "reading")


# --------------------------------------------------------------------------------------- failures


async def test_a_lost_stream_stops_its_source_until_a_reset(
    database: Database, broker: MemoryBroker, run: Run
) -> None:
    broker.put({"n": 1})
    broker.trouble["open"], broker.stays = StreamLost("stream 'results' begins at 7 now"), True
    with capture_logs() as logs:
        async with run():
            await _is(database, "lost")
            trouble = await database.fetchval("select trouble from inboxd.message_readers")
            assert trouble == "stream 'results' begins at 7 now"
            broker.trouble.clear()
            await database.execute(
                "update inboxd.stream_positions set fence = fence + 1, reader = null"
            )
            await broker.until_acknowledged(1)
            await _is(database, "reading")
            trouble = await database.fetchval("select trouble from inboxd.message_readers")
            assert trouble is None
    told = [each for each in logs if each["event"] == "a source of messages has lost its stream"]
    assert [each["log_level"] for each in told] == ["error"]
    assert broker.calls.count("open") == 2, "the lost stream is not opened again and again"


async def test_an_absent_database_stops_the_reading(
    database: Database, broker: MemoryBroker, run: Run
) -> None:
    async with run():
        broker.put({"n": 1})
        await broker.until_acknowledged(1)
        async with _away(database):
            broker.put(*({"n": n} for n in range(2, 100)))
            await broker.until(lambda: not broker.consumers)
            with safety():
                assert len(broker.acknowledged) == 1
        await broker.until_acknowledged(99)
    with safety():
        assert await _count(database) == 99


async def test_a_full_disk_stops_the_reading(
    database: Database, broker: MemoryBroker, run: Run
) -> None:
    """A message that cannot be written now must not become a dead letter."""
    await database.execute(
        "create function full_disk() returns trigger language plpgsql as $$ begin"
        " raise exception 'No space left on device' using errcode = 'disk_full'; end $$"
    )
    await database.execute(
        "create trigger full_disk before insert on inboxd.events"
        " for each statement execute function full_disk()"
    )
    broker.put(*({"n": n} for n in range(20)))
    async with run():
        await _is(database, "failing")
        assert not broker.consumers
        await database.execute("drop trigger full_disk on inboxd.events")
        await broker.until_acknowledged(20)
    statuses = await database.fetch("select distinct status from inboxd.events")
    with safety():
        assert [row["status"] for row in statuses] == ["pending"]


async def test_a_source_with_invalid_settings_lets_no_worker_start(
    database: Database, run: Run
) -> None:
    with pytest.raises(SettingsError, match=r"^\[inbound\.messages\.results\]: tenant has 300"):
        async with run(tenant=f"text:{'x' * 300}"):
            raise AssertionError
    assert await database.fetchval("select count(*) from inboxd.workers") == 0


@pytest.mark.direct("the pooler knows one role")
async def test_the_worker_s_role_has_enough_privileges(
    database: Database, broker: MemoryBroker, run: Run
) -> None:
    name = f"{database.name}_daemon"
    await database.execute(f"create role {name} login in role inboxd_worker")
    parts = urlsplit(database.dsn)
    dsn = urlunsplit(parts._replace(netloc=f"{name}@{parts.netloc.rpartition('@')[2]}"))
    broker.put({"n": 1}, b"<poison/>", {"n": 3})
    try:
        async with _operator(database) as session, run(dsn=dsn):
            await broker.until_acknowledged(3)
            await controls.pause(session, "topic", "matches", "me", None)
            broker.put({"n": 4})
            await broker.until_acknowledged(4)
            assert await _states(database) == ["reading"]
        assert await _states(database) == []
    finally:
        await database.execute(f"drop owned by {name}; drop role {name}")


async def test_the_lag_of_a_source_is_reported(
    database: Database, broker: MemoryBroker, run: Run
) -> None:
    async with run():
        await _is(database, "reading")

        async def is_told() -> bool:
            return bool(await database.fetchval("select lag = 0 from inboxd.message_readers"))

        await eventually(is_told)
