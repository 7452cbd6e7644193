"""Plans: each statement reads few rows, however many others wait, were settled, or are dead.

The server tells the plan of every statement as it ran (auto_explain), with its session's settings,
inside functions too. Two states of the same tables: analyzed; and the worst, in which each session
made its plans while all was empty, the tables have grown since, a third of their rows is dead, and
nothing was vacuumed or analyzed. Known limit: what is dead in front of a cursor must be walked over
once, so in that state only the indexes are held, not the pages that were touched.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, cast
from uuid import UUID, uuid4

import orjson
import pytest

from inboxd.api.drafts import CommandDraft
from inboxd.embedded import Server
from inboxd.errors import LeaseLost
from inboxd.model.dedup import Received, Windows
from inboxd.model.lane import BEGINNING, Lane, Sighting
from inboxd.model.lineage import Lineage
from inboxd.settings import Queue
from inboxd.store import (
    batches,
    commands,
    controls,
    dedup,
    erasing,
    events,
    leases,
    limits,
    lines,
    listing,
    lists,
    operations,
    producing,
    purging,
    queues,
    schedules,
    story,
    workers,
)
from inboxd.store.connections import ERRAND_PLANS, OWN_PLANS, Connection, Row, connect
from inboxd.store.events import Setback
from inboxd.store.session import Session
from tests.support import Database, ExternalServer, create, drop
from tests.support.plans import told, touched_by
from tests.support.rows import SQL, join, settings_of

pytestmark = pytest.mark.anyio

# A statement that takes a page of 10 may touch each row's heap page, index pages and a few more;
# one that returns more, so many for each row: two topics with lines have 128 buckets to survey.
BUFFERS = 400
BUFFERS_A_ROW = 6
WORKER = UUID(int=1)
AGE = timedelta(days=90)
# From the sixth time on a plan is kept by sessions whose planner is left alone.
TIMES = 7

_TABLES = ("events", "commands", "events_history", "commands_history")

_FILL = """
insert into inboxd.events (type, run_at)
    select 'gone', now() - interval '2 hours' from generate_series(1, {rows} / 2);
insert into inboxd.events (type, run_at)
    select 'big', now() - interval '1 hour' from generate_series(1, {rows});
insert into inboxd.events (type) select 'few' from generate_series(1, 20);
insert into inboxd.events (type, status) select 'dead', 'failed' from generate_series(1, 20);
delete from inboxd.events where type = 'gone';
insert into inboxd.commands (queue, type, run_at)
    select 'big', 'gone', now() - interval '2 hours' from generate_series(1, {rows} / 2);
insert into inboxd.commands (queue, type, run_at, causation_id)
    select 'big', 'big', now() - interval '1 hour', gen_random_uuid()
      from generate_series(1, {rows});
insert into inboxd.commands (queue, type) select 'big', 'few' from generate_series(1, 20);
insert into inboxd.commands (queue, type, status, causation_id)
    select 'big', 'dead', 'failed', gen_random_uuid() from generate_series(1, {dead});
insert into inboxd.commands (queue, type, status, worker_id, fence)
    select 'big', 'held', 'running', '{worker}', 1 from generate_series(1, 10);
insert into inboxd.commands (queue, type, crashes) select 'big', 'few', 1;
insert into inboxd.commands (queue, type, ordering_key)
    select 'keyed', 'keyed', 'k' || n % 1000 from generate_series(1, {rows}) n;
insert into inboxd.commands (queue, type, ordering_key, status, line_at)
    select 'keyed', 'dead key', 'd' || n, 'failed', now() from generate_series(1, 20) n;
insert into inboxd.commands (queue, type, ordering_key)
    select 'keyed', 'keyed', 'd' || n % 10 from generate_series(1, 20) n;
insert into inboxd.commands (queue, type, status, needs)
    select 'big', 'big', 'waiting', 1 from generate_series(1, {rows} / 2);
insert into inboxd.dedup (topic, source, key, event_id, seen_at)
    select 'default', '', n::text, gen_random_uuid(), now() - interval '1 hour'
      from generate_series(1, {rows}) n;
insert into inboxd.duplicates (topic, source, key, type, event_id, first_event, conflict)
    select 'default', '', n::text, 'few', gen_random_uuid(), gen_random_uuid(), false
      from generate_series(1, {rows}) n;
insert into inboxd.limits (name) values ('big'), ('keyed');
insert into inboxd.topics (name, mode, source)
    values ('lines', 'sequential', 'test'), ('long', 'sequential', 'test'),
           ('heads', 'sequential', 'test');
insert into inboxd.events (topic, type, ordering_key)
    select 'lines', 'turn', 'k' || n % 1000 from generate_series(1, {rows}) n;
insert into inboxd.events (topic, type, ordering_key)
    select 'long', 'long', 'k' from generate_series(1, {rows} / 2);
update inboxd.events e set place = f.n, head = f.n = 1, status = case f.n when 1 then 'failed'
        else 'waiting' end from (select id, row_number() over (order by id) as n from inboxd.events
        where topic = 'long') f where e.id = f.id;
insert into inboxd.events (topic, type, ordering_key)
    select 'heads', 'turn', 'h' || n % 500 from generate_series(1, 1000) n;
update inboxd.events e set place = f.n, head = f.n = 1, run_at = case when id % 10 = 0
        then now() + interval '1 hour' else run_at end from (select id as i, row_number() over
        (partition by ordering_key order by id) as n from inboxd.events where topic = 'heads') f
    where e.id = f.i;
insert into inboxd.topics (name, mode, source)
    values ('listed', 'batch', 'test'), ('fresh', 'batch', 'test');
insert into inboxd.events (topic, type, ordering_key)
    select 'fresh', 'item', 'k' || n % 1000 from generate_series(1, {rows} / 2) n;
insert into inboxd.events (topic, type, ordering_key)
    select 'listed', 'item', 'k' || n % 1000 from generate_series(1, 3000) n;
insert into inboxd.events (topic, type, ordering_key)
    select 'listed', 'item', 'long' from generate_series(1, {rows} / 2) n;
update inboxd.events e set place = f.n, head = f.n = 1, run_at = now() + interval '1 hour'
    from (select id as i, row_number() over (partition by ordering_key order by id) as n
            from inboxd.events where topic = 'listed') f where e.id = f.i;
delete from inboxd.commands where type = 'gone';
insert into inboxd.events_history (id, event_id, topic, mode, type, schema_version, status,
        attempts, crashes, run_at, occurred_at, created_at, updated_at, finished_at)
    select 1000000000 + n, inboxd.new_uuid(), 'default', 'single', 'big', 1, 'succeeded', 1, 0,
           now(), now(), now(), now(), now() from generate_series(1, {rows}) n;
insert into inboxd.commands_history (id, command_id, queue, type, schema_version, priority, status,
        attempts, crashes, fence, run_at, cancel_requested, origin_kind, causation_id, created_at,
        updated_at, finished_at)
    select 1000000000 + n, inboxd.new_uuid(), 'big', 'big', 1, 0, 'succeeded', 1, 0, 1, now(),
           false, 'event', gen_random_uuid(), now(), now(), now() from generate_series(1, {rows}) n;
"""

_FILL += """
insert into inboxd.stats select now() - n * interval '1 minute', '{worker}', 'event', 'big',
    'succeeded', 1, 1, 1 from generate_series(1, {rows}) n;
insert into inboxd.stats select now() - interval '91 days' - n * interval '1 minute', '{worker}',
    'event', 'big', 'succeeded', 1, 1, 1 from generate_series(1, 500) n;
insert into inboxd.audit (at, actor, action, target, count)
    select now() - n * interval '1 minute', 'me', 'replay', 'events', 1
      from generate_series(-130000, -130000 + {rows} / 2) n;
insert into inboxd.audit (at, actor, action, target, count)
    select now() - interval '91 days', 'me', 'replay', 'events', 1 from generate_series(1, 500);
insert into inboxd.replays select 'event', n, n, now() - n * interval '1 s', 'me'
    from generate_series(1, {rows}) n;
insert into inboxd.replays select 'event', n, n, now() - interval '91 days', 'me'
    from generate_series(1, 500) n;
insert into inboxd.batches (name, status, created_at, finished_at, closed_at)
    select 'old', 'succeeded', now() - interval '91 days', now() - interval '91 days', now()
      from generate_series(1, 500);
insert into inboxd.batches (name, status, finished_at, closed_at)
    select 'new', 'succeeded', now(), now() from generate_series(1, {rows} / 2);
"""


@dataclass
class Known:
    """Rows to work on, found once the tables are full; before that, nobody's."""

    ids: dict[str, list[int]] = field(default_factory=dict)
    uuids: dict[str, UUID] = field(default_factory=dict)
    worker: UUID = WORKER
    last: tuple[float, int] = (BEGINNING, 0)

    def of(self, name: str) -> list[int]:
        """Ten rows of a table and type, such as "events big"."""
        return self.ids.get(name, [1, 2, 3])

    def one(self, table: str) -> UUID:
        """The uuid of some row."""
        return self.uuids.get(table, UUID(int=7))


@dataclass(frozen=True)
class Stand:
    """A full database and the sessions of its users; `worst`: see the module's head."""

    daemon: Connection
    operator: Connection
    producer: Connection
    handler: Connection
    known: Known
    worst: bool


Case = Callable[[Connection, Known], Awaitable[object]]
# ruff: noqa: ARG005 - the cases below take the same arguments, whether they need them or not

# ------------------------------------------------------------------------------ the statements


def _lane(*key: str | int, after: tuple[float, int] = (BEGINNING, 0)) -> Lane:
    return Lane(key, *after)


async def _settle_events(session: Connection, ids: list[int]) -> None:
    with suppress(LeaseLost):  # while all is empty
        await events.settle(session, SQL, [(id_, 0.1) for id_ in ids], WORKER)


async def _set_back_events(session: Connection, known: Known) -> None:
    setbacks = [
        Setback(id_, "pending", 1, delay=60.0, error="{}") for id_ in known.of("events big")
    ]
    await events.set_back(session, SQL, setbacks)


async def _unmark_crash(session: Connection, known: Known) -> None:
    await session.execute(SQL["unmark_crash"], known.of("events big")[0], 0, BEGINNING)


async def _settle_commands(session: Connection, known: Known) -> None:
    ended = [
        commands.Settlement(id_, 1, "succeeded", 0.1, None) for id_ in known.of("commands held")
    ]
    await commands.settle(session, SQL, WORKER, ended)


async def _set_back_commands(session: Connection, known: Known) -> None:
    setbacks = [
        Setback(id_, "pending", 1, delay=60.0, fence=1) for id_ in known.of("commands held")
    ]
    await commands.set_back(session, SQL, WORKER, setbacks)


async def _insert_commands(session: Connection, _: Known) -> None:
    parent = commands.Parent("event", 1, Lineage(None, None, None))
    drafts = [(CommandDraft(uuid4(), "few", "{}", queue="big"), parent) for _ in range(10)]
    await commands.insert(session, SQL, drafts)


async def _fold_one(session: Connection, _: Known) -> None:
    """Fold a batch of which one member failed and others wait, and one that starts."""
    ids = await session.fetch(
        "insert into inboxd.batches (name, size, closed_at, starting, failed)"
        " select 'few', 10, now(), n = 2, 2 - n from generate_series(1, 2) n returning id"
    )
    await session.execute(
        "insert into inboxd.commands (queue, type, batch_id, status, needs) select 'q', 'few', $1,"
        " 'waiting', 1 from generate_series(1, 9)",
        ids[0]["id"],
    )
    await session.execute(
        "insert into inboxd.commands (queue, type, batch_id, status, needs) select 'q', 'few', $1,"
        " 'waiting', 1 from generate_series(1, 10)",
        ids[1]["id"],
    )
    folded = await batches.fold(session, SQL, [row["id"] for row in ids])
    assert [each.status for each in folded] == ["failed", "pending"]


async def _read_result(session: Connection, known: Known) -> None:
    workflow = await session.fetchval(
        "insert into inboxd.batches (kind) values ('workflow') returning id"
    )
    await session.execute(
        "insert into inboxd.steps values ($1, 'a', $2)", workflow, known.one("commands_history")
    )
    await session.fetch(SQL["step_result"], workflow, "a")


DAEMON: dict[str, tuple[Case, tuple[str, ...]]] = {
    "fold_batches": (_fold_one, ("commands_held_up", "commands_batch", "batches_pkey")),
    "step_result": (_read_result, ("commands_command_id", "steps_pkey")),
    "unfolded_batches": (lambda c, k: batches.unfolded(c, SQL, 0.0), ()),
    "expire_batches": (lambda c, k: batches.expire(c, SQL), ()),
    "claim_events from the beginning": (
        lambda c, k: events.claim(c, SQL, [_lane("default", "big"), _lane("default", "few")], 10),
        ("events_lane",),
    ),
    "claim_events from a cursor": (
        lambda c, k: events.claim(c, SQL, [_lane("default", "big", after=k.last)], 10),
        ("events_lane",),
    ),
    "claim_event": (lambda c, k: events.claim_one(c, SQL, k.of("events big")[0]), ("events_pkey",)),
    "mark_crash": (
        lambda c, k: events.mark_crash(c, SQL, k.of("events big")[0], timedelta(minutes=1)),
        ("events_pkey",),
    ),
    "unmark_crash": (_unmark_crash, ("events_pkey",)),
    "survey_events": (lambda c, k: events.survey(c, SQL), ("events_lane",)),
    "settle_events": (
        lambda c, k: _settle_events(c, k.of("events big")),
        ("events_pkey",),
    ),
    "fail_events": (_set_back_events, ("events_pkey",)),
    "fail_unserved_events": (
        lambda c, k: events.fail_unserved(
            c, SQL, Sighting(("default", "big"), 1.0, None), "{}", 10, timedelta(0)
        ),
        ("events_lane",),
    ),
    "stranded_events": (
        lambda c, k: events.stranded(
            c, SQL, Sighting(("default", "big"), 1.0, None), 10, timedelta(0)
        ),
        ("events_lane",),
    ),
    "ignore_events": (
        lambda c, k: events.ignore(c, SQL, k.of("events big"), "{}"),
        ("events_pkey",),
    ),
    "claim_commands": (
        lambda c, k: commands.claim(
            c, SQL, k.worker, {"big": 10}, [_lane("big", "few", 0), _lane("big", "big", 0)], 10
        ),
        ("commands_lane", "workers_pkey"),
    ),
    "claim_suspect": (
        lambda c, k: commands.claim_suspect(c, SQL, k.worker, ["few"], []),
        ("commands_suspects",),
    ),
    "survey_commands": (lambda c, k: commands.survey(c, SQL), ("commands_lane",)),
    "settle_commands": (_settle_commands, ("commands_pkey",)),
    "fail_commands": (_set_back_commands, ("commands_pkey",)),
    "insert_commands": (_insert_commands, ()),
    "release_commands": (lambda c, k: commands.release(c, SQL, WORKER), ("commands_running",)),
    "return_commands": (
        lambda c, k: c.fetch(SQL["return_commands"], WORKER, 3),
        ("commands_running",),
    ),
    "fail_unserved_commands": (
        lambda c, k: commands.fail_unserved(
            c, SQL, Sighting(("big", "big", 0), 1.0, None), "{}", 10, timedelta(0)
        ),
        ("commands_lane",),
    ),
    "fail_unserved_suspects": (
        lambda c, k: commands.fail_unserved(
            c, SQL, Sighting(("big", "few", None), 1.0, None), "{}", 10, timedelta(0)
        ),
        ("commands_suspects",),
    ),
    "beat": (lambda c, k: workers.beat(c, SQL, k.worker, 0, "running"), ("commands_running",)),
    "purge_stats": (lambda c, k: purging.remove(c, SQL, "stats", AGE, 10), ("stats_pkey",)),
    "purge_audit": (
        lambda c, k: purging.remove(c, SQL, "audit", AGE, 10),
        ("audit_at", "audit_pkey"),
    ),
    "purge_replays": (lambda c, k: purging.remove(c, SQL, "replays", AGE, 10), ("replays_at",)),
    "purge_batches": (
        lambda c, k: purging.batches(c, SQL, AGE, 0, 10),
        ("batches_pkey", "commands_batch", "commands_running", "batches_parent"),
    ),
    "read_lease, take_lease": (lambda c, k: leases.hold(c, SQL, "upkeep", k.worker), ()),
    "write_progress": (
        lambda c, k: commands.write_progress(
            c, SQL, WORKER, [(id_, 1, '{"done": 1}') for id_ in k.of("commands held")]
        ),
        ("commands_pkey",),
    ),
    "read_controls": (lambda c, k: controls.read(c, SQL), ()),
    "claim_schedule": (lambda c, k: c.fetch(SQL["claim_schedule"], ["hourly"]), ()),
    "mark_schedules": (lambda c, k: schedules.mark_undeclared(c, SQL), ()),
    "backlog_events": (lambda c, k: c.fetch(SQL["backlog_events"], 100), ("events_lane",)),
    "backlog_commands": (
        lambda c, k: c.fetch(SQL["backlog_commands"], 100),
        (
            *("commands_lane", "commands_running"),
            *("commands_arrived", "commands_again", "commands_unmet"),
        ),
    ),
    "count_blocked": (
        lambda c, k: queues.blocked(c, SQL, {}),
        ("commands_dead_keys", "commands_again", "commands_line"),
    ),
}


async def _file(session: Connection, known: Known) -> None:
    await lines.file(session, SQL, known.of("events turn"))


_LINES = [lines.Line("heads", 0, f"h{n}") for n in range(10)]
_STRETCHES = [lines.Stretch("lines", bucket, 0, 2**40) for bucket in range(8)]
_LISTED = datetime(2026, 6, 1, tzinfo=UTC)
_LINE = lists.Line("k7", 1, 1, 3, 0, 0, _LISTED, _LISTED, _LISTED, postponed=False)
_LONG = lists.Stretch("listed", "long", 5, 14)
_KEYS = [f"k{n}" for n in range(10)]
DAEMON |= {
    "file_arrivals": (
        lambda c, k: lists.file_arrivals(
            c,
            SQL,
            lines.Stretch("fresh", 3, 0, 2**40),
            10,
            timedelta(days=1),
            [_LISTED + timedelta(days=900)],
            ["item"],
        ),
        ("events_arrived", "events_lines", "events_pkey"),
    ),
    "oldest_arrival": (
        lambda c, k: lists.oldest_arrival(c, SQL, ("fresh", 3), 0, 2**40),
        ("events_arrived",),
    ),
    "complete_lists, full": (
        lambda c, k: lists.complete(c, SQL, "listed", _KEYS, 3, []),
        ("events_head", "events_lines"),
    ),
    "complete_lists, expected": (
        lambda c, k: lists.complete(c, SQL, "listed", _KEYS, None, ["item", "other"]),
        ("events_head", "events_lines"),
    ),
    "open_lists": (
        lambda c, k: lists.open_lines(c, SQL, "listed", [*_KEYS, "long"], 10, due=False),
        ("events_head", "events_lines"),
    ),
    "read_lists": (
        lambda c, k: lists.read_lines(c, SQL, "listed", [(_LINE, 3)]),
        ("events_lines",),
    ),
    "read_list": (
        lambda c, k: c.fetch(SQL["read_list"], "listed", "long", 5, 2**30, 10),
        ("events_lines",),
    ),
    "measure_list": (
        lambda c, k: lists.measure(c, SQL, "listed", _LINE._replace(key="long"), None, 10),
        ("events_lines",),
    ),
    "types_in_list": (
        lambda c, k: lists.types_in(c, SQL, _LONG, ["item", "other"]),
        ("events_lines",),
    ),
    "common_in_list": (
        lambda c, k: lists.common_in(
            c, SQL, _LONG, cast("Row", {"correlation_id": "a story", "tenant": "a tenant"})
        ),
        ("events_lines",),
    ),
    "hasten_list": (lambda c, k: lists.hasten(c, SQL, _LONG), ("events_lines",)),
    "settle_list": (
        lambda c, k: lists.settle_stretch(c, SQL, _LONG, 0.1, WORKER),
        ("events_lines",),
    ),
    "fail_list": (
        lambda c, k: lists.fail_stretch(c, SQL, _LONG, "{}", "f"),
        ("events_lines",),
    ),
    "scatter_list": (lambda c, k: lists.scatter(c, SQL, _LONG), ("events_lines",)),
    "scatter_topic": (
        lambda c, k: lists.scatter_topic(c, SQL, "listed", 10, timedelta(0)),
        ("events_arrived", "events_lines", "events_pkey"),
    ),
    "unmark_list": (lambda c, k: lists.unmark(c, SQL, _LINE), ("events_pkey",)),
    "newest_event": (lambda c, k: lists.newest(c, SQL), ()),
}
DAEMON |= {
    "read_horizon": (lambda c, k: lines.read_horizon(c, SQL), ()),
    "survey_arrivals": (lambda c, k: lines.survey_arrivals(c, SQL), ("events_arrived",)),
    "look_arrivals": (
        lambda c, k: lines.look(c, SQL, [(("lines", bucket), 5) for bucket in range(64)]),
        ("events_arrived",),
    ),
    "survey_heads": (lambda c, k: lines.survey_heads(c, SQL), ("events_heads",)),
    "due_heads": (
        lambda c, k: lines.due_heads(c, SQL, [_lane("heads", "turn")], 10),
        ("events_heads",),
    ),
    "try_lines": (lambda c, k: lines.try_buckets(c, SQL, [("lines", 1), ("lines", 2)]), ()),
    "claim_arrivals": (
        lambda c, k: lines.claim_arrivals(c, SQL, _STRETCHES, 10),
        ("events_arrived", "events_head"),
    ),
    "claim_filed": (
        lambda c, k: lines.claim_filed(c, SQL, _LINES, 10),
        ("events_head", "events_lines"),
    ),
    "file_events": (_file, ("events_lines", "events_pkey")),
    "step_aside": (
        lambda c, k: lines.step_aside(c, SQL, k.of("events long")[:1]),
        ("events_pkey", "events_lines"),
    ),
    "settle the head of a long line": (
        lambda c, k: _settle_events(c, k.of("events long")[:1]),
        ("events_pkey", "events_lines"),
    ),
    "fail_unserved_heads": (
        lambda c, k: lines.fail_heads(c, SQL, k.of("events turn"), "{}", timedelta(0)),
        ("events_pkey",),
    ),
    "count_blocked_lines": (
        lambda c, k: lines.count_blocked(c, SQL),
        ("events_blocking", "events_heads", "events_lines"),
    ),
}


def _claim_limited(queue: str, bounds: limits.Bounds, **want: Any) -> Case:
    return lambda c, k: limits.claim(
        c, SQL, k.worker, queue, bounds, limits.Wanted(10, ["keyed", "big"], **want)
    )


def _received(topic: str, key: str) -> Received:
    return Received(topic=topic, key=key, event_id=uuid4(), type="few")


DAEMON |= {
    "purge_dedup": (
        lambda c, k: dedup.forget(c, SQL, Windows(timedelta(minutes=1)), 0, 1),
        (),
    ),
    "drain_duplicates": (lambda c, k: dedup.drain(c, SQL, 10), ("duplicates_pkey",)),
    "remember": (
        lambda c, k: dedup.DatabaseRecord(c, SQL).remember(_received("default", "7")),
        ("dedup_pkey",),
    ),
}

_KEYS = [f"k{n}" for n in range(10)]
DAEMON |= {
    "claim_limited from lines": (
        _claim_limited("keyed", limits.Bounds(), keys=_KEYS, share=2, suspect=True),
        ("commands_line", "commands_holding", "commands_again", "commands_suspects"),
    ),
    "claim_limited from lines, two at once": (
        _claim_limited("keyed", limits.Bounds(key_concurrency=2), keys=_KEYS, share=2),
        ("commands_line", "commands_holding"),
    ),
    "claim_limited from lanes": (
        _claim_limited("big", limits.Bounds(total=100, rate=100), lanes=[_lane("big", "big", 0)]),
        ("commands_lane",),
    ),
    "survey_lines": (
        lambda c, k: limits.survey(c, SQL),
        ("commands_arrived", "commands_again"),
    ),
    "find_keys": (
        lambda c, k: limits.find_keys(c, SQL, "keyed", "k5", limits.Bounds(), 20),
        ("commands_line", "commands_holding"),
    ),
    "arrived_keys": (
        lambda c, k: limits.arrived(c, SQL, "keyed", [_lane("keyed", "keyed")], 10),
        ("commands_arrived", "commands_again"),
    ),
    "fail_unserved_lines": (
        lambda c, k: limits.fail_unserved(
            c, SQL, Sighting(("keyed", "keyed", "keyed"), 1.0, None), "{}", 10, timedelta(0)
        ),
        ("commands_arrived", "commands_again"),
    ),
}


def _operator(work: Callable[[Session, Known], Awaitable[object]]) -> Case:
    return lambda connection, known: work(Session(connection, SQL), known)


def _match(statuses: Sequence[str], **of: Any) -> Case:
    match = operations.Match(statuses, **of)
    return _operator(lambda s, k: operations.matching(s, "commands", match, 0, 10**9, 10))


_CANCEL = ("pending", "waiting", "running")
_WHO = erasing.Subject("nobody", None, None)
_WHOM = _WHO.arguments()
_TODAY = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
# One page of one partition.
_HERE = erasing.Stretch(_TODAY, _TODAY + timedelta(days=1), 0, 1, 1, 1)
_DEAD = ("commands_failed",)

OPERATOR: dict[str, tuple[Case, tuple[str, ...]]] = {
    "blocked_lines": (
        _operator(lambda s, k: lines.blocked(s, None, 10)),
        ("events_blocking", "events_heads", "events_lines"),
    ),
    "hold_lines_of": (
        lambda c, k: c.execute(SQL["hold_lines_of"], k.of("events turn"), []),
        ("events_pkey",),
    ),
    "lock_events": (
        _operator(
            lambda s, k: operations.lock(s, "events", k.of("events dead"), [k.one("events")])
        ),
        ("events_pkey", "events_event_id"),
    ),
    "lock_commands": (
        _operator(
            lambda s, k: operations.lock(s, "commands", k.of("commands dead"), [k.one("commands")])
        ),
        ("commands_pkey", "commands_command_id"),
    ),
    "settled_events": (
        _operator(
            lambda s, k: operations.settled(s, "events", [1000000007], [k.one("events_history")])
        ),
        (),
    ),
    "settled_commands": (
        _operator(
            lambda s, k: operations.settled(
                s, "commands", [1000000007], [k.one("commands_history")]
            )
        ),
        (),
    ),
    "replay_events": (
        _operator(
            lambda s, k: operations.replay_in_place(s, "events", k.of("events dead"), "me", None)
        ),
        (),
    ),
    "replay_commands": (
        _operator(lambda s, k: operations.replay_as_new(s, k.of("commands dead"), "me", None)),
        (),
    ),
    "replay_commands_in_place": (
        _operator(
            lambda s, k: operations.replay_in_place(
                s, "commands", k.of("commands dead"), "me", None
            )
        ),
        (),
    ),
    "dismiss_commands": (
        _operator(lambda s, k: operations.dismiss(s, "commands", k.of("commands dead"))),
        (),
    ),
    "dismiss_events": (
        _operator(lambda s, k: operations.dismiss(s, "events", k.of("events dead"))),
        (),
    ),
    "match_commands": (
        _operator(
            lambda s, k: operations.matching(
                s, "commands", operations.Match(["pending"]), 0, 10**9, 10
            )
        ),
        ("commands_pkey",),
    ),
    "match_commands to cancel, all": (_match(_CANCEL), ("commands_pkey",)),
    "match_commands to replay": (_match(["failed"]), _DEAD),
    "match_commands to replay, of a type": (_match(["failed"], type="dead key"), _DEAD),
    "match_commands to replay, of a queue": (
        _match(["failed"], type="dead key", lane="keyed"),
        _DEAD,
    ),
    "match_commands to replay, of a group": (_match(["failed"], fingerprint="f"), _DEAD),
    "match_events to replay": (
        _operator(
            lambda s, k: operations.matching(
                s, "events", operations.Match(["failed"]), 0, 10**9, 10
            )
        ),
        ("events_failed",),
    ),
    "failures_commands": (
        _operator(lambda s, k: operations.failures(s, "commands", None, 100)),
        ("commands_failures", "commands_pkey"),
    ),
    "failures_events": (
        _operator(lambda s, k: operations.failures(s, "events", None, 100)),
        ("events_failures", "events_pkey"),
    ),
    "cancel_commands": (
        _operator(lambda s, k: operations.cancel(s, k.of("commands few"))),
        ("commands_pkey",),
    ),
    "request_cancel": (
        _operator(lambda s, k: operations.request_cancel(s, k.of("commands held"))),
        (),
    ),
    "reschedule_events": (
        _operator(
            lambda s, k: operations.reschedule(s, "events", k.of("events big"), datetime.now(UTC))
        ),
        ("events_pkey",),
    ),
    "reschedule_commands": (
        _operator(
            lambda s, k: operations.reschedule(
                s, "commands", k.of("commands few"), datetime.now(UTC)
            )
        ),
        ("commands_pkey",),
    ),
    "reprioritize_commands": (
        _operator(lambda s, k: operations.reprioritize(s, k.of("commands few"), 3)),
        ("commands_pkey",),
    ),
    "count_waiting": (
        _operator(
            lambda s, k: s.connection.fetch(
                SQL["count_waiting"], ["lines", "heads", "listed", "fresh"], "turn", 20
            )
        ),
        ("events_arrived", "events_lines"),
    ),
    "status_progress": (
        _operator(lambda s, k: listing.progress(s, 50)),
        ("commands_running",),
    ),
    "show_events": (
        _operator(lambda s, k: listing.one(s, "events", k.one("events_history"), payload=True)),
        ("events_event_id",),
    ),
    "show_commands": (
        _operator(lambda s, k: listing.one(s, "commands", k.one("commands_history"), payload=True)),
        ("commands_command_id",),
    ),
    "status_events": (
        _operator(lambda s, k: s.connection.fetch(SQL["status_events"], 100)),
        ("events_lane", "events_failed"),
    ),
    "status_commands": (
        _operator(lambda s, k: s.connection.fetch(SQL["status_commands"], 100)),
        (
            *("commands_lane", "commands_failed", "commands_suspects", "commands_running"),
            *("commands_arrived", "commands_again", "commands_unmet"),
        ),
    ),
    "count_keys": (
        _operator(lambda s, k: s.connection.fetch(SQL["count_keys"], 100)),
        ("commands_line", "commands_arrived"),
    ),
    "blocked_keys": (
        _operator(lambda s, k: queues.blocked_keys(s, "keyed", Queue(), 20)),
        ("commands_again", "commands_line", "commands_pkey"),
    ),
    "story_find": (_operator(lambda s, k: story.find(s, k.one("commands"))), ()),
    "story_up": (_operator(lambda s, k: story.up(s, "command", k.of("commands big")[0], 10)), ()),
    "story_down": (
        _operator(
            lambda s, k: story.down(
                s, [(k.one("commands"), None), (k.one("events"), 7)], datetime.now(UTC), 10, 10
            )
        ),
        ("commands_children", "commands_failed_children", "commands_running"),
    ),
    "doctor_running": (
        _operator(lambda s, k: s.connection.fetch(SQL["doctor_running"], 100, 30.0)),
        ("commands_running",),
    ),
    "status_lines": (
        _operator(lambda s, k: s.connection.fetch(SQL["status_lines"], 10)),
        ("events_arrived", "events_lines", "events_blocking", "events_heads"),
    ),
    "doctor_failed": (
        _operator(lambda s, k: s.connection.fetch(SQL["doctor_failed"], 60)),
        ("stats_pkey",),
    ),
    "erase_scan_events": (
        _operator(lambda s, k: s.connection.fetch(SQL["erase_scan_events"], *_WHOM, 0, 100)),
        ("events_pkey",),
    ),
    "erase_scan_commands": (
        _operator(lambda s, k: s.connection.fetch(SQL["erase_scan_commands"], *_WHOM, 0, 100)),
        ("commands_pkey",),
    ),
    "erase_count_events": (_operator(lambda s, k: erasing.count(s, "events", _WHO, _HERE)), ()),
    "erase_events": (_operator(lambda s, k: erasing.erase(s, "events", _WHO, _HERE, "[]")), ()),
    "erase_commands": (_operator(lambda s, k: erasing.erase(s, "commands", _WHO, _HERE, "[]")), ()),
    "workers": (_operator(lambda s, k: listing.workers(s, ended=True, limit=50)), ()),
    "throughput": (_operator(lambda s, k: listing.throughput(s, 5)), ()),
}


def _entry(uuid: UUID) -> producing.Entry:
    return producing.Entry(type="few", payload="{}", lane="big", uuid=uuid)


def _fact(uuid: UUID | None, dedup_key: str | None = None) -> producing.Entry:
    return producing.Entry(type="few", payload="{}", uuid=uuid, dedup_key=dedup_key)


def _bulk(function: str, table: str, key: str) -> Case:
    def case(session: Connection, known: Known) -> Awaitable[object]:
        rows = [{"type": "few", key: str(uuid)} for uuid in (known.one(table), uuid4())]
        if table == "commands":
            rows = [{"queue": "big", **row} for row in rows]
        call = f"select * from inboxd.{function}($1::text::jsonb)"
        return session.fetch(call, orjson.dumps(rows).decode())

    return case


PRODUCER: dict[str, tuple[Case, tuple[str, ...]]] = {
    "emit_event": (
        _operator(lambda s, k: producing.emit(s, _fact(k.one("events")))),
        ("events_event_id",),
    ),
    "emit_known_event": (
        _operator(lambda s, k: producing.emit(s, _fact(None, "7"))),
        ("dedup_pkey", "events_event_id"),
    ),
    "send_command": (
        _operator(lambda s, k: producing.send(s, _entry(k.one("commands")))),
        ("commands_command_id",),
    ),
    "emit_events": (_bulk("emit_events", "events", "event_id"), ("events_event_id",)),
    "send_commands": (_bulk("send_commands", "commands", "command_id"), ("commands_command_id",)),
    "insert": (
        lambda c, k: c.execute(
            "insert into inboxd.events (type, event_id) values ('few', $1)"
            " on conflict (event_id, topic) do nothing",
            k.one("events"),
        ),
        (),
    ),
}


def _settle_one(result: str | None) -> Case:
    """Claim a command and settle it as its own transaction does."""

    async def case(session: Connection, _: Known) -> None:
        row = await session.fetchval(
            "insert into inboxd.commands (queue, type, status, worker_id, fence)"
            " values ('q', 'held', 'running', $1, 1) returning id",
            WORKER,
        )
        ended = commands.Settlement(row, 1, "succeeded", 0.1, result)
        await commands.settle_own(session, SQL, WORKER, ended, "SELECT")

    return case


HANDLER: dict[str, tuple[Case, tuple[str, ...]]] = {
    "settle_command": (_settle_one(None), ("commands_pkey",)),
    "settle_with_result": (_settle_one('{"n": 1}'), ("commands_pkey",)),
}

# ----------------------------------------------------------------------------- the full tables


def _states() -> Iterator[Any]:
    yield pytest.param((50_000, False), id="50000 analyzed")
    yield pytest.param((50_000, True), id="50000 worst")
    for worst, name in ((False, "1000000 analyzed"), (True, "1000000 worst")):
        yield pytest.param(
            (1_000_000, worst), id=name, marks=[pytest.mark.long, pytest.mark.timeout(1800)]
        )


@pytest.fixture(scope="module", params=_states())
async def stand(
    request: pytest.FixtureRequest, server: Server | ExternalServer, template: Database
) -> AsyncIterator[Stand]:
    """Full tables, and the sessions that will be asked."""
    rows, worst = request.param
    database = create(server, template.name)
    settings = settings_of(database)
    sessions = (
        await connect(settings, "daemon", plans=OWN_PLANS),
        await connect(settings, "operator", plans=ERRAND_PLANS),
        await connect(settings, "producer", plans={}),
        await connect(settings, "handler", plans={}),
    )
    stand = Stand(*sessions, Known(), worst)
    try:
        await _leave_alone(database)
        if worst:
            await _plan_all(stand)
        # Who has no statistics takes few for none, and any index of them for another; so does who
        # has a sample that none of them is in.
        dead = 20 if worst else rows // 250
        for statement in (
            _FILL.format(rows=rows, dead=dead, worker=WORKER).strip(";\n").split(";\n")
        ):
            await database.execute(statement)
        if not worst:
            await database.execute("vacuum analyze")
        await _look_up(database, stand.known)
        yield stand
    finally:
        for session in sessions:
            session.terminate()
        drop(server, database)


async def _leave_alone(database: Database) -> None:
    """Nobody vacuums or analyzes but the test, however long it takes."""
    tables = await database.fetch(
        "select oid::regclass::text from pg_class"
        " where relkind = 'r' and relnamespace = 'inboxd'::regnamespace"
    )
    for (table,) in tables:
        await database.execute(f"alter table {table} set (autovacuum_enabled = off)")


async def _plan_all(stand: Stand) -> None:
    """Sessions plan everything while the tables are empty, and nobody analyzes them later.

    Not so operators: each of their errands has a session of its own.
    """
    for session, cases in (
        (stand.daemon, DAEMON),
        (stand.producer, PRODUCER),
        (stand.handler, HANDLER),
    ):
        for case, _ in cases.values():
            for _ in range(TIMES):
                await _undone(session, case(session, stand.known))


async def _look_up(database: Database, known: Known) -> None:
    for name in (
        "events big",
        "events dead",
        "events turn",
        "events long",
        "commands held",
        "commands dead",
        "commands few",
    ):
        table, type_ = name.split()
        find = f"select id from inboxd.{table} where type = $1 and crashes = 0"
        find += " order by id limit 10"
        known.ids[name] = [row[0] for row in await database.fetch(find, type_)]
    for table in _TABLES:
        key = "event_id" if table.startswith("events") else "command_id"
        find = f"select {key} from inboxd.{table} where type = 'big' limit 1 offset 500"
        known.uuids[table] = await database.fetchval(find)
    async with database.connect() as session:
        known.worker = await join(session)
        row = await session.fetchrow(
            "select date_part('epoch', run_at), id from inboxd.events where type = 'big' "
            "order by id desc limit 1"
        )
    assert row is not None
    known.last = (row[0], row[1])


# ------------------------------------------------------------------------------ what was told


async def _undone(connection: Connection, work: Awaitable[object]) -> None:
    """Do it and roll it back."""
    transaction = connection.transaction()
    await transaction.start()
    try:
        await work
    finally:
        await transaction.rollback()


async def _ask(stand: Stand, session: Connection, case: Case, indexes: tuple[str, ...]) -> None:
    if not stand.worst:  # the first time, planning reads the catalog within what is told
        await _undone(session, case(session, stand.known))
    _hold(stand, await told(session, _undone(session, case(session, stand.known))), indexes)


def _hold(stand: Stand, nodes: list[dict[str, Any]], indexes: tuple[str, ...]) -> None:
    """These indexes are used, no large table is read from end to end, and little is touched."""
    scanned = {n.get("Relation Name", "") for n in nodes if n["Node Type"] == "Seq Scan"}
    large = {t for t in scanned if t.startswith(("events", "commands", "dedup", "duplicates"))}
    filled = {t for t in large if _rows_of(nodes, t) > 1000}
    assert not filled, "read from end to end"
    used = {n.get("Index Name") for n in nodes}
    assert set(indexes) <= used
    for what in ("Filter", "Join Filter"):
        removed = sum(n.get(f"Rows Removed by {what}", 0) * n["Actual Loops"] for n in nodes)
        assert removed < 100, "rows are found by the index, not looked through"
    if not stand.worst:
        touched = max(touched_by(n) for n in nodes)
        roots = (n["Actual Rows"] for n in nodes if "Parent Relationship" not in n)
        assert touched < max(BUFFERS, BUFFERS_A_ROW * max(roots))


def _rows_of(nodes: list[dict[str, Any]], table: str) -> int:
    """How many rows the end-to-end readings of a table looked at."""
    scans = [n for n in nodes if n["Node Type"] == "Seq Scan" and n.get("Relation Name") == table]
    return sum(int(n["Actual Rows"] + n.get("Rows Removed by Filter", 0)) for n in scans)


@pytest.mark.parametrize("name", DAEMON)
async def test_the_daemon(stand: Stand, name: str) -> None:
    await _ask(stand, stand.daemon, *DAEMON[name])


@pytest.mark.parametrize("name", OPERATOR)
async def test_operators(stand: Stand, name: str) -> None:
    await _ask(stand, stand.operator, *OPERATOR[name])


@pytest.mark.parametrize("name", PRODUCER)
async def test_producers(stand: Stand, name: str) -> None:
    await _ask(stand, stand.producer, *PRODUCER[name])


@pytest.mark.parametrize("name", HANDLER)
async def test_handlers(stand: Stand, name: str) -> None:
    await _ask(stand, stand.handler, *HANDLER[name])
