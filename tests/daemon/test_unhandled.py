"""Unhandled events: kept, dead letters, or ignored; and where they are shown (promise 10)."""

import json
from pathlib import Path

import pytest

from inboxd.store.lines import blocked as blocked_lines
from tests.support import Config, Database, StartWorker, eventually
from tests.support.counted import counted
from tests.support.order import declare_lines, in_order, settled, turns
from tests.support.plugins import found, install
from tests.support.rows import create_ledger, daemon_session, effects, emit, send
from tests.support.verdicts import safety

pytestmark = pytest.mark.anyio

# Handles "late.ledger", and the type that blocks lines.
LATE = """
from inboxd import Event, EventContext, Handlers

handlers = Handlers("late")


@handlers.event("late.ledger")
async def ledger(event: Event[dict], ctx: EventContext) -> None:
    await ctx.connection.execute("insert into ledger values ('event', $1, '')", event.id)


@handlers.event("late.turn", topic="ordered")
@handlers.event("late.turn", topic="skipping")
async def turn(event: Event[dict], ctx: EventContext) -> None:
    await ctx.connection.execute(
        "insert into trail (topic, key, event, attempt) values ($1, $2, $3, 1)",
        event.topic, event.ordering_key, event.id,
    )
"""
# Handles all events of the topic "far".
FAR = """
from inboxd import Event, EventContext, Handlers

handlers = Handlers("far")
handlers.topic("far", mode="sequential", key="/key")


@handlers.event("far.turn", topic="far")
async def turn(event: Event[dict], ctx: EventContext) -> None: ...
"""
QUICK: Config = {
    # A new worker finds waiting events by a sweep, not by a poll.
    "worker": {"unhandled_grace": "300ms", "poll_interval": "1h"},
    "maintenance": {"interval": "200ms"},
}
KEPT = "no living worker handles these events: they are kept"


def _with(**sections: object) -> Config:
    return {**QUICK, **sections}  # type: ignore[dict-item]


async def _history(database: Database, type_: str) -> list[tuple[str, str | None]]:
    rows = await database.fetch(
        "select status, fingerprint from inboxd.events_history where type = $1 order by id", type_
    )
    return [tuple(row) for row in rows]


async def test_unhandled_events_are_kept_until_a_handler_comes(
    database: Database, start_worker: StartWorker, tmp_path: Path
) -> None:
    await create_ledger(database)
    worker = await start_worker(QUICK)
    ids = await emit(database, 3, "late.ledger")
    (command,) = await send(database, 1, "nobody.serves")
    await worker.logged(KEPT)

    async def shown() -> bool:
        labels = '{state="kept",topic="default",type="late.ledger"}'
        return await worker.metric(f"inboxd_event_backlog_rows{labels}") == 3

    await eventually(shown)
    lane = 'topic="default",type="late.ledger"'
    assert await worker.metric(f"inboxd_kept_event_age_seconds{{{lane}}}") > 0
    for state in ("kept", "pending"):
        age = f'inboxd_event_backlog_age_seconds{{state="{state}",{lane}}}'
        assert await worker.metric(age) == 0, "kept events must not fire the alert for late work"

    async def command_is_dead() -> bool:
        status = "select status from inboxd.commands where id = $1"
        return bool(await database.fetchval(status, command) == "failed")

    await eventually(command_is_dead)
    assert await database.fetchval("select array_agg(distinct status) from inboxd.events") == [
        "pending"
    ]
    with found(install(tmp_path / "late", "late", LATE)):
        await start_worker({**QUICK, "worker": {**QUICK["worker"], "plugins": ["late"]}})
    await settled(database, 3)
    with safety():
        assert await effects(database, "event") == dict.fromkeys(ids, 1)


async def test_unhandled_events_of_a_type_may_be_dead_letters_or_ignored(
    database: Database, start_worker: StartWorker
) -> None:
    """Ignored events are counted; history distinguishes them from handled and dismissed ones."""
    choices = {"gone.dead": {"unhandled": "dead"}, "gone.ignored": {"unhandled": "ignore"}}
    worker = await start_worker(_with(types=choices))
    (dead,) = await emit(database, 1, "gone.dead")
    await emit(database, 1500, "gone.ignored")
    (kept,) = await emit(database, 1, "gone.kept")

    async def all_ignored() -> bool:
        return len(await _history(database, "gone.ignored")) == 1500

    await eventually(all_ignored)
    assert set(await _history(database, "gone.ignored")) == {("dismissed", "ignored:gone.ignored")}
    errors = await database.fetchval("select errors from inboxd.events_history limit 1")
    (error,) = json.loads(errors)
    assert "Ignored: no live worker handles event type 'gone.ignored'" in error["error"]
    ignored = await counted(database, "lane, type", "outcome = 'ignored'")
    assert ignored == {("default", "gone.ignored"): 1500}
    assert await worker.metric('inboxd_events_ignored_total{type="gone.ignored"}') == 1500
    await worker.logged(KEPT)

    async def is_dead() -> bool:
        status = "select status from inboxd.events where id = $1"
        return bool(await database.fetchval(status, dead) == "failed")

    await eventually(is_dead)
    left = await database.fetch("select id, status from inboxd.events order by id")
    assert [tuple(row) for row in left] == [(dead, "failed"), (kept, "pending")]


async def test_events_of_a_frozen_worker_are_not_ignored(
    database: Database, start_worker: StartWorker, tmp_path: Path
) -> None:
    """It lives until its lease is over; an unhandled type shows that the task ran."""
    await create_ledger(database)
    ignore = {"unhandled_grace": "300ms", "lease": "60s"}
    settings = _with(events={"unhandled": "ignore"})
    await start_worker({**settings, "worker": ignore})
    with found(install(tmp_path / "late", "late", LATE)):
        holder = await start_worker({**settings, "worker": {**ignore, "plugins": ["late"]}})
    holder.pause()
    ids = await emit(database, 3, "late.ledger")
    await emit(database, 1, "gone.ignored")

    async def is_ignored() -> bool:
        return bool(await _history(database, "gone.ignored"))

    await eventually(is_ignored)
    with safety():
        assert await _history(database, "late.ledger") == []
    holder.resume()
    await settled(database, 3)
    with safety():
        assert await effects(database, "event") == dict.fromkeys(ids, 1)


async def _mixed(database: Database) -> list[int]:
    """In each of two topics, insert keys (k and l) with unhandled events, and one other key.

    Returns the ids of the unhandled events.
    """
    ids = []
    for topic, turn in (("ordered", "test.turn"), ("skipping", "test.skipping_turn")):
        keys = [f"{topic} {key}" for key in ("k", "l", "other")]
        await turns(database, keys[:2], turn)
        ids += [
            row["id"]
            for row in await database.fetch(
                "insert into inboxd.events (topic, type, payload) select $1, 'late.turn',"
                " jsonb_build_object('key', key) from unnest($2::text[]) key returning id",
                topic,
                [*keys[:2], keys[0]],
            )
        ]
        await turns(database, [*keys, keys[0]], turn)
    return ids


@pytest.mark.parametrize("visited", [True, False])
async def test_a_kept_event_blocks_its_key_and_is_shown_until_a_handler_comes(
    database: Database, start_worker: StartWorker, tmp_path: Path, visited: bool
) -> None:
    """The same where dead letters leave their line, and in topics that no worker handles."""
    await declare_lines(database)
    late = install(tmp_path / "late", "late", LATE)
    other = install(tmp_path / "other", "other", 'import inboxd\nhandlers = inboxd.Handlers("o")')
    names = {"plugins": ["testplugin" if visited else "other"]}
    with found(other):
        worker = await start_worker({**QUICK, "worker": {**QUICK["worker"], **names}})
        unhandled = await _mixed(database)
        await settled(database, 6 if visited else 0)
        shown = {}
        for topic in ("ordered", "skipping"):
            shown[topic] = f'inboxd_blocked_lines{{held_by="no handler",topic="{topic}"}}'

        async def are_shown() -> bool:
            lines = 2 if visited else 3  # also "other", which is unhandled too
            return {await worker.metric(name) for name in shown.values()} == {lines}

        await eventually(are_shown)
    async with daemon_session(database) as session:
        lines = await blocked_lines(session, "skipping", 10)
    held = {line["key"]: line for line in lines}
    assert {line["held_by"] for line in lines} == {"no handler"}
    assert {line["next_at"] for line in lines} == {None}
    assert "no live worker handles" in held["skipping k"]["error"]
    if visited:
        assert {key: line["id"] for key, line in held.items()} == {
            "skipping k": unhandled[3],
            "skipping l": unhandled[4],
        }
        assert held["skipping k"]["length"] == 4
    assert (
        await database.fetchval("select count(*) from inboxd.events where status = 'failed'") == 0
    )
    with found(late, other):
        both = {**QUICK, "worker": {**QUICK["worker"], "plugins": ["testplugin", "late"]}}
        await start_worker(both)
        await settled(database, 18)
    await in_order(database)


async def test_unhandled_events_delay_no_other_key(
    database: Database, start_worker: StartWorker
) -> None:
    """In a topic without handlers of its own, where a handler without a topic serves other types.

    Each bucket begins with unhandled events, also when the worker knows the buckets already.
    """
    long: Config = {"worker": {"unhandled_grace": "10m"}}
    await start_worker({**long, "topics": {"free": {"mode": "sequential", "key": "/key"}}})
    for n in (1, 2):
        for type_, keys in (("nobody.handles", 300), ("test.noop", 64)):
            await database.execute(
                "insert into inboxd.events (topic, type, payload) select 'free', $1,"
                " jsonb_build_object('key', $1 || n) from generate_series(1, $2) n",
                type_,
                keys,
            )
        await settled(database, 64 * n)
    left = "select count(*), count(position), count(*) filter (where head) from inboxd.events"
    (row,) = await database.fetch(left)
    assert tuple(row) == (600, 600, 300)


async def test_events_that_another_worker_handles_are_not_lined_up(
    database: Database, start_worker: StartWorker, tmp_path: Path
) -> None:
    """Lining up costs an update, so a worker lines up only what it can handle."""
    lease = {"lease": "60s"}
    await start_worker({"worker": lease})
    with found(install(tmp_path / "far", "far", FAR)):
        holder = await start_worker({"worker": {**lease, "plugins": ["far"]}})
    holder.pause()
    # One survey sees all: when events of the other topics are lined up, "far" was left alone.
    write = (
        "insert into inboxd.events (topic, type, mode, payload) select topic, type, 'sequential',"
        " jsonb_build_object('key', n) from generate_series(1, 20) n, (values ('far', 'far.turn'),"
        " ('free', 'nobody.handles'), ('other', 'test.noop')) as t (topic, type)"
    )
    await database.execute(write)
    await settled(database, 20)

    async def lined_up() -> bool:
        count = "select count(*) from inboxd.events where topic = 'free' and position is not null"
        return bool(await database.fetchval(count) == 20)

    await eventually(lined_up)
    waiting = "select count(*) from inboxd.events where topic = 'far' and position is null"
    assert await database.fetchval(waiting) == 20
    holder.resume()
    await settled(database, 40)


async def test_ignored_events_leave_their_line_and_the_line_goes_on(
    database: Database, start_worker: StartWorker
) -> None:
    await declare_lines(database)
    await start_worker(_with(types={"late.turn": {"unhandled": "ignore"}}))
    unhandled = await _mixed(database)
    many = await database.fetch(
        "insert into inboxd.events (topic, type, payload) select 'ordered', 'late.turn',"
        """ '{"key": "ordered k"}' from generate_series(1, 1200) returning id"""
    )
    await turns(database, ["ordered k"])
    await settled(database, 13)
    await in_order(database)
    assert await _history(database, "late.turn") == [("dismissed", "ignored:late.turn")] * (
        len(unhandled) + len(many)
    )
    assert await database.fetchval("select count(*) from inboxd.events") == 0
