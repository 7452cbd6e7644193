"""Batch mode: chunks by count, age, cron and expectation, replayed or larger than memory."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import partial
from zoneinfo import ZoneInfo

import anyio
import asyncpg
import pytest

from inboxd import operations
from inboxd.store.operator_sessions import open_session
from inboxd_testplugin.chunked import TABLES
from tests.daemon.chunked import chunks, emit, failed, lined_up
from tests.daemon.inbox import Inbox
from tests.support import Database, StartWorker, eventually
from tests.support.order import TRAIL
from tests.support.rows import settings_of

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("chunk_tables")]


BERLIN = ZoneInfo("Europe/Berlin")


async def test_a_full_chunk_runs(inbox: Inbox) -> None:
    ids = await emit(inbox, "counted", "full", [{"n": n} for n in range(10)])
    found = await chunks(inbox, "counted", "full", 2)
    assert [each["ids"] for each in found] == [ids[:5], ids[5:]]
    await inbox.succeeded("event", *ids)


async def test_a_chunk_that_fills_up_slowly_runs_when_full(inbox: Inbox) -> None:
    ids = []
    for n in range(7):
        ids += await emit(inbox, "counted", "slowly", [{"n": n}])
    (found,) = await chunks(inbox, "counted", "slowly", 1)
    assert found["ids"] == ids[:5]
    ids += await emit(inbox, "counted", "slowly", [{"n": n} for n in range(7, 10)])
    assert [each["ids"] for each in await chunks(inbox, "counted", "slowly", 2)] == [
        ids[:5],
        ids[5:],
    ]


async def test_each_key_has_chunks_of_its_own(inbox: Inbox) -> None:
    left, right = await emit(inbox, "counted", "left", [{}] * 4), []
    right += await emit(inbox, "counted", "right", [{}] * 5)
    assert (await chunks(inbox, "counted", "right", 1))[0]["ids"] == right
    left += await emit(inbox, "counted", "left", [{}])
    assert (await chunks(inbox, "counted", "left", 1))[0]["ids"] == left


async def test_the_key_comes_from_the_producer_or_the_payload(inbox: Inbox) -> None:
    ids = await inbox.write_many("event", "chunked.threaded", [{}] * 3, ordering_key="given")
    (found,) = await chunks(inbox, "threaded", "given", 1)
    assert (found["ids"], found["size"]) == (ids, 3)


async def test_a_chunk_is_due_when_its_oldest_event_is_of_age(inbox: Inbox) -> None:
    ids = await emit(inbox, "aged", "a", [{"n": n} for n in range(3)])
    (found,) = await chunks(inbox, "aged", "a", 1)
    assert found["ids"] == ids
    row = await inbox.settled("event", ids[0])
    assert (found["until"] - found["since"]).total_seconds() >= 0.3
    assert found["since"] == row["created_at"]


async def test_events_that_arrive_while_a_chunk_waits_join_it(inbox: Inbox) -> None:
    ids = await emit(inbox, "old", "joined", [{}])
    await lined_up(inbox, "old", "joined", 1)
    ids += await emit(inbox, "old", "joined", [{}])
    await lined_up(inbox, "old", "joined", 2)
    async with open_session(settings_of(inbox.database)) as session:
        await operations.flush(session, "old", "joined", actor="me")
    assert (await chunks(inbox, "old", "joined", 1))[0]["ids"] == ids


# ---------------------------------------------------------------------------------- aggregation


async def test_a_complete_set_is_run_at_once(inbox: Inbox) -> None:
    ids = await emit(inbox, "paired", "order 1", [{}], "chunked.left")
    await lined_up(inbox, "paired", "order 1", 1)
    ids += await emit(inbox, "paired", "order 1", [{}], "chunked.right")
    (found,) = await chunks(inbox, "paired", "order 1", 1)
    assert (found["ids"], found["missing"], found["short"]) == (ids, [], 0)
    assert (found["until"] - found["since"]).total_seconds() < 2


async def test_an_unreadable_event_is_missing_from_its_set(inbox: Inbox) -> None:
    ids = await emit(inbox, "paired", "order 4", [{"n": "many"}], "chunked.left")
    ids += await emit(inbox, "paired", "order 4", [{}], "chunked.right")
    (found,) = await chunks(inbox, "paired", "order 4", 1)
    assert (found["ids"], found["missing"], found["size"]) == (ids[1:], ["chunked.left"], 1)


async def test_an_incomplete_set_is_run_at_its_deadline(inbox: Inbox) -> None:
    ids = await emit(inbox, "paired", "order 2", [{}, {}], "chunked.right")
    (found,) = await chunks(inbox, "paired", "order 2", 1)
    assert (found["ids"], found["missing"], found["short"]) == (ids, ["chunked.left"], 1)
    assert (found["until"] - found["since"]).total_seconds() >= 2


async def test_a_set_may_be_a_number_of_events(inbox: Inbox) -> None:
    ids = await emit(inbox, "three", "whole", [{}] * 3)
    few = await emit(inbox, "three", "few", [{}] * 2)
    (found,) = await chunks(inbox, "three", "whole", 1)
    assert (found["ids"], found["short"]) == (ids, 0)
    (found,) = await chunks(inbox, "three", "few", 1)
    assert (found["ids"], found["missing"], found["short"]) == (few, [], 1)


# ------------------------------------------------------------------------------------- periods


async def written_at(
    inbox: Inbox, topic: str, key: str, times: Sequence[datetime], payload: str = "{}"
) -> list[int]:
    """Insert events of these times, which no worker has seen yet."""
    rows = await inbox.database.fetch(
        """
        insert into inboxd.events (topic, mode, type, ordering_key, bucket, status, payload,
                                   created_at, run_at)
        select $1, 'batch', 'chunked.' || $1, $2, inboxd.bucket_of($1, $2), 'waiting',
               $4::jsonb, at, at
          from unnest($3::timestamptz[]) as at returning id
        """,
        topic,
        key,
        times,
        payload,
    )
    await inbox.database.fetch("select pg_notify('inboxd_events', '')")
    return [row["id"] for row in rows]


def berlin(month: int, day: int, hour: int, minute: int = 0) -> datetime:
    return datetime(2025, month, day, hour, minute, tzinfo=BERLIN)


@pytest.mark.parametrize(("month", "day", "hours"), [(3, 30, 23), (10, 26, 25)])
async def test_each_missed_day_has_its_own_chunk_once(
    inbox: Inbox, month: int, day: int, hours: int
) -> None:
    """No worker ran at two midnights, around either change of the clock."""
    key, after = f"missed {month}", berlin(month, day, 0) + timedelta(days=2)
    times = [
        *(berlin(month, day - 1, 9), berlin(month, day - 1, 23, 59)),
        *(berlin(month, day, 0), berlin(month, day, 3, 30), berlin(month, day, 23, 59)),
        berlin(month, day + 1, 0),
    ]
    ids = await written_at(inbox, "daily", key, times)
    found = await chunks(inbox, "daily", key, 3)
    assert [each["ids"] for each in found] == [ids[:2], ids[2:5], ids[5:]]
    assert [each["until"] for each in found] == [
        *(berlin(month, day, 0), berlin(month, day + 1, 0), after)
    ]
    assert found[1]["since"] == berlin(month, day, 0)
    assert (found[1]["until"] - found[1]["since"]).total_seconds() == hours * 3600
    await inbox.succeeded("event", *ids)
    assert len(await chunks(inbox, "daily", key, 3)) == 3


@pytest.mark.usefixtures("within_an_hour")
async def test_today_waits_for_its_midnight(inbox: Inbox) -> None:
    yesterday = datetime.now(BERLIN).replace(hour=0, minute=0) - timedelta(hours=1)
    ids = await written_at(inbox, "daily", "today", [yesterday])
    later = await emit(inbox, "daily", "today", [{}])
    assert (await chunks(inbox, "daily", "today", 1))[0]["ids"] == ids
    (waiting,) = await lined_up(inbox, "daily", "today", 1)
    assert waiting["id"] == later[0]
    midnight = datetime.now(BERLIN).replace(hour=0, minute=0, second=0, microsecond=0)
    assert waiting["run_at"] == midnight + timedelta(days=1)
    assert waiting["head"]


@pytest.mark.usefixtures("within_an_hour")
async def test_the_earlier_of_age_and_cron_makes_a_chunk_due(inbox: Inbox) -> None:
    written = "select created_at from inboxd.events where id = $1"
    (old,) = await emit(inbox, "hourly", "age", [{}])
    (waiting,) = await lined_up(inbox, "hourly", "age", 1)
    created_at = await inbox.database.fetchval(written, old)
    assert waiting["run_at"] == created_at + timedelta(hours=1)
    (young,) = await emit(inbox, "nightly", "cron", [{}])
    (waiting,) = await lined_up(inbox, "nightly", "cron", 1)
    created_at = (await inbox.database.fetchval(written, young)).astimezone(BERLIN)
    day = created_at.replace(hour=0, minute=0, second=0, microsecond=0)
    assert waiting["run_at"] == day + timedelta(days=1)


# ------------------------------------------------------------------------------------- replays


async def _replay(inbox: Inbox, *ids: int) -> None:
    for id_ in ids:
        await failed(inbox, id_)
    async with open_session(settings_of(inbox.database)) as session:
        await operations.act(session, "events", "replay", ids, actor="me")


async def test_replayed_dead_letters_are_a_chunk_again(inbox: Inbox) -> None:
    ids = [
        *await emit(inbox, "paired", "replayed", [{"rejected": True}], "chunked.left"),
        *await emit(inbox, "paired", "replayed", [{"rejected": True}], "chunked.right"),
    ]
    await chunks(inbox, "paired", "replayed", 1)
    await _replay(inbox, *ids)
    assert [each["ids"] for each in await chunks(inbox, "paired", "replayed", 2)] == [ids, ids]


async def test_replayed_events_come_before_waiting_ones(inbox: Inbox) -> None:
    ids = await emit(inbox, "counted", "in front", [{}, {"rejected": True}, {}, {}, {}])
    await failed(inbox, ids[1])
    waiting = await emit(inbox, "counted", "in front", [{}] * 4)
    await lined_up(inbox, "counted", "in front", 4)
    await _replay(inbox, ids[1])
    found = await chunks(inbox, "counted", "in front", 2)
    assert found[1]["ids"] == [ids[1], *waiting], (
        "the replayed event fills the chunk, and is its first"
    )


@pytest.mark.usefixtures("within_an_hour")
async def test_a_replayed_event_fills_no_chunk_of_another_period(inbox: Inbox) -> None:
    today = datetime.now(BERLIN).replace(hour=0, minute=0, second=0, microsecond=0)
    long_ago = [today - timedelta(days=3)]
    (old,) = await written_at(inbox, "dozens", "full", long_ago, '{"rejected": true}')
    await failed(inbox, old)
    waiting = await emit(inbox, "dozens", "full", [{}] * 11)
    await lined_up(inbox, "dozens", "full", 11)
    await _replay(inbox, old)
    assert [each["ids"] for each in await chunks(inbox, "dozens", "full", 2)] == [[old], [old]]
    # The event is dead again, and was replayed before today's chunk, which waits for its time only.
    assert [row["id"] for row in await lined_up(inbox, "dozens", "full", 11)] == waiting


@pytest.mark.usefixtures("within_an_hour")
async def test_a_replayed_event_belongs_to_its_own_period(inbox: Inbox) -> None:
    today = datetime.now(BERLIN).replace(hour=0, minute=0, second=0, microsecond=0)
    yesterday = today - timedelta(hours=10)
    ids = await written_at(inbox, "daily", "replayed", [yesterday] * 3, '{"rejected": true}')
    await failed(inbox, ids[2])
    (late,) = await emit(inbox, "daily", "replayed", [{"n": 4}])
    await lined_up(inbox, "daily", "replayed", 1)
    await _replay(inbox, *ids)
    found = await chunks(inbox, "daily", "replayed", 2)
    assert (found[1]["ids"], found[1]["until"]) == (ids, today)
    (waiting,) = await lined_up(inbox, "daily", "replayed", 1)
    assert (waiting["id"], waiting["head"]) == (late, True)
    assert waiting["run_at"] > datetime.now(BERLIN)


# ---------------------------------------------------------------------------------- long chunks


async def test_a_chunk_larger_than_memory_comes_in_portions(inbox: Inbox) -> None:
    """6,000 events of one day come in order; outcomes of single events are applied."""
    times = [berlin(6, 1, 12)] * 6_000
    ids = await written_at(inbox, "daily", "long", times)
    (found,) = await chunks(inbox, "daily", "long", 1)
    assert found["size"] == 6_000
    assert found["ids"] == sorted(ids)
    await inbox.succeeded("event", *ids)


async def test_late_commits_during_a_sweep_keep_the_order(inbox: Inbox) -> None:
    """A sweep that sees later events before earlier ones does not put them out of order."""
    rounds = 40

    async def emit_late(connection: asyncpg.Connection, n: int) -> None:
        await connection.execute(
            "insert into inboxd.events (type, payload)"
            " select 'chunked.counted', '{\"key\": \"late\"}' from generate_series(1, $1)",
            n,
        )

    async with inbox.database.connect() as late, inbox.database.connect() as other:
        for n in range(rounds):
            async with late.transaction():
                await emit_late(late, 2)
                await emit_late(other, 3)
                await anyio.sleep(n % 10 / 200)  # the worker sweeps meanwhile, sooner or later
    found = await chunks(inbox, "counted", "late", rounds)
    ids = [id_ for each in found for id_ in each["ids"]]
    assert ids == sorted(ids)


async def test_events_from_before_batch_mode_join_the_topics_chunks(
    database: Database, start_worker: StartWorker
) -> None:
    await database.execute(TABLES)
    await database.execute(
        "insert into inboxd.topics (name, mode, key_path, source)"
        " values ('counted', 'sequential', '{key}', 'test')"
    )
    write = (
        "insert into inboxd.events (topic, type, payload)"
        " select 'counted', 'chunked.counted', '{\"key\": \"k\"}' from generate_series(1, $1::int)"
    )
    await database.execute(write, 3)
    await start_worker()
    for made in ("1", "2"):
        await database.execute(write, 5)
        await eventually(partial(database.fetchval, f"select count(*) = {made} from chunks"))
    await database.execute(write, 2)
    left = "select not exists (select from inboxd.events)"
    await eventually(lambda: database.fetchval(left))
    found = await database.fetch("select ids from chunks order by id")
    assert [len(each["ids"]) for each in found] == [5, 5, 5]


async def test_events_of_a_former_batch_topic_run_alone(
    database: Database, start_worker: StartWorker
) -> None:
    await database.execute(TRAIL)
    await database.execute(
        "insert into inboxd.topics (name, mode, key_path, source) "
        "values ('ordered', 'batch', '{key}', 'a release before')"
    )
    write = (
        "insert into inboxd.events (topic, type, payload) select 'ordered', 'test.turn', "
        """'{"key": "k"}' from generate_series(1, 5) returning mode"""
    )
    assert {row["mode"] for row in await database.fetch(write)} == {"batch"}
    await start_worker({"worker": {"unhandled_grace": "1s"}, "maintenance": {"interval": "200ms"}})
    assert {row["mode"] for row in await database.fetch(write)} == {"sequential"}

    async def all_ran() -> bool:
        ran = await database.fetchval(
            "select count(*) from inboxd.events_history where status = 'succeeded'"
        )
        return bool(ran == 10)

    await eventually(all_ran)
    assert await database.fetchval("select count(*) from inboxd.events") == 0
