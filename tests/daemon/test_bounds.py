"""The bounds of topics: rows of a page, concurrent pages or chunks over all workers, and sleeps."""

import pytest

from inboxd_testplugin.chunked import TABLES
from tests.daemon.inbox import Inbox
from tests.support import Config, StartWorker, eventually, looked_again
from tests.support.locks import lock_awaited, waiters

pytestmark = pytest.mark.anyio

BOUNDED: Config = {
    "topics.narrow": {"page_rows": 7},
    "topics.alone": {"total_concurrency": 1},
    "topics.in_order": {"mode": "sequential", "page_rows": 7, "total_concurrency": 1},
}
_ALONE = {"mode": "sequential", "total_concurrency": 1}
# Two topics, each with one page at a time; a page may wait for a lock for 50 seconds.
TWO_ALONE: Config = {
    "topics.first": _ALONE,
    "topics.second": _ALONE,
    "events": {"page_rows": 10, "timeout": "50s"},
    "database": {"lock_timeout": "10m", "statement_timeout": "10m"},
}
# The transaction and the time of each effect: concurrent pages, and their sizes.
_PAGES = """
alter table ledger add column page xid8 default pg_current_xact_id(),
    add column at timestamptz default clock_timestamp()
"""
_LARGEST = """
select max(rows) from (select count(*) as rows from ledger join inboxd.events_history e
    on e.id = row_id where e.topic = $1 group by page) as pages
"""
_TOGETHER = """
with pages as (
    select page, e.worker_id, tstzrange(min(at), max(at), '[]') as span
      from ledger join inboxd.events_history e on e.id = row_id where e.topic = $1 group by 1, 2)
select (select count(*) from pages a join pages b on a.page < b.page and a.span && b.span),
       (select count(distinct worker_id) from pages)
"""


async def all_settled(own: Inbox, rows: int) -> None:
    async def count() -> bool:
        found = await own.database.fetch("select count(*) from inboxd.events_history")
        return bool(found[0][0] == rows)

    await eventually(count)


async def write(own: Inbox, topic: str, rows: int, key: str | None = None) -> None:
    payloads = [{"n": n} for n in range(rows)]
    await own.write_many("event", "test.ledger", payloads, topic=topic, ordering_key=key)


async def test_a_page_has_at_most_page_rows_of_its_topic(
    own: Inbox, start_worker: StartWorker
) -> None:
    await own.database.execute(_PAGES)
    await start_worker(BOUNDED)
    for topic in ("narrow", "in_order", "default"):
        await write(own, topic, 60)
    await all_settled(own, 180)
    largest = [(await own.database.fetch(_LARGEST, t))[0][0] for t in ("narrow", "in_order")]
    assert largest == [7, 7]
    assert (await own.database.fetch(_LARGEST, "default"))[0][0] > 7


@pytest.mark.parametrize("topic", ["alone", "in_order"])
async def test_concurrent_pages_stay_within_total_concurrency(
    own: Inbox, start_worker: StartWorker, topic: str
) -> None:
    await own.database.execute(_PAGES)
    config = {**BOUNDED, "events": {"page_rows": 20}}
    for _ in range(2):
        await start_worker(config)
    for n in range(10):
        await write(own, topic, 50, key=f"k{n}")
    await write(own, "default", 200)
    await all_settled(own, 700)
    together, _ = (await own.database.fetch(_TOGETHER, topic))[0]
    assert together == 0


async def test_concurrent_chunks_stay_within_total_concurrency(
    own: Inbox, start_worker: StartWorker
) -> None:
    """Two workers, and five due chunks, each in its own bucket: two of them run."""
    await own.database.execute(TABLES)
    keys = await own.database.fetch(
        "select distinct on (bucket) key from (select 'k' || n as key,"
        " inboxd.bucket_of('counted', 'k' || n) as bucket from generate_series(1, 99) n) k"
        " order by bucket limit 5"
    )
    config: Config = {
        "topics.counted": {"total_concurrency": 2},
        "worker": {"poll_interval": "1h"},
    }
    fleet = [await start_worker(config) for _ in range(2)]
    running = "insert into chunks%"
    async with own.database.connect() as other, other.transaction():
        await other.execute("lock table chunks in exclusive mode")
        payloads = [{"key": each["key"]} for each in keys for _ in range(5)]
        ids = await own.write_many("event", "chunked.counted", payloads)
        await lock_awaited(own.database, 2, query=running)
        await looked_again(own.database, "event", *fleet)
        assert await waiters(own.database, query=running) == 2
    await own.succeeded("event", *ids)
    assert await own.database.fetchval("select count(*) from chunks") == len(keys)


async def test_a_page_uses_slots_of_its_own_topics_only(
    own: Inbox, start_worker: StartWorker
) -> None:
    """Two topics, each with one page at a time: each of two workers has one, again and again."""
    config = {**TWO_ALONE, "worker": {"heartbeat_interval": "200ms", "lease": "60s"}}
    await looked_again(own.database, "event", *[await start_worker(config) for _ in range(2)])
    for number in range(1, 4):
        async with own.database.connect() as other, other.transaction():
            await other.execute("lock table ledger in share mode")
            await own.database.execute(
                "insert into inboxd.events (type, payload, topic, ordering_key)"
                """ select 'test.ledger', '{"n": 1}', topic, 'k' || n % 40"""
                " from generate_series(1, 30) n, unnest(array['first', 'second']) as topic"
            )
            # A worker has one page at a time, and a topic has one: so each topic has a page.
            await lock_awaited(own.database, 2, query="insert into ledger%")
        await all_settled(own, 60 * number)
    done = "select count(distinct worker_id) from inboxd.events_history"
    assert await own.database.fetchval(done) == 2


async def test_a_page_leaves_slots_of_topics_behind_its_reach(
    own: Inbox, start_worker: StartWorker
) -> None:
    """The same after a page that both topics refused: another worker needs the second slot."""
    config = {**TWO_ALONE, "worker": {"lease": "60s"}}
    worker = await start_worker(config)
    async with own.database.connect() as ledger, ledger.transaction():
        await ledger.execute("lock table ledger in share mode")
        async with own.database.connect() as peer, peer.transaction():
            for topic in ("first", "second"):
                await peer.execute(
                    "select pg_advisory_xact_lock(hashtext('inboxd.slots.' || $1), 1)", topic
                )
            for topic in ("first", "second"):
                await own.database.execute(
                    "insert into inboxd.events (type, payload, topic, ordering_key)"
                    """ select 'test.ledger', '{"n": 1}', $1, 'k' || n"""
                    " from generate_series(1, 40) n",
                    topic,
                )
            await looked_again(own.database, "event", worker)
        await lock_awaited(own.database, query="insert into ledger%")
        slots = (
            "select topic from unnest(array['first', 'second']) as topic join pg_locks l"
            " on l.locktype = 'advisory' and l.objid = 1 and l.granted"
            " and l.classid::bigint = (hashtext('inboxd.slots.' || topic)::bigint & 4294967295)"
        )
        assert [row["topic"] for row in await own.database.fetch(slots)] == ["first"]
    await all_settled(own, 80)


async def test_the_shortest_poll_interval_of_the_topics_bounds_the_sleep(
    own: Inbox, start_worker: StartWorker
) -> None:
    """The worker has no wake-ups, and all other topics could wait for a minute."""
    config: Config = {
        "wakeups": {"mode": "off"},
        "worker": {"poll_interval": "1h"},
        "topics.impatient": {"poll_interval": "100ms"},
    }
    worker = await start_worker(config)

    async def has_looked() -> bool:
        return await worker.metric('inboxd_wakeups_total{cause="sweep",kind="event"}') > 0

    await eventually(has_looked)  # and found no rows: it sleeps before it looks again
    row_id = await own.write("event", "test.ledger", {"n": 1}, topic="impatient")
    await own.settled("event", row_id)
    assert await worker.metric('inboxd_wakeups_total{cause="poll",kind="event"}') > 0
