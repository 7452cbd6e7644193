# ruff: noqa: ARG005 - all cases take the same arguments, whether they need them or not
"""Cases of operators' statements: lists, actions, the doctor, erasure, the story."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from inboxd.api.schedules import Schedule
from inboxd.operations.ability import RIGHTS
from inboxd.settings import Queue
from inboxd.store import (
    batch_listing,
    breakers,
    endpoints,
    erase,
    finding,
    labels,
    lines,
    listing,
    markers,
    operations,
    payloads,
    producing,
    queues,
    rights,
    schedules,
    story,
    suspects,
)
from inboxd.store.session import Session
from inboxd.store.wakeups import HotTable
from tests.plans.filling import WORKER, Known
from tests.plans.statements.case import Case, run


def _flow(known: Known) -> int:
    return known.flow


def _steps(known: Known) -> list[UUID]:
    return known.steps


def _step(known: Known) -> UUID:
    return known.steps[-1]


def _match(statuses: Sequence[str], **of: Any) -> Case:
    match = operations.Match(statuses, **of)
    return lambda s, k: operations.matching(s, "commands", match, 0, 10**9, 10)


_CANCEL = ("pending", "waiting", "running")


_SUBJECT = erase.Subject("nobody", None, None)


_SUBJECT_ARGUMENTS = _SUBJECT.arguments()


_ADDED = Schedule(
    name="added",
    source="me",
    cron="0 3 * * *",
    zone="UTC",
    missed="once",
    kind="command",
    type="user.created",
    schema_version=1,
    lane=None,
    priority=0,
    tenant=None,
    payload="{}",
    time_field=None,
)


_TODAY = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
_HELD: Any = {"id": 1, "cron": _ADDED.cron, "zone": _ADDED.zone, "next_at": _TODAY}


_DAY = (_TODAY, _TODAY + timedelta(days=1))


# One stretch of pages of one partition.
_HERE = erase.BlockRange("p", _TODAY, _TODAY + timedelta(days=1), 0, 1, 1, 1)


_DEAD = ("commands_failed",)


async def _spread(session: Session, table: HotTable) -> object:
    return await operations.spread(
        session, table, "f1", ["test.noop", "none"], newest=500, first=20, limit=10
    )


async def _markers(session: Session, known: Known) -> object:
    await finding.plan_looks(session, walk=True)
    return await markers.listed(session, *_DAY, look=500, limit=50)


OPERATOR: dict[str, tuple[Case, tuple[str, ...]]] = {
    "list_markers": (
        _markers,
        ("audit_at", "breaker_changes_at", "workers_started"),
    ),
    "count_controls": (run("count_controls"), ()),
    "list_breakers": (lambda s, k: breakers.listed(s, uses=["command test.noop"]), ()),
    "force_breaker": (
        lambda s, k: breakers.force(s, "brevo", "open", "me", None, None),
        ("breakers_pkey",),
    ),
    "list_endpoints": (lambda s, k: endpoints.listed(s), ()),
    "are_deliveries": (
        lambda s, k: endpoints.are_of(s, "one", k.of("commands held")),
        ("commands_pkey",),
    ),
    "resend_deliveries": (
        lambda s, k: endpoints.resend(s, k.of("commands held"), "me", None),
        (),
    ),
    "blocked_lines": (
        lambda s, k: lines.blocked(s, None, 10),
        ("events_blocking", "events_heads", "events_lines"),
    ),
    "hold_buckets_of": (
        lambda c, k: c.execute("hold_buckets_of", k.of("events turn"), []),
        ("events_pkey",),
    ),
    "lock_events": (
        lambda s, k: operations.lock(s, "events", k.of("events dead"), [k.one("events")]),
        ("events_pkey", "events_event_id"),
    ),
    "lock_commands": (
        lambda s, k: operations.lock(s, "commands", k.of("commands dead"), [k.one("commands")]),
        ("commands_pkey", "commands_command_id"),
    ),
    "hold_ending": (
        lambda s, k: operations.lock(
            s, "commands", k.of("commands dead"), [k.one("commands")], ending=True
        ),
        ("commands_pkey", "commands_command_id"),
    ),
    "settled_events": (
        lambda s, k: operations.settled(s, "events", [1000000007], [k.one("events_history")]),
        (),
    ),
    "settled_commands": (
        lambda s, k: operations.settled(s, "commands", [1000000007], [k.one("commands_history")]),
        (),
    ),
    "list_labels": (
        lambda s, k: labels.declared(s),
        (),
    ),
    "declared_rules": (
        lambda s, k: listing.rules_and_secrets(s, "command", "plan.claim"),
        (),
    ),
    "secret_keys": (
        lambda s, k: listing.secret_keys(s, "command"),
        (),
    ),
    "bound_statements": (run("bound_statements", lambda k: "1s"), ()),
    "replay_events": (
        lambda s, k: operations.replay_in_place(s, "events", k.of("events dead"), "me", None),
        (),
    ),
    "replay_commands": (
        lambda s, k: operations.replay_as_new(s, k.of("commands dead"), "me", None),
        (),
    ),
    "replace_payload": (
        lambda s, k: operations.replace_payload(s, k.of("commands dead")[0], "{}"),
        (),
    ),
    "payload_text": (
        lambda s, k: payloads.of_command(s, k.of("commands dead")[0], 1000),
        ("commands_pkey",),
    ),
    "json_as_stored": (lambda s, k: payloads.as_stored(s, "{}", 1000), ()),
    "consequences": (
        lambda s, k: operations.consequences(s, k.of("commands dead")),
        ("commands_pkey", "batches_pkey", "commands_unique_key"),
    ),
    "count_consequences": (
        lambda s, k: operations.count_consequences(s, k.of("commands dead"), 1000, ["q"], []),
        ("commands_pkey", "dependencies_needs", "commands_line"),
    ),
    "count_line_of_events": (
        lambda s, k: operations.count_line_of_events(s, k.of("events dead"), 1000),
        ("events_pkey", "events_lines"),
    ),
    "ability": (lambda s, k: operations.ability(s), ()),
    "lacking_rights": (lambda s, k: rights.lacking(s, RIGHTS["run"]), ()),
    "hold_schedule": (lambda s, k: schedules.hold(s, "hourly"), ()),
    "add_schedule": (lambda s, k: schedules.add(s, _ADDED), ()),
    "change_schedule": (
        lambda s, k: schedules.change(s, _HELD, _ADDED),
        ("schedules_pkey",),
    ),
    "remove_schedule": (run("remove_schedule", 1), ("schedules_pkey",)),
    "hold_unique_keys, replay_commands_in_place": (
        lambda s, k: operations.replay_in_place(s, "commands", k.of("commands dead"), "me", None),
        (),
    ),
    "dismiss_commands": (
        lambda s, k: operations.dismiss(s, "commands", k.of("commands dead")),
        (),
    ),
    "dismiss_events": (
        lambda s, k: operations.dismiss(s, "events", k.of("events dead")),
        (),
    ),
    "match_commands": (
        lambda s, k: operations.matching(
            s, "commands", operations.Match(["pending"]), 0, 10**9, 10
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
        lambda s, k: operations.matching(s, "events", operations.Match(["failed"]), 0, 10**9, 10),
        ("events_failed",),
    ),
    "failures_commands": (
        lambda s, k: operations.failures(s, "commands", None, 100, 50, 200),
        ("commands_failures",),
    ),
    "failures_events": (
        lambda s, k: operations.failures(s, "events", None, 100, 50, 200),
        ("events_failures",),
    ),
    "groups_from": (
        lambda s, k: operations.groups_from(s, "f"),
        ("commands_failures", "events_failures"),
    ),
    "dead_copies": (
        lambda s, k: producing.dead_copies(s, k.one("events")),
        ("events_event_id",),
    ),
    "cancel_commands": (
        lambda s, k: operations.cancel(s, k.of("commands few")),
        ("commands_pkey",),
    ),
    "request_cancel": (
        lambda s, k: operations.request_cancel(s, k.of("commands held")),
        (),
    ),
    "reschedule_events": (
        lambda s, k: operations.reschedule(s, "events", k.of("events big"), datetime.now(UTC)),
        ("events_pkey",),
    ),
    "reschedule_commands": (
        lambda s, k: operations.reschedule(s, "commands", k.of("commands few"), datetime.now(UTC)),
        ("commands_pkey",),
    ),
    "reprioritize_commands": (
        lambda s, k: operations.reprioritize(s, k.of("commands few"), 3),
        ("commands_pkey",),
    ),
    "count_waiting": (
        lambda s, k: s.fetch("count_waiting", ["lines", "heads", "chunked", "fresh"], "turn", 20),
        ("events_arrived", "events_lines"),
    ),
    "count_suspects": (
        lambda s, k: suspects.count(s, 100),
        ("commands_suspect_groups",),
    ),
    "group_of_suspect": (
        lambda s, k: suspects.others(s, WORKER, 1),
        ("commands_suspect_groups",),
    ),
    "status_progress": (
        lambda s, k: listing.progress(s, 50),
        ("commands_running",),
    ),
    "show_events": (
        lambda s, k: listing.one(s, "events", k.one("events_history"), payload=True),
        ("events_event_id",),
    ),
    "show_commands": (
        lambda s, k: listing.one(s, "commands", k.one("commands_history"), payload=True),
        ("commands_command_id",),
    ),
    "lanes_events": (
        lambda s, k: s.fetch("lanes_events", 100, 100),
        ("events_lane", "events_failed"),
    ),
    "lanes_commands": (
        lambda s, k: s.fetch("lanes_commands", 100, 100),
        (
            *("commands_lane", "commands_failed", "commands_suspects", "commands_running"),
            *("commands_arrived", "commands_again", "commands_unmet"),
        ),
    ),
    "count_keys": (
        lambda s, k: s.fetch("count_keys", 100),
        ("commands_line",),
    ),
    "blocked_keys": (
        lambda s, k: queues.blocked_keys(s, "keyed", Queue(), 20),
        ("commands_again", "commands_line", "commands_pkey"),
    ),
    "story_find": (lambda s, k: story.find(s, k.one("commands")), ()),
    "story_member": (
        lambda s, k: story.member(s, "command", k.of("commands big")[0], *_DAY),
        ("commands_pkey",),
    ),
    "story_up": (lambda s, k: story.up(s, "command", k.of("commands big")[0], 10), ()),
    "story_down": (
        lambda s, k: story.down(
            s,
            [("command", 1, k.one("commands")), ("batch", 7, k.one("events"))],
            datetime.now(UTC),
            *(10, 10),
        ),
        ("commands_children", "commands_failed_children", "commands_running"),
    ),
    "doctor_running": (
        lambda s, k: s.fetch("doctor_running", 100, 30.0),
        ("commands_running",),
    ),
    "status_lines": (
        lambda s, k: s.fetch("status_lines", 10),
        ("events_arrived", "events_lines", "events_blocking", "events_heads"),
    ),
    "erase_scan_events": (
        lambda s, k: s.fetch("erase_scan_events", *_SUBJECT_ARGUMENTS, 0, 100),
        ("events_pkey",),
    ),
    "erase_scan_commands": (
        lambda s, k: s.fetch("erase_scan_commands", *_SUBJECT_ARGUMENTS, 0, 100),
        ("commands_pkey",),
    ),
    "erase_count_events": (lambda s, k: erase.count(s, "events", _SUBJECT, _HERE), ()),
    "erase_count_commands": (
        lambda s, k: erase.count(s, "commands", _SUBJECT, _HERE),
        (),
    ),
    "erase_events": (lambda s, k: erase.erase(s, "events", _SUBJECT, _HERE, "[]"), ()),
    "erase_commands": (
        lambda s, k: erase.erase(s, "commands", _SUBJECT, _HERE, "[]"),
        (),
    ),
    "workers": (lambda s, k: listing.workers(s, ended=True, limit=50), ()),
}


_ANY = (None,) * 7


OPERATOR |= {
    "batch_continuations": (run("batch_continuations", _step, 10), ("dependencies_needs",)),
    "batch_steps": (
        lambda s, k: batch_listing.steps(s, k.flow, 20, _TODAY),
        ("steps_pkey", "commands_batch"),
    ),
    "batch_members": (
        lambda s, k: batch_listing.members(s, k.flow, ["pending"], 0, 10, 1_000, _TODAY),
        ("commands_batch", "commands_running"),
    ),
    "nested_batches": (run("nested_batches", _flow, 10), ("batches_parent",)),
    "batch_failures": (run("batch_failures", _flow, 10), ("commands_failed_members",)),
    "batches_within": (run("batches_within", None, _flow), ("batches_pkey", "batches_parent")),
    "cancel_batch": (run("cancel_batch", _flow), ("batches_pkey",)),
    "cancel_events": (run("cancel_events", lambda k: k.of("events big")), ("events_pkey",)),
    "flush_chunks": (run("flush_chunks", "chunked", None, 10), ("events_head",)),
    "count_chunks": (run("count_chunks", "chunked", None, 10), ("events_head",)),
    "list_batches": (run("list_batches", *_ANY, *_ANY[:3], 100, 10), ("batches_pkey",)),
    "list_chunks": (run("list_chunks", "chunked", 10, timedelta(1)), ("events_lines",)),
    "doctor_intakes": (run("doctor_intakes"), ()),
    "doctor_taken_keys": (
        run("doctor_taken_keys", 100, timedelta(days=366)),
        ("commands_unique_key",),
    ),
    "doctor_sequences": (
        run("doctor_sequences", _TODAY - timedelta(days=8), _TODAY + timedelta(days=2)),
        ("events_pkey", "commands_pkey"),
    ),
    "doctor_receipts": (
        run("doctor_receipts", ["broken:few", "broken:big"], 10_000),
        ("events_failures",),
    ),
    "lock_batch": (run("lock_batch", _flow, None), ("batches_pkey",)),
    "show_batch": (run("show_batch", _flow, None), ("batches_pkey",)),
    "sample_commands": (
        run("sample_commands", lambda k: k.of("commands few")),
        ("commands_pkey",),
    ),
    "sample_events": (run("sample_events", lambda k: k.of("events big")), ("events_pkey",)),
    "types_and_tenants_commands": (
        lambda s, k: operations.types_and_tenants(s, "commands", k.of("commands few"), 10),
        ("commands_pkey",),
    ),
    "types_and_tenants_events": (
        lambda s, k: operations.types_and_tenants(s, "events", k.of("events big"), 10),
        ("events_pkey",),
    ),
    "spread_commands": (
        lambda s, k: _spread(s, "commands"),
        ("commands_failures",),
    ),
    "spread_events": (
        lambda s, k: _spread(s, "events"),
        ("events_failures",),
    ),
    "story_attempts": (
        lambda s, k: story.attempts(
            s,
            [
                ("event", k.of("events big")[0], None),
                ("command", k.of("commands big")[0], None),
                ("event", 1_000_000_007, _TODAY),
                ("command", 1_000_000_007, _TODAY),
            ],
        ),
        ("events_pkey", "commands_pkey"),
    ),
    "story_replays": (run("story_replays", ["event"], [7], 10), ("replays_old",)),
    "story_steps": (run("story_steps", _steps), ("steps_member_key",)),
    "story_waits": (run("story_waits", _steps, 10), ("dependencies_waiting",)),
}
