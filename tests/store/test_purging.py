"""Old rows of the smaller tables: which are deleted, and which stay although they are old."""

from datetime import timedelta
from uuid import UUID, uuid4

import pytest

from inboxd.maintenance import purge
from inboxd.maintenance.context import MaintenanceContext
from inboxd.maintenance.purge import Purger
from inboxd.settings import History
from inboxd.store import purging
from inboxd.telemetry.metrics import Metrics
from tests.support import Database
from tests.support.bulk_actions import ordered
from tests.support.endpoints import add
from tests.support.history import make_day
from tests.support.rows import daemon_pool, daemon_session
from tests.support.verdicts import safety

pytestmark = pytest.mark.anyio

OLD = "now() - interval '100 days'"


async def clear(database: Database, **history: str) -> Metrics:
    """Run the purge once; returns its metrics."""
    metrics = Metrics("0")
    async with daemon_pool(database) as pool:
        context = MaintenanceContext(pool, metrics, uuid4())
        await Purger(context, History.model_validate(history), timedelta(seconds=10)).purge()
    return metrics


_STATS = {
    "stats_minutes": 7,
    "stats_hours": 90,
    "stats_days": None,
    "stats_tenant_hours": 90,
    "stats_tenant_days": None,
}


async def test_old_rates_of_keys_are_deleted(database: Database) -> None:
    await database.execute(
        "insert into inboxd.key_rates (queue, ordering_key, next_at) values"
        " ('q', 'old', now() - interval '25 hours'), ('q', 'new', now() - interval '23 hours')"
    )
    await clear(database)
    assert await database.fetchval("select array_agg(ordering_key) from inboxd.key_rates") == [
        "new"
    ]


async def test_series_are_deleted_with_their_last_count(
    database: Database,
) -> None:
    await database.execute(
        "insert into inboxd.stats_series (kind, lane, type, outcome, after)"
        " select 'event', 'l', n::text, 'succeeded', '' from generate_series(1, 3) n"
    )
    await database.execute(
        "insert into inboxd.stats_days (at, series, count) select now() - case type when '1' then"
        " interval '100 days' else interval '1 day' end, id, 1 from inboxd.stats_series"
        " where type <> '2'"
    )

    async def names() -> list[str]:
        return [row[0] for row in await database.fetch("select type from inboxd.stats_series")]

    await clear(database)
    assert len(await names()) == 3, "days are kept for ever, and all names with them"
    await clear(database, stats_days="60d")
    assert await names() == ["3"]


async def test_old_statistics_are_deleted_in_pages(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(purge, "_PAGE", 10)
    for table in _STATS:
        tenant = "tenant, " if "tenant" in table else ""
        await database.execute(
            f"insert into inboxd.{table} ({tenant}at, series, count) select"
            f" {tenant and repr('t') + ','} now() - n * interval '1 day' + interval '1 hour', 1, 1"
            " from generate_series(1, 120) n"
        )

    async def left() -> dict[str, int]:
        return {
            table: await database.fetchval(f"select count(*) from inboxd.{table}")
            for table in _STATS
        }

    metrics = await clear(database)
    assert await left() == {table: days or 120 for table, days in _STATS.items()}
    name = "inboxd_purged_rows_total"
    assert metrics.registry.get_sample_value(name, {"table": "stats_minutes"}) == 113
    await clear(database, stats="3d", stats_hours="15d", stats_days="30d")
    assert sorted((await left()).values()) == [3, 15, 15, 30, 30]


async def test_ended_bulk_actions_are_deleted_at_the_age_of_the_audit(database: Database) -> None:
    for at in ("now()", OLD):
        for status in ("completed", "scheduled"):
            id_ = await ordered(database)
            await database.execute(
                f"update inboxd.actions set created_at = {at}, status = '{status}',"
                f" ended_at = case '{status}' when 'completed' then {at} end where id = {id_}"
            )

    async def left() -> int:
        found: int = await database.fetchval("select count(*) from inboxd.actions")
        return found

    await clear(database)
    assert await left() == 4
    await clear(database, audit="90d")
    assert await left() == 3, "an action that has not ended stays, however old it is"


async def test_audit_and_replays_are_deleted_only_by_their_settings(database: Database) -> None:
    for at in ("now()", OLD):
        await database.execute(
            "insert into inboxd.audit (at, actor, action, target, count)"
            f" values ({at}, 'ada', 'replay', 'events 1', 1);"
            f"insert into inboxd.replays values ('event', 1, 1, {at}, 'ada')"
        )
    await clear(database, events="forever", commands="forever")
    count = "select (select count(*) from inboxd.audit), (select count(*) from inboxd.replays)"
    assert tuple((await database.fetch(count))[0]) == (2, 2)
    await clear(database, audit="60d", events="30d", commands="forever")
    assert tuple((await database.fetch(count))[0]) == (1, 2), "both tables need a retention"
    await clear(database, events="30d", commands="60d")
    assert tuple((await database.fetch(count))[0]) == (1, 1)


async def test_lines_of_the_audit_stay_for_30_days_at_least(
    database: Database,
) -> None:
    await database.execute(
        "insert into inboxd.audit (at, actor, action, target, count)"
        " values (now() - interval '29 days', 'ada', 'replay', 'events 1', 1)"
    )
    async with daemon_session(database) as session:
        assert await purging.remove(session, "audit", timedelta(0), 10) == 0


async def test_audit_line_of_a_bulk_action_stays_until_it_has_ended(database: Database) -> None:
    for status in ("paused", "aborted"):
        entry = await database.fetchval(
            "insert into inboxd.audit (at, actor, action, target, count)"
            f" values ({OLD}, 'ada', 'replay', 'commands', 1) returning id"
        )
        id_ = await ordered(database)
        await database.execute(
            "update inboxd.actions set audit_id = $1, status = $3, goes_on_as = $4,"
            " ended_at = case $3 when 'aborted' then now() end where id = $2",
            *(entry, id_, status, "running" if status == "paused" else None),
        )
    async with daemon_session(database) as session:
        assert await purging.remove(session, "audit", timedelta(0), 10) == 1
        left = "select a.status from inboxd.actions a join inboxd.audit l on l.id = a.audit_id"
        assert [row["status"] for row in await database.fetch(left)] == ["paused"]
        await database.execute(
            "update inboxd.actions set status = 'aborted', goes_on_as = null, ended_at = now()"
        )
        assert await purging.remove(session, "audit", timedelta(0), 10) == 1


async def _batch(database: Database, at: str = OLD, **more: object) -> tuple[int, UUID]:
    columns = {"status": "succeeded", "parent_id": None, **more}
    (row,) = await database.fetch(
        "insert into inboxd.batches (status, parent_id, created_at, finished_at, closed_at)"
        f" values ($1, $2, {at}, {at}, {at}) returning id, batch_id",
        *columns.values(),
    )
    return row[0], row[1]


async def test_ended_batches_are_deleted_with_their_steps(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(purge, "_PAGE", 2)
    gone = [await _batch(database) for _ in range(5)]
    await database.execute("insert into inboxd.steps values ($1, 'one', $2)", gone[0][0], uuid4())
    kept = {
        "young": await _batch(database, "now()"),
        "dead letter": await _batch(database, status="failed"),
        "running": await _batch(database, status="failed"),
        "awaited": await _batch(database, status="failed"),
        "unfolded": await _batch(database),
        "around": await _batch(database, "now()"),
    }
    kept["within"] = await _batch(database, parent_id=kept["around"][0])
    send = "insert into inboxd.commands (type, queue, batch_id, status, worker_id) values {}"
    for name, rest in (
        ("dead letter", "'failed', null"),
        ("running", "'running', gen_random_uuid()"),
    ):
        values = f"('test.noop', 'default', {kept[name][0]}, {rest})"
        await database.execute(send.format(values))
    await database.execute(
        "insert into inboxd.dependencies values ($1, gen_random_uuid(), 'succeeded')",
        kept["awaited"][1],
    )
    await database.execute("delete from inboxd.batch_progress")
    await database.execute(
        "insert into inboxd.batch_progress (batch_id) values ($1)", kept["unfolded"][0]
    )
    await clear(database, commands="90d")
    left = {row[0] for row in await database.fetch("select id from inboxd.batches")}
    names = {name for name, (id_, _) in kept.items() if id_ in left}
    assert (names, len(left)) == (set(kept), len(kept))
    assert await database.fetchval("select count(*) from inboxd.steps") == 0

    await database.execute(f"update inboxd.batches set created_at = {OLD}, finished_at = {OLD}")
    await clear(database, commands="90d")
    await clear(database, commands="90d")
    left = {row[0] for row in await database.fetch("select id from inboxd.batches")}
    names = {name for name, (id_, _) in kept.items() if id_ in left}
    assert names == {"dead letter", "running", "awaited", "unfolded"}


@pytest.mark.parametrize(
    ("looked_at", "state", "stays"),
    [
        ("25 hours", "settled before that", False),
        ("25 hours", "settled since then", True),
        ("25 hours", "waits", True),
        ("25 hours", "gone from history", False),
        ("23 hours", "settled before that", True),
    ],
)
async def test_sent_webhook_is_deleted_once_history_has_it(
    database: Database, looked_at: str, state: str, stays: bool
) -> None:
    await add(database, "one")
    send = "select duplicate from inboxd.send_webhook('a.b', message_id => 'm1')"
    await database.fetch(send)
    await database.execute(
        f"update inboxd.sent_webhooks set looked_at = now() - interval '{looked_at}'"
    )
    await make_day(database, 2, "commands_history")
    if state != "waits":
        at = {"settled before that": "26 hours", "settled since then": "5 minutes"}.get(state)
        await database.execute(
            "select inboxd.put_away(array(select id from inboxd.commands), 'cancelled')"
        )
        await database.execute(
            f"update inboxd.commands_history set finished_at = now() - interval '{at}'"
            if at
            else "delete from inboxd.commands_history"
        )
    metrics = await clear(database)
    assert await database.fetchval("select count(*) from inboxd.sent_webhooks") == stays
    if not stays:
        name = "inboxd_purged_rows_total"
        assert metrics.registry.get_sample_value(name, {"table": "sent_webhooks"}) == 1
    with safety():
        known = state != "gone from history"
        assert await database.fetchval(send) == known, "a duplicate while history has the first"


async def test_long_waiting_webhooks_do_not_hold_up_the_deletion_of_others(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(purge, "_PAGE", 10)
    await add(database, "one")
    send = "select inboxd.send_webhook('a.b', message_id => 'm' || n) from generate_series(1, 25) n"
    await database.execute(send)
    await database.execute(
        "insert into inboxd.sent_webhooks select gen_random_uuid() from generate_series(1, 25);"
        f"update inboxd.sent_webhooks set looked_at = {OLD}"
    )
    await clear(database)
    assert await database.fetchval("select count(*) from inboxd.sent_webhooks") == 25
