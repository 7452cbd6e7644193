"""Turns outcomes into the values that are written and counted."""

import asyncio
import math
from collections.abc import Mapping
from typing import Any, cast
from uuid import UUID

import anyio
import orjson

from inboxd.api.records import Handler
from inboxd.model.lineage import Lineage, child_of
from inboxd.model.outcome import (
    Dead,
    Deferred,
    Failure,
    Outcome,
    Retrying,
    Site,
    Succeeded,
    Unsuccessful,
)
from inboxd.store.rows import ClaimedRow
from inboxd.store.settlements import Parent, Requeue
from inboxd.store.workers import WorkerIdentity
from inboxd.telemetry import tally


def is_ours(error: BaseException) -> bool:
    """The daemon cancels only by scopes, so the test is a cancelled scope around the runner.

    The task's count of cancellations proves nothing: a handler may raise it and never lower it.
    """
    stopping = anyio.current_effective_deadline() == -math.inf
    return stopping and isinstance(error, asyncio.CancelledError)


def kind_of(row: ClaimedRow) -> tally.Kind:
    return "event" if "event_id" in row else "command"


def uuid_of(row: ClaimedRow) -> UUID:
    """The row's id outside the database."""
    return cast("Mapping[str, UUID]", row)[f"{kind_of(row)}_id"]


def parent_of(row: ClaimedRow) -> Parent:
    """The row as creator of the rows that its handlers send, with the lineage that they inherit."""
    mine = Lineage(row["correlation_id"], row["causation_id"], row["traceparent"])
    return Parent(kind_of(row), row["id"], child_of(mine, uuid_of(row)))


def site_of(row: ClaimedRow, handler: Handler | None) -> Site:
    """The site of this row's failures; different sites make different failure groups."""
    module = getattr(handler.func, "__module__", None) if handler else None
    return Site(row["type"], (module or "").partition(".")[0])


def error_entry(failure: Failure, attempt: int, me: WorkerIdentity) -> str:
    """process: host and pid, since the worker's row is deleted later. The database adds times."""
    entry: dict[str, Any] = {"attempt": attempt, "worker": str(me.id), "process": me.process}
    if me.release:
        entry["release"] = me.release
    entry["error"] = failure.error
    if failure.path:
        entry["path"] = failure.path
    if failure.traceback:
        entry["traceback"] = failure.traceback
    return orjson.dumps(entry).decode()


def requeue(outcome: Unsuccessful, row: ClaimedRow, me: WorkerIdentity, fence: int = 0) -> Requeue:
    if isinstance(outcome, Deferred):
        return Requeue(row["id"], "pending", delay=outcome.delay, run_at=outcome.until, fence=fence)
    return Requeue(
        row["id"],
        "pending" if isinstance(outcome, Retrying) else "failed",
        spent=1,
        delay=outcome.delay if isinstance(outcome, Retrying) else None,
        error=error_entry(outcome.failure, row["attempts"] + 1, me),
        fingerprint=outcome.failure.fingerprint,
        fence=fence,
    )


def after(row: ClaimedRow) -> tally.After:
    """Whether this execution follows a failed attempt, or a replay."""
    if row["attempts"]:
        return "retry"
    return "replay" if row["replayed"] else ""


def name(outcome: Outcome) -> tally.Outcome:
    match outcome:
        case Succeeded():
            return "succeeded"
        case Retrying():
            return "retried"
        case Deferred():
            return "deferred"
        case Dead():
            return "failed"
