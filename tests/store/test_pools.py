"""The pool serves the longest waiting task first, and lends connections without leftovers."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import anyio
import pytest

from inboxd.errors import DatabaseError, SchemaError, UsageError
from inboxd.store.connections import explained
from inboxd.store.handler_connection import OwnTransaction
from inboxd.store.pools import Pool, borrow, lend, open_pool, transaction
from inboxd.store.session import Session
from tests.support import Database, eventually
from tests.support.rows import create_ledger, settings_of

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def _pool(database: Database, size: int = 1, *, pooler: bool = False) -> AsyncIterator[Pool]:
    settings = settings_of(database).model_copy(update={"transaction_pooler": pooler})
    async with open_pool(settings, "test", size, plans={}) as pool:
        yield pool


async def _in_line(pool: Pool, count: int) -> None:
    async def stand() -> bool:
        return sum(not waiter.done() for waiter in pool._waiters) == count

    await eventually(stand)


async def test_connections_are_kept_and_bounded(database: Database) -> None:
    async with _pool(database, 2) as pool:
        first, second = await pool.acquire(5), await pool.acquire(5)
        assert (pool.used, pool.idle) == (2, 0)
        with pytest.raises(DatabaseError, match=r"no connection became free within 0\.05 s"):
            await pool.acquire(0.05)
        assert not pool.wanted
        await pool.release(first)
        assert await pool.acquire(5) is first
        await pool.release(first)
        await pool.release(second)
        assert (pool.used, pool.idle) == (0, 2)


async def test_a_missing_table_is_reported_with_its_database(database: Database) -> None:
    told = rf"the schema of database '{database.name}' at .+ is missing or too old"
    async with _pool(database) as pool:
        with pytest.raises(SchemaError, match=told), explained(asked=pool.where):
            async with borrow(pool) as session:
                await session.connection.execute("select from inboxd.missing")


async def test_first_come_first_served(database: Database) -> None:
    served: list[int] = []

    async def use(pool: Pool, number: int) -> None:
        async with borrow(pool):
            served.append(number)

    async with _pool(database) as pool, anyio.create_task_group() as tasks:
        held = await pool.acquire(5)
        for number in range(5):
            tasks.start_soon(use, pool, number)
            await _in_line(pool, number + 1)
        await pool.release(held)
    assert served == [0, 1, 2, 3, 4]


async def test_waiter_that_gave_up_is_passed_over(database: Database) -> None:
    async with _pool(database) as pool, anyio.create_task_group() as tasks:
        held = await pool.acquire(5)
        got: list[Session] = []

        async def wait() -> None:
            got.append(await pool.acquire(5))

        with anyio.CancelScope() as scope:
            tasks.start_soon(wait)
            await _in_line(pool, 1)
            scope.cancel()
        async with anyio.create_task_group() as impatient:
            impatient.start_soon(pool.acquire, 5)
            await _in_line(pool, 2)
            impatient.cancel_scope.cancel()
        await pool.release(held)
        await eventually(lambda: _is(bool(got)))
        await pool.release(got[0])
        assert pool.idle == 1


async def test_waiter_cancelled_when_served_passes_the_connection_on(database: Database) -> None:
    async with _pool(database) as pool:
        held = await pool.acquire(5)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(pool.acquire, 5)
            await _in_line(pool, 1)
            await held.connection.execute("begin")
            tasks.cancel_scope.cancel()
            await pool.release(held, begun=True)
        assert (pool.used, pool.idle) == (0, 1)
        assert not held.connection.is_in_transaction()


async def test_a_lost_connection_makes_room(database: Database) -> None:
    async with _pool(database) as pool, anyio.create_task_group() as tasks:
        held = await pool.acquire(5)
        got: list[Session] = []

        async def wait() -> None:
            got.append(await pool.acquire(5))

        tasks.start_soon(wait)
        await _in_line(pool, 1)
        held.connection.terminate()
        await pool.release(held)
        await eventually(lambda: _is(bool(got)))
        assert await got[0].connection.fetchval("select 1") == 1


async def test_room_given_to_a_waiter_is_not_given_twice(database: Database) -> None:
    async with _pool(database) as pool:
        held = await pool.acquire(5)
        first = asyncio.create_task(pool.acquire(5))
        await _in_line(pool, 1)
        held.connection.terminate()
        await pool.release(held)
        # Before the task of the first waiter runs again.
        with pytest.raises(DatabaseError, match="no connection became free"):
            await pool.acquire(0.2)
        await pool.release(await first)
        assert (pool.used, pool.idle) == (0, 1)


async def test_room_that_is_not_taken_goes_to_the_next(database: Database) -> None:
    async with _pool(database) as pool:
        held = await pool.acquire(5)
        first = asyncio.create_task(pool.acquire(5))
        await _in_line(pool, 1)
        second = asyncio.create_task(pool.acquire(5))
        await _in_line(pool, 2)
        held.connection.terminate()
        await pool.release(held)
        first.cancel()
        await pool.release(await second)
        assert (pool.used, pool.idle) == (0, 1)


async def test_a_task_cancelled_twice_leaves_its_place_free(database: Database) -> None:
    """A handler's time limit cancels a task twice if it does not end."""

    async def sleep(pool: Pool) -> None:
        async with lend(pool) as session:
            await session.connection.execute("select pg_sleep(60)")

    async with _pool(database) as pool:
        task = asyncio.create_task(sleep(pool))
        await eventually(lambda: _is_asleep(database))
        task.cancel()
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        async with lend(pool) as session:
            assert await session.connection.fetchval("select 1") == 1


async def test_idle_connection_closed_by_the_server_is_not_lent(database: Database) -> None:
    async with _pool(database) as pool:
        async with lend(pool) as session:
            pid = session.connection.get_server_pid()
        await database.execute("select pg_terminate_backend($1)", pid)
        await eventually(lambda: _is(session.connection.is_closed()))
        async with lend(pool) as another:
            assert await another.connection.fetchval("select 1") == 1


async def test_no_transaction_is_left_open(database: Database) -> None:
    async with _pool(database) as pool:
        async with lend(pool) as session:
            await session.connection.execute("begin")
        assert not session.connection.is_in_transaction()
        async with lend(pool) as again, transaction(pool, again):
            assert again is session


async def test_a_cancelled_statement_does_not_meet_the_next_user(database: Database) -> None:
    async with _pool(database) as pool:
        with anyio.move_on_after(0.05):
            async with lend(pool) as session:
                await session.connection.execute("select pg_sleep(60)")
        async with lend(pool) as session:
            assert await session.connection.fetchval("select 1") == 1


async def test_transaction_cancelled_at_its_begin_does_not_count_as_open(
    database: Database,
) -> None:
    async with _pool(database, pooler=True) as pool:
        async with borrow(pool) as session:
            assert await session.connection.fetchval("select 1") == 1

        async def begin() -> None:
            async with borrow(pool):
                raise AssertionError("the task was cancelled before")

        task = asyncio.create_task(begin())
        await asyncio.sleep(0)  # BEGIN is under way
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        async with borrow(pool) as again:
            assert again is session
            assert await again.connection.fetchval("select 1") == 1


async def test_unreachable_server_leaves_no_used_connection(database: Database) -> None:
    nowhere = settings_of(Database("x", "postgresql://nobody@127.0.0.1:1/nothing"))
    async with open_pool(nowhere, "test", 1, plans={}) as pool:
        for _ in range(2):
            with pytest.raises(DatabaseError, match="cannot connect"):
                await pool.acquire(5)
        assert pool.used == 0


# --------------------------------------------------------------- handed on with a begun transaction


async def _settles(held: Session, ending: str) -> None:
    await held.connection.execute(f"select 1; {ending}")


async def _twice(
    pool: Pool, first: Callable[[OwnTransaction], Awaitable[None]]
) -> tuple[OwnTransaction, OwnTransaction]:
    """Let one transaction run `first` while another waits for the only connection, and gets it."""
    one, other = OwnTransaction(pool, 5), OwnTransaction(pool, 5)
    await one.lend().execute("insert into ledger values ('one', 1, '')")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(other.lend().execute, "insert into ledger values ('other', 2, '')")
        await _in_line(pool, 1)
        await first(one)
    return one, other


@pytest.mark.parametrize("pooler", [False, True])
async def test_the_next_transaction_is_begun_with_the_commit(
    database: Database, pooler: bool
) -> None:
    await create_ledger(database)
    async with _pool(database, pooler=pooler) as pool:
        statements: list[str] = []
        one, other = OwnTransaction(pool, 5), OwnTransaction(pool, 5)
        await one.lend().execute("insert into ledger values ('one', 1, '')")
        held = one.held
        assert held is not None
        held.connection.add_query_logger(lambda query: statements.append(query.query))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(other.lend().execute, "insert into ledger values ('other', 2, '')")
            await _in_line(pool, 1)
            await one.commit(_settles)
        assert other.held is held
        assert len(statements) == 2  # the settlement, and the other transaction's own statement
        assert await held.connection.fetchval("show statement_timeout") == "30s"
        assert await database.fetchval("select array_agg(kind) from ledger") == ["one"]
        await other.commit(_settles)
        assert await database.fetchval("select count(*) from ledger") == 2
        assert not held.connection.is_in_transaction()


async def test_rollback_leaves_the_next_transaction_alone(database: Database) -> None:
    await create_ledger(database)
    async with _pool(database) as pool:
        _, other = await _twice(pool, OwnTransaction.end)
        await other.commit(_settles)
        assert await database.fetchval("select array_agg(kind) from ledger") == ["other"]


async def test_session_state_is_not_handed_on(database: Database) -> None:
    await create_ledger(database)
    await database.execute("create role shy")
    try:

        async def leave_much(own: OwnTransaction) -> None:
            for statement in (
                "select set_config('work_mem', '77MB', false)",
                "select pg_advisory_lock(4711)",
                "listen gossip",
                "create temp table scratch (n int)",
                "set role shy",
            ):
                await own.lend().execute(statement)
            await own.commit(_settles)

        async with _pool(database) as pool:
            _, other = await _twice(pool, leave_much)
            held = other.held
            assert held is not None
            found = await held.connection.fetchrow(
                "select current_user, current_setting('work_mem'), "
                "(select count(*) from pg_locks where locktype = 'advisory' "
                "and pid = pg_backend_pid()), "
                "(select count(*) from pg_listening_channels()), to_regclass('scratch')"
            )
            assert found is not None
            assert tuple(found)[1:] == ("4MB", 0, 0, None)
            assert found[0] != "shy"
            await other.end()
    finally:
        await database.execute("drop role shy")


async def test_deferred_triggers_see_what_the_handler_set(database: Database) -> None:
    await create_ledger(database)
    await database.execute(
        "create function note() returns trigger language plpgsql as $$ begin "
        "insert into ledger values ('note', 0, current_setting('app.who', true)); return null; "
        "end $$; create constraint trigger noted after insert on ledger deferrable initially "
        "deferred for each row when (new.kind = 'one') execute function note()"
    )
    async with _pool(database) as pool:
        own = OwnTransaction(pool, 5)
        await own.lend().execute("set local app.who = 'ada'")
        await own.lend().execute("insert into ledger values ('one', 1, '')")
        await own.commit(_settles)
    assert await database.fetchval("select note from ledger where kind = 'note'") == "ada"


async def test_a_connection_that_left_its_transaction_is_dropped(database: Database) -> None:
    await create_ledger(database)
    async with _pool(database) as pool:
        own = OwnTransaction(pool, 5)
        await own.lend().execute("/* /* */ ' */ commit; set work_mem = '77MB'; select '1'")
        held = own.held
        assert held is not None
        await own.end()
        assert held.connection.is_closed()
        assert (pool.used, pool.idle) == (0, 0)


async def test_a_handlers_task_outlives_its_statement(database: Database) -> None:
    """A task that serves several handlers must not end with the handler that ends first."""
    async with _pool(database) as pool:
        own = OwnTransaction(pool, 5)
        said: list[str] = []

        async def serve() -> None:
            try:
                await own.lend().execute("select pg_sleep(60)")
            except UsageError as error:
                said.append(str(error))
            await asyncio.sleep(0)
            said.append("goes on")

        task = asyncio.create_task(serve())
        await eventually(lambda: _is_asleep(database))
        await own.end()
        await task
        assert said == ["the handler has ended; its connection cannot be used any more", "goes on"]
        assert (pool.used, pool.idle) == (0, 1)


async def test_tasks_own_cancellation_is_not_taken_back(database: Database) -> None:
    async with _pool(database) as pool:
        own = OwnTransaction(pool, 5)
        task = asyncio.ensure_future(own.lend().execute("select pg_sleep(60)"))
        await eventually(lambda: _is_asleep(database))
        task.cancel()
        await own.end()
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_late_cancellation_leaves_the_place_free(database: Database) -> None:
    """A handler may have left a timer that cancels its task."""
    async with _pool(database) as pool:
        own = OwnTransaction(pool, 5)
        await own.lend().execute("select 1")
        task = asyncio.create_task(own.end())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        async with lend(pool) as session:
            assert await session.connection.fetchval("select 1") == 1


async def _is_asleep(database: Database) -> bool:
    return bool(
        await database.fetchval(
            "select count(*) from pg_stat_activity where query = 'select pg_sleep(60)' "
            "and datname = current_database()"
        )
    )


async def _is(fact: bool) -> bool:
    return fact


async def test_error_after_the_wait_names_the_remedy(database: Database) -> None:
    async with _pool(database) as pool:
        await pool.acquire(5)
        with pytest.raises(DatabaseError, match=r"raise database\.pool_size"):
            await pool.acquire(0.05)
    async with open_pool(settings_of(database), "test", 1, {}, remedy="look again") as pool:
        await pool.acquire(5)
        with pytest.raises(DatabaseError, match=r"within 0\.05 s; look again$"):
            await pool.acquire(0.05)
