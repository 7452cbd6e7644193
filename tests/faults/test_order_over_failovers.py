"""Sequential topics over events of the server: failover, prepared transactions, held snapshots."""

import json
from collections.abc import Iterator
from statistics import median

import anyio
import pytest

from inboxd.embedded import Server
from tests.support import Database, StartWorker, eventually
from tests.support.order import declare_lines, in_order, settled, trail, turns
from tests.support.verdicts import safety

pytestmark = pytest.mark.anyio


@pytest.fixture
async def lines(restartable_database: Database) -> Database:
    """A database on a server of the test's own, with the topics declared."""
    await declare_lines(restartable_database)
    return restartable_database


async def test_a_failover_to_an_older_copy_rewinds_ids_and_order_holds(
    lines: Database, restartable_server: Server, start_worker: StartWorker
) -> None:
    """The copy lacks the newest events, and its sequence draws their ids again."""
    worker = await start_worker()
    kept = await turns(lines, ["k", "other"] * 5)
    await settled(lines, 10)
    cluster = restartable_server.home / "cluster"
    copy = restartable_server.home / "copy"
    with restartable_server.outage():
        await anyio.run_process(["cp", "-a", str(cluster), str(copy)])
    lost = await eventually(lambda: turns(lines, ["k", "other"] * 20))
    await settled(lines, 50)
    with restartable_server.outage("immediate"):
        cluster.rename(restartable_server.home / "lost")
        copy.rename(cluster)
    assert sum(map(len, (await trail(lines)).values())) == 10, "the server runs on the older copy"
    again = await turns(lines, ["k", "other"] * 3)
    assert again[-1] < lost[-1], "ids were rewound"
    await settled(lines, 16)
    with safety():
        assert await in_order(lines) == {
            "k": kept[::2] + again[::2],
            "other": kept[1::2] + again[1::2],
        }
    assert worker.process.poll() is None


@pytest.mark.parametrize("seen", [False, True], ids=["prepared at once", "seen open before"])
async def test_a_prepared_transaction_is_waited_for(
    lines: Database, restartable_server: Server, start_worker: StartWorker, *, seen: bool
) -> None:
    """Its producer has gone, its locks belong to no session, and its event comes first."""
    await lines.execute("alter system set max_prepared_transactions = 2")
    restartable_server.restart()
    await start_worker()
    free = await keys_of_other_buckets(lines)
    async with lines.connect() as producer:
        # A transaction that has notified cannot be prepared.
        await producer.execute("set inboxd.notify = 'off'; begin")
        first = await turns(producer, ["k"])
        second = await turns(lines, ["k"]) if seen else []
        if seen:
            await turns(lines, free)
            await settled(lines, len(free))
        await producer.execute("prepare transaction 'late'")
    second += await turns(lines, ["k"])
    for _ in range(3):
        done = await lines.fetchval("select count(*) from trail")
        await turns(lines, free)
        await settled(lines, done + len(free))
    with safety():
        assert "k" not in await trail(lines), "the prepared event may still be committed"
    await lines.execute("commit prepared 'late'")
    await settled(lines, (3 + seen) * len(free) + 1 + len(second))
    with safety():
        assert (await in_order(lines))["k"] == first + second


async def test_claims_read_few_pages_while_a_snapshot_is_held(
    lines: Database, restartable_server: Server, start_worker: StartWorker
) -> None:
    """Settled rows stay on their pages for the other session; cursors pass them by."""
    await lines.execute(_TELL.format(database=lines.name))
    async with lines.connect() as holder, holder.transaction(isolation="repeatable_read"):
        await holder.fetch("select from inboxd.events")
        await turns(lines, [f"k{n % 10}" for n in range(3_000)])
        await start_worker({"events": {"page_rows": 25}})
        await settled(lines, 3_000)
        claims = list(pages_of_claims(restartable_server))
    assert len(claims) >= 120
    early, late = median(claims[:20]), median(claims[-20:])
    assert late < 1.5 * early + 20, f"pages per claim grew from {early} to {late}"


# Every new session logs the plans of its statements.
_TELL = """
alter database {database} set session_preload_libraries = 'auto_explain';
alter database {database} set auto_explain.log_min_duration = 0;
alter database {database} set auto_explain.log_format = json;
alter database {database} set auto_explain.log_analyze = on;
alter database {database} set auto_explain.log_timing = off;
alter database {database} set auto_explain.log_buffers = on;
"""


def pages_of_claims(server: Server) -> Iterator[int]:
    """The pages that each successful claim of arrivals has read, by the server's log."""
    told = (server.home / "server.log").read_text()
    for part in told.split("plan:\n")[1:]:
        plan, _ = json.JSONDecoder().raw_decode(part.lstrip())
        top = plan["Plan"]
        if "<= (lane.bucket, lane.bound)" in plan["Query Text"] and top["Actual Rows"]:
            yield int(top["Shared Hit Blocks"] + top["Shared Read Blocks"])


async def keys_of_other_buckets(database: Database) -> list[str]:
    """Keys whose lines do not share the bucket of `k`, so that nothing delays them."""
    rows = await database.fetch(
        "select key from (select 'f' || n as key from generate_series(1, 50) n) as k"
        " where inboxd.bucket_of('ordered', key) <> inboxd.bucket_of('ordered', 'k')"
    )
    return [row["key"] for row in rows]
