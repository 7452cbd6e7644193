# ruff: noqa: ARG005 - all cases take the same arguments, whether they need them or not
"""Cases of bulk actions: for operators who order them, and for workers."""

from datetime import UTC, datetime, timedelta
from typing import Any

from inboxd.store import bulk_actions, operations, purging
from inboxd.store.bulk_actions import ActionProgress, OrderedAction
from inboxd.store.session import Session
from inboxd.store.wakeups import HotTable
from tests.plans.filling import Known
from tests.plans.statements.case import AGE, Case

_LAST = 10**9
_FAILED = operations.Match(["failed"])
_WAITING = operations.Match(["pending", "waiting"], type="big")
# Filters without an index: times and an entity. They must not lead to another plan.
_EVER = datetime(1970, 1, 1, tzinfo=UTC)
_THEN = operations.Match(
    ["pending", "waiting"], since=_EVER, until=_EVER, by="failed", entity_type="nothing"
)


async def _ordered(session: Session) -> Any:
    """Order an action that is due, and claim it; returns the row."""
    action = OrderedAction(
        table="commands",
        verb="replay",
        to=None,
        match=_FAILED,
        actor="me",
        reason=None,
        audit_id=1,
        delay=timedelta(0),
        rate=None,
        canary=10,
        first=1,
        last=_LAST,
        counted=10,
        whole=True,
    )
    await bulk_actions.order(session, action)
    return await bulk_actions.claim(session)


async def _worked_off(session: Session, known: Known) -> object:
    del known
    row = await _ordered(session)
    await bulk_actions.advance(session, row, ActionProgress(status="running", above=7, passed=[3]))
    await bulk_actions.until_next(session)
    await bulk_actions.put_off(session, row["id"], "why")
    return await bulk_actions.fail(session, row["id"], "why")


async def _controlled(session: Session, known: Known) -> object:
    del known
    id_ = (await _ordered(session))["id"]
    await bulk_actions.count_open(session, "me")
    await bulk_actions.hold(session, id_)
    await bulk_actions.pause(session, id_, "why")
    await bulk_actions.resume(session, id_)
    await bulk_actions.abort(session, id_)
    row = await bulk_actions.one(session, id_)
    assert row is not None
    await bulk_actions.ordered_by(session, [row["audit_id"]])
    return await bulk_actions.listed(session, ["a"], None, 20)


def _ahead(table: HotTable, match: operations.Match = _WAITING) -> Case:
    return lambda s, k: bulk_actions.ahead(s, table, match, 0, _LAST, 10, 20)


def _dead(table: HotTable, **of: Any) -> Case:
    match = operations.Match(["failed"], **of)

    async def look(session: Session) -> object:
        await session.execute("plan_each_time")
        await session.execute("wait_briefly")
        return await bulk_actions.ahead(session, table, match, 0, _LAST, 10, 100)

    return lambda s, k: look(s)


def _last(table: HotTable) -> Case:
    return lambda s, k: bulk_actions.last_id(s, table)


def _canary(table: HotTable) -> Case:
    return lambda s, k: bulk_actions.canary_statuses(s, table, k.of(f"{table} dead"))


def _tried(table: HotTable) -> Case:
    return lambda s, k: bulk_actions.try_rows(s, table, [*k.of(f"{table} dead"), _LAST])


def _still(table: HotTable) -> Case:
    async def look(session: Session, ids: Any) -> object:
        held: Any = [{"id": id_} for id_ in (*ids, _LAST)]
        match = operations.Match(["failed"], error="x", fingerprint="f", until=_EVER, by="done")
        return await operations.still_matching(session, table, match, held)

    return lambda s, k: look(s, k.of(f"{table} dead"))


OF_ACTIONS: dict[str, tuple[Case, tuple[str, ...]]] = {
    "claim_action, advance_action, until_next_action, put_off_action, fail_action": (
        _worked_off,
        (),
    ),
    "match_ahead_events": (_ahead("events"), ("events_pkey",)),
    "match_ahead_commands": (_ahead("commands"), ("commands_pkey",)),
    "match_ahead_commands, of a moment": (_ahead("commands", _THEN), ("commands_pkey",)),
    "match_dead_commands, of an action, a moment": (
        _dead("commands", since=_EVER, by="done"),
        ("commands_failed",),
    ),
    "match_dead_events, of an action": (_dead("events"), ("events_failed",)),
    "match_dead_commands, of an action": (_dead("commands"), ("commands_failed",)),
    "match_dead_commands, of an action, a tenant": (
        _dead("commands", tenants=["nobody"], type="dead key"),
        ("commands_failed",),
    ),
    "match_dead_commands, of an action, a group": (
        _dead("commands", fingerprint="f"),
        ("commands_failures",),
    ),
    "take_free_buckets, take_free_events, there_events": (_tried("events"), ("events_pkey",)),
    "take_free_commands, there_commands": (_tried("commands"), ("commands_pkey",)),
    "still_match_events": (_still("events"), ("events_pkey",)),
    "still_match_commands": (_still("commands"), ("commands_pkey",)),
    "canary_events": (_canary("events"), ("events_pkey",)),
    "canary_commands": (_canary("commands"), ("commands_pkey",)),
    "purge_actions": (
        lambda connection, known: purging.remove(connection, "actions", AGE, 10),
        (),
    ),
}
ORDERS: dict[str, tuple[Case, tuple[str, ...]]] = {
    "hold_orders, order_action, lock_action, pause_action, resume_action, abort_action": (
        _controlled,
        (),
    ),
    "last_id_events": (_last("events"), ("events_pkey",)),
    "last_id_commands": (_last("commands"), ("commands_pkey",)),
    "match_ahead_events, ordered": (_ahead("events"), ("events_pkey",)),
    "match_ahead_commands, ordered": (_ahead("commands"), ("commands_pkey",)),
}
