"""The daily statement: its numbers add up; deleted, dropped and restored rows are named."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from inboxd.errors import NotFound
from inboxd.maintenance.census import Census
from inboxd.maintenance.context import MaintenanceContext
from inboxd.maintenance.daily_statement import DailyStatement
from inboxd.maintenance.duplicates import DuplicateReport
from inboxd.operations import erase
from inboxd.operations.bulk import Terms
from inboxd.operations.daily_statement import accept_findings, statement
from inboxd.store import daily_statement as store
from inboxd.store.operator_sessions import open_session
from inboxd.telemetry.metrics import Metrics
from tests.store.retained import leads, let_go
from tests.support import Database, StartWorker, eventually
from tests.support.history import day, make_day, settle
from tests.support.receipts import receive, received_ago
from tests.support.rows import daemon_pool, daemon_session, settings_of

pytestmark = [pytest.mark.anyio, pytest.mark.safety]

AGO = 2
DAY = datetime.now(UTC).date() - timedelta(days=AGO)
FOREVER = {"events": "forever", "commands": "forever"}


@dataclass
class Books:
    """A leader, and a database with some past days."""

    database: Database
    context: MaintenanceContext
    task: DailyStatement

    async def settled(self, status: str, rows: int, source: str | None = "shop") -> None:
        """Add events of two days ago that ended with this status."""
        await settle(self.database, AGO, rows, "new")
        await self.database.execute(
            "update inboxd.events_history set type = 'a.a', status = $1, source = $2"
            " where type = 'new'",
            *(status, source),
        )

    async def unsettled(self, rows: int, source: str | None = "shop") -> None:
        """Add unsettled events of two days ago."""
        await self.database.execute(
            "insert into inboxd.events (type, topic, source, created_at) select 'a.a', 'default',"
            " $1, $2::date + interval '1 hour' from generate_series(1, $3::int)",
            *(source, DAY, rows),
        )

    async def count_again(self) -> None:
        """Make counts of days look a week old, and the last check of everything a day old."""
        await self.database.execute(
            "update inboxd.census set counted_at = counted_at - interval '8 days',"
            " begun_at = begun_at - interval '8 days';"
            "update inboxd.statement_checks set checked_at = checked_at - interval '2 days'"
        )
        self.task._last = None

    async def run(self) -> None:
        """Run the leader's tasks once."""
        for _ in range(3):  # each run counts only some days again
            await Census(self.context, leads).take()
        await self.task.make()

    async def make(self) -> dict[str, Any]:
        """Run the tasks until the day of two days ago is closed; returns its statement.

        Transactions of other tests on the server may delay the close.
        """

        async def is_closed() -> bool:
            await self.run()
            closed = "select closed_at is not null from inboxd.statement_days where day = $1"
            return bool(await self.database.fetchval(closed, DAY))

        await eventually(is_closed)
        return await self.shown()

    async def shown(self) -> dict[str, Any]:
        async with open_session(settings_of(self.database)) as session:
            return await statement(session, DAY)

    def metric(self, what: str) -> float | None:
        registry = self.context.metrics.registry
        return registry.get_sample_value("inboxd_statement_findings", {"what": what})


@pytest.fixture
async def books(database: Database) -> AsyncIterator[Books]:
    for days in (4, 3, AGO):
        await make_day(database, days, "events_history", "commands_history", "receipts")
    # The first day of statements.
    await database.execute("insert into inboxd.statement_days (day) values ($1)", DAY)
    async with daemon_pool(database, 2) as pool:
        context = MaintenanceContext(pool, Metrics("0"), uuid4())
        yield Books(database, context, DailyStatement(context, leads, soon=timedelta(0)))


def named(found: dict[str, Any]) -> dict[str, int]:
    """The findings: the number of rows by kind."""
    return {each["what"]: each["rows"] for each in (*found["findings"], *found["elsewhere"])}


# ------------------------------------------------------------------------------ sums


async def test_received_events_add_up_by_their_outcomes(books: Books) -> None:
    await books.settled("succeeded", 5)
    await books.settled("failed", 1)
    await books.settled("dismissed", 2)
    await books.settled("cancelled", 3)
    await books.settled("succeeded", 7, source=None)
    await books.unsettled(4)
    await books.database.execute(
        "update inboxd.events set status = 'failed' where id = (select min(id) from inboxd.events);"
        "insert into inboxd.duplicates (topic, source, key, type, event_id, first_event, conflict,"
        " at) select 'default', 'shop', n::text, 'a.a', gen_random_uuid(), gen_random_uuid(),"
        f" n = 3, '{DAY} 12:00+00' from generate_series(1, 3) n"
    )
    await DuplicateReport(books.context).report()
    found = await books.make()
    none, shop = found["lines"]
    assert (none["source"], none["received"], none["succeeded"]) == ("", 7, 7)
    assert shop == {
        "source": "shop",
        "received": 17,
        "duplicates": 2,
        "succeeded": 5,
        "dead": 2,
        "dismissed": 2,
        "cancelled": 3,
        "erased": 0,
        "open": 3,
        "difference": 0,
        "receipts": None,
        "receipt_duplicates": None,
    }
    assert (found["total"]["received"], found["total"]["difference"]) == (24, 0)
    assert named(found) == {}
    assert books.metric("rows_missing") == 0
    age = books.context.metrics.registry.get_sample_value("inboxd_statement_age_seconds")
    assert age is not None
    assert age < timedelta(days=AGO).total_seconds()


async def test_later_changes_of_rows_add_up(books: Books) -> None:
    """Events are settled, erased, trimmed by type and dropped with their day: none is missing."""
    await books.settled("succeeded", 6)
    await books.unsettled(3)
    await books.make()
    await books.database.execute(
        "update inboxd.events_history set type = 'b.b', tenant = 'north' where id in"
        " (select id from inboxd.events_history order by id limit 2);"
        "with gone as (delete from inboxd.events where id ="
        "              (select min(id) from inboxd.events) returning *)"
        " insert into inboxd.events_history (id, event_id, topic, mode, type, schema_version,"
        " source, status, attempts, crashes, run_at, occurred_at, created_at, updated_at,"
        " finished_at) select id, event_id, topic, mode, type, schema_version, source,"
        " 'succeeded', 1, 0, run_at, occurred_at, created_at, updated_at, now() from gone"
    )
    async with open_session(settings_of(books.database), patient=True) as session:
        await erase.erase(session, erase.subject_of("north", None, None), Terms(actor="a test"))
    found = await books.make()
    (shop,) = found["lines"]
    assert (shop["succeeded"], shop["erased"], shop["open"]) == (5, 2, 2)
    await let_go(books.database, FOREVER, {"b.b": {"retention": "1d"}})
    await books.count_again()
    found = await books.make()
    assert found["lines"] == [shop], "trimmed events stay counted"
    await let_go(books.database, {"events": "1d", "commands": "1d"})
    assert await books.database.fetchval("select count(*) from inboxd.events_history") == 1
    await books.count_again()
    found = await books.make()
    assert found["lines"] == [shop]
    assert named(found) == {}


async def test_events_that_go_to_more_topics_add_up(books: Books) -> None:
    await books.unsettled(2)
    await books.make()
    await books.database.execute(
        "insert into inboxd.topics (name, mode, source) values ('one', 'single', 's'),"
        " ('two', 'single', 's');"
        "insert into inboxd.subscriptions (type, topic) values ('a.a', 'one'), ('a.a', 'two');"
        "insert into inboxd.intakes (origin, type, topic, opened_at) values"
        " ('default', 'a.a', 'one', now()), ('default', 'a.a', 'two', now())"
    )
    async with daemon_session(books.database) as session:
        assert await session.fetchval("take_events", "default", "a.a", 10) == 2
    await books.count_again()
    found = await books.make()
    assert [(line["received"], line["open"]) for line in found["lines"]] == [(4, 4)]
    assert named(found) == {}


async def test_day_is_closed_after_its_last_open_transaction(books: Books) -> None:
    """A transaction began before midnight and commits long after the day."""
    async with books.database.connect() as late:
        transaction = late.transaction()
        await transaction.start()
        await late.execute(
            "insert into inboxd.events (type, topic, source, created_at) values ('a.a', 'default',"
            " 'shop', $1::date + interval '23 hours')",
            DAY,
        )
        await books.database.execute("delete from inboxd.statement_days")
        await books.database.execute("insert into inboxd.statement_days (day) values ($1)", DAY)
        await books.run()
        with pytest.raises(NotFound, match="has no statement"):
            await books.shown()
        await transaction.commit()
    found = await books.make()
    assert [line["received"] for line in found["lines"]] == [1]


async def test_sources_beyond_the_limit_are_added_up(
    books: Books, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "MOST_SOURCES", 2)
    for number in range(4):
        await books.settled("succeeded", 1, source=f"s{number}")
    await books.unsettled(5, source="s4")
    found = await books.make()
    assert [(line["source"], line["received"]) for line in found["lines"]] == [
        ("(other)", 7),
        ("s0", 1),
        ("s1", 1),
    ]
    assert named(found) == {}


# --------------------------------------------------------------------------- findings


async def test_deleted_row_is_named_until_its_finding_is_accepted(books: Books) -> None:
    await books.settled("succeeded", 3)
    await books.make()
    await books.database.execute(
        "delete from inboxd.events_history where id = (select min(id) from inboxd.events_history)"
    )
    await books.count_again()
    found = await books.make()
    assert named(found) == {"rows_missing": 1}
    (finding,) = found["findings"]
    assert (finding["source"], finding["day"]) == ("shop", str(DAY))
    assert books.metric("rows_missing") == 1
    async with open_session(settings_of(books.database)) as session:
        assert await accept_findings(session, DAY, actor="ana", reason="a test") == 1
        with pytest.raises(NotFound, match="has no finding to accept"):
            await accept_findings(session, DAY, actor="ana")
    await books.task.make()
    assert books.metric("rows_missing") == 0
    (kept,) = (await books.shown())["findings"]
    assert kept["accepted_by"] == "ana"
    await books.database.execute("delete from inboxd.events_history")
    await books.count_again()
    (worse,) = (await books.make())["findings"]
    assert (worse["rows"], worse["accepted_by"]) == (3, None), "more rows need a new acceptance"
    assert await books.database.fetchval("select action from inboxd.audit") == "accept"


async def test_a_deletion_is_noticed_without_waiting_for_a_week(books: Books) -> None:
    """The server's number of deleted rows changes, so the day is counted again."""
    await books.settled("succeeded", 3)
    await books.make()

    async def is_named() -> bool:
        return named(await books.make()) == {"rows_missing": 1}

    await books.database.execute(
        "delete from inboxd.events_history where id = (select min(id) from inboxd.events_history)"
    )
    await eventually(is_named)


async def test_an_unsettled_row_that_is_deleted_is_named(books: Books) -> None:
    await books.unsettled(3)
    await books.make()
    await books.database.execute(
        "delete from inboxd.events where id = (select max(id) from inboxd.events)"
    )
    await books.count_again()
    assert named(await books.make()) == {"rows_missing": 1}


async def test_dropped_day_of_history_is_named(books: Books) -> None:
    await books.settled("succeeded", 3)
    await books.make()
    await books.database.execute(f"drop table inboxd.events_history{day(AGO)}")
    await books.count_again()
    assert named(await books.make()) == {"partition_gone": 3}


async def test_dropped_receipts_are_named(books: Books) -> None:
    given = received_ago(AGO), received_ago(AGO)
    await receive(books.database, *given)
    await books.settled("succeeded", 1, source="psp")
    await books.database.execute(
        "update inboxd.events_history set origin_kind = 'receipt', causation_id = $1",
        given[0].receipt_id,
    )
    found = await books.make()
    assert named(found) == {}
    assert found["lines"][0]["receipts"] == 2
    await books.database.execute(
        "delete from inboxd.receipts where receipt_id = $1", given[0].receipt_id
    )
    await books.count_again()
    assert named(await books.make()) == {"events_without_receipt": 1, "receipts_missing": 1}


async def test_receipts_whose_events_were_deleted_are_named(books: Books) -> None:
    given = received_ago(AGO)
    await receive(books.database, given)
    await books.make()
    await books.database.execute("delete from inboxd.events")
    await books.count_again()
    found = await books.make()
    assert named(found) == {"receipts_without_events": 1}
    assert str(given.receipt_id) in found["findings"][0]["detail"]


async def test_a_receipt_that_comes_a_day_late_is_counted(books: Books) -> None:
    """The receipt comes from a spool, after its day has been counted."""
    await receive(books.database, received_ago(AGO))
    await books.unsettled(1, source="psp")
    assert (await books.make())["lines"][0]["receipts"] == 1
    await receive(books.database, received_ago(AGO))
    assert (
        await books.database.fetchval(
            "select counted_at from inboxd.census where part = $1", f"receipts{day(AGO)}"
        )
        is None
    )
    await books.database.execute(
        "update inboxd.statement_checks set checked_at = checked_at - interval '2 days'"
    )
    books.task._last = None
    found = await books.make()
    assert found["lines"][0]["receipts"] == 2
    assert named(found) == {}


async def test_table_restored_to_an_older_state_is_named(books: Books) -> None:
    """A backup restores unsettled events that were settled meanwhile."""
    await books.unsettled(3)
    await books.database.execute("create table backup as select * from inboxd.events")
    await books.make()
    await books.database.execute("delete from inboxd.events")
    await books.settled("succeeded", 3)
    await books.count_again()
    assert named(await books.make()) == {}
    await books.database.execute(
        "insert into inboxd.events overriding system value select * from backup; drop table backup"
    )
    await books.count_again()
    assert named(await books.make()) == {"rows_too_many": 3}


async def test_older_state_of_the_whole_database_is_named(books: Books) -> None:
    """The whole database is in an older state, its statements too; the leader remembers."""
    await books.unsettled(1)
    await books.make()
    older = "update inboxd.statement_checks set checked_at = checked_at - interval '1 hour'"
    await books.database.execute(older)
    assert named(await books.make()) == {"older_state": 0}
    assert named(await books.make()) == {"older_state": 0}, "the finding stays until its acceptance"


@pytest.mark.parametrize(
    ("was", "what"),
    [("database = 'another'", "another_database"), ("timeline = timeline - 1", "another_timeline")],
)
async def test_another_database_is_named(books: Books, was: str, what: str) -> None:
    """A dump restored elsewhere is another database; a recovery gives another timeline."""
    await books.unsettled(1)
    await books.make()
    await books.database.execute(f"update inboxd.statement_checks set {was}")
    await books.count_again()
    assert named(await books.make()) == {what: 0}


async def test_a_stream_that_went_back_is_named(books: Books) -> None:
    await books.unsettled(1)
    await books.database.execute(
        "insert into inboxd.stream_positions (source, stream, position, identity) values"
        " ('orders', 'orders 0', 90, 'k'), ('orders', 'orders 1', 90, 'k')"
    )
    await books.make()
    await books.database.execute(
        "update inboxd.stream_positions set position = 40;"
        "insert into inboxd.audit (actor, action, target, count)"
        " values ('ana', 'reset to 40', 'stream orders orders 1', 1)"
    )
    await books.database.execute(
        "update inboxd.statement_checks set checked_at = checked_at - interval '2 days'"
    )
    books.task._last = None
    found = await books.make()
    (finding,) = found["elsewhere"]
    assert finding["what"] == "position_gone_back"
    assert "orders 0 went back from 90 to 40" in finding["detail"]


async def test_spool_without_a_drain_is_named(books: Books) -> None:
    await books.unsettled(1)
    await books.database.execute(
        "insert into inboxd.receivers (id, name, host, pid, version, spooled, beat_at) values"
        " (gen_random_uuid(), 'r', 'node-a', 1, '1', '{psp}', now()),"
        " (gen_random_uuid(), 'r', 'node-b', 1, '1', '{psp}', now() - interval '1 hour')"
    )
    found = await books.make()
    assert named(found) == {"spool_left": 0}
    assert [each["is_gone"] for each in found["spools"]] == [False, True]


# ------------------------------------------------------------------------------ the task


async def test_a_leader_makes_the_statement(books: Books, start_worker: StartWorker) -> None:
    await books.settled("succeeded", 3)
    await start_worker({"maintenance": {"interval": "300ms"}})

    async def is_made() -> bool:
        lines = await books.database.fetchval("select count(*) from inboxd.statement_lines")
        return bool(lines)

    await eventually(is_made)
    assert [line["received"] for line in (await books.shown())["lines"]] == [3]


async def test_old_statements_are_deleted_with_their_parts(books: Books) -> None:
    await books.settled("succeeded", 3)
    await books.make()
    async with daemon_session(books.database) as session:
        assert await store.purge(session, timedelta(days=AGO + 1)) == 0
        assert await store.purge(session, timedelta(days=1)) == 1
    for table in ("days", "lines", "settled"):
        left = await books.database.fetchval(
            f"select count(*) from inboxd.statement_{table} where day = $1", DAY
        )
        assert left == 0, table
