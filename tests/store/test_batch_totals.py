"""Totals of batches agree with a full count, whatever happens to batches and to leaders."""

from collections import Counter
from datetime import timedelta
from typing import Any
from uuid import uuid4

import anyio
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from inboxd.embedded import Server
from inboxd.maintenance.batch_totals import add_up_batches
from inboxd.maintenance.context import MaintenanceContext
from inboxd.operations import cancel_batch, totals
from inboxd.operations.totals import Exactness, Number, count_batches
from inboxd.store import batch_totals, migrations, purging
from inboxd.store.operator_sessions import open_session
from inboxd.store.session import Session
from inboxd.telemetry.metrics import Metrics
from tests.store.members import claim, fail, fold, json, settle
from tests.support import Database, ExternalServer, StartWorker, create, drop, eventually
from tests.support.rows import daemon_pool, daemon_session, join, settings_of

pytestmark = [pytest.mark.anyio, pytest.mark.safety]

KINDS, TYPES, TENANTS = ("batch", "workflow"), ("", "mails", "bills"), (None, "north", "south")
STATUSES = ("waiting", "pending", "running", "succeeded", "failed", "cancelled")
_MEMBER = {"type": "test.noop", "queue": "default"}


async def add_up(database: Database) -> None:
    """Run the leader's task once."""
    async with daemon_pool(database, 1) as pool:
        await add_up_batches(MaintenanceContext(pool, Metrics("0"), uuid4()))


async def check(database: Database) -> None:
    """Check that all totals are exact and true."""
    rows = await database.fetch(
        "select kind, type, tenant, status, count(*) from inboxd.batches group by 1, 2, 3, 4"
    )
    async with open_session(settings_of(database)) as session:
        for kind in (None, *KINDS):
            for type_ in (None, *TYPES):
                for tenant in TENANTS:
                    real = Counter[str]()
                    for of_kind, of_type, of_tenant, status, count in rows:
                        real[status] += count * (
                            kind in (None, of_kind)
                            and type_ in (None, of_type)
                            and tenant in (None, of_tenant)
                        )
                    found = await count_batches(session, kind, type_=type_, tenant=tenant)
                    assert found == {each: Number(real[each]) for each in STATUSES}, (
                        f"{kind}, {type_}, {tenant}"
                    )


# ------------------------------------------------------------------------- random histories

_OF = (st.sampled_from(TYPES), st.sampled_from(TENANTS))
_STEPS = st.one_of(
    st.tuples(st.just("sent"), st.integers(0, 2), *_OF),
    st.tuples(st.just("graphed"), *_OF),
    st.tuples(st.just("opened"), *_OF),
    st.tuples(st.just("undone"), *_OF),
    st.tuples(st.just("worked"), st.booleans()),
    st.tuples(st.just("replayed")),
    st.tuples(st.just("cancelled")),
    st.tuples(st.just("purged")),
    st.tuples(st.just("renamed"), *_OF),
    st.tuples(st.just("added_up")),
    st.tuples(st.just("leader_killed")),
    st.tuples(st.just("two_leaders")),
)
# Each step once and more, in an order in which each has something to do.
_ALL: list[tuple[Any, ...]] = [
    *(("sent", 2, "mails", "north"), ("sent", 0, "", None), ("graphed", "bills", "south")),
    *(("opened", "mails", None), ("undone", "bills", "north"), ("leader_killed",)),
    *(("worked", True), ("added_up",), ("replayed",), ("worked", False), ("two_leaders",)),
    *(("renamed", "bills", "north"), ("cancelled",), ("added_up",), ("purged",)),
    ("sent", 1, "", None),
]


class _History:
    """A database whose batches change."""

    def __init__(self, database: Database, session: Session) -> None:
        self._database, self._session = database, session

    async def forget(self) -> None:
        await self._session.connection.execute(
            "delete from inboxd.commands; delete from inboxd.commands_history;"
            "delete from inboxd.batches; delete from inboxd.batch_progress;"
            "delete from inboxd.dependencies; delete from inboxd.steps;"
            "delete from inboxd.workers; delete from inboxd.batch_changes;"
            "delete from inboxd.batch_totals"
        )

    async def sent(self, members: int, type_: str, tenant: str | None) -> None:
        await self._session.connection.execute(
            "select inboxd.send_batch('b', $1, type => $2, tenant => $3)",
            json([_MEMBER] * members),
            *(type_, tenant),
        )

    async def graphed(self, type_: str, tenant: str | None) -> None:
        """Send a workflow: a batch that becomes one in the same transaction."""
        await self._session.connection.execute(
            "select inboxd.send_workflow('w', $1, type => $2, tenant => $3)",
            json([{"name": "one", **_MEMBER}, {"name": "two", "after": "one", **_MEMBER}]),
            *(type_, tenant),
        )

    async def opened(self, type_: str, tenant: str | None) -> None:
        await self._session.connection.execute(
            "select inboxd.open_batch('o', type => $1, tenant => $2)", type_, tenant
        )

    async def undone(self, type_: str, tenant: str | None) -> None:
        """Send a batch in a transaction that is rolled back."""
        transaction = self._session.transaction()
        await transaction.start()
        await self.sent(1, type_, tenant)
        await transaction.rollback()

    async def worked(self, succeed: bool) -> None:
        """Let a worker end a few members, and fold all batches."""
        worker = await join(self._session)
        rows = await claim(self._session, worker, most=2)
        await (settle if succeed else fail)(self._session, worker, rows)
        await self._fold()

    async def replayed(self) -> None:
        """Replay the dead letters: their batches heal."""
        await self._session.connection.execute(
            "update inboxd.commands set status = 'pending' where status = 'failed'"
        )
        await self._fold()

    async def cancelled(self) -> None:
        id_ = await self._session.connection.fetchval(
            "select min(id) from inboxd.batches where finished_at is null and ending is null"
        )
        if id_ is not None:
            await cancel_batch(self._session, id_, actor="a test")

    async def purged(self) -> None:
        await purging.batches(self._session, timedelta(0), 0, 1_000)

    async def renamed(self, type_: str, tenant: str | None) -> None:
        """Change a batch by hand."""
        await self._session.connection.execute(
            "update inboxd.batches set type = $1, tenant = $2"
            " where id = (select min(id) from inboxd.batches)",
            *(type_, tenant),
        )

    async def added_up(self) -> None:
        await add_up(self._database)

    async def leader_killed(self) -> None:
        """Let a leader die in the middle of its transaction."""
        async with daemon_session(self._database) as leader:
            transaction = leader.transaction()
            await transaction.start()
            await batch_totals.add_up(leader, 1_000)
            await transaction.rollback()

    async def two_leaders(self) -> None:
        """Let a second leader add up while the first one has changes in hand."""
        async with daemon_session(self._database) as leader, leader.transaction():
            await leader.fetch("hold_batch_changes", 1)
            await add_up(self._database)
            await batch_totals.add_up(leader, 1_000)

    async def _fold(self) -> None:
        for row in await self._session.connection.fetch(
            "select id from inboxd.batches order by id desc"
        ):
            await fold(self._session, row["id"])


async def _live(database: Database, steps: list[Any]) -> None:
    async with daemon_session(database) as session:
        history = _History(database, session)
        await history.forget()
        for name, *given_ in steps:
            await getattr(history, name)(*given_)
            await check(database)
        await add_up(database)
        await check(database)
        assert await session.connection.fetchval("select count(*) from inboxd.batch_changes") == 0
        assert not await session.connection.fetch("select from inboxd.batch_totals where rows <= 0")


_HOW = settings(
    max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@_HOW
@given(steps=st.lists(_STEPS, min_size=3, max_size=10))
@example(steps=_ALL)
async def test_totals_of_batches_agree_with_a_full_count(
    database: Database, steps: list[Any]
) -> None:
    await _live(database, steps)


@pytest.mark.long
@pytest.mark.soak
@pytest.mark.timeout(600)
@settings(_HOW, max_examples=80)
@given(steps=st.lists(_STEPS, min_size=5, max_size=30))
async def test_totals_of_batches_agree_after_long_histories(
    database: Database, steps: list[Any]
) -> None:
    await _live(database, steps)


# --------------------------------------------------------------------- how they are added up


async def test_totals_of_many_unread_changes_are_estimates(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(totals, "_LOOKED", 2)
    await database.execute("select inboxd.open_batch('o') from generate_series(1, 4)")
    async with open_session(settings_of(database)) as session:
        found = await count_batches(session, "batch")
        assert found["pending"] == Number(3, Exactness.ABOUT), "three changes are read"
        await add_up(database)
        assert (await count_batches(session, "batch"))["pending"] == Number(4)


async def test_tenants_with_long_names_are_counted(database: Database) -> None:
    """A handler's batch may have any tenant; an index entry has a maximum size."""
    long = "north " * 1_000
    await database.execute(
        "insert into inboxd.batches (origin_kind, type, tenant) values ('event', 'mails', $1)", long
    )
    for _ in range(2):
        async with open_session(settings_of(database)) as session:
            for type_ in (None, "mails"):
                found = await count_batches(session, "batch", type_=type_, tenant=long)
                assert found["pending"] == Number(1)
        await add_up(database)


async def test_batches_from_before_the_migration_are_counted(
    server: Server | ExternalServer,
) -> None:
    database = create(server)
    try:
        await migrations.migrate(settings_of(database), to=37)
        await database.execute(
            "insert into inboxd.batches (batch_id, kind, type, tenant, status)"
            " select gen_random_uuid(), kind, 'mails', tenant, 'running'"
            "   from unnest(array['batch', 'workflow']) kind,"
            "        unnest(array['north', 'south', null]) tenant, generate_series(1, 3)"
        )
        await migrations.migrate(settings_of(database))
        await check(database)
        await add_up(database)
        await check(database)
    finally:
        drop(server, database)


async def test_leader_adds_up_batches(database: Database, start_worker: StartWorker) -> None:
    await database.execute("select inboxd.open_batch('o') from generate_series(1, 3)")
    await start_worker({"maintenance": {"interval": "1s"}})

    async def is_added_up() -> bool:
        left = await database.fetchval("select count(*) from inboxd.batch_changes")
        return bool(left == 0)

    await eventually(is_added_up)
    await check(database)


async def test_folds_do_not_wait_for_each_other(database: Database) -> None:
    """Two transactions change batches of one type and tenant, and the leader adds up meanwhile."""
    async with daemon_session(database) as one, daemon_session(database) as two:
        with anyio.fail_after(30):
            async with one.transaction():
                await one.connection.execute("select inboxd.open_batch('o', tenant => 'north')")
                async with two.transaction():
                    await two.connection.execute("select inboxd.open_batch('o', tenant => 'north')")
                await add_up(database)
    await check(database)
