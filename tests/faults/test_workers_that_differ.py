"""Workers that differ in plugins or versions: each does what it can, and is notified."""

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from inboxd.engine.fleet import Fleet
from inboxd.engine.wakeup import WakeUp
from tests.faults.storm import seeds
from tests.support import Config, Database, StartWorker, Worker, eventually
from tests.support.plugins import found, install, pretend
from tests.support.rows import (
    ExactlyOnce,
    daemon_pool,
    emit,
    send,
)

pytestmark = pytest.mark.anyio

# Types of its own, beside those of the tests' plugin.
OTHER = """
from inboxd import CommandContext, Event, EventContext, Handlers

handlers = Handlers("other")


async def write(ctx, kind: str, row_id: int) -> None:
    await ctx.connection.execute("insert into ledger values ($1, $2, 'other')", kind, row_id)


@handlers.event("other.ledger")
async def event(event: Event[dict], ctx: EventContext) -> None:
    await write(ctx, "event", event.id)


@handlers.command("other.ledger")
async def command(command: dict, ctx: CommandContext) -> None:
    await write(ctx, "command", ctx.id)
"""
# Sleeping workers are notified of rows, or the test fails; small pages make them silent.
DEAF: Config = {
    "worker": {"poll_interval": "1h", "heartbeat_interval": "700ms", "unhandled_grace": "20s"},
    "events": {"page_rows": 10},
}


def _serving(*plugins: str) -> Config:
    return {**DEAF, "worker": {**DEAF["worker"], "plugins": list(plugins)}}


@pytest.mark.parametrize("seed", seeds(long=4))
async def test_each_worker_handles_the_types_that_it_declares(
    ledger: Database,
    start_worker: StartWorker,
    exactly_once: ExactlyOnce,
    tmp_path: Path,
    seed: int,
) -> None:
    """Two plugins and two versions: no row is left, none becomes a dead letter."""
    chance = random.Random(seed)
    other = install(tmp_path / "other", "other", OTHER)
    newer = pretend(install(tmp_path / "newer", "other", OTHER, "2.0"), "99.0")
    await start_worker(_serving("testplugin"))
    events: list[int] = []
    commands: list[int] = []

    async def burst(*types: str) -> None:
        for type_ in chance.sample(types, len(types)):
            events.extend(await emit(ledger, chance.choice([1, 5, 50]), type_))
            commands.extend(await send(ledger, chance.choice([1, 5, 50]), type_))

    for folder in (other, newer):
        # No worker handles these types yet, but for a shorter time than the grace period.
        await burst("test.ledger", "other.ledger")
        with found(folder):
            worker = await start_worker(_serving("other"), ready=False)
        # The first worker stays silent until it is notified that it is not alone.
        while not await _is_there(ledger, worker.process.pid):
            await burst("test.ledger")
        for _ in range(5):
            await burst("test.ledger", "other.ledger")
            await eventually(lambda: _nothing_due(ledger))
        if folder is other:
            assert await worker.stop() == 0
    await exactly_once("event", events)
    await exactly_once("command", commands)
    versions = await ledger.fetch("select distinct version from inboxd.workers order by 1")
    assert len(versions) == 2
    shares = await ledger.fetch(
        "select distinct w.events @> array[h.type] as served from inboxd.events_history h"
        " join inboxd.workers w on w.id = h.worker_id"
    )
    assert [row["served"] for row in shares] == [True]


async def _is_there(database: Database, pid: int) -> bool:
    found: bool = await database.fetchval(
        "select exists (select from inboxd.workers where pid = $1 and heartbeat > 0)", pid
    )
    return found


async def _nothing_due(database: Database) -> bool:
    left: int = await database.fetchval(
        "select (select count(*) from inboxd.events) + (select count(*) from inboxd.commands)"
    )
    return left == 0


async def test_a_type_that_only_a_frozen_worker_declares_waits_for_it(
    ledger: Database, start_worker: StartWorker, exactly_once: ExactlyOnce, tmp_path: Path
) -> None:
    """No running worker declares it; but it is not given up before the frozen one's lease ends."""
    quick = {"unhandled_grace": "300ms", "poll_interval": "1s", "lease": "60s"}
    # It started first, so it leads: the task is the leader's, and must not be the frozen one's.
    dead = {"events": {"unhandled": "dead"}}
    await start_worker({"worker": {**quick, "plugins": ["testplugin"]}, **dead})
    with found(install(tmp_path / "other", "other", OTHER)):
        holder = await start_worker({"worker": {**quick, "plugins": ["other"]}, **dead})
    holder.pause()
    events = await emit(ledger, 3, "other.ledger")
    commands = await send(ledger, 3, "other.ledger")
    (unhandled,) = await emit(ledger, 1, "nobody.serves")
    # This event is given up, so the task has seen the others too, long after their grace.
    await eventually(lambda: _is_given_up(ledger, unhandled))
    holder.resume()
    await exactly_once("event", events)
    await exactly_once("command", commands)


async def _is_given_up(database: Database, row: int) -> bool:
    found: bool = await database.fetchval(
        "select status = 'failed' from inboxd.events where id = $1", row
    )
    return found


# ------------------------------------------------------------------ topics named in settings

# One plugin with two single topics, a sequential one and a batch one.
SIDES = """
import anyio
from inboxd import Event, EventContext, EventChunk, Handlers

handlers = Handlers("sides")
handlers.topic("lined", mode="sequential", key="/key")
handlers.topic("chunked", mode="batch", key="/key", age="100ms")


async def write(ctx, event) -> None:
    await anyio.sleep(event.payload.get("wait", 0))
    await ctx.connection.execute("insert into ledger values ('event', $1, '')", event.id)


@handlers.event("side.left", topic="left")
@handlers.event("side.right", topic="right")
@handlers.event("side.lined", topic="lined")
async def one(event: Event[dict], ctx: EventContext) -> None:
    await write(ctx, event)


@handlers.chunk("side.chunked", topic="chunked")
async def many(events: EventChunk[dict], ctx: EventContext) -> None:
    async for event in events:
        await write(ctx, event)


@handlers.event("side.anywhere")
async def anywhere(event: Event[dict], ctx: EventContext) -> None:
    await write(ctx, event)
"""
LEFT, RIGHT = ("left", "lined"), ("right", "chunked", "default")


async def _two_sides(
    start_worker: StartWorker, folder: Path, **events: object
) -> tuple[Worker, Worker]:
    """Two workers of one plugin with the topics LEFT and RIGHT; each knows of the other."""
    with found(install(folder, "sides", SIDES)):
        both = [
            await start_worker(
                {
                    "worker": {**_serving("sides")["worker"], "topics": list(names)},
                    "events": {**DEAF["events"], **events},
                }
            )
            for names in (LEFT, RIGHT)
        ]
    return both[0], both[1]


async def _put(where: Database, topic: str, count: int, wait: float = 0.0) -> list[int]:
    """Insert events of a topic, over a few keys; those of `default` have a type of their own."""
    rows = await where.fetch(
        "insert into inboxd.events (topic, type, payload) select $1, $2,"
        " jsonb_build_object('key', 'k' || n % 7, 'wait', $4::float8)"
        " from generate_series(1, $3::int) n returning id",
        topic,
        "side.anywhere" if topic == "default" else f"side.{topic}",
        count,
        wait,
    )
    return [row["id"] for row in rows]


@pytest.mark.parametrize("seed", seeds(long=4))
async def test_workers_of_different_topics_leave_no_event_behind(
    ledger: Database,
    start_worker: StartWorker,
    exactly_once: ExactlyOnce,
    tmp_path: Path,
    seed: int,
) -> None:
    """Bursts of any size by several producers, in any mode; without polls."""
    chance = random.Random(seed)
    left, _ = await _two_sides(start_worker, tmp_path / "sides")
    ids: list[int] = []

    async def produce(topics: list[str]) -> None:
        for topic in topics:
            ids.extend(await _put(ledger, topic, chance.choice([1, 1, 5, 60])))

    for _ in range(3):
        async with anyio.create_task_group() as producers:
            for _ in range(3):
                producers.start_soon(produce, chance.sample([*LEFT, *RIGHT], 5) * 2)
        await eventually(lambda: _nothing_due(ledger))
    await exactly_once("event", ids)
    rows = await ledger.fetch(
        "select h.topic, w.served_topics from inboxd.events_history h"
        " join inboxd.workers w on w.id = h.worker_id group by 1, 2"
    )
    assert {row["topic"]: tuple(row["served_topics"]) for row in rows} == {
        **dict.fromkeys(LEFT, tuple(sorted(LEFT))),
        **dict.fromkeys(RIGHT, tuple(sorted(RIGHT))),
    }
    assert len(rows) == len(LEFT) + len(RIGHT)
    # Events of the stopped worker's topics wait for it, and are not dead letters.
    assert await left.stop() == 0
    (lonely,) = await _put(ledger, "left", 1)
    (served,) = await _put(ledger, "right", 1)
    await eventually(lambda: _is_settled(ledger, served))
    assert not await _is_settled(ledger, lonely)


@pytest.mark.direct("peers hear of it by a notification")
async def test_producers_are_not_silent_for_workers_of_other_topics(
    ledger: Database, start_worker: StartWorker, tmp_path: Path
) -> None:
    """While one worker is busy for long, the other is notified of its own rows at once."""
    _, right = await _two_sides(start_worker, tmp_path / "sides", page_rows=2)
    for _ in range(2):
        await _sleeps(right)
        busy = await _put(ledger, "left", 500, wait=0.001)
        await eventually(lambda: _is_settled(ledger, busy[20]))  # noqa: B023 - of this round
        (own,) = await _put(ledger, "right", 1)
        await eventually(lambda: _is_settled(ledger, own))  # noqa: B023 - of this round
        assert not await _is_settled(ledger, busy[-1]), (
            "the peer was notified only when the silence ended"
        )
        await eventually(lambda: _nothing_due(ledger))


# ------------------------------------------------------------------------- joining workers

RARE: Config = {"worker": {"heartbeat_interval": "60s", "lease": "240s"}}
_BEATS = "select heartbeat from inboxd.workers order by started_at limit 1"
_SESSION = (
    "select pid from pg_stat_activity where datname = current_database() and application_name = $1"
)


async def _beats_at_rest(database: Database) -> int:
    """The heartbeat's number, once the heartbeats of the start are over."""
    beats = -1
    while beats < 1 or beats != await database.fetchval(_BEATS):
        beats = await database.fetchval(_BEATS)
        await anyio.sleep(1)  # nothing signals that no more come
    return beats


async def _have_come(database: Database, beats: int) -> None:
    async def have() -> bool:
        return bool(await database.fetchval(_BEATS) >= beats)

    await eventually(have)


@pytest.mark.direct("peers hear of it by a notification")
async def test_a_joining_worker_is_known_to_peers_before_their_next_heartbeat(
    database: Database, start_worker: StartWorker
) -> None:
    """The size of a page depends on the number of workers: one without peers takes half."""
    await start_worker(RARE)
    before = await _beats_at_rest(database)
    await start_worker(RARE)
    await _have_come(database, before + 1)


@pytest.mark.direct("peers hear of it by a notification")
async def test_a_worker_that_joins_during_a_heartbeat_is_known_by_the_next_one(
    database: Database, start_worker: StartWorker
) -> None:
    """That heartbeat has read older rows, as when several start together."""
    await start_worker(RARE)
    before = await _beats_at_rest(database)
    async with database.connect() as other, other.transaction():
        await other.execute("select from inboxd.workers for update")
        await database.execute("notify inboxd_workers")

        async def waits() -> bool:
            found = _SESSION + " and wait_event_type = 'Lock'"
            return await database.fetchval(found, "inboxd heartbeat") is not None

        await eventually(waits)
        await database.execute("notify inboxd_workers")
        await anyio.sleep(0.5)  # nothing signals that it was notified while it is blocked
    await _have_come(database, before + 2)


@pytest.mark.direct("peers hear of it by a notification")
async def test_a_worker_that_joins_while_no_peer_listens_is_known_once_one_does(
    database: Database, start_worker: StartWorker
) -> None:
    """Two that start together join before either listens."""
    await start_worker(RARE)
    before = await _beats_at_rest(database)
    cut = f"select pg_terminate_backend(pid) from ({_SESSION}) listener"
    assert await database.fetchval(cut, "inboxd listener")
    await _have_come(database, before + 1)


# ------------------------------------------------------------------------------ the silence


@asynccontextmanager
async def _heard(database: Database) -> AsyncIterator[list[str]]:
    heard: list[str] = []
    async with database.connect() as listener:
        await listener.add_listener("inboxd_events", lambda *_: heard.append("row"))
        yield heard


async def test_a_worker_that_joins_unnoticed_is_notified_at_the_end_of_a_silence(
    database: Database,
) -> None:
    """Until the silent worker's next heartbeat, it does not know that another one has joined."""
    async with daemon_pool(database) as pool:
        wakeup = WakeUp("events", pool, "quiet", 60.0, Fleet(peers=0), lambda: None)
        for _ in range(2):
            await wakeup.working(full_page=False, has_room=True)
        assert wakeup.silent_since is not None
        async with _heard(database) as heard:
            await emit(database, 1, "other.ledger")  # silently
            assert await wakeup.arm()

            async def some() -> bool:
                return bool(heard)

            await eventually(some)


@pytest.mark.direct("peers hear of it by a notification")
async def test_peers_are_notified_of_a_silent_row_during_a_long_page(
    ledger: Database, start_worker: StartWorker, exactly_once: ExactlyOnce
) -> None:
    """Twice: when the page takes long, and when the last silent producer has ended."""
    config: Config = {
        **DEAF,
        "database": {"idle_in_transaction_timeout": "90s"},
        "events": {"page_rows": 1, "timeout": "60s"},
    }
    worker, peer = await start_worker(config), await start_worker(config)
    await _sleeps(peer)
    before = await _looks(peer)
    peer.pause()
    ids = await emit(ledger, 60, wait=0.02)
    slow = await emit(ledger, 1, wait=50)  # longer than any wait
    async with ledger.connect() as producer:
        await eventually(lambda: _flag_is(ledger, 0))
        async with producer.transaction():
            silent = await emit(producer, 1)
            assert await producer.fetchval(
                "select count(*) from pg_locks where pid = pg_backend_pid()"
                " and locktype = 'advisory'"
            ), "the producer notified, though it should be silent"
            await eventually(lambda: _is_settled(ledger, ids[-1]))
            await eventually(lambda: _flag_is(ledger, 1))  # the thread sets it
            peer.resume()
            await _sleeps(peer, before)
    await eventually(lambda: _is_settled(ledger, silent[0]))
    assert not await _is_settled(ledger, slow[0]), "the first worker is still in its page"
    worker.kill()
    peer.kill()
    await exactly_once("event", [*ids, *silent])


@pytest.mark.direct("producers are never silent behind one")
async def test_a_lone_worker_keeps_producers_silent_and_a_joining_one_finds_rows(
    ledger: Database, start_worker: StartWorker
) -> None:
    config: Config = {
        **DEAF,
        "database": {"idle_in_transaction_timeout": "90s"},
        "events": {"page_rows": 1, "timeout": "60s"},
    }
    worker = await start_worker(config)
    ids = await emit(ledger, 60, wait=0.02)
    slow = await emit(ledger, 1, wait=50)  # longer than any wait
    async with ledger.connect() as producer:
        await eventually(lambda: _flag_is(ledger, 0))
        async with producer.transaction():
            silent = await emit(producer, 1)
            await eventually(lambda: _is_settled(ledger, ids[-1]))
            await _have_come(ledger, 3 + await ledger.fetchval(_BEATS))
            assert await _flag_is(ledger, 0), "without peers the flag stays at 0"
            peer = await start_worker(config)
            await eventually(lambda: _flag_is(ledger, 1))
    await eventually(lambda: _is_settled(ledger, silent[0]))
    assert not await _is_settled(ledger, slow[0]), "the first worker is still in its page"
    worker.kill()
    peer.kill()


async def _looks(worker: Worker) -> float:
    """The number of sweeps so far."""
    return await worker.metric('inboxd_wakeups_total{cause="sweep",kind="event"}')


async def _sleeps(worker: Worker, after: float = 0.0) -> None:
    """Wait until it has swept again, and has stopped: it sleeps."""
    seen = [after]

    async def looks_no_more() -> bool:
        seen.append(await _looks(worker))
        return len(seen) > 8 and len(set(seen[-8:])) == 1 and seen[-1] > after

    await eventually(looks_no_more)


async def _flag_is(database: Database, flag: int) -> bool:
    found: int = await database.fetchval("select last_value from inboxd.events_flag")
    return found == flag


async def _is_settled(database: Database, row: int) -> bool:
    found: bool = await database.fetchval(
        "select exists (select from inboxd.events_history where id = $1)", row
    )
    return found


@pytest.mark.long
async def test_a_newer_version_waits_for_a_worker_that_can_read_it(
    ledger: Database, start_worker: StartWorker, exactly_once: ExactlyOnce, tmp_path: Path
) -> None:
    """A rolling deploy: the old worker claims rows that it cannot read, and defers them."""
    newer = OTHER.replace('"other.ledger")', '"other.ledger", schema_version=2)')
    with found(install(tmp_path / "old", "other", OTHER)):
        old = await start_worker(_serving("other"))
    with found(install(tmp_path / "new", "other", newer, "2.0")):
        new = await start_worker(_serving("other"))
    beats = "select heartbeat from inboxd.workers where pid = $1"
    before = await ledger.fetchval(beats, old.process.pid)

    async def old_knows_of_new() -> bool:
        return bool(await ledger.fetchval(beats, old.process.pid) > before + 1)

    await eventually(old_knows_of_new)
    new.pause()
    kinds = {"event": "events", "command": "commands"}
    ids: dict[str, list[int]] = {}
    for kind, table in kinds.items():
        rows = await ledger.fetch(
            f"insert into inboxd.{table} (created_at, type, schema_version, payload"
            f"{', queue' if kind == 'command' else ''})"
            " select now() - interval '1 hour', 'other.ledger', 2, '{}'"
            f"{', $1' if kind == 'command' else ''} from generate_series(1, 20) returning id",
            *(["default"] if kind == "command" else []),
        )
        ids[kind] = [row[0] for row in rows]
    await old.logged('"outcome":"deferred"')
    new.resume()
    for kind in kinds:
        await exactly_once(kind, ids[kind])
    history = await ledger.fetch(
        "select attempts, status from inboxd.events_history union "
        "select attempts, status from inboxd.commands_history"
    )
    assert [tuple(row) for row in history] == [(1, "succeeded")]
