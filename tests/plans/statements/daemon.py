# ruff: noqa: ARG005 - all cases take the same arguments, whether they need them or not
"""Cases of the daemon's statements: claims, settlements, surveys, maintenance."""

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any, cast
from uuid import uuid4

from inboxd.api.drafts import CommandDraft, EventDraft, WebhookDraft
from inboxd.errors import LeaseLost
from inboxd.model.dedup import Windows
from inboxd.model.lane import BEGINNING, Lane
from inboxd.model.lineage import Lineage
from inboxd.store import (
    batches,
    breakers,
    chunks,
    commands,
    controls,
    dedup,
    emitted,
    endpoints,
    events,
    leases,
    limits,
    lines,
    purging,
    queues,
    schedules,
    unhandled,
    workers,
)
from inboxd.store.rows import ClaimedEvent
from inboxd.store.session import Session
from inboxd.store.settlements import Parent, Requeue, Settlement
from tests.plans.filling import WORKER, Known
from tests.plans.statements.case import AGE, Case, endpoint, run


def _lane(*key: str | int, after: tuple[float, int] = (BEGINNING, 0)) -> Lane:
    return Lane(key, *after)


async def _settle_events(session: Session, ids: list[int]) -> None:
    with suppress(LeaseLost):  # before the tables are filled
        await events.settle(session, [(id_, 0.1) for id_ in ids], WORKER)


async def _requeue_events(session: Session, known: Known) -> None:
    requeues = [
        Requeue(id_, "pending", 1, delay=60.0, error="{}") for id_ in known.of("events big")
    ]
    await events.requeue(session, requeues)


async def _unmark_crash(session: Session, known: Known) -> None:
    await session.execute("unmark_crash", known.of("events big")[0], 0, BEGINNING)


async def _settle_commands(session: Session, known: Known) -> None:
    ended = [Settlement(id_, 1, "succeeded", 0.1, None) for id_ in known.of("commands held")]
    await commands.settle(session, WORKER, ended)


async def _requeue_commands(session: Session, known: Known) -> None:
    requeues = [
        Requeue(id_, "pending", 1, delay=60.0, fence=1) for id_ in known.of("commands held")
    ]
    await commands.requeue(session, WORKER, requeues)


async def _insert_commands(session: Session, _: Known) -> None:
    parent = Parent("event", 1, Lineage(None, None, None))
    drafts = [(CommandDraft(uuid4(), "few", "{}", queue="big"), parent) for _ in range(10)]
    await commands.insert(session, drafts)


async def _write_events(session: Session, known: Known) -> None:
    """Write new events, one that is unsettled already, and one whose dedup key is known."""
    parent = Parent("event", 1, Lineage("story", uuid4(), None))
    drafts = [EventDraft(uuid4(), "few", "{}", dedup_key=f"new {n}") for n in range(10)]
    drafts += [EventDraft(uuid4(), "few", "{}", dedup_key="7")]
    await emitted.write(session, [(draft, parent) for draft in drafts])


async def _write_webhooks(session: Session, _: Known) -> None:
    """Send webhooks with new message ids, and one of them again."""
    await endpoint(session)
    parent = Parent("event", 1, Lineage("story", uuid4(), None))
    drafts = [WebhookDraft("a.b", "{}", f"m{n % 4}") for n in range(5)]
    await emitted.write(session, [(draft, parent) for draft in drafts])


async def _fold_one(session: Session, _: Known) -> None:
    """Fold a batch with one failed member and waiting ones, and a batch that starts."""
    ids = await session.connection.fetch(
        "insert into inboxd.batches (name, size, closed_at, starting, failed)"
        " select 'few', 10, now(), n = 2, 2 - n from generate_series(1, 2) n returning id"
    )
    await session.connection.execute(
        "insert into inboxd.commands (queue, type, batch_id, status, needs) select 'q', 'few', $1,"
        " 'waiting', 1 from generate_series(1, 9)",
        ids[0]["id"],
    )
    await session.connection.execute(
        "insert into inboxd.commands (queue, type, batch_id, status, needs) select 'q', 'few', $1,"
        " 'waiting', 1 from generate_series(1, 10)",
        ids[1]["id"],
    )
    folded = await batches.fold(session, [row["id"] for row in ids])
    assert [each.status for each in folded] == ["failed", "pending"]


async def _read_result(session: Session, known: Known) -> None:
    workflow = await session.connection.fetchval(
        "insert into inboxd.batches (kind) values ('workflow') returning id"
    )
    await session.connection.execute(
        "insert into inboxd.steps values ($1, 'a', $2)", workflow, known.one("commands_history")
    )
    await session.fetch("step_result", workflow, "a")


DAEMON: dict[str, tuple[Case, tuple[str, ...]]] = {
    "fold_batches": (_fold_one, ("commands_held_up", "commands_batch", "batches_pkey")),
    "step_result": (_read_result, ("commands_command_id", "steps_pkey")),
    "unfolded_batches": (lambda c, k: batches.unfolded(c, 0.0), ()),
    "expire_batches": (lambda c, k: batches.expire(c), ()),
    "expired_commands": (lambda c, k: commands.expired(c, None, 100), ("commands_expiry",)),
    "expire_commands": (lambda c, k: commands.expire(c, k.of("commands few")), ("commands_pkey",)),
    "claim_events from the beginning": (
        lambda c, k: events.claim(c, [_lane("default", "big"), _lane("default", "few")], 10),
        ("events_lane",),
    ),
    "claim_events from a cursor": (
        lambda c, k: events.claim(c, [_lane("default", "big", after=k.last)], 10),
        ("events_lane",),
    ),
    "claim_event": (lambda c, k: events.claim_one(c, k.of("events big")[0]), ("events_pkey",)),
    "mark_crash": (
        lambda c, k: events.mark_crash(c, k.of("events big")[0], timedelta(minutes=1)),
        ("events_pkey",),
    ),
    "unmark_crash": (_unmark_crash, ("events_pkey",)),
    "survey_events": (lambda c, k: events.survey(c), ("events_lane",)),
    "settle_events": (
        lambda c, k: _settle_events(c, k.of("events big")),
        ("events_pkey",),
    ),
    "requeue_events": (_requeue_events, ("events_pkey",)),
    "fail_unhandled_events": (
        lambda c, k: unhandled.fail(c, "events", ("default", "big"), "{}", 10, timedelta(0)),
        ("events_lane",),
    ),
    "stranded_events": (
        lambda c, k: events.stranded(c, ("default", "big"), 10, timedelta(0)),
        ("events_lane",),
    ),
    "ignore_events": (
        lambda c, k: events.ignore(c, k.of("events big"), "{}"),
        ("events_pkey",),
    ),
    "claim_commands": (
        lambda c, k: commands.claim(
            c, k.worker, {"big": 10}, [_lane("big", "few", 0), _lane("big", "big", 0)], 10
        ),
        ("commands_lane", "workers_pkey"),
    ),
    "claim_suspects": (
        lambda c, k: commands.claim_suspects(c, k.worker, WORKER, ["few"], {"big": 9}, 9),
        ("commands_suspect_groups", "commands_pkey"),
    ),
    "find_suspects": (
        lambda c, k: commands.find_suspects(c),
        ("commands_suspect_groups",),
    ),
    "end_alone": (
        lambda c, k: commands.end_alone(c, WORKER, k.of("commands held")[0], 1),
        ("commands_pkey",),
    ),
    "survey_commands": (lambda c, k: commands.survey(c), ("commands_lane",)),
    "settle_commands": (_settle_commands, ("commands_pkey",)),
    "requeue_commands": (_requeue_commands, ("commands_pkey",)),
    "insert_commands": (_insert_commands, ()),
    "write_webhooks": (_write_webhooks, ("commands_command_id",)),
    "read_endpoints": (lambda c, k: endpoints.read(c), ()),
    "fail_endpoint": (lambda c, k: endpoints.fail(c, "one", 1, (503, "no"), 1.0), ()),
    "recover_endpoint": (lambda c, k: endpoints.recover(c, "one", 1, 200, 1.0), ()),
    "note_success": (
        lambda c, k: endpoints.note_success(c, "one", 200, 1.0, last=False),
        (),
    ),
    "give_up_endpoint": (
        lambda c, k: endpoints.give_up(c, "one", 1, "gone", "410", (410, "410: no")),
        (),
    ),
    "write_events": (_write_events, ("dedup_pkey", "events_event_id")),
    "release_commands": (lambda c, k: commands.release(c, WORKER), ("commands_running",)),
    "reap_commands": (
        lambda c, k: c.fetch("reap_commands", WORKER, 3),
        ("commands_running",),
    ),
    "fail_unhandled_commands": (
        lambda c, k: unhandled.fail(c, "commands", ("big", "big", 0), "{}", 10, timedelta(0)),
        ("commands_lane",),
    ),
    "fail_unhandled_suspects": (
        lambda c, k: unhandled.fail(c, "suspects", ("big", "few", None), "{}", 10, timedelta(0)),
        ("commands_suspects",),
    ),
    "beat": (lambda c, k: workers.beat(c, k.worker, 0, "running"), ("commands_cancelling",)),
    "purge_audit": (
        lambda c, k: purging.remove(c, "audit", AGE, 10),
        ("audit_at", "audit_pkey", "actions_open"),
    ),
    "purge_replays": (lambda c, k: purging.remove(c, "replays", AGE, 10), ("replays_at",)),
    "purge_sent_webhooks": (
        lambda c, k: purging.sent_webhooks(c, 10),
        ("sent_webhooks_looked_at", "sent_webhooks_pkey", "commands_command_id"),
    ),
    "purge_batches": (
        lambda c, k: purging.batches(c, AGE, 0, 10),
        ("batches_pkey", "commands_batch", "commands_running", "batches_parent"),
    ),
    "read_lease, take_lease": (lambda c, k: leases.hold(c, "leader", k.worker), ()),
    "free_lease": (lambda c, k: leases.free(c, "alone", k.worker), ()),
    "write_progress": (
        lambda c, k: commands.write_progress(
            c, WORKER, [(id_, 1, '{"done": 1}') for id_ in k.of("commands held")]
        ),
        ("commands_pkey",),
    ),
    "read_controls": (lambda c, k: controls.read(c), ()),
    "read_breakers": (lambda c, k: breakers.read(c, k.worker), ()),
    "declare_breakers": (
        lambda c, k: breakers.declare(c, [("brevo", "command mail.send")]),
        (),
    ),
    "open_breaker": (
        lambda c, k: breakers.open_(c, "brevo", 1, 5.0, 1, "no"),
        (),
    ),
    "close_breaker": (lambda c, k: breakers.close(c, "brevo", 1), ("breakers_pkey",)),
    "take_probe": (lambda c, k: breakers.take_probe(c, "brevo", k.worker, 9.0), ()),
    "keep_probe": (lambda c, k: breakers.keep_probe(c, "brevo", 1, k.worker, 9.0), ()),
    "forget_breakers": (lambda c, k: breakers.forget(c), ()),
    "claim_schedule": (lambda c, k: c.fetch("claim_schedule", ["hourly"], []), ()),
    "mark_schedules": (lambda c, k: schedules.mark_undeclared(c), ()),
    "lanes_events, daemon": (
        lambda c, k: c.fetch("lanes_events", 100, 100),
        ("events_lane", "events_failed"),
    ),
    "lanes_commands, daemon": (
        lambda c, k: c.fetch("lanes_commands", 100, 100),
        (
            *("commands_lane", "commands_running", "commands_failed"),
            *("commands_arrived", "commands_again", "commands_unmet"),
        ),
    ),
    "count_blocked": (
        lambda c, k: queues.blocked(c, {}),
        ("commands_dead_keys", "commands_again", "commands_line"),
    ),
}


async def _line_up(session: Session, known: Known) -> None:
    await lines.line_up(session, known.of("events turn"))


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
            lines.IdRange("fresh", 3, 0, 2**40),
            10,
            timedelta(days=1),
            [_CHUNKED + timedelta(days=900)],
            ["item"],
        ),
        ("events_arrived", "events_lines", "events_pkey"),
    ),
    "oldest_arrival": (
        lambda c, k: chunks.oldest_arrival(c, ("fresh", 3), 0, 2**40),
        ("events_arrived",),
    ),
    "complete_chunks, full": (
        lambda c, k: chunks.complete(c, "chunked", _KEYS, 3, []),
        ("events_head", "events_lines"),
    ),
    "complete_chunks, expected": (
        lambda c, k: chunks.complete(c, "chunked", _KEYS, None, ["item", "other"]),
        ("events_head", "events_lines"),
    ),
    "open_lines": (
        lambda c, k: chunks.open_lines(c, "chunked", [*_KEYS, "long"], 10, due=False),
        ("events_head", "events_lines"),
    ),
    "read_chunks": (
        lambda c, k: chunks.read_lines(c, "chunked", [(_LINE, 3)]),
        ("events_lines",),
    ),
    "read_chunk": (
        lambda c, k: c.fetch("read_chunk", "chunked", "long", 5, 2**30, 10),
        ("events_lines",),
    ),
    "measure_chunk": (
        lambda c, k: chunks.measure(c, "chunked", _LINE._replace(key="long"), None, 10),
        ("events_lines",),
    ),
    "types_in_chunk": (
        lambda c, k: chunks.types_in(c, _LONG, ["item", "other"]),
        ("events_lines",),
    ),
    "common_in_chunk": (
        lambda c, k: chunks.common_in(
            c, _LONG, cast("ClaimedEvent", {"correlation_id": "a story", "tenant": "a tenant"})
        ),
        ("events_lines",),
    ),
    "make_chunk_due": (lambda c, k: chunks.make_due(c, _LONG), ("events_lines",)),
    "settle_chunk": (
        lambda c, k: chunks.settle(c, _LONG, 0.1, WORKER, str),
        ("events_lines",),
    ),
    "fail_chunk": (
        lambda c, k: chunks.fail(c, _LONG, "{}", "f"),
        ("events_lines",),
    ),
    "release_chunk_to_lanes": (
        lambda c, k: chunks.release_to_lanes(c, _LONG),
        ("events_lines",),
    ),
    "release_topic_to_lanes": (
        lambda c, k: chunks.release_topic_to_lanes(c, "chunked", 10, timedelta(0)),
        ("events_arrived", "events_lines", "events_pkey"),
    ),
    "newest_event": (lambda c, k: chunks.newest(c), ()),
}


DAEMON |= {
    "read_horizon": (lambda c, k: lines.read_horizon(c), ()),
    "survey_arrivals": (lambda c, k: lines.survey(c), ("events_arrived",)),
    "look_arrivals": (
        lambda c, k: lines.look(c, [(("lines", bucket), 5) for bucket in range(64)]),
        ("events_arrived",),
    ),
    "survey_heads": (lambda c, k: lines.survey(c), ("events_heads",)),
    "due_heads": (
        lambda c, k: lines.due_heads(c, [_lane("heads", "turn")], 10),
        ("events_heads",),
    ),
    "try_buckets": (lambda c, k: lines.try_buckets(c, [("lines", 1), ("lines", 2)]), ()),
    "claim_arrivals": (
        lambda c, k: lines.claim_arrivals(c, _STRETCHES, 10),
        ("events_arrived", "events_head"),
    ),
    "claim_lined_up": (
        lambda c, k: lines.claim_lined_up(c, _LINES, 10),
        ("events_head", "events_lines"),
    ),
    "line_up_events": (_line_up, ("events_lines", "events_pkey")),
    "leave_line": (
        lambda c, k: lines.leave_line(c, k.of("events long")[:1]),
        ("events_pkey", "events_lines"),
    ),
    "settle the head of a long line": (
        lambda c, k: _settle_events(c, k.of("events long")[:1]),
        ("events_pkey", "events_lines"),
    ),
    "fail_unhandled_heads": (
        lambda c, k: lines.fail_heads(c, k.of("events turn"), "{}", timedelta(0)),
        ("events_pkey",),
    ),
    "count_blocked_lines": (
        lambda c, k: lines.count_blocked(c),
        ("events_blocking", "events_heads", "events_lines"),
    ),
}


def _claim_limited(queue: str, bounds: limits.Bounds, **want: Any) -> Case:
    return lambda c, k: limits.claim(
        c, k.worker, queue, bounds, limits.Wanted(10, ["keyed", "big"], **want)
    )


DAEMON |= {
    "purge_dedup": (
        lambda c, k: dedup.forget(c, Windows(timedelta(minutes=1)), 0, 1),
        (),
    ),
    "drain_duplicates": (lambda c, k: dedup.drain(c, 10), ("duplicates_pkey",)),
}


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
        lambda c, k: limits.survey(c),
        ("commands_arrived", "commands_again"),
    ),
    "find_keys": (
        lambda c, k: limits.find_keys(c, "keyed", "k5", limits.Bounds(), 20),
        ("commands_line", "commands_holding"),
    ),
    "arrived_keys": (
        lambda c, k: limits.arrived(c, "keyed", [_lane("keyed", "keyed")], 10),
        ("commands_arrived", "commands_again"),
    ),
    "fail_unhandled_lines": (
        lambda c, k: unhandled.fail(
            c, "keyed", ("keyed", "keyed", "keyed"), "{}", 10, timedelta(0)
        ),
        ("commands_arrived", "commands_again"),
    ),
}


async def _take(session: Session, _: Known) -> None:
    """Move ten events from `default` to the topic that a declaration gave them."""
    await session.connection.execute(
        "insert into inboxd.subscriptions (type, topic) values ('big', 'lines');"
        "insert into inboxd.intakes (origin, type, topic, opened_at, low, high, shift, reserved,"
        " late_shift) values ('default', 'big', 'lines', now(), 0, 0, 0, 0, 0)"
    )
    await session.fetch("take_events", "default", "big", 10)


async def _nest(session: Session, _: Known) -> None:
    """Insert a batch into an open batch, and a step of it."""
    batch = await session.connection.fetchval("select new_batch_id from inboxd.open_batch('b')")
    held = await session.fetchrow("hold_open_batch", batch, 1)
    assert held is not None
    one = ([uuid4()], ["workflow"], ["w"], [held["id"]], [None], [1], [0], [False], [None])
    origin = (["command"], [7], [None], [None], [None], ["nested"])
    (made,) = await session.fetch("insert_batches", *one, *origin)
    await session.fetch("insert_steps", [made["id"]], ["a"], [uuid4()], ["[]"])
    await session.execute("close_batch", batch)


_NOW = datetime.now(UTC)


DAEMON |= {
    "read_bodies": (run("read_bodies", [1, 2, 3], [_NOW] * 3), ()),
    "read_moved_bodies": (run("read_moved_bodies", [1, 2, 3], [_NOW] * 3), ()),
    "forget_topics": (run("forget_topics"), ()),
    "read_headers": (run("read_headers", lambda k: k.of("events big")), ("events_pkey",)),
    "take_events": (_take, ()),
    "count_intake": (run("count_intake", "default", "few", 10), ("events_lane",)),
    "list_intakes": (run("list_intakes", True), ()),
    "finish_intake": (run("finish_intake", "default", "few", _NOW), ()),
    "hold_open_batch, insert_batches, insert_steps": (_nest, ()),
    "emit_scheduled": (
        run("emit_scheduled", *(None, "few", 1, None, None), ["{}"], ["a"], [_NOW]),
        (),
    ),
    "resolve_unique_keys": (
        run("resolve_unique_keys", ["few"] * 3, ["a", "b", "c"], ["keep", "replace", "reject"]),
        (),
    ),
    "insert_dependencies": (
        run("insert_dependencies", [uuid4()], [uuid4()], ["succeeded"]),
        (),
    ),
}
