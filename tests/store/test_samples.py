"""Samples: their counts, their order, and the cost of reading them."""

from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import asyncpg
import pytest

from inboxd.maintenance import purge
from inboxd.maintenance.context import MaintenanceContext
from inboxd.maintenance.purge import Purger
from inboxd.maintenance.samples import Sampler, SampleReader
from inboxd.operations.overview import overview
from inboxd.settings import History, Settings
from inboxd.store import samples, workers
from inboxd.store.session import Session
from inboxd.telemetry.metrics import Metrics
from tests.support import Database, eventually
from tests.support.plans import told, touched_by
from tests.support.rows import daemon_pool, daemon_session, emit, join, send
from tests.support.sampled import take

pytestmark = pytest.mark.anyio

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)


async def _insert(database: Database, *rows: tuple[float, int]) -> None:
    """Insert samples as (seconds after noon, events written by then); the backlog is the same."""
    await database.execute(
        """insert into inboxd.samples
           select $1::timestamptz + make_interval(secs => s), w, 0,
                  w, 0, 0, 0, 0, w, 0, 0, 0, 0, null, 0, 0, 0, 0, 0, 1, s::integer % 60 = 0
             from unnest($2::float8[], $3::bigint[]) as t(s, w)""",
        NOON,
        [at for at, _ in rows],
        [written for _, written in rows],
    )


async def _series(database: Database, seconds: float, points: int) -> list[dict[str, Any]]:
    async with daemon_session(database) as session:
        return await samples.series(session, NOON, NOON + seconds * SECOND, points)


@pytest.mark.safety
async def test_sample_counts_all_lanes_and_their_pauses(database: Database) -> None:
    await emit(database, 4, "a.b")
    await send(database, 3, "c.d", "q")
    await database.execute(
        """insert into inboxd.controls (kind, name, actor) values ('queue', 'q', 'ada');
           update inboxd.commands set run_at = now() - interval '2 hours';
           insert into inboxd.topics (name, mode, source, rules)
           values ('s', 'sequential', 'x', '{}');
           insert into inboxd.events (type, topic, ordering_key) values ('a.b', 's', 'k');
           insert into inboxd.commands (type, queue, status) values ('c.d', 'r', 'failed');
           insert into inboxd.commands (type, queue, run_at)
           select 'c.d', 'r', now() + n * interval '1 hour' from unnest(array[-1, 1]) n"""
    )
    async with daemon_session(database) as session:
        one, two = await join(session, "one"), await join(session, "two")
        await workers.beat(session, one, 7, "running", events=5)
        await workers.beat(session, two, 2, "draining", events=1)
        sample, written = await take(session)
        assert written
        newest = await samples.newest(session)
        assert newest is not None
        assert newest.counts == sample.counts | {"blocked_keys": [], "blocked_lines": []}
        assert 0 <= newest.age < 60
        assert await samples.newest(session, newest.at) is None, "the reader has it already"
    totals = sample.counts["totals"]
    assert (totals.pop("events_written"), totals.pop("commands_written")) <= (5, 6)
    ages = totals.pop("commands_oldest"), totals.pop("events_oldest")
    assert 3599 < ages[0] < 7199, "paused commands do not count as late"
    assert ages[1] < 3599
    assert totals == {
        "workers": 2,
        "events_waiting": 5,
        "events_paused": 0,
        "events_kept": 4,
        "events_failed": 0,
        "commands_waiting": 5,
        "commands_paused": 3,
        "commands_failed": 1,
        "events_running": 6,
        "commands_running": 0,
        "suspects": 0,
        "blocked_keys": 0,
        "blocked_lines": 0,
        "held_topics": 0,
        "held_receipts": 0,
    }
    row = (await database.fetch("select * from inboxd.samples"))[0]
    assert {**row} | totals == {**row}, "each total has a column"
    lanes = await database.fetch(
        "select kind, place, type, waiting[m], failed[m] from inboxd.sampled_lanes,"
        " (select extract(minute from $1::timestamptz)::integer + 1) as minute(m) order by 1, 2",
        sample.at,
    )
    assert [tuple(lane) for lane in lanes] == [
        ("command", "q", "c.d", 3, 0),
        ("command", "r", "c.d", 2, 1),
        ("event", "default", "a.b", 4, 0),
        ("event", "s", "", 1, 0),
    ]


@pytest.mark.safety
async def test_longest_due_lanes_are_kept_and_totals_have_all(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each state has its own limit; lanes that are not due, or are paused, come last."""
    monkeypatch.setattr(samples, "LANES", 2)
    for number in range(1, 5):
        await send(database, number, f"t{number}")
        await send(database, 10, f"later{number}")
        await emit(database, 1, f"t{number}")
        await emit(database, number, f"dead{number}")
        for state in ("running", "failed"):
            await send(database, number, f"{state}{number}")
    await database.execute(
        """update inboxd.commands set run_at = now() + interval '1 day' where type like 'later%';
           update inboxd.commands set run_at = now() - (right(type, 1) || '0 s')::interval
            where type like 't%';
           update inboxd.events set run_at = now() - (right(type, 1) || '0 s')::interval
            where type like 't%';
           update inboxd.events set status = 'failed' where type like 'dead%';
           update inboxd.commands set status = 'failed' where type like 'failed%';
           update inboxd.commands set status = 'running', worker_id = inboxd.new_uuid()
            where type like 'running%';
           insert into inboxd.controls (kind, name, actor) values ('type', 't4', 'ada')"""
    )
    async with daemon_session(database) as session:
        sample, _ = await take(session)
    counts = sample.counts
    assert {lane["type"] for lane in counts["commands"]} == {
        *("t3", "t2", "running4", "running3", "failed4", "failed3")
    }
    assert {lane["type"] for lane in counts["events"]} == {"t3", "t2", "dead4", "dead3"}
    assert counts["left_out"] == 4 * 4 + 2 * 4 - 6 - 4
    totals = counts["totals"]
    assert (totals["commands_waiting"], totals["commands_running"]) == (50, 10)
    assert (totals["commands_failed"], totals["events_failed"]) == (10, 10)
    assert totals["events_waiting"] == 4


@pytest.mark.safety
async def test_sample_older_than_the_newest_is_not_written(database: Database) -> None:
    """One leader was stopped while it counted; another one leads meanwhile."""
    async with daemon_session(database) as slow, daemon_session(database) as quick:
        async with slow.transaction():
            old = await samples.count(slow, {}, samples.FAR, 9 * SECOND)
            new, written = await take(quick)
            assert written
            assert not await samples.write(slow, old, timedelta(0))
        _, again = await take(quick, newer_by=60)
        assert not again, "two leaders at once take one sample in the time of one"
        newest = await samples.newest(quick)
    assert newest is not None
    assert newest.at == new.at
    assert [row["at"] for row in await database.fetch("select at from inboxd.samples")] == [new.at]


@pytest.mark.safety
async def test_samples_go_on_after_the_clock_was_set_back(database: Database) -> None:
    async with daemon_session(database) as session:
        await take(session)
        for table in ("samples", "newest_sample"):
            await session.connection.execute(
                f"update inboxd.{table} set at = at + interval '2 hours'"
            )
        newest = await samples.newest(session)
        assert newest is not None
        assert 7_000 < newest.age <= 7_200, "old, although no newer sample is taken"
        sample, written = await take(session, newer_by=5)
        assert written
    rows = await database.fetch("select at from inboxd.samples")
    assert [row["at"] for row in rows] == [sample.at], "samples of the future are deleted"


@pytest.mark.safety
async def test_series_has_the_arrivals_of_each_step(database: Database) -> None:
    await _insert(database, (-10, 100), (0, 110), (10, 150), (20, 150), (60, 190), (70, 10))
    steps = await _series(database, 80, points=4)
    assert [(s["at"], s["seconds"], s["events_arrived"], s["events_waiting"]) for s in steps] == [
        (NOON, 20, 50, 150),
        (NOON + 20 * SECOND, 10, 0, 150),
        (NOON + 60 * SECOND, 50, 40, 190),
    ], "a gap is no step; its arrivals are in the next step, over its whole time"
    assert await _series(database, 80, points=1) != steps
    [first, *_] = await _series(database, 11, points=1)
    assert first["seconds"] == 20
    assert len(await _series(database, 80, points=10**9)) == 5


@pytest.mark.safety
async def test_first_sample_of_a_series_has_no_arrivals(database: Database) -> None:
    await _insert(database, (0, 110), (10, 150))
    first, second = await _series(database, 20, points=2)
    assert (first["seconds"], first["events_arrived"]) == (None, None)
    assert (second["seconds"], second["events_arrived"]) == (10, 40)


@pytest.mark.safety
@pytest.mark.parametrize(("writes", "reads"), [("UTC", "UTC"), ("Asia/Kolkata", "UTC")])
async def test_lane_is_sampled_minute_by_minute(
    database: Database, writes: str, reads: str
) -> None:
    """The sessions' time zones do not matter; behind a pooler the server's is used."""
    async with daemon_session(database) as session:
        await session.connection.execute(f"set timezone = '{writes}'")
        for minute, rows in ((58, 5), (59, 7), (60, 9), (63, 4)):
            at = NOON + timedelta(minutes=minute)
            await session.execute(
                *("write_sampled_lanes", at, ["event"] * 2, ["t"] * 2, ["a", "b"]),
                *([rows, 1], [0, 2], [None, 3]),
            )
        await session.connection.execute(f"set timezone = '{reads}'")
        one = await samples.lane_series(
            session, ("event", "t", "a"), NOON, NOON + timedelta(hours=2), 1_000
        )
        whole = await samples.lane_series(
            session, ("event", "t", None), NOON, NOON + timedelta(hours=2), 2
        )
        all_ = await samples.lanes_series(session, NOON + timedelta(minutes=70))
    assert [((step["at"] - NOON).seconds // 60, step["waiting"]) for step in one] == [
        (58, 5),
        (59, 7),
        (60, 9),
        (63, 4),
    ]
    assert [(step["waiting"], step["failed"], step["oldest"]) for step in whole] == [
        (8, 2, 3),
        (10, 2, 3),
    ]
    assert [(row["type"], row["waiting"]) for row in all_] == [
        ("a", [9, None, None, 4]),
        ("b", [1, None, None, 1]),
    ]


async def _full(database: Database) -> None:
    """Insert a fortnight of samples, and a day of 50 lanes."""
    await database.execute(
        """insert into inboxd.samples
           select at, n, n, 1, 0, 0, 0, 0, 1, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1, of_minute
             from (select now() - n * interval '10 s' as at, n, n % 6 = 0 as of_minute
                     from generate_series(1, 120000) n where n <= 8640 or n % 6 = 0) s order by at;
           insert into inboxd.sampled_lanes
           select date_trunc('hour', now()) - h * interval '1 hour', 'event', 'topic', 't' || n,
                  minutes, minutes, minutes
             from generate_series(24, 0, -1) h, generate_series(1, 50) n,
                  (select array_agg(m) as minutes from generate_series(1, 60) m) made;
           insert into inboxd.newest_sample values (true, now(), '{"totals": {}}')"""
    )


async def _pages(session: Session, work: Any) -> int:
    nodes = await told(session, work)
    return sum(touched_by(node) for node in nodes if "Parent Relationship" not in node)


async def test_chart_of_a_day_reads_few_blocks(
    database: Database,
) -> None:
    await _full(database)
    now = datetime.now(UTC)
    day, fortnight, decade = (now - timedelta(days=days) for days in (1, 14, 3650))
    lane = ("event", "topic", "t7")
    async with daemon_session(database) as session:
        await samples.newest(session)  # the first call also reads the catalogue
        for most, work in (
            (4, lambda: samples.newest(session)),
            (200, lambda: samples.series(session, day, now, 288)),
            (600, lambda: samples.series(session, fortnight, now, 1_000)),
            (120, lambda: samples.lane_series(session, lane, day, now, 288)),
            # Ten years have 87,600 hours; samples have the hours of a day.
            (150, lambda: samples.lane_series(session, lane, decade, now, 288)),
            (150, lambda: samples.lanes_series(session, now - timedelta(hours=1))),
        ):
            await work()
            read = await _pages(session, work())
            assert read <= most


async def test_old_samples_are_thinned_to_minutes_and_deleted_later(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(purge, "_PAGE", 100)
    monkeypatch.setattr(purge, "_SAMPLES", 60)
    await database.execute(
        """insert into inboxd.samples
           select at, n, n, 1, 0, 0, 0, 0, 1, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1, n % 6 = 0
             from (select now() - n * interval '10 s' as at, n from generate_series(1, 1200) n) s;
           insert into inboxd.sampled_lanes
           select date_trunc('hour', now()) - h * interval '1 hour', 'event', 't', 'a', a, a, a
             from generate_series(0, 9) h, (select '{}'::integer[]) as none(a)"""
    )
    history = History.model_validate({"samples": "2h"})
    async with daemon_pool(database) as pool:
        context = MaintenanceContext(pool, Metrics("0"), await _worker(database))
        await Purger(context, history, 10 * SECOND).purge()
    [row] = await database.fetch(
        """select count(*) filter (where not of_minute) as all, count(*) filter (where of_minute)
             as minutes, min(at) > now() - interval '121 min' as new from inboxd.samples"""
    )
    assert row["all"] in (49, 50), "samples of the last ten minutes"
    assert row["minutes"] in (119, 120)
    assert row["new"]
    assert await database.fetchval("select count(*) from inboxd.sampled_lanes") in (3, 4)


async def _worker(database: Database) -> Any:
    async with daemon_session(database) as session:
        return await join(session)


async def test_sample_after_a_timeout_counts_fewer_rows(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("inboxd.maintenance.samples._LONGEST", 0.2 * SECOND)
    await send(database, 3)
    database_settings = Settings.model_validate({"database": {"dsn": database.dsn}}).database
    async with daemon_pool(database) as pool:
        metrics = Metrics("0")
        context = MaintenanceContext(pool, metrics, await _worker(database))
        sampler = Sampler(context, database_settings, 10 * SECOND, dict)
        async with database.connect() as other, other.transaction():
            await other.execute("lock table inboxd.commands in access exclusive mode")
            with pytest.raises(asyncpg.QueryCanceledError):
                await sampler.sample()
        await sampler.sample()
        [newest] = await database.fetch("select counts->>'counted_to' from inboxd.newest_sample")
        assert newest[0] == "10000"
        await SampleReader(context).show()
        labels = {"queue": "default", "type": "test.ledger", "priority": "0", "state": "pending"}
        shown = metrics.registry.get_sample_value("inboxd_command_backlog_rows", labels)
        assert shown == 3
        for kind in ("event", "command"):
            arrived = metrics.registry.get_sample_value("inboxd_arrivals_total", {"kind": kind})
            assert arrived is not None


async def test_requested_number_of_rows_is_counted_again_when_possible(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A notice asks for a number of rows; fewer are counted only while that many take too long."""
    monkeypatch.setattr("inboxd.store.samples.FAR", samples.CountedTo(100, 100))
    monkeypatch.setattr("inboxd.store.samples.NEAR", samples.CountedTo(3, 3))
    monkeypatch.setattr("inboxd.maintenance.samples._LONGEST", 0.5 * SECOND)
    monkeypatch.setattr("inboxd.maintenance.samples._QUICK", -1.0)
    await send(database, 8)
    settings = Settings.model_validate({"database": {"dsn": database.dsn}}).database
    async with daemon_pool(database) as pool:
        context = MaintenanceContext(pool, Metrics("0"), await _worker(database))
        sampler = Sampler(context, settings, SECOND / 10**6, dict, 5)

        async def counted_to(rows: str) -> bool:
            await sampler.sample()
            found = "select counts ->> 'counted_to' from inboxd.newest_sample"
            return bool(await database.fetchval(found) == rows)

        async with database.connect() as other, other.transaction():
            await other.execute("lock table inboxd.commands in access exclusive mode")
            for _ in range(2):
                with pytest.raises(asyncpg.QueryCanceledError):
                    await sampler.sample()
        assert await counted_to("3")
        await eventually(partial(counted_to, "5"))
        monkeypatch.setattr("inboxd.maintenance.samples._QUICK", 60.0)
        await eventually(partial(counted_to, "100"))


async def test_status_reads_no_waiting_rows(database: Database) -> None:
    """Reads of the status count nothing: they read the sample, and running rows."""
    await emit(database, 1_000)
    await send(database, 1_000)
    await database.execute("update inboxd.commands set status = 'failed' where id % 2 = 0")
    settings = Settings.model_validate({"database": {"dsn": database.dsn}})
    read = (
        "select coalesce(sum(seq_tup_read + idx_tup_fetch), 0) from pg_stat_xact_user_tables"
        " where relname in ('events', 'commands')"
    )
    async with daemon_session(database) as session:
        for fresh in (False, True):
            if fresh:
                await take(session)
            async with session.transaction():
                before = await session.connection.fetchval(read)
                found = await overview(session, 5, settings, [], [])
                assert (await session.connection.fetchval(read) == before) is fresh
            by = "leader" if fresh else "status"
            assert found["sample"]["counted_by"] == by
            assert [lane["pending"] for lane in found["lanes"]] == [1_000, 500]
            assert [lane["failed"] for lane in found["lanes"]] == [0, 500]
        await session.connection.execute(
            "update inboxd.newest_sample set at = at - interval '1 hour'"
        )
        found = await overview(session, 5, settings, [], [])
    assert found["sample"]["counted_by"] == "status"
    assert found["sample"]["newest_age"] > 3599
    assert found["sample"]["age"] < 60


@pytest.mark.safety
async def test_each_row_arrives_once_whatever_its_outcome(database: Database) -> None:
    """The same in ordered topics, whose rows get two ids; rows of earlier samples do not count."""
    statement = (
        "insert into inboxd.events (type, topic, ordering_key, dedup_key)"
        " select 'a.b', topic, 'k', n::text from unnest(array['s', 't']) as topic,"
        " generate_series(1, 5) n"
    )
    await database.execute(
        "insert into inboxd.topics (name, mode, source, rules)"
        " values ('s', 'sequential', 'x', '{}')"
    )
    async with daemon_session(database) as session:
        known = []
        for _ in range(3):
            known.append((await take(session))[0].counts["totals"]["events_written"])
            await session.connection.execute(statement)
            await session.connection.execute("delete from inboxd.events where topic = 't'")
            await session.connection.execute("select pg_stat_force_next_flush()")
            await session.connection.execute("select 1")
    assert [number - known[0] for number in known] == [0, 10, 10]
