"""One consumer: the order of receiving, storing and acknowledging, whatever fails."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest
from structlog.testing import capture_logs

from inboxd.brokers.contract import IncomingMessage
from inboxd.errors import BrokerUnavailable
from inboxd.inbound.commits import commit_nothing
from inboxd.inbound.messages import storing
from inboxd.store.pools import Pool
from tests.inbound.messages.conftest import Run
from tests.support import Database, eventually
from tests.support.locks import lock_awaited
from tests.support.memory_broker import MemoryBroker
from tests.support.verdicts import safety

pytestmark = pytest.mark.anyio

_CUT = BrokerUnavailable("the broker 'memory' has hung up")


async def _stored(database: Database, status: str = "pending") -> list[int]:
    rows = await database.fetch(
        "select (payload -> 'n')::int as n from inboxd.events where status = $1 order by n", status
    )
    return [row["n"] for row in rows]


def _bodies(count: int, start: int = 1) -> list[dict[str, int]]:
    return [{"n": n} for n in range(start, start + count)]


@asynccontextmanager
async def _slow_commit(database: Database) -> AsyncIterator[None]:
    """Blocks all writes of the source."""
    async with database.connect() as other:
        transaction = other.transaction()
        await transaction.start()
        await other.execute("select from inboxd.stream_positions for update")
        yield
        await transaction.rollback()


async def test_stored_messages_are_acknowledged(
    database: Database, broker: MemoryBroker, run: Run
) -> None:
    broker.put(*_bodies(25))
    async with run():
        await broker.until_acknowledged(25)
        with safety():
            assert await _stored(database) == [*range(1, 26)]
        broker.put(*_bodies(3, 26))
        await broker.until_acknowledged(28)
    with safety():
        assert await _stored(database) == [*range(1, 29)]
        assert [each.position for each in broker.acknowledged] == [*range(1, 29)]
    assert (broker.calls[0], broker.calls[-1]) == ("open", "close")
    with safety():
        assert await database.fetchval("select position from inboxd.stream_positions") == 28


async def test_messages_are_acknowledged_after_their_commit_and_few_are_held(
    database: Database, broker: MemoryBroker, run: Run
) -> None:
    """While a page cannot be committed, one more page is received, and no further one."""
    async with run():
        broker.put(*_bodies(1))
        await broker.until_acknowledged(1)
        async with _slow_commit(database):
            broker.put(*_bodies(100, 2))
            await lock_awaited(database, query="%store_messages%")
            await broker.until(lambda: broker.calls[-1] == "receive 10")
            assert broker.calls.count("receive 10") == 2
            with safety():
                assert len(broker.acknowledged) == 1
        await broker.until_acknowledged(101)
    with safety():
        assert await _stored(database) == [*range(1, 102)]


@pytest.mark.parametrize("kind", ["nats", "rabbitmq"])
async def test_a_commit_slower_than_the_broker_s_limit_stores_once(
    database: Database, broker: MemoryBroker, run: Run, kind: str
) -> None:
    """The broker delivers the page to the next consumer (R0.4); it is stored once."""
    broker.positions, broker.rewinds = kind == "nats", True
    async with run(kind):
        broker.put(*_bodies(1))
        await broker.until_acknowledged(1)
        async with _slow_commit(database):
            broker.put(*_bodies(5, 2))
            await lock_awaited(database, query="%store_messages%")
            broker.lose()
        await broker.until_acknowledged(6)
        with safety():
            assert await _stored(database) == [*range(1, 7)]
    assert broker.calls.count("open") == 2
    with safety():
        assert broker.most_consumers == 1


async def test_a_lost_acknowledgement_doubles_nothing(
    database: Database, broker: MemoryBroker, run: Run
) -> None:
    broker.positions = False
    broker.trouble["acknowledge"] = _CUT
    broker.put(*_bodies(5))
    async with run("rabbitmq"):
        await broker.until_acknowledged(5)
        with safety():
            assert await _stored(database) == [1, 2, 3, 4, 5]
    duplicates = "select count(*) from inboxd.events_history"
    with safety():
        assert await database.fetchval(duplicates) == 0


@pytest.mark.parametrize("call", ["open", "receive"])
async def test_an_absent_broker_is_tried_again(
    database: Database, broker: MemoryBroker, run: Run, call: str
) -> None:
    broker.put(*_bodies(5))
    broker.trouble[call] = _CUT
    with capture_logs() as logs:
        async with run():
            await broker.until_acknowledged(5)
    with safety():
        assert await _stored(database) == [1, 2, 3, 4, 5]
    told = [each for each in logs if each["event"] == "a source of messages is not read"]
    assert [each["source"] for each in told] == ["results"]
    assert not broker.consumers, "all consumers are closed"


# ---------------------------------------------------------------------------------------- poison


async def test_invalid_messages_in_a_page_are_dead_letters(
    database: Database, broker: MemoryBroker, run: Run
) -> None:
    broker.put({"n": 1}, b"<poison/>", {"n": 3}, b"\xff\x00", {"n": 5})
    async with run():
        await broker.until_acknowledged(5)
        with safety():
            assert await _stored(database) == [1, 3, 5]
        dead = await database.fetch("select * from inboxd.events where status = 'failed'")
    with safety():
        assert {row["payload"] for row in dead} == {'"<poison/>"', '{"base64": "/wA="}'}
        assert all("not JSON" in row["errors"] for row in dead)
        assert await database.fetchval("select position from inboxd.stream_positions") == 5


async def test_only_the_refused_message_is_a_dead_letter(
    database: Database, broker: MemoryBroker, run: Run
) -> None:
    await database.execute(
        "alter table inboxd.events add constraint no_seven check ((payload ->> 'n') <> '7')"
    )
    broker.put(*_bodies(10))
    async with run():
        await broker.until_acknowledged(10)
        with safety():
            assert await _stored(database) == [1, 2, 3, 4, 5, 6, 8, 9, 10]
        (dead,) = await database.fetch("select * from inboxd.events where status = 'failed'")
    with safety():
        assert (dead["type"], dead["payload"]) == ("results.broken", '"{\\"n\\":7}"')
    assert "CheckViolationError" in dead["errors"]


async def test_only_the_message_that_takes_too_long_is_a_dead_letter(
    database: Database, broker: MemoryBroker, run: Run
) -> None:
    """Such a message must not hold up the rest of its stream."""
    await database.execute(
        "create function slow() returns trigger language plpgsql as $$ begin"
        " perform pg_sleep(3600); return new; end $$;"
        "create trigger slow before insert on inboxd.events for each row"
        " when (new.payload ->> 'n' = '3') execute function slow()"
    )
    broker.put(*_bodies(4))
    async with run(statement_timeout="3s"):
        await broker.until_acknowledged(4)
        with safety():
            assert await _stored(database) == [1, 2, 4]
        (dead,) = await database.fetch("select * from inboxd.events where status = 'failed'")
    assert "the database takes too long for it" in dead["errors"]


async def test_a_slow_database_makes_no_dead_letters(
    database: Database, broker: MemoryBroker, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two writes are late; after the first one the database commits nothing."""
    asked: list[float] = []

    async def commit(pool: Pool, within: float) -> None:
        asked.append(within)
        if len(asked) == 1:
            raise TimeoutError
        await commit_nothing(pool, within)

    monkeypatch.setattr(storing, "commit_nothing", commit)
    await database.execute(
        "create sequence writes;"
        "create function late() returns trigger language plpgsql as $$ begin"
        " if nextval('public.writes') <= 2 then raise query_canceled; end if; return new; end $$;"
        "create trigger late before insert on inboxd.events for each row execute function late()"
    )
    broker.put(*_bodies(1))
    async with run():
        await broker.until_acknowledged(1)
    with safety():
        assert await _stored(database) == [1]
    assert len(asked) == 2


async def test_pages_are_split_by_weight_and_events_copied_per_topic(
    database: Database, broker: MemoryBroker, run: Run
) -> None:
    broker.put(*_bodies(10))
    async with run(topics=["one", "two"], page_bytes=16):
        await broker.until_acknowledged(10)
        rows = await database.fetch(
            "select topic, count(*) as events, count(distinct xmin::text) as pages"
            " from inboxd.events group by 1 order by 1"
        )
    with safety():
        assert [tuple(row) for row in rows] == [("one", 10, 4), ("two", 10, 4)]


# ----------------------------------------------------------------------------- resumption


async def test_reading_resumes_behind_the_stored_position(
    database: Database, broker: MemoryBroker, run: Run
) -> None:
    broker.put(*_bodies(5))
    async with run():
        await broker.until_acknowledged(5)
    broker.acknowledged.clear()
    broker.put(*_bodies(2, 6))
    async with run():
        await broker.until_acknowledged(2)
    with safety():
        assert [each.position for each in broker.acknowledged] == [6, 7]
        assert await _stored(database) == [*range(1, 8)]


async def test_stored_messages_are_passed_over_even_without_their_rows(
    database: Database, broker: MemoryBroker, run: Run
) -> None:
    """The position counts, not the rows: history may have dropped them."""
    broker.rewinds = True
    broker.trouble["acknowledge"], broker.stays = _CUT, True
    broker.put(*_bodies(5))
    async with run():

        async def all_are_there() -> bool:
            return await _stored(database) == [1, 2, 3, 4, 5]

        await eventually(all_are_there)
    await database.execute("delete from inboxd.events")
    broker.trouble.clear()
    broker.put(*_bodies(1, 6))
    async with run():
        await broker.until_acknowledged(6)
    with safety():
        assert await _stored(database) == [6]


async def test_a_restored_database_gets_later_messages_again(
    database: Database, broker: MemoryBroker, run: Run
) -> None:
    broker.put(*_bodies(5))
    async with run():
        await broker.until_acknowledged(5)
        ids = await database.fetch("select event_id from inboxd.events order by event_id")
    await database.execute("delete from inboxd.events where (payload -> 'n')::int > 3")
    await database.execute("update inboxd.stream_positions set position = 3")
    broker.put(*_bodies(1, 6))
    async with run():
        await broker.until(lambda: broker.acknowledged[-1].position == 6)
        with safety():
            assert await _stored(database) == [*range(1, 7)]
        again = await database.fetch("select event_id from inboxd.events order by event_id")
    with safety():
        assert {row[0] for row in ids} < {row[0] for row in again}, "the events have the same ids"


@pytest.mark.parametrize("begin", ["oldest", "newest"])
async def test_a_stream_begins_where_the_settings_say(
    database: Database, broker: MemoryBroker, run: Run, begin: str
) -> None:
    """Messages that arrive before the first reading are not left out."""
    broker.put(*_bodies(3))
    async with run(begin=begin):
        await broker.until(lambda: bool(broker.consumers))
    broker.put(*_bodies(2, 4))
    async with run(begin=begin):
        await broker.until(lambda: bool(broker.acknowledged) and _last(broker) == 5)
    with safety():
        assert await _stored(database) == ([1, 2, 3, 4, 5] if begin == "oldest" else [4, 5])


def _last(broker: MemoryBroker) -> int | None:
    return broker.acknowledged[-1].position


async def test_a_stream_that_another_worker_opened_is_dropped(
    database: Database, broker: MemoryBroker, run: Run
) -> None:
    """After a rebalance of a Kafka group the other streams of the page are stored."""
    for stream in ("results/0", "results/1"):
        broker.put({"n": 1}, stream=stream)
    async with run("kafka"):
        await broker.until_acknowledged(2)
        await database.execute(
            "update inboxd.stream_positions set fence = fence + 1, reader = gen_random_uuid(),"
            " position = 3 where stream = 'results/1'"
        )
        broker.put({"n": 2}, stream="results/0")
        broker.put({"n": 2}, {"n": 3}, stream="results/1")
        await broker.until_acknowledged(5)
        assert broker.calls.count("open") == 1
    with safety():
        assert await _stored(database) == [1, 1, 2]
        positions = await database.fetch(
            "select position from inboxd.stream_positions order by stream"
        )
        assert [row["position"] for row in positions] == [2, 3]


async def test_a_reset_stream_is_read_from_its_new_position(
    database: Database, broker: MemoryBroker, run: Run
) -> None:
    broker.put(*_bodies(5))
    async with run():
        await broker.until_acknowledged(5)
        await database.execute("delete from inboxd.events")
        await database.execute(
            "update inboxd.stream_positions set fence = fence + 1, reader = null,"
            " position = null, begins = 'oldest'"
        )

        async def all_are_there() -> bool:
            return await _stored(database) == [1, 2, 3, 4, 5]

        await eventually(all_are_there)
    assert broker.calls.count("open") == 2


# ------------------------------------------------------------------------------------------ acks


async def test_all_messages_of_a_stream_are_acknowledged_in_order(
    broker: MemoryBroker, run: Run
) -> None:
    seen: list[int] = []

    def check(messages: Sequence[IncomingMessage]) -> None:
        seen.extend(int(str(each.token)) for each in messages)

    broker.on_acknowledge = check
    broker.put(*_bodies(100))
    async with run(prefetch=10, page_rows=3):
        await broker.until_acknowledged(100)
    with safety():
        assert seen == [*range(1, 101)]
