"""The wake-up flag and its silence when a worker dies, leaves, or is full; rights to listen."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import anyio
import pytest

from inboxd.engine.fleet import Fleet
from inboxd.engine.wakeup import WakeUp
from inboxd.store import listing, wakeups
from inboxd.store.pools import Pool
from inboxd.store.wakeups import Flag
from tests.support import Database, StartWorker, eventually
from tests.support.rows import Hasty, daemon_pool, daemon_session, emit, settings_of

pytestmark = pytest.mark.anyio

INSERT = "insert into inboxd.events (type) values ('test.noop')"


async def _flag(database: Database, table: str = "events") -> int:
    found: int = await database.fetchval(f"select last_value from inboxd.{table}_flag")
    return found


@asynccontextmanager
async def _heard(database: Database) -> AsyncIterator[list[str]]:
    """Record the notifications of events."""
    heard: list[str] = []
    async with database.connect() as listener:
        await listener.add_listener("inboxd_events", lambda *_: heard.append("row"))
        yield heard


def _nothing() -> None:
    """An `on_silence` callback that does nothing."""


def _wakeup(
    pool: Pool,
    fleet: Fleet | None = None,
    poll: float = 60.0,
    on_silence: Callable[[], None] = _nothing,
) -> WakeUp:
    return WakeUp("events", pool, "quiet", poll, fleet or Fleet(peers=1), on_silence)


async def _silence(wakeup: WakeUp) -> None:
    for _ in range(2):
        await wakeup.working(full_page=False, has_room=True)
    assert wakeup.silent_since is not None


# ------------------------------------------------------------------- a flag that stays at 0


async def test_timers_shorter_than_the_poll_set_the_flag(database: Database) -> None:
    async with daemon_pool(database) as pool:
        wakeup = _wakeup(pool, poll=0.2)
        assert await wakeup.arm()
        async with daemon_session(database) as dead:
            await wakeups.set_flag(dead, "events", Flag.SILENT)

        async def is_set() -> bool:
            assert await wakeup.sleep(0.05) == "timer", "each sleep is shorter than the poll"
            assert await wakeup.arm()
            return await _flag(database) == 1

        await eventually(is_set)


async def test_a_reconnect_sets_the_flag(database: Database) -> None:
    async with daemon_pool(database) as pool:
        wakeup = _wakeup(pool)
        assert await wakeup.arm()
        async with daemon_session(database) as dead:
            await wakeups.set_flag(dead, "events", Flag.SILENT)
        wakeup.invalidate("reconnect")
        assert await wakeup.sleep(None) == "reconnect"
        assert await wakeup.arm()
        assert await _flag(database) == 1


@pytest.mark.direct("producers are never silent behind one")
async def test_a_worker_that_cannot_drain_sets_both_flags(
    ledger: Database, start_worker: StartWorker, hasty: Hasty
) -> None:
    worker = await start_worker(hasty(worker={"drain_timeout": "300ms"}))
    await emit(ledger, 1, wait=0.9)  # the deadline hits the processor in its page
    await eventually(lambda: _in_flight(ledger))
    await ledger.execute(
        "select setval('inboxd.events_flag', 0), setval('inboxd.commands_flag', 0)"
    )
    assert await worker.stop() == 0
    assert (await _flag(ledger), await _flag(ledger, "commands")) == (1, 1)


async def _in_flight(database: Database) -> bool:
    found: bool = await database.fetchval(
        "select exists (select from pg_locks where relation = 'ledger'::regclass"
        " and mode = 'RowExclusiveLock')"
    )
    return found


# --------------------------------------------------------------------------- the silence


async def test_peers_are_notified_when_the_last_silent_producer_has_ended(
    database: Database,
) -> None:
    async with (
        daemon_pool(database) as pool,
        database.connect() as producer,
        _heard(database) as heard,
    ):
        wakeup = _wakeup(pool)
        await _silence(wakeup)
        await producer.execute(f"BEGIN; {INSERT}")
        assert not await wakeup.arm()
        assert not heard
        await producer.execute("COMMIT")
        assert await wakeup.arm()
        await eventually(lambda: _some(heard))
        heard.clear()
        wakeup.invalidate("timer")
        assert await wakeup.arm()
        assert wakeup.owed is None


async def _some(heard: list[str]) -> bool:
    return bool(heard)


async def test_a_leaving_worker_waits_for_silent_producers(database: Database) -> None:
    async with (
        daemon_pool(database) as pool,
        database.connect() as producer,
        _heard(database) as heard,
    ):
        wakeup = _wakeup(pool)
        await _silence(wakeup)
        await producer.execute(f"BEGIN; {INSERT}")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wakeup.leave)
            await eventually(lambda: _some(heard))
            heard.clear()
            await producer.execute("COMMIT")
        await eventually(lambda: _some(heard))


async def test_a_worker_without_room_is_not_silent(database: Database) -> None:
    async with daemon_pool(database) as pool:
        wakeup = _wakeup(pool)
        for _ in range(3):
            await wakeup.working(full_page=True, has_room=False)
        assert wakeup.silent_since is None
        await _silence(wakeup)
        assert await _flag(database) == 0
        async with _heard(database) as heard:
            await wakeup.working(full_page=True, has_room=False)
            await eventually(lambda: _some(heard))
        assert await _flag(database) == 1
        assert wakeup.silent_since is None


async def test_a_worker_that_soon_looks_again_stays_silent(
    database: Database,
) -> None:
    async with daemon_pool(database) as pool:
        wakeup = _wakeup(pool)
        assert not await wakeup.linger(60), "there is no silence to keep"
        await _silence(wakeup)
        old = wakeup.silent_since
        assert old is not None
        wakeup.wake("timer")
        assert await wakeup.linger(60), "a wake-up ends the wait"
        wakeup.raised(old)
        assert wakeup.silent_since is not None, "a look prolongs the silence as a page does"
        assert await _flag(database) == 0


async def test_the_guard_sees_a_silence_from_its_beginning(database: Database) -> None:
    seen: list[bool] = []
    async with daemon_pool(database) as pool:
        wakeup = _wakeup(pool, on_silence=lambda: seen.append(wakeup.silent_since is not None))
        await _silence(wakeup)
        assert seen == [True]
        old = wakeup.silent_since
        assert old is not None
        await wakeup.working(full_page=False, has_room=True)
        wakeup.raised(old)
        assert wakeup.silent_since is not None, "a newer silence is still watched"


# ------------------------------------------------------------------------ names and rights


async def test_a_long_schema_name_can_be_listened_to(database: Database) -> None:
    async def has_heard_itself() -> bool:
        found: bool = await database.fetchval(
            "select exists (select from pg_stat_activity where state = 'idle'"
            " and application_name = 'inboxd listener' and datname = current_database()"
            " and query like '%pg_notify%')"
        )
        return found

    async def listen() -> None:
        await wakeups.listen(
            settings_of(database).model_copy(update={"schema_name": "a" * 40}),
            on_wakeup=lambda _: None,
            on_control=lambda: None,
            on_joining=lambda: None,
            on_connected=lambda: None,
            check_interval=5.0,
        )

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(listen)
        await eventually(has_heard_itself)
        tasks.cancel_scope.cancel()


async def test_the_workers_role_lacks_no_right(database: Database) -> None:
    async with daemon_session(database) as session:
        await session.connection.execute("set role inboxd_worker")
        assert await listing.missing_privileges(session) == []
        await session.connection.execute("reset role")
        async with session.transaction():
            await session.connection.execute(
                "revoke execute on function inboxd.settle_command from inboxd_worker;"
                "set local role inboxd_worker"
            )
            (lacking,) = await listing.missing_privileges(session)
            assert lacking["object"] == "function inboxd.settle_command"
            await session.connection.execute("reset role")
            await session.connection.execute(lacking["remedy"].replace("postgres", "inboxd_worker"))
