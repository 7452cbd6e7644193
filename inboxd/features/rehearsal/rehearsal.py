"""Rehearses one row: runs its handlers by a worker's code, and rolls back.

Promises: it does not claim or lock the row, spends no attempt and sends no notification; all writes
on the handlers' connection are undone, however the rehearsal ends; statements wait for locks at
most as long as `RehearsalTerms` allow. Rows that handlers sent are inserted last, so that refusals,
also by deferred constraints, are found, and locks are held only briefly. Known limits: effects
elsewhere (HTTP, mail, other connections) and numbers of sequences are not undone; a worker may run
the row at the same time; a handler that hides a COMMIT from `inboxd.store.handler_connection`
commits here too, which the report mentions.
"""

import time
from bdb import BdbQuit
from collections.abc import Callable, Iterable, Iterator, MutableMapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from inboxd.api.drafts import CommandDraft, EventDraft, WebhookDraft
from inboxd.api.records import EventHandler, Handler
from inboxd.api.resources import Dependent, taken
from inboxd.engine.outcomes import name
from inboxd.engine.resources import opened
from inboxd.errors import NoHandler
from inboxd.features.rehearsal import store
from inboxd.features.rehearsal.handling import RunResult, Stage
from inboxd.features.rehearsal.report import NOT_WRITTEN, LogLine, MadeBatch, Rehearsal, SentRow
from inboxd.features.rehearsal.store import RehearsedRow, TableWrites, WrittenRow
from inboxd.model.outcome import Dead, Deferred, Outcome, Retrying, Succeeded
from inboxd.model.spelling import did_you_mean
from inboxd.model.wording import span
from inboxd.registry.registry import Registry
from inboxd.settings import Database, Settings
from inboxd.store.batches import Planned
from inboxd.store.connections import OWN_PLANS, explained
from inboxd.store.pools import open_pool
from inboxd.store.session import Session
from inboxd.telemetry.logs import collected

# The session of the handlers, and a session that reads results of earlier steps if they ask for
# them.
_SESSIONS = 2
# Loggers of inboxd, whose lines are left out, except the logger of handlers' contexts.
_OURS, _HANDLERS = "inboxd.", "inboxd.handler"
_LEVELS = {"warning", "error", "critical"}
# SQLSTATEs: lock timeout, statement timeout, missing right.
_LOCK, _TIME, _RIGHT = "55P03", "57014", "42501"


@dataclass(frozen=True, slots=True, kw_only=True)
class RehearsalTerms:
    """idle_timeout: of its transaction, as in a debugger. unhurried: no limit for handlers."""

    lock_timeout: timedelta
    statement_timeout: timedelta
    idle_timeout: timedelta
    unhurried: bool = False
    alone: bool = False


def handlers_of(registry: Registry, found: RehearsedRow) -> list[Handler]:
    """Return the row's handlers among the installed plugins. Raises NoHandler."""
    type_, lane = found.row["type"], found.lane
    handlers: list[Handler] = []
    if found.kind == "command":
        handlers += [registry.commands[type_]] if type_ in registry.commands else []
        known: Iterable[str] = registry.commands
        where = ""
    elif (chunk := registry.chunks.get(lane)) is not None:
        handlers += [chunk.readers[type_]] if type_ in chunk.readers else []
        known, where = chunk.readers, f" in the topic {lane!r}"
    else:
        handlers += registry.handlers_of(lane, type_)
        known, where = registry.events, f" in the topic {lane!r}"
    if not handlers:
        raise NoHandler(
            f"no installed plugin handles the {found.kind} {type_!r}{where}"
            f"{did_you_mean(type_, known)} Install the plugin with its handler into this Python "
            "environment, and check worker.plugins"
        )
    return handlers


async def rehearse(
    settings: Settings,
    registry: Registry,
    found: RehearsedRow,
    terms: RehearsalTerms,
    on_stubborn: Callable[[str], None],
) -> Rehearsal:
    """Run a row's handlers, and undo their writes.

    on_stubborn: called for a handler that does not end. Raises NoHandler; Conflict for an event of
    a batch topic that is in no chunk yet; DatabaseError.
    """
    handlers, usual = handlers_of(registry, found), settings.database
    settings, found = _bounded(settings, terms), _as_it_would_run(found)
    # In a worker, handlers of events use the session of their page.
    plans = OWN_PLANS if found.kind == "event" else {}
    lifespans, unhurried = taken(registry.lifespans, _run_here(handlers)), terms.unhurried
    with collected(settings.log.level) as lines:
        async with (
            opened(lifespans, on_stubborn=on_stubborn) as resources,
            open_pool(settings.database, "rehearsal", _SESSIONS, plans) as pool,
        ):
            stage = Stage(
                settings, registry, pool, resources, unhurried=unhurried, on_stubborn=on_stubborn
            )
            with explained(asked=pool.where):
                async with store.undone(pool) as session:
                    report = await _act(stage, session, found, handlers, alone=terms.alone)
    report.progress, report.left_behind = stage.progress, stage.executions.left_behind
    report.log = [*_own(lines, handlers)]
    report.remarks += _remarks(report, terms, usual)
    return report


def _run_here(handlers: Sequence[Handler]) -> Iterator[Dependent]:
    """Yield the functions that run here; not the function of an event that becomes a command."""
    for handler in handlers:
        if not isinstance(handler, EventHandler) or handler.command_type is None:
            yield handler
            yield from handler.middleware


def _bounded(settings: Settings, terms: RehearsalTerms) -> Settings:
    bounds = {
        "lock_timeout": terms.lock_timeout,
        "statement_timeout": terms.statement_timeout,
        "idle_in_transaction_timeout": terms.idle_timeout,
    }
    database = settings.database.model_copy(update=bounds)
    return settings.model_copy(update={"database": database})


def _as_it_would_run(found: RehearsedRow) -> RehearsedRow:
    """Return an ended row as its replay would begin: at the first attempt, without a deadline."""
    if not found.has_ended:
        return found
    row = found.row | {"attempts": 0}
    if found.kind == "command":
        row |= {"deadline": None, "late": None, "expires_in": None}
        row |= {} if row["ordering_key"] else {"age": 0.0}  # a replay without a key is a new row
    return replace(found, row=row)


async def _act(
    stage: Stage, session: Session, found: RehearsedRow, handlers: Sequence[Handler], *, alone: bool
) -> Rehearsal:
    known = await store.session_of(session)
    before = await store.writes(session)
    started = time.monotonic()
    ran = await stage.run(session, found, alone=alone)
    report = Rehearsal(
        kind=found.kind,
        id=found.row["id"],
        attempt=found.row["attempts"] + 1,
        handlers=[each.name for each in handlers],
        role=known["role"],
        seconds=time.monotonic() - started,
        package=_package(handlers[0]),
        remarks=[*ran.remarks],
    )
    left = found.row["expires_in"] if found.kind == "command" else None
    if left is not None and left <= 0:
        report.remarks.append("It has expired: a worker would cancel it without running it.")
    usable = not session.connection.is_closed() and session.connection.is_in_transaction()
    if usable:
        report.writes = _since(before, await store.writes(session))
    if not known["counts"]:
        report.remarks.append("The server does not count writes: track_counts is off.")
    if isinstance(ran.outcome, Succeeded):
        await _send(stage, session, found, ran, report)
    _note(ran, report)
    return report


async def _send(
    stage: Stage, session: Session, found: RehearsedRow, ran: RunResult, report: Rehearsal
) -> None:
    """Write the sent rows, or change the outcome if the database refuses them."""
    try:
        commands, events = await store.write_sent(session, ran.sent, ran.planned, ran.emitted)
    except Exception as error:  # noqa: BLE001 - judged as at a settlement
        ran.outcome = stage.judge(found, error)
        ran.errors.append(error)
        return
    report.sent = [
        *_sent_rows("command", [draft for draft, _ in ran.sent], commands),
        *_sent_rows("event", [d for d, _ in ran.emitted if isinstance(d, EventDraft)], events),
    ]
    report.remarks += [
        f"It sends the webhook {draft.type}: a delivery to each endpoint whose types match."
        for draft, _ in ran.emitted
        if isinstance(draft, WebhookDraft)
    ]
    report.batches = [*_batches(ran.planned)]


def _sent_rows(
    kind: store.Kind, drafts: Sequence[CommandDraft | EventDraft], written: Sequence[WrittenRow]
) -> Iterator[SentRow]:
    found: dict[UUID, list[WrittenRow]] = {}
    for row in written:
        found.setdefault(row.uuid, []).append(row)
    for draft in drafts:
        uuid, lane = _named(draft)
        missing = SentRow(
            kind=kind,
            uuid=uuid,
            type=draft.type,
            lane=lane,
            status=NOT_WRITTEN,
            run_at=None,
            payload=draft.payload,
        )
        for row in found.get(uuid, ()):
            yield replace(missing, lane=row.lane, status=row.status, run_at=row.run_at)
        if uuid not in found:
            yield missing


def _named(draft: CommandDraft | EventDraft) -> tuple[UUID, str | None]:
    if isinstance(draft, CommandDraft):
        return draft.command_id, draft.queue
    return draft.event_id, draft.topic


def _batches(planned: Sequence[Planned]) -> Iterator[MadeBatch]:
    for plan, _ in planned:
        for made in plan.batches:
            open_ = made.expires is not None
            yield MadeBatch(
                uuid=made.batch_id, kind=made.kind, name=made.name, size=made.size, open=open_
            )
        for uuid in {**plan.added, **dict.fromkeys(plan.closed)}:
            added, is_open = plan.added.get(uuid, 0), uuid not in plan.closed
            yield MadeBatch(uuid=uuid, kind=None, name=None, size=added, open=is_open)


def _note(ran: RunResult, report: Rehearsal) -> None:
    outcome = ran.outcome
    report.outcome, report.run_at = name(outcome), _again_at(outcome)
    report.result, report.events = ran.result, ran.events
    report.failure = ran.errors[0] if ran.errors else None
    if isinstance(outcome, Retrying | Dead):
        failure = outcome.failure
        report.error, report.path = failure.error, failure.path
        report.traceback = failure.traceback or None
    if not isinstance(outcome, Succeeded):
        report.undone, report.result = bool(report.writes), None
    if ran.chunk is not None:
        info = ran.chunk
        report.chunk = {"topic": info.topic, "key": info.key, "events": info.size}


def _again_at(outcome: Outcome) -> datetime | None:
    if isinstance(outcome, Deferred) and outcome.until is not None:
        return outcome.until
    if isinstance(outcome, Deferred | Retrying) and outcome.delay is not None:
        return datetime.now(UTC) + timedelta(seconds=outcome.delay)
    return None


def _since(before: Iterable[TableWrites], now: Iterable[TableWrites]) -> list[TableWrites]:
    known = {each.table: each for each in before}
    found = []
    for table, *counts in now:
        old = known.get(table, TableWrites(table, 0, 0, 0))
        new = [count - less for count, less in zip(counts, old[1:], strict=True)]
        if any(new):
            found.append(TableWrites(table, *new))
    return found


def _own(
    lines: Iterable[MutableMapping[str, Any]], handlers: Sequence[Handler]
) -> Iterator[LogLine]:
    """Yield log lines of handlers and their packages, and warnings of other packages."""
    packages = {_package(handler) for handler in handlers}
    for line in lines:
        level, logger = str(line.pop("level", "")), str(line.pop("logger", ""))
        message = str(line.pop("message", ""))
        line.pop("timestamp", None)
        theirs = logger == _HANDLERS or logger.partition(".")[0] in packages
        if theirs or (level in _LEVELS and not logger.startswith(_OURS)):
            yield LogLine(level=level, logger=logger, message=message, fields=line)


def _package(handler: Handler) -> str:
    return str(getattr(handler.func, "__module__", "") or "").partition(".")[0]


def _remarks(report: Rehearsal, terms: RehearsalTerms, usual: Database) -> Iterator[str]:
    """Explain an end that came from a limit of the rehearsal, or from a missing right."""
    if isinstance(report.failure, BdbQuit):
        yield "You left the debugger, which ended the handler: the outcome of the row is not known."
    states = {*_states(report.failure)}
    if _LOCK in states:
        yield (
            f"A statement waited for a lock for longer than {_shown(terms.lock_timeout)} "
            "(--lock-timeout): another session holds it, such as a worker's or a producer's. "
            f"A worker waits up to {_shown(usual.lock_timeout)} (database.lock_timeout)."
        )
    if _TIME in states:
        yield (
            f"A statement took longer than {_shown(terms.statement_timeout)} "
            f"(--statement-timeout). In a worker it can take {_shown(usual.statement_timeout)} "
            "(database.statement_timeout)."
        )
    if _RIGHT in states:
        yield (
            f"The role {report.role!r} lacks the right that the error names: grant it, or rehearse "
            "with the daemon's database.dsn."
        )


def _states(error: BaseException | None) -> Iterator[str]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield str(getattr(error, "sqlstate", None) or "")
        error = error.__cause__ or error.__context__


def _shown(time_: timedelta) -> str:
    return span(time_.total_seconds())
