"""Every statement, as its users run it: the daemon, operators, producers, handlers.

Each case is a call and the indexes by which it is to find its rows. They are run in transactions
that are undone, on tables that `filling` filled, and before that on empty ones, to make plans.
"""

import re
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any, cast
from uuid import UUID, uuid4

import orjson

from inboxd.api.drafts import CommandDraft, EventDraft
from inboxd.errors import LeaseLost
from inboxd.model.dedup import Windows
from inboxd.model.lane import BEGINNING, Lane
from inboxd.model.lineage import Lineage
from inboxd.settings import Queue
from inboxd.store import (
    batches,
    chunks,
    commands,
    controls,
    dedup,
    emitted,
    erase,
    events,
    leases,
    limits,
    lines,
    listing,
    operations,
    producing,
    purging,
    queues,
    schedules,
    story,
    suspects,
    unhandled,
    workers,
)
from inboxd.store.connections import Connection
from inboxd.store.events import Requeue
from inboxd.store.rows import ClaimedEvent
from inboxd.store.session import Session
from inboxd.store.statements import Statements
from tests.plans.filling import WORKER, Known

AGE = timedelta(days=90)


class Asked(Statements):
    """The statements, and which of them were asked for by name."""

    def __init__(self) -> None:
        super().__init__("inboxd")
        self.asked: set[str] = set()

    def __getitem__(self, name: str) -> str:
        """The statement of that name."""
        self.asked.add(name)
        return super().__getitem__(name)

    def meeting(self, pattern: re.Pattern[str]) -> set[str]:
        """The names of those in whose text there is such a thing."""
        return {name for name in self if pattern.search(super(Asked, self).__getitem__(name))}


SQL = Asked()

Case = Callable[[Connection, Known], Awaitable[object]]
# ruff: noqa: ARG005 - the cases below take the same arguments, whether they need them or not

# ------------------------------------------------------------------------------ the statements


def _lane(*key: str | int, after: tuple[float, int] = (BEGINNING, 0)) -> Lane:
    return Lane(key, *after)


async def _settle_events(session: Connection, ids: list[int]) -> None:
    with suppress(LeaseLost):  # while all is empty
        await events.settle(session, SQL, [(id_, 0.1) for id_ in ids], WORKER)


async def _requeue_events(session: Connection, known: Known) -> None:
    requeues = [
        Requeue(id_, "pending", 1, delay=60.0, error="{}") for id_ in known.of("events big")
    ]
    await events.requeue(session, SQL, requeues)


async def _unmark_crash(session: Connection, known: Known) -> None:
    await session.execute(SQL["unmark_crash"], known.of("events big")[0], 0, BEGINNING)


async def _settle_commands(session: Connection, known: Known) -> None:
    ended = [
        commands.Settlement(id_, 1, "succeeded", 0.1, None) for id_ in known.of("commands held")
    ]
    await commands.settle(session, SQL, WORKER, ended)


async def _requeue_commands(session: Connection, known: Known) -> None:
    requeues = [
        Requeue(id_, "pending", 1, delay=60.0, fence=1) for id_ in known.of("commands held")
    ]
    await commands.requeue(session, SQL, WORKER, requeues)


async def _insert_commands(session: Connection, _: Known) -> None:
    parent = commands.Parent("event", 1, Lineage(None, None, None))
    drafts = [(CommandDraft(uuid4(), "few", "{}", queue="big"), parent) for _ in range(10)]
    await commands.insert(session, SQL, drafts)


async def _write_events(session: Connection, known: Known) -> None:
    """Events that are new, one that is unsettled already, and one whose key is known."""
    parent = commands.Parent("event", 1, Lineage("story", uuid4(), None))
    drafts = [EventDraft(uuid4(), "few", "{}", dedup_key=f"new {n}") for n in range(10)]
    drafts += [EventDraft(uuid4(), "few", "{}", dedup_key="7")]
    await emitted.write(session, SQL, [(draft, parent) for draft in drafts])


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
    "requeue_events": (_requeue_events, ("events_pkey",)),
    "fail_unhandled_events": (
        lambda c, k: unhandled.fail(c, SQL, "events", ("default", "big"), "{}", 10, timedelta(0)),
        ("events_lane",),
    ),
    "stranded_events": (
        lambda c, k: events.stranded(c, SQL, ("default", "big"), 10, timedelta(0)),
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
    "claim_suspects": (
        lambda c, k: commands.claim_suspects(c, SQL, k.worker, WORKER, ["few"], {"big": 9}, 9),
        ("commands_suspect_groups", "commands_pkey"),
    ),
    "find_suspects": (
        lambda c, k: commands.find_suspects(c, SQL),
        ("commands_suspect_groups",),
    ),
    "end_alone": (
        lambda c, k: commands.end_alone(c, SQL, WORKER, k.of("commands held")[0], 1),
        ("commands_pkey",),
    ),
    "survey_commands": (lambda c, k: commands.survey(c, SQL), ("commands_lane",)),
    "settle_commands": (_settle_commands, ("commands_pkey",)),
    "requeue_commands": (_requeue_commands, ("commands_pkey",)),
    "insert_commands": (_insert_commands, ()),
    "write_events": (_write_events, ("dedup_pkey", "events_event_id")),
    "release_commands": (lambda c, k: commands.release(c, SQL, WORKER), ("commands_running",)),
    "reap_commands": (
        lambda c, k: c.fetch(SQL["reap_commands"], WORKER, 3),
        ("commands_running",),
    ),
    "fail_unhandled_commands": (
        lambda c, k: unhandled.fail(c, SQL, "commands", ("big", "big", 0), "{}", 10, timedelta(0)),
        ("commands_lane",),
    ),
    "fail_unhandled_suspects": (
        lambda c, k: unhandled.fail(
            c, SQL, "suspects", ("big", "few", None), "{}", 10, timedelta(0)
        ),
        ("commands_suspects",),
    ),
    "beat": (lambda c, k: workers.beat(c, SQL, k.worker, 0, "running"), ("commands_cancelling",)),
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
    "read_lease, take_lease": (lambda c, k: leases.hold(c, SQL, "leader", k.worker), ()),
    "free_lease": (lambda c, k: leases.free(c, SQL, "alone", k.worker), ()),
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


async def _line_up(session: Connection, known: Known) -> None:
    await lines.line_up(session, SQL, known.of("events turn"))


_LINES = [lines.Line("heads", 0, f"h{n}") for n in range(10)]
_STRETCHES = [lines.IdRange("lines", bucket, 0, 2**40) for bucket in range(8)]
_CHUNKED = datetime(2026, 6, 1, tzinfo=UTC)
_LINE = chunks.OpenLine("k7", 1, 1, 3, 0, 0, _CHUNKED, _CHUNKED, _CHUNKED, postponed=False)
_LONG = chunks.PositionRange("chunked", "long", 5, 14)
_KEYS = [f"k{n}" for n in range(10)]
DAEMON |= {
    "line_up_arrivals": (
        lambda c, k: chunks.line_up_arrivals(
            c,
            SQL,
            lines.IdRange("fresh", 3, 0, 2**40),
            10,
            timedelta(days=1),
            [_CHUNKED + timedelta(days=900)],
            ["item"],
        ),
        ("events_arrived", "events_lines", "events_pkey"),
    ),
    "oldest_arrival": (
        lambda c, k: chunks.oldest_arrival(c, SQL, ("fresh", 3), 0, 2**40),
        ("events_arrived",),
    ),
    "complete_chunks, full": (
        lambda c, k: chunks.complete(c, SQL, "chunked", _KEYS, 3, []),
        ("events_head", "events_lines"),
    ),
    "complete_chunks, expected": (
        lambda c, k: chunks.complete(c, SQL, "chunked", _KEYS, None, ["item", "other"]),
        ("events_head", "events_lines"),
    ),
    "open_chunks": (
        lambda c, k: chunks.open_lines(c, SQL, "chunked", [*_KEYS, "long"], 10, due=False),
        ("events_head", "events_lines"),
    ),
    "read_chunks": (
        lambda c, k: chunks.read_lines(c, SQL, "chunked", [(_LINE, 3)]),
        ("events_lines",),
    ),
    "read_chunk": (
        lambda c, k: c.fetch(SQL["read_chunk"], "chunked", "long", 5, 2**30, 10),
        ("events_lines",),
    ),
    "measure_chunk": (
        lambda c, k: chunks.measure(c, SQL, "chunked", _LINE._replace(key="long"), None, 10),
        ("events_lines",),
    ),
    "types_in_chunk": (
        lambda c, k: chunks.types_in(c, SQL, _LONG, ["item", "other"]),
        ("events_lines",),
    ),
    "common_in_chunk": (
        lambda c, k: chunks.common_in(
            c, SQL, _LONG, cast("ClaimedEvent", {"correlation_id": "a story", "tenant": "a tenant"})
        ),
        ("events_lines",),
    ),
    "make_chunk_due": (lambda c, k: chunks.make_due(c, SQL, _LONG), ("events_lines",)),
    "settle_chunk": (
        lambda c, k: chunks.settle(c, SQL, _LONG, 0.1, WORKER),
        ("events_lines",),
    ),
    "fail_chunk": (
        lambda c, k: chunks.fail(c, SQL, _LONG, "{}", "f"),
        ("events_lines",),
    ),
    "release_chunk_to_lanes": (
        lambda c, k: chunks.release_to_lanes(c, SQL, _LONG),
        ("events_lines",),
    ),
    "release_topic_to_lanes": (
        lambda c, k: chunks.release_topic_to_lanes(c, SQL, "chunked", 10, timedelta(0)),
        ("events_arrived", "events_lines", "events_pkey"),
    ),
    "newest_event": (lambda c, k: chunks.newest(c, SQL), ()),
}
DAEMON |= {
    "read_horizon": (lambda c, k: lines.read_horizon(c, SQL), ()),
    "survey_arrivals": (lambda c, k: lines.survey(c, SQL), ("events_arrived",)),
    "look_arrivals": (
        lambda c, k: lines.look(c, SQL, [(("lines", bucket), 5) for bucket in range(64)]),
        ("events_arrived",),
    ),
    "survey_heads": (lambda c, k: lines.survey(c, SQL), ("events_heads",)),
    "due_heads": (
        lambda c, k: lines.due_heads(c, SQL, [_lane("heads", "turn")], 10),
        ("events_heads",),
    ),
    "try_lines": (lambda c, k: lines.try_buckets(c, SQL, [("lines", 1), ("lines", 2)]), ()),
    "claim_arrivals": (
        lambda c, k: lines.claim_arrivals(c, SQL, _STRETCHES, 10),
        ("events_arrived", "events_head"),
    ),
    "claim_lined_up": (
        lambda c, k: lines.claim_lined_up(c, SQL, _LINES, 10),
        ("events_head", "events_lines"),
    ),
    "line_up_events": (_line_up, ("events_lines", "events_pkey")),
    "leave_line": (
        lambda c, k: lines.leave_line(c, SQL, k.of("events long")[:1]),
        ("events_pkey", "events_lines"),
    ),
    "settle the head of a long line": (
        lambda c, k: _settle_events(c, k.of("events long")[:1]),
        ("events_pkey", "events_lines"),
    ),
    "fail_unhandled_heads": (
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


DAEMON |= {
    "purge_dedup": (
        lambda c, k: dedup.forget(c, SQL, Windows(timedelta(minutes=1)), 0, 1),
        (),
    ),
    "drain_duplicates": (lambda c, k: dedup.drain(c, SQL, 10), ("duplicates_pkey",)),
}

_KEYS = [f"k{n}" for n in range(10)]
DAEMON |= {
    "claim_limited from lines": (
        _claim_limited("keyed", limits.Bounds(), keys=_KEYS, share=2, suspects=WORKER),
        ("commands_line", "commands_holding", "commands_suspect_groups"),
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
    "fail_unhandled_lines": (
        lambda c, k: unhandled.fail(
            c, SQL, "keyed", ("keyed", "keyed", "keyed"), "{}", 10, timedelta(0)
        ),
        ("commands_arrived", "commands_again"),
    ),
}


def _run(name: str, *arguments: Callable[[Known], object] | object) -> Case:
    """A statement by its name; what depends on the rows is a function of them."""
    return lambda connection, known: connection.fetch(
        SQL[name], *(each(known) if callable(each) else each for each in arguments)
    )


def _flow(known: Known) -> int:
    return known.flow


def _steps(known: Known) -> list[UUID]:
    return known.steps


def _step(known: Known) -> UUID:
    return known.steps[-1]


async def _take(session: Connection, _: Known) -> None:
    """Take ten events out of `default` that a declaration made a topic's."""
    await session.execute(
        "insert into inboxd.subscriptions (type, topic) values ('big', 'lines');"
        "insert into inboxd.intakes (origin, type, topic, opened_at, low, high, shift, reserved,"
        " late_shift) values ('default', 'big', 'lines', now(), 0, 0, 0, 0, 0)"
    )
    await session.fetch(SQL["take_events"], "default", "big", 10)


async def _nest(session: Connection, _: Known) -> None:
    """A batch within an open one, and a step of it."""
    batch = await session.fetchval("select new_batch_id from inboxd.open_batch('b')")
    held = await session.fetchrow(SQL["hold_open_batch"], batch, 1)
    assert held is not None
    one = ([uuid4()], ["workflow"], ["w"], [held["id"]], [None], [1], [0], [False], [None])
    origin = (["command"], [7], [None], [None], [None])
    (made,) = await session.fetch(SQL["insert_batches"], *one, *origin)
    await session.fetch(SQL["insert_steps"], [made["id"]], ["a"], [uuid4()])
    await session.execute(SQL["close_batch"], batch)


_NOW = datetime.now(UTC)
DAEMON |= {
    "read_bodies": (_run("read_bodies", [1, 2, 3], [_NOW] * 3), ()),
    "read_moved_bodies": (_run("read_moved_bodies", [1, 2, 3], [_NOW] * 3), ()),
    "forget_topics": (_run("forget_topics"), ()),
    "read_headers": (_run("read_headers", lambda k: k.of("events big")), ("events_pkey",)),
    "take_events": (_take, ()),
    "count_intake": (_run("count_intake", "default", "few", 10), ("events_lane",)),
    "list_intakes": (_run("list_intakes", True), ()),
    "finish_intake": (_run("finish_intake", "default", "few", _NOW), ()),
    "hold_open_batch, insert_batches, insert_steps": (_nest, ()),
    "emit_scheduled": (
        _run("emit_scheduled", *(None, "few", 1, None, None), ["{}"], ["a"], [_NOW]),
        (),
    ),
    "resolve_unique_keys": (
        _run("resolve_unique_keys", ["few"] * 3, ["a", "b", "c"], ["keep", "replace", "reject"]),
        (),
    ),
    "insert_dependencies": (
        _run("insert_dependencies", [uuid4()], [uuid4()], ["succeeded"]),
        (),
    ),
}


def _operator(work: Callable[[Session, Known], Awaitable[object]]) -> Case:
    return lambda connection, known: work(Session(connection, SQL), known)


def _match(statuses: Sequence[str], **of: Any) -> Case:
    match = operations.Match(statuses, **of)
    return _operator(lambda s, k: operations.matching(s, "commands", match, 0, 10**9, 10))


_CANCEL = ("pending", "waiting", "running")
_WHO = erase.Subject("nobody", None, None)
_WHOM = _WHO.arguments()
_TODAY = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
# One page of one partition.
_HERE = erase.BlockRange(_TODAY, _TODAY + timedelta(days=1), 0, 1, 1, 1)
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
    "match_commands to replay, of a group": (
        _match(["failed"], fingerprint="f"),
        ("commands_failures",),
    ),
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
    "groups_from": (
        _operator(lambda s, k: operations.groups_from(s, "f")),
        ("commands_failures", "events_failures"),
    ),
    "dead_copies": (
        _operator(lambda s, k: producing.dead_copies(s, k.one("events"))),
        ("events_event_id",),
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
                SQL["count_waiting"], ["lines", "heads", "chunked", "fresh"], "turn", 20
            )
        ),
        ("events_arrived", "events_lines"),
    ),
    "count_suspects": (
        _operator(lambda s, k: suspects.count(s, 100)),
        ("commands_suspect_groups",),
    ),
    "group_of_suspect": (
        _operator(lambda s, k: suspects.others(s, WORKER, 1)),
        ("commands_suspect_groups",),
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
        ("commands_line",),
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
                s,
                [("command", 1, k.one("commands")), ("batch", 7, k.one("events"))],
                datetime.now(UTC),
                *(10, 10),
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
    "erase_count_events": (_operator(lambda s, k: erase.count(s, "events", _WHO, _HERE)), ()),
    "erase_count_commands": (
        _operator(lambda s, k: erase.count(s, "commands", _WHO, _HERE)),
        (),
    ),
    "erase_events": (_operator(lambda s, k: erase.erase(s, "events", _WHO, _HERE, "[]")), ()),
    "erase_commands": (_operator(lambda s, k: erase.erase(s, "commands", _WHO, _HERE, "[]")), ()),
    "workers": (_operator(lambda s, k: listing.workers(s, ended=True, limit=50)), ()),
    "throughput": (_operator(lambda s, k: listing.throughput(s, 5)), ()),
}


_ANY = (None,) * 6
OPERATOR |= {
    "batch_continuations": (_run("batch_continuations", _step, 10), ("dependencies_needs",)),
    "batch_steps": (_run("batch_steps", _flow, 20), ("steps_pkey", "commands_command_id")),
    "batch_failures": (_run("batch_failures", _flow, 10), ("commands_failed_members",)),
    "batches_within": (_run("batches_within", None, _flow), ("batches_pkey", "batches_parent")),
    "cancel_batch": (_run("cancel_batch", _flow), ("batches_pkey", "dependencies_waiting")),
    "cancel_events": (_run("cancel_events", lambda k: k.of("events big")), ("events_pkey",)),
    "flush_chunks": (_run("flush_chunks", "chunked", None, 10), ("events_head",)),
    "list_batches": (_run("list_batches", *_ANY, None, 10), ("batches_pkey",)),
    "list_commands": (_run("list_commands", *_ANY, 10, True, True), ("commands_pkey",)),
    "list_events": (_run("list_events", *_ANY, 10, True, True), ("events_pkey",)),
    "list_chunks": (_run("list_chunks", "chunked", 10, timedelta(1)), ("events_lines",)),
    "doctor_intakes": (_run("doctor_intakes"), ()),
    "lock_batch": (_run("lock_batch", _flow, None), ("batches_pkey",)),
    "show_batch": (_run("show_batch", _flow, None), ("batches_pkey",)),
    "sample_commands": (
        _run("sample_commands", lambda k: k.of("commands few")),
        ("commands_pkey",),
    ),
    "sample_events": (_run("sample_events", lambda k: k.of("events big")), ("events_pkey",)),
    "story_replays": (_run("story_replays", ["event"], [7], 10), ("replays_old",)),
    "story_steps": (_run("story_steps", _steps), ("steps_member_key",)),
    "story_waits": (_run("story_waits", _steps, 10), ("dependencies_waiting",)),
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


def _unique(mode: str) -> Case:
    """A command whose unique key another one has, unsettled."""

    async def case(session: Connection, _: Known) -> None:
        call = "select * from inboxd.send_command('few', '{}', queue => 'big', unique_key => $1"
        key = f"a key {uuid4()}"
        await session.fetch(f"{call})", key)
        await session.fetch(f"{call}, on_conflict => $2)", key, mode)

    return case


async def _batches(session: Connection, known: Known) -> None:
    """Open a batch, add, close it; send one, and what waits for it and for a step."""
    some = orjson.dumps([{"type": "few", "queue": "big"}] * 3).decode()
    batch = await session.fetchval("select new_batch_id from inboxd.open_batch('b')")
    await session.execute("select inboxd.add_to_batch($1, $2::text::jsonb)", batch, some)
    await session.execute("select inboxd.close_batch($1)", batch)
    batch = await session.fetchval(
        "select new_batch_id"
        " from inboxd.send_batch('b', $1::text::jsonb, then_send => $1::text::jsonb)",
        some,
    )
    await session.fetch("select inboxd.send_after($1, $2::text::jsonb)", batch, some)


PRODUCER: dict[str, tuple[Case, tuple[str, ...]]] = {
    "send_command, kept": (_unique("keep"), ("commands_unique_key",)),
    "send_command, replaced": (_unique("replace"), ("commands_unique_key",)),
    "batches": (_batches, ("batches_batch_id_key", "commands_command_id")),
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
