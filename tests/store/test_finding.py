"""Lists agree with a plain query of all rows, over random histories; and their other promises.

A history is drawn in the order of events: rows get their ids in order, some long after their
statement began, and are settled at once or days later. While pages are read, rows settle and new
ones are inserted.
"""

from collections.abc import AsyncIterator, Collection, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import anyio
import asyncpg
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from inboxd.embedded import Server
from inboxd.errors import PartitionBusy
from inboxd.maintenance.partitions.indexing import make_indexes
from inboxd.operations import containing, find
from inboxd.settings import Settings
from inboxd.store import census, finding, partitions
from inboxd.store.finding import Filter, View
from inboxd.store.operator_sessions import open_session
from inboxd.store.session import Session
from tests.store.days import count_day
from tests.store.retained import leads
from tests.support import Database, ExternalServer, create, drop
from tests.support.history import make_day, parts, settle, store_body
from tests.support.rows import daemon_session, settings_of
from tests.support.verdicts import safety

_DAYS = 6
_NOW = datetime.now(UTC)
_BEGIN = _NOW - timedelta(days=_DAYS - 1)

_EVER = (datetime(1970, 1, 1, tzinfo=UTC), datetime(9999, 1, 1, tzinfo=UTC))
_SPREAD = [timedelta(0), timedelta(seconds=3), timedelta(hours=5), timedelta(days=2)]


@dataclass(frozen=True)
class Row:
    """One event: the time of its id, the age of its statement then, and the time until its end."""

    drawn: datetime
    before: timedelta
    after: timedelta
    type: str
    tenant: str | None
    entity: str | None
    error: str | None
    number: int
    status: str

    @property
    def created(self) -> datetime:
        return self.drawn - self.before

    @property
    def finished(self) -> datetime | None:
        """The time of its settlement; None if it is unsettled."""
        at = self.drawn + self.after
        return None if self.status in ("pending", "failed") or at > _NOW else at

    def meets(self, wanted: Filter, status: str, finished: datetime | None) -> bool:
        """Whether a plain query would return the row, with this status."""
        tests: list[tuple[Any, bool]] = [
            (wanted.type, self.type == wanted.type),
            (wanted.tenant, self.tenant == wanted.tenant),
            (wanted.entity_type, self.entity is not None),
            (wanted.entity_id, self.entity == wanted.entity_id),
            (wanted.error, self.error is not None and str(wanted.error) in self.error),
            (wanted.payload or None, f'{{"n":{self.number}}}' in wanted.payload),
            (wanted.statuses or None, status in wanted.statuses),
        ]
        return all(met for given_, met in tests if given_ is not None) and self._then(
            wanted, finished or (self.drawn if status == "failed" else None), finished
        )

    def _then(self, wanted: Filter, ended: datetime | None, finished: datetime | None) -> bool:
        since, until = wanted.since or _EVER[0], wanted.until or _EVER[1]
        if wanted.by == "created":
            return self.created >= since and (finished or self.created) < until
        times = {"ended": ended, "failed": self.drawn if self.error else None}
        happened = times.values() if wanted.by == "done" else [times[wanted.by]]
        return any(at is not None and since <= at < until for at in happened)


@st.composite
def histories(draw: st.DrawFn) -> list[Row]:
    """Draw rows in the order of their ids."""
    found, at = [], _BEGIN
    for _ in range(draw(st.integers(0, 40))):
        at += draw(st.sampled_from([timedelta(0), timedelta(seconds=1), timedelta(hours=4)]))
        if at > _NOW:
            break
        found.append(
            Row(
                *(at, draw(st.sampled_from(_SPREAD)), draw(st.sampled_from(_SPREAD))),
                *(draw(st.sampled_from("ab")), draw(st.sampled_from([None, "t", "u"]))),
                *(
                    draw(st.sampled_from([None, "1", "2"])),
                    draw(st.sampled_from([None, "no", "yes"])),
                ),
                *(draw(st.integers(0, 2)), draw(st.sampled_from(_STATUSES))),
            )
        )
    return found


_STATUSES = ["pending", "failed", "succeeded", "cancelled", "dismissed"]
_TIMES = st.none() | st.integers(0, 24 * _DAYS).map(lambda hours: _BEGIN + timedelta(hours=hours))


@st.composite
def filters(draw: st.DrawFn) -> Filter:
    """Draw a filter; most of them have one or two conditions."""
    names = draw(
        st.sets(st.sampled_from(["type", "tenant", "entity", "error", "payload"]), max_size=2)
    )
    entity = draw(st.sampled_from([None, "1", "none"])) if "entity" in names else None
    return Filter(
        type=draw(st.sampled_from(["a", "none"])) if "type" in names else None,
        tenant=draw(st.sampled_from(["t", "none"])) if "tenant" in names else None,
        entity_type="e" if "entity" in names else None,
        entity_id=entity,
        error=draw(st.sampled_from(["no", "es", "none"])) if "error" in names else None,
        payload=containing(f"n={draw(st.integers(0, 3))}")[1:] if "payload" in names else (),
        statuses=draw(st.sets(st.sampled_from(_STATUSES), max_size=2)),
        since=draw(_TIMES),
        until=draw(_TIMES),
        by=draw(st.sampled_from(["created", "created", "ended", "failed", "done"])),
    )


_HOT = """
insert into inboxd.events (id, event_id, topic, mode, type, tenant, entity_type, entity_id, payload,
    errors, status, bucket, created_at, updated_at)
overriding system value
select id, gen_random_uuid(), 'default', 'single', type, tenant, entity_type, entity_id,
       payload::jsonb, errors::jsonb, status, 0, created, changed
  from unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[],
              $8::text[], $9::timestamptz[], $10::timestamptz[])
       as t(id, type, tenant, entity_type, entity_id, payload, errors, status, created, changed)
"""
_SETTLED = """
insert into inboxd.events_history (id, event_id, topic, mode, type, schema_version, tenant,
    entity_type, entity_id, payload, errors, status, attempts, crashes, run_at, occurred_at,
    created_at, updated_at, finished_at)
select id, gen_random_uuid(), 'default', 'single', type, 1, tenant, entity_type, entity_id,
       payload::jsonb, errors::jsonb, status, 1, 0, created, created, created, finished, finished
  from unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[],
              $8::text[], $9::timestamptz[], $10::timestamptz[])
       as t(id, type, tenant, entity_type, entity_id, payload, errors, status, created, finished)
"""
_SETTLE = """
with gone as (delete from inboxd.events where id = any($1::bigint[]) returning *)
insert into inboxd.events_history (id, event_id, topic, mode, type, schema_version, tenant,
    entity_type, entity_id, payload, errors, status, attempts, crashes, run_at, occurred_at,
    created_at, updated_at, finished_at)
select id, event_id, topic, mode, type, 1, tenant, entity_type, entity_id, payload, errors,
       'succeeded', 1, 0, run_at, occurred_at, created_at, now(), clock_timestamp() from gone
"""


async def _write(session: Session, rows: dict[int, Row], counted: Collection[int] = ()) -> None:
    """Replace all rows by these; counted: the past days with a census, from the oldest on."""
    run = session.connection
    await run.execute("truncate inboxd.events, inboxd.events_history; delete from inboxd.census")
    for query, settled in ((_HOT, False), (_SETTLED, True)):
        chosen = [(i, r) for i, r in rows.items() if (r.finished is not None) == settled]
        columns: list[list[Any]] = [
            [i for i, _ in chosen],
            [r.type for _, r in chosen],
            [r.tenant for _, r in chosen],
            [None if r.entity is None else "e" for _, r in chosen],
            [r.entity for _, r in chosen],
            [f'{{"n": {r.number}, "more": [1]}}' for _, r in chosen],
            [
                None if r.error is None else f'[{{"error": "{r.error}", "at": "{r.drawn}"}}]'
                for _, r in chosen
            ],
            [r.status if settled or r.status == "failed" else "pending" for _, r in chosen],
            [r.created for _, r in chosen],
        ]
        columns.append([r.finished if settled else r.drawn for _, r in chosen])
        if chosen:
            await run.execute(query, *columns)
    days = [each for each in await census.uncounted(session) if each.over]
    for place, each in enumerate(each for each in days if each.table == "events"):
        if place in counted:
            began, found = await count_day(session, each)
            assert await census.end(session, each, began, found)


@pytest.fixture(scope="module")
def kept(server: Server | ExternalServer, template: Database) -> Iterator[Database]:
    """A database with past days, most of which have their indexes."""
    database = create(server, template.name)

    async def prepare() -> None:
        await database.execute("alter table inboxd.events disable trigger user")
        for days in range(2, _DAYS + 3):
            await make_day(database, days, "events_history")
        days_over = sorted(part for part in await parts(database) if part.startswith("events_h"))
        for part in days_over[2:]:
            for what in ("type", "tenant", "entity"):
                await database.execute(f"select inboxd.index_partition('{part}', '{what}')")

    try:
        anyio.run(prepare)
        yield database
    finally:
        drop(server, database)


@asynccontextmanager
async def _operator(database: Database) -> AsyncIterator[Session]:
    async with open_session(settings_of(database)) as session:
        yield session


async def _hold(
    database: Database,
    rows: list[Row],
    wanted: Filter,
    limit: int,
    look: int,
    settling: list[int],
    gap: int,
    counted: Collection[int] = range(_DAYS + 3),
) -> None:
    """Read all pages while rows settle; each row that matches throughout is listed once."""
    by_id = {gap * place + gap: row for place, row in enumerate(rows)}
    unsettled = [i for i, row in by_id.items() if row.finished is None]
    async with _operator(database) as session:
        await _write(session, by_id, counted)
        listed: list[int] = []
        below, settled, pages = None, set[int](), 0
        while True:
            found = await find(session, "events", wanted, below=below, limit=limit, look=look)
            listed += [row["id"] for row in found.rows]
            pages += 1
            assert found.looked <= look + 3, "each index is read for at least one row"
            assert below is None or found.next is None or found.next < below, (
                "the next page is below"
            )
            if (below := found.next) is None:
                break
            now = [unsettled[i] for i in settling[pages - 1 : pages] if i < len(unsettled)]
            await session.connection.execute(_SETTLE, now)
            settled |= set(now)
    ended = datetime.now(UTC)
    before = {i for i, row in by_id.items() if row.meets(wanted, _first(row), row.finished)}
    after = {
        i
        for i, row in by_id.items()
        if row.meets(
            wanted, *(("succeeded", ended) if i in settled else (_first(row), row.finished))
        )
    }
    with safety():
        assert listed == sorted(set(listed), reverse=True), "newest first, each once"
        assert before & after <= set(listed), "a row is missing"
        assert set(listed) <= before | after, "a row does not match"


def _first(row: Row) -> str:
    return row.status if row.finished is not None or row.status == "failed" else "pending"


_CASES = given(
    rows=histories(),
    wanted=filters(),
    limit=st.integers(1, 6),
    look=st.sampled_from([1, 3, 10, 50_000]),
    settling=st.lists(st.integers(0, 20), max_size=20),
    gap=st.sampled_from([1, 10, 1_000]),  # dense and sparse ids
    counted=st.just(range(_DAYS + 3)) | st.sets(st.integers(0, _DAYS + 2)),
)
_SHARED = [HealthCheck.function_scoped_fixture]


@hypothesis_settings(max_examples=15, suppress_health_check=_SHARED)
@_CASES
def test_pages_agree_with_a_plain_query(
    kept: Database,
    rows: list[Row],
    wanted: Filter,
    limit: int,
    look: int,
    settling: list[int],
    gap: int,
    counted: Collection[int],
) -> None:
    anyio.run(_hold, kept, rows, wanted, limit, look, settling, gap, counted)


@pytest.mark.long
@pytest.mark.soak
@pytest.mark.timeout(900)
@hypothesis_settings(max_examples=400, suppress_health_check=_SHARED)
@_CASES
def test_pages_agree_with_a_plain_query_in_many_histories(
    kept: Database,
    rows: list[Row],
    wanted: Filter,
    limit: int,
    look: int,
    settling: list[int],
    gap: int,
    counted: Collection[int],
) -> None:
    anyio.run(_hold, kept, rows, wanted, limit, look, settling, gap, counted)


# ------------------------------------------------------------------------ other promises


@pytest.mark.parametrize("hours", [30, 53, 77, 100])
def test_list_with_an_end_begins_at_that_time(kept: Database, hours: int) -> None:
    """The search bisects ids that are far apart, and skips those that cannot match."""
    apart, moment = timedelta(hours=4), timedelta(0)
    given_ = (moment, moment, "a", None, None, None, 0, "succeeded")
    rows = [Row(_BEGIN + place * apart, *given_) for place in range(24)]
    wanted = Filter(until=_BEGIN + timedelta(hours=hours))
    anyio.run(_hold, kept, rows, wanted, 6, 50_000, [], 1_000)


def test_row_that_ended_late_is_found_behind_early_ones(kept: Database) -> None:
    """Rows settled early do not prove that no row with a lower id was settled later."""
    noon, hour = (_BEGIN + timedelta(days=1)).replace(hour=12, minute=0), timedelta(hours=1)
    given_ = (timedelta(0), hour, "a", None, None, None, 0, "succeeded")
    late = Row(noon - 10 * hour, timedelta(0), 10 * hour, *given_[2:])
    rows = [late, *(Row(noon - 6 * hour, *given_) for _ in range(20))]
    wanted = Filter(since=noon - hour, until=noon + hour, by="ended")
    anyio.run(_hold, kept, rows, wanted, 5, 1, [], 1)


def test_days_with_higher_ids_alone_are_left_out() -> None:
    """Only days whose lowest id is known, and only one range: the longest."""
    days = [(_BEGIN + timedelta(days=n), _BEGIN + timedelta(days=n + 1)) for n in range(6, -1, -1)]
    lowest = [None, 60, 50, 9, 30, 2**63 - 1, 10]
    view = View(_NOW, 7, None, list(zip(days, lowest, strict=True)))
    assert view.newer(70) == days[5], "a day without rows"
    assert view.newer(50) == (days[2][0], days[1][1])
    assert view.newer(10) == (days[6][0], days[4][1])
    assert view.newer(9) == (days[6][0], days[1][1])
    assert View(_NOW, 0, None, []).newer(1) is None


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("hours", "waited"), [(1, {1}), (5, {1, 2, 3}), (30, {3}), (29, {2, 3}), (200, {3})]
)
async def test_rows_that_waited_at_a_time_are_found(
    kept: Database, hours: int, waited: set[int]
) -> None:
    nothing, hour = timedelta(0), timedelta(hours=1)
    rows = {
        1: Row(_BEGIN, nothing, 5 * hour, "a", None, None, None, 0, "succeeded"),
        2: Row(_BEGIN + 2 * hour, nothing, 27 * hour, "a", None, None, None, 0, "succeeded"),
        3: Row(_BEGIN + 4 * hour, nothing, nothing, "a", None, None, None, 0, "pending"),
    }
    then = _BEGIN + hours * hour
    wanted = Filter(since=then, until=then + timedelta(minutes=1), by="waiting")
    async with _operator(kept) as session:
        await _write(session, rows)
        found = await find(session, "events", wanted)
    assert {row["id"] for row in found.rows} == waited


@pytest.mark.anyio
@pytest.mark.parametrize("what", ["type", "tenant", "entity"])
async def test_a_day_gets_its_indexes_when_it_is_over(database: Database, what: str) -> None:
    for days in (0, 3):
        if days:
            await make_day(database, days, "events_history")
        part = f"events_history_{_NOW - timedelta(days=days):%Y%m%d}"
        make = "select inboxd.index_partition($1, $2)"
        made = [await database.fetchval(make, part, what) for _ in range(2)]
        assert made == [days > 0, False], "once, and not while rows are written"


@pytest.mark.anyio
async def test_day_with_an_open_write_is_indexed_later(database: Database) -> None:
    await make_day(database, 3, "events_history")
    part = f"events_history_{_NOW - timedelta(days=3):%Y%m%d}"
    async with database.connect() as writer, daemon_session(database) as leader:
        async with writer.transaction():
            await writer.execute(f"delete from inboxd.{part}")
            with pytest.raises(PartitionBusy, match="is indexed later"):
                await partitions.index(leader, part, "type")
        assert await partitions.index(leader, part, "type")


@pytest.mark.anyio
async def test_events_are_found_by_the_status_of_their_commands(database: Database) -> None:
    """Of commands that the event's handler sent, alone or in a batch; dead letters too."""
    ends = ["failed", "succeeded", "pending", "in a batch", None]
    rows = [Row(_NOW, timedelta(0), timedelta(0), "a", None, None, None, 0, "succeeded")] * 5
    async with _operator(database) as session:
        await session.connection.execute("alter table inboxd.events disable trigger user")
        await _write(session, dict(enumerate(rows, start=1)))
        for id_, end in enumerate(ends, start=1):
            if end is not None:
                await session.connection.execute(_CHILD[end], id_)

        async def listed(*statuses: str) -> list[int]:
            found = await find(session, "events", Filter(commands=statuses))
            return [row["id"] for row in found.rows]

        assert await listed("failed") == [4, 1]
        assert await listed("succeeded") == [2]
        assert await listed("pending", "succeeded") == [3, 2]
        assert await listed("cancelled") == []


_PARENT = "from inboxd.events_history where id = $1"
_CHILD = {
    **{
        status: "insert into inboxd.commands (queue, type, status, origin_kind, origin_id,"
        f" causation_id) select 'q', 'c', '{status}', 'event', id, event_id {_PARENT}"
        for status in ("failed", "pending")
    },
    "succeeded": "insert into inboxd.commands_history (id, command_id, queue, type, schema_version,"
    " priority, status, attempts, crashes, fence, run_at, cancel_requested, origin_kind, origin_id,"
    " causation_id, created_at, updated_at, finished_at) select 7, gen_random_uuid(), 'q', 'c', 1,"
    " 0, 'succeeded', 1, 0, 1, now(), false, 'event', id, event_id, now(), now(), clock_timestamp()"
    f" {_PARENT}",
    "in a batch": "insert into inboxd.batches (origin_kind, origin_id, causation_id, size, failed)"
    f" select 'event', id, event_id, 1, 1 {_PARENT}",
}


@pytest.mark.anyio
async def test_payload_stored_in_bodies_is_searched(database: Database) -> None:
    body = await store_body(database, 0, "far away")
    await settle(database, 0, 1, body=body)
    await settle(database, 0, 1)
    async with _operator(database) as session:
        found = await find(session, "events", Filter(payload=containing("text=far away")))
    assert len(found.rows) == 1


@pytest.mark.anyio
@pytest.mark.parametrize("wanted", [False, True])
async def test_leader_indexes_past_days_if_settings_say_so(
    database: Database, wanted: bool
) -> None:
    for days in (3, 4):
        await make_day(database, days, "events_history", "commands_history")

    given_: dict[str, Any] = {"database": {"dsn": database.dsn}, "history": {"indexes": wanted}}
    await make_indexes(Settings(**given_), leads)
    async with daemon_session(database) as session:
        assert bool(await partitions.missing_indexes(session)) is not wanted
    async with (
        _operator(database) as operator,
        finding.snapshot(operator, "events", "tenant") as view,
    ):
        assert (view.indexed is not None) is wanted


@pytest.mark.anyio
async def test_worker_makes_indexes_of_tables_that_it_does_not_own(database: Database) -> None:
    await make_day(database, 3, "events_history")
    part = f"events_history_{_NOW - timedelta(days=3):%Y%m%d}"
    async with daemon_session(database) as session:
        await session.connection.execute("set role inboxd_worker")
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await session.connection.execute(f"create index on inboxd.{part} (type)")
        assert await partitions.index(session, part, "entity")
