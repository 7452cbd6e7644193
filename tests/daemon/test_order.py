"""Sequential topics with whole workers (promise 5): no event is lost, repeated or out of order.

Every handler writes a step to `trail`, in its own transaction; `in_order` compares it with the ids.
"""

import random
from datetime import UTC, datetime, timedelta

import anyio
import asyncpg
import pytest

from inboxd import operations
from inboxd.errors import Conflict
from inboxd.model.horizon import BUCKETS
from inboxd.store.lines import blocked as blocked_lines
from inboxd.store.lines import count_blocked
from tests.support import Config, Database, StartWorker, Worker, eventually, looked_again
from tests.support.order import declare_lines, in_order, settled, trail, turns
from tests.support.rows import daemon_session
from tests.support.verdicts import safety

pytestmark = pytest.mark.anyio

QUICK: Config = {
    "worker": {"lease": "2s", "heartbeat_interval": "200ms", "crash_limit": 50},
    # After a death, as many events run alone.
    "events": {"page_rows": 100},
}


@pytest.fixture
async def lines(database: Database) -> Database:
    """A database with the trail of the handlers, and the topics declared."""
    await declare_lines(database)
    return database


async def head(database: Database, key: str = "k") -> asyncpg.Record | None:
    """The head of a line, or None."""
    rows = await database.fetch("select * from inboxd.events where head and ordering_key = $1", key)
    return rows[0] if rows else None


async def blocked(database: Database, key: str = "k") -> asyncpg.Record:
    """Wait until the head of a line is a dead letter; return it."""

    async def find() -> list[asyncpg.Record]:
        found = await head(database, key)
        return [found] if found is not None and found["status"] == "failed" else []

    return (await eventually(find))[0]


async def test_events_of_a_key_are_handled_in_order_whatever_fails(
    lines: Database, start_worker: StartWorker
) -> None:
    """Retries, dead letters that leave their line, pages that cannot commit, arrivals meanwhile."""
    await start_worker()
    chance = random.Random(5)
    for _ in range(6):
        keys = [f"k{chance.randrange(12)}" for _ in range(60)]
        await turns(lines, keys)
        await turns(lines, keys[:4], good_at=2)
        await turns(lines, keys[:4], type_="test.other_turn", wait=0.01)
        await turns(lines, [f"s{key}" for key in keys[:9]], type_="test.skipping_turn", good_at=2)
    refused = await turns(lines, ["sk1", "sk2"], type_="test.skipping_turn", refused=True)
    spoiled = await turns(lines, ["k1"], spoils=True)
    after = await turns(lines, ["k1", "k1"])
    await turns(lines, ["sk1", "sk2"], type_="test.skipping_turn")
    await settled(lines, 6 * (60 + 4 + 4 + 9) + 2)
    assert (await blocked(lines, "k1"))["id"] == spoiled[0]
    await in_order(lines)
    left = await lines.fetch("select id, status, position, head from inboxd.events order by id")
    assert [(row["id"], row["status"]) for row in left] == [
        *((id_, "failed") for id_ in refused),
        (spoiled[0], "failed"),
        *((id_, "waiting") for id_ in after),
    ]
    positions = [row["position"] for row in left]
    assert positions[: len(refused)] == [None, None], "refused events leave their line"
    first = positions[len(refused)]
    assert positions[len(refused) :] == [first, first + 1, first + 2]


async def test_a_head_in_backoff_delays_only_its_own_line(
    lines: Database, start_worker: StartWorker
) -> None:
    await turns(lines, ["k"], good_at=3)
    behind = await turns(lines, ["k", "k"])
    others = await turns(lines, ["other"] * 5)
    await start_worker()
    await settled(lines, 8)
    found = await in_order_of_attempts(lines)
    assert found == [3, 1, 1]
    with safety():
        assert (await trail(lines))["other"] == others
        assert (await trail(lines))["k"][-2:] == behind


async def in_order_of_attempts(database: Database) -> list[int]:
    """The attempts at which the events of the key `k` took effect."""
    rows = await database.fetch("select attempt from trail where key = 'k' order by position")
    return [row["attempt"] for row in rows]


async def test_a_blocked_line_is_shown_until_it_is_freed(
    lines: Database, start_worker: StartWorker
) -> None:
    """On `/metrics`, where an alert reads it."""
    worker = await start_worker({"maintenance": {"interval": "200ms"}})
    (dead,) = await turns(lines, ["k"], refused=True)
    await turns(lines, ["k", "other"])
    labels = '{held_by="dead letter",topic="ordered"}'

    async def shown(count: int) -> bool:
        return await worker.metric(f"inboxd_blocked_lines{labels}") == count

    await eventually(lambda: shown(1))
    assert await worker.metric(f"inboxd_blocked_line_age_seconds{labels}") > 0
    async with daemon_session(lines) as session:
        await operations.act(session, "events", "dismiss", [dead], actor="test")
    await settled(lines, 2)
    await eventually(lambda: shown(0))


@pytest.mark.parametrize("action", ["replay", "dismiss"])
async def test_a_blocked_line_goes_on_after_an_operator_acted(
    lines: Database, start_worker: StartWorker, action: str
) -> None:
    worker = await start_worker({"worker": {"poll_interval": "1h"}})
    first = (await turns(lines, ["k"], refused=True))[0]
    behind = await turns(lines, ["k"] * 3)
    await blocked(lines)
    with safety():
        assert await trail(lines) == {}
    await lines.execute(
        "alter table inboxd.events disable trigger events_immutable;"
        'update inboxd.events set payload = \'{"key": "k"}\' where head;'
        "alter table inboxd.events enable trigger events_immutable"
    )
    async with daemon_session(lines) as session:
        if action == "replay":
            await operations.act(session, "events", "replay", [first], actor="test")
        else:
            await operations.act(session, "events", "dismiss", [first], actor="test")
    replayed = [first] if action == "replay" else []
    await settled(lines, 3 + len(replayed))
    with safety():
        assert (await in_order(lines))["k"] == [*replayed, *behind]
    assert worker.process.poll() is None


async def test_a_blocked_line_stays_blocked_when_its_topic_changes_to_skip(
    lines: Database, start_worker: StartWorker
) -> None:
    worker = await start_worker()
    first = (await turns(lines, ["k"], refused=True))[0]
    await turns(lines, ["k"])
    await blocked(lines)
    assert await worker.stop() == 0
    worker = await start_worker({"topics": {"ordered": {"on_failure": "skip"}}})
    await turns(lines, ["other"], refused=True)
    after = await turns(lines, ["other"])
    await settled(lines, 1)
    await looked_again(lines, "event", worker)
    assert (await blocked(lines))["id"] == first
    with safety():
        assert await in_order(lines) == {"other": after}
    async with daemon_session(lines) as session:
        await operations.act(session, "events", "dismiss", [first], actor="test")
    await settled(lines, 2)


async def test_a_late_commit_is_waited_for(lines: Database, start_worker: StartWorker) -> None:
    """Two producers of one key: the lower id is committed last; other keys go on meanwhile."""
    worker = await start_worker()
    async with lines.connect() as late, lines.connect() as other:
        async with late.transaction():
            first = await turns(late, ["k"])
            second = await turns(other, ["k"])
            # Lines in other buckets do not wait.
            free = await lines.fetch(
                "select key from (select 'f' || n as key from generate_series(1, 50) n) as k"
                " where inboxd.bucket_of('ordered', key) <> inboxd.bucket_of('ordered', 'k')"
            )
            await turns(other, [row["key"] for row in free])
            await settled(lines, len(free))
            await looked_again(lines, "event", worker)
            with safety():
                assert "k" not in await trail(lines), (
                    "an event with a lower id may still be committed"
                )
        await settled(lines, len(free) + 2)
    with safety():
        assert (await in_order(lines))["k"] == first + second


async def test_order_locks_hold_up_only_topics_into_which_their_holder_writes(
    lines: Database, start_worker: StartWorker
) -> None:
    """One holder writes no events; the other has uncommitted events of another topic alone."""
    worker = await start_worker()
    every_bucket = (
        "select pg_advisory_xact_lock_shared(hashtext('inboxd.order'), n)"
        f" from generate_series(0, {BUCKETS - 1}) n"
    )
    async with (
        lines.connect() as stranger,
        stranger.transaction(),
        lines.connect() as producer,
        producer.transaction(),
    ):
        await stranger.execute(every_bucket)
        await producer.execute(every_bucket)
        first = await turns(producer, ["s"], type_="test.skipping_turn")
        second = await turns(lines, ["s"], type_="test.skipping_turn")
        ids = await turns(lines, [f"k{n % 20}" for n in range(60)])
        await settled(lines, len(ids))
        await looked_again(lines, "event", worker)
        with safety():
            assert "s" not in await in_order(lines)
    await settled(lines, len(ids) + 2)
    with safety():
        assert (await in_order(lines))["s"] == first + second


async def test_a_rollback_is_not_waited_for(lines: Database, start_worker: StartWorker) -> None:
    await start_worker()
    async with lines.connect() as late:
        undone = late.transaction()
        await undone.start()
        await turns(late, ["k"])
        second = await turns(lines, ["k"])
        await undone.rollback()
    await settled(lines, 1)
    with safety():
        assert (await in_order(lines))["k"] == second


@pytest.mark.parametrize("workers", [2, 4])
async def test_order_holds_over_killed_workers(
    lines: Database, start_worker: StartWorker, workers: int
) -> None:
    """Producers that commit late, retries, and workers killed between claim and commit."""
    fleet = [await start_worker(QUICK) for _ in range(workers)]
    rounds, each = 6, 40

    async def produce(number: int) -> None:
        chance = random.Random(number)
        async with lines.connect() as connection:
            for _ in range(rounds):
                async with connection.transaction():
                    keys = [f"k{chance.randrange(8)}" for _ in range(each - 2)]
                    await turns(connection, keys, wait=0.001)
                    await anyio.sleep(chance.random() / 50)  # others commit meanwhile
                    await turns(connection, keys[:2], good_at=2)

    async with anyio.create_task_group() as tasks:
        for number in range(3):
            tasks.start_soon(produce, number)
        await settled(lines, 100)
        fleet[0].kill()
        fleet[0] = await start_worker(QUICK)
        await settled(lines, 250)
        fleet[-1].kill()
    await settled(lines, 3 * rounds * each, within=90)
    found = await in_order(lines)
    with safety():
        assert sum(map(len, found.values())) == 3 * rounds * each


async def test_an_event_that_kills_its_worker_is_found_and_blocks_its_line(
    lines: Database, start_worker: StartWorker
) -> None:
    ids = await turns(lines, ["k", "other"])
    poison = (await turns(lines, ["k"], kills=True))[0]
    behind = await turns(lines, ["k", "other"])
    config: Config = {
        "worker": {"lease": "5s", "heartbeat_interval": "500ms", "crash_limit": 1},
        "database": {"idle_in_transaction_timeout": "2s"},
        "events": {"timeout": "1s"},
    }
    for _ in range(2):
        worker = await start_worker(config, ready=False)
        await worker.wait()
    await start_worker(config)
    assert (await blocked(lines))["id"] == poison
    await settled(lines, 3)
    with safety():
        assert await in_order(lines) == {"k": ids[:1], "other": [ids[1], behind[1]]}


@pytest.mark.parametrize("good_at", [1, 2])
async def test_waiting_events_of_a_key_are_handled_in_few_pages(
    lines: Database, start_worker: StartWorker, good_at: int
) -> None:
    """They come as arrivals; or from the line, behind a head that is retried."""
    await lines.execute("alter table trail add column page xid8 default pg_current_xact_id()")
    ids = await turns(lines, ["hot"], good_at=good_at) + await turns(lines, ["hot"] * 60)
    await start_worker({"events": {"page_time": "50s"}})
    await settled(lines, len(ids))
    with safety():
        assert (await in_order(lines))["hot"] == ids
    pages = await lines.fetchval("select count(distinct page) from trail")
    assert pages <= 6


async def test_one_hot_key_among_many_is_drained(
    lines: Database, start_worker: StartWorker
) -> None:
    """It is drained together with the other keys; after a failure, from its line."""
    hot = ["hot"] * 1000
    await turns(lines, [key for n in range(2000) for key in (hot[n // 2], f"k{n}")])
    await turns(lines, hot[:1], good_at=2)
    await turns(lines, hot)
    await start_worker()
    await settled(lines, 5001)
    with safety():
        assert len((await in_order(lines))["hot"]) == 3001


async def test_a_rewound_sequence_is_noticed(lines: Database, start_worker: StartWorker) -> None:
    """A failover lost the newest ids, so new ids are lower than the cursors."""
    await start_worker({"worker": {"poll_interval": "1h"}})
    await turns(lines, ["k"] * 50)
    await settled(lines, 50)
    await lines.execute("select setval('inboxd.events_id_seq', 5)")
    await lines.execute("delete from inboxd.events_history; truncate trail")
    again = await turns(lines, ["k"] * 3)
    assert again[0] < 50
    await settled(lines, 3)
    with safety():
        assert (await in_order(lines))["k"] == again


async def test_an_unhandled_event_is_a_dead_letter_in_its_place(
    lines: Database, start_worker: StartWorker
) -> None:
    """A type without a handler, and a topic in which no worker has handlers."""
    await lines.execute(
        "insert into inboxd.topics (name, mode, source) values ('far', 'sequential', 'test')"
    )
    strange = await lines.fetch(
        "insert into inboxd.events (topic, type, ordering_key) values"
        " ('ordered', 'nobody.serves', 'k'), ('far', 'test.turn', 'k'), ('far', 'test.turn', 'k')"
        " returning id"
    )
    behind = await turns(lines, ["k", "k"])
    await start_worker(
        {
            "worker": {"unhandled_grace": "500ms"},
            "maintenance": {"interval": "500ms"},
            "events": {"unhandled": "dead"},
        }
    )

    async def dead() -> bool:
        rows = await lines.fetch("select topic from inboxd.events where head and status = 'failed'")
        return sorted(row["topic"] for row in rows) == ["far", "ordered"]

    await eventually(dead)
    left = await lines.fetch("select id, position from inboxd.events order by topic, position")
    assert [(row["id"], row["position"]) for row in left] == [
        (strange[1]["id"], 1),
        (strange[2]["id"], 2),
        (strange[0]["id"], 1),
        (behind[0], 2),
        (behind[1], 3),
    ]
    async with daemon_session(lines) as session:
        shown = await blocked_lines(session, None, 10)
        lengths = {each["topic"]: each["length"] for each in shown}
        assert lengths == {"ordered": 3, "far": 2}
        assert "NoHandler" in shown[0]["error"]
        counted = await count_blocked(session)
        assert [(each.topic, each.held_by, each.lines) for each in counted] == [
            ("far", "dead letter", 1),
            ("ordered", "dead letter", 1),
        ]
        await operations.act(session, "events", "dismiss", [strange[0]["id"]], actor="test")
    await settled(lines, 2)
    with safety():
        assert (await in_order(lines))["k"] == behind


async def test_an_operator_waits_for_the_page_that_has_the_line(
    lines: Database, start_worker: StartWorker
) -> None:
    """An action on an event of the line takes place before or after the page, never within."""
    await start_worker()
    slow = (await turns(lines, ["k"], wait=1.5))[0]
    await eventually(
        lambda: lines.fetchval(
            "select exists (select from pg_locks where locktype = 'advisory' and objsubid = 2"
            " and mode = 'ExclusiveLock' and classid = hashtext('inboxd/ordered')::oid)"
        )
    )
    async with daemon_session(lines) as session:
        with pytest.raises(Conflict):  # the event has succeeded by then
            await operations.reschedule(
                session, "events", [slow], datetime.now(UTC) + timedelta(hours=1), actor="test"
            )
    with safety():
        assert (await in_order(lines))["k"] == [slow]


async def test_a_hot_bucket_leaves_others_their_turn(
    lines: Database, start_worker: StartWorker
) -> None:
    """A bucket that fills a page alone comes after those that had no room in the page."""
    hot, *cold = await lines.fetch(
        "select distinct on (bucket) key from (select 'k' || n as key,"
        " inboxd.bucket_of('ordered', 'k' || n) as bucket from generate_series(1, 99) n) k"
        " order by bucket limit 5"
    )
    await turns(lines, [hot["key"]] * 600 + [each["key"] for each in cold])
    await start_worker({"events": {"page_rows": 50}})
    await settled(lines, 604)
    found = await in_order(lines)
    with safety():
        assert len(found[hot["key"]]) == 600
    last = await lines.fetchval("select max(position) from trail where key <> $1", hot["key"])
    assert last < 300, "the others come after some pages, not after all"


async def test_buckets_of_another_session_do_not_delay_the_rest(
    lines: Database, start_worker: StartWorker
) -> None:
    """Even if these are the first that wait, and more than a page has."""
    keys = await lines.fetch(
        "select distinct on (bucket) key from (select 'k' || n as key,"
        " inboxd.bucket_of('ordered', 'k' || n) as bucket from generate_series(1, 5000) n) k"
        " order by bucket"
    )
    assert len(keys) == BUCKETS
    await turns(lines, [each["key"] for each in keys])
    async with lines.connect() as other, other.transaction():
        await other.execute(
            "select pg_advisory_xact_lock(hashtext('inboxd/ordered'), bucket)"
            " from generate_series(0, 49) bucket"
        )
        await start_worker()
        await settled(lines, BUCKETS - 50)
    await settled(lines, BUCKETS)


async def test_a_paused_topic_takes_no_room_from_other_lines(
    lines: Database, start_worker: StartWorker
) -> None:
    """It is paused while the worker knows of many of its lines that are due."""
    worker = await start_worker({"events": {"page_rows": 20}})
    async with daemon_session(lines) as session:
        await operations.pause(session, "type", "test.turn", actor="test")
        ids = await turns(lines, [f"k{n}" for n in range(400)], wait=0.01)
        lined_up = "select count(*) = 400 from inboxd.events where head"
        await eventually(lambda: lines.fetchval(lined_up))
        await operations.resume(session, "type", "test.turn", actor="test")
        await settled(lines, 20)
        await operations.pause(session, "topic", "ordered", actor="test")
        await eventually(lambda: is_paused(worker))
        await looked_again(lines, "event", worker)  # no claim, and no open page
        done = await lines.fetchval("select count(*) from inboxd.events_history")
        await turns(lines, ["s"], type_="test.skipping_turn", good_at=2)
        await settled(lines, done + 1)
        await operations.resume(session, "topic", "ordered", actor="test")
    await settled(lines, len(ids) + 1)
    await in_order(lines)


async def is_paused(worker: Worker) -> bool:
    """Whether the worker knows of the topic's pause."""
    return await worker.metric('inboxd_paused{kind="topic"}') == 1
