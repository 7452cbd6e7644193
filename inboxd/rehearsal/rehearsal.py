"""The rehearsal of one row: its handlers run here, by a worker's code, and nothing is committed.

Owns what is told of the run, and its bounds. Promises: the row is neither claimed nor locked, no
attempt is spent, nobody is notified, and of what goes through the handlers' connection nothing
stays, however the rehearsal ends; its statements wait for locks no longer than `RehearsalTerms`
says. What handlers sent is really inserted, last, so that what the database refuses, deferred
constraints too, is seen here; and nothing of it is locked for longer than that takes.
Known limits: what handlers do elsewhere (HTTP, mail, other connections) is not undone, nor are
numbers given back that sequences gave; a worker may run the row at the same time; a handler that
hides a COMMIT from `inboxd.store.handler_connection` commits here too, and is told of.
*See:* `handling`, which runs the handlers; `inboxd.store.rehearsal`, its transaction;
`inboxd/cli/rehearse.py`, which asks before.
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
from inboxd.model.outcome import Dead, Deferred, Outcome, Retrying, Succeeded
from inboxd.model.spelling import did_you_mean
from inboxd.model.wording import span
from inboxd.registry.registry import Registry
from inboxd.rehearsal.handling import Course, Stage
from inboxd.rehearsal.report import NOT_WRITTEN, LogLine, MadeBatch, Rehearsal, SentRow
from inboxd.settings import Database, Settings
from inboxd.store import rehearsal as store
from inboxd.store.batches import Planned
from inboxd.store.connections import OWN_PLANS, Connection, explained
from inboxd.store.pools import open_pool
from inboxd.store.rehearsal import RehearsedRow, TableWrites, WrittenRow
from inboxd.telemetry.logs import collected

# The session of the handlers, and one that reads results of earlier steps where they are asked for.
_SESSIONS = 2
# Loggers of ours, whose lines are not the handlers'; but that of contexts.
_OURS, _HANDLERS = "inboxd.", "inboxd.handler"
_LEVELS = {"warning", "error", "critical"}
# What the server says of a statement that met a bound of the rehearsal, or a missing right.
_LOCK, _TIME, _RIGHT = "55P03", "57014", "42501"


@dataclass(frozen=True, slots=True, kw_only=True)
class RehearsalTerms:
    """How a rehearsal is bounded.

    idle_timeout: how long its transaction may stand idle, as in a debugger. unhurried: handlers
    have no time limit. alone: an event of a batch topic is run as a chunk of one.
    """

    lock_timeout: timedelta
    statement_timeout: timedelta
    idle_timeout: timedelta
    unhurried: bool = False
    alone: bool = False


def handlers_of(registry: Registry, found: RehearsedRow) -> list[Handler]:
    """Who would handle the row here. Raises NoHandler."""
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
            f"no plugin here handles the {found.kind} {type_!r}{where}{did_you_mean(type_, known)} "
            "Install the plugin that does into this Python environment, and see worker.plugins"
        )
    return handlers


async def rehearse(
    settings: Settings,
    registry: Registry,
    found: RehearsedRow,
    terms: RehearsalTerms,
    on_stubborn: Callable[[str], None],
) -> Rehearsal:
    """Run a row's handlers, and undo what they did.

    `on_stubborn` is called for a handler that will not end. Raises NoHandler; Conflict for an event
    of a batch topic that is in no chunk yet; DatabaseError.
    """
    handlers, usual = handlers_of(registry, found), settings.database
    settings, found = _bounded(settings, terms), _as_it_would_run(found)
    # A worker's handlers of events have the session of the page.
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
            with explained():
                async with store.undone(pool) as connection:
                    told = await _act(stage, connection, found, handlers, alone=terms.alone)
    told.progress, told.left_behind = stage.progress, stage.executions.left_behind
    told.log = [*_own(lines, handlers)]
    told.remarks += _remarks(told, terms, usual)
    return told


def _run_here(handlers: Sequence[Handler]) -> Iterator[Dependent]:
    """The functions that are called; that of an event which is sent on is not."""
    for handler in handlers:
        if not isinstance(handler, EventHandler) or handler.command_type is None:
            yield handler
            yield from handler.middleware


def _bounded(settings: Settings, terms: RehearsalTerms) -> Settings:
    """The settings, with a session's bounds as the rehearsal has them."""
    bounds = {
        "lock_timeout": terms.lock_timeout,
        "statement_timeout": terms.statement_timeout,
        "idle_in_transaction_timeout": terms.idle_timeout,
    }
    database = settings.database.model_copy(update=bounds)
    return settings.model_copy(update={"database": database})


def _as_it_would_run(found: RehearsedRow) -> RehearsedRow:
    """A row that has ended as its replay would begin: at the first attempt, without a deadline."""
    if not found.has_ended:
        return found
    row = found.row | {"attempts": 0}
    if found.kind == "command":
        row |= {"deadline": None, "late": None}
        row |= {} if row["ordering_key"] else {"age": 0.0}  # as a new row
    return replace(found, row=row)


async def _act(
    stage: Stage,
    connection: Connection,
    found: RehearsedRow,
    handlers: Sequence[Handler],
    *,
    alone: bool,
) -> Rehearsal:
    """Run the handlers, count what they wrote, write what they sent."""
    sql = stage.parts.sql
    session = await store.session_of(connection, sql)
    before = await store.writes(connection, sql)
    started = time.monotonic()
    course = await stage.run(connection, found, alone=alone)
    told = Rehearsal(
        kind=found.kind,
        id=found.row["id"],
        attempt=found.row["attempts"] + 1,
        handlers=[each.name for each in handlers],
        role=session["role"],
        seconds=time.monotonic() - started,
        package=_package(handlers[0]),
        remarks=[*course.remarks],
    )
    usable = not connection.is_closed() and connection.is_in_transaction()
    if usable:
        told.writes = _since(before, await store.writes(connection, sql))
    if not session["counts"]:
        told.remarks.append("The server does not count what is written: track_counts is off.")
    if isinstance(course.outcome, Succeeded):
        await _send(stage, connection, found, course, told)
    _note(course, told)
    return told


async def _send(
    stage: Stage, connection: Connection, found: RehearsedRow, course: Course, told: Rehearsal
) -> None:
    """Write what was sent, or note why that is refused."""
    sql = stage.parts.sql
    try:
        commands, events = await store.write_sent(
            connection, sql, course.sent, course.planned, course.emitted
        )
    except Exception as error:  # noqa: BLE001 - judged, as at a settlement
        course.outcome = stage.judge(found, error)
        course.errors.append(error)
        return
    told.sent = [
        *_sent_rows("command", [draft for draft, _ in course.sent], commands),
        *_sent_rows("event", [d for d, _ in course.emitted if isinstance(d, EventDraft)], events),
    ]
    told.remarks += [
        f"It sends the webhook {draft.type}: a delivery for each endpoint whose types match."
        for draft, _ in course.emitted
        if isinstance(draft, WebhookDraft)
    ]
    told.batches = [*_batches(course.planned)]


def _sent_rows(
    kind: store.Kind, drafts: Sequence[CommandDraft | EventDraft], written: Sequence[WrittenRow]
) -> Iterator[SentRow]:
    """What became of each; an event has a row for each topic."""
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


def _note(course: Course, told: Rehearsal) -> None:
    """How it ended."""
    outcome = course.outcome
    told.outcome, told.run_at = name(outcome), _again_at(outcome)
    told.result, told.events = course.result, course.events
    told.failure = course.errors[0] if course.errors else None
    if isinstance(outcome, Retrying | Dead):
        failure = outcome.failure
        told.error, told.path = failure.error, failure.path
        told.traceback = failure.traceback or None
    if not isinstance(outcome, Succeeded):
        told.undone, told.result = bool(told.writes), None
    if course.chunk is not None:
        info = course.chunk
        told.chunk = {"topic": info.topic, "key": info.key, "events": info.size}


def _again_at(outcome: Outcome) -> datetime | None:
    if isinstance(outcome, Deferred) and outcome.until is not None:
        return outcome.until
    if isinstance(outcome, Deferred | Retrying) and outcome.delay is not None:
        return datetime.now(UTC) + timedelta(seconds=outcome.delay)
    return None


def _since(before: Iterable[TableWrites], now: Iterable[TableWrites]) -> list[TableWrites]:
    """What was written between two looks."""
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
    """The lines of the handlers and their packages, and warnings of others but ours."""
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


def _remarks(told: Rehearsal, terms: RehearsalTerms, usual: Database) -> Iterator[str]:
    """What a bound of the rehearsal has to do with its end, or a right that is missing."""
    if isinstance(told.failure, BdbQuit):
        yield "The debugger was left, which ended the handler: how the row would end is not known."
    states = {*_states(told.failure)}
    if _LOCK in states:
        yield (
            f"A statement waited for a lock for longer than {_shown(terms.lock_timeout)} "
            "(--lock-timeout): another session holds it, such as a worker's or a producer's. "
            f"A worker waits {_shown(usual.lock_timeout)} (database.lock_timeout)."
        )
    if _TIME in states:
        yield (
            f"A statement took longer than {_shown(terms.statement_timeout)} "
            f"(--statement-timeout). A worker's may take {_shown(usual.statement_timeout)} "
            "(database.statement_timeout)."
        )
    if _RIGHT in states:
        yield (
            f"The role {told.role!r} lacks a right that is named in the error: grant it, or "
            "rehearse with the daemon's database.dsn."
        )


def _states(error: BaseException | None) -> Iterator[str]:
    """The SQLSTATEs of an error, and of what led to it."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield str(getattr(error, "sqlstate", None) or "")
        error = error.__cause__ or error.__context__


def _shown(time_: timedelta) -> str:
    return span(time_.total_seconds())
