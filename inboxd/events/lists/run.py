"""The run of a list through its handler, and what then has to be written.

Owns what happens between the events of a list and the statements that settle them. Promises that a
failing list is undone by its savepoint and halved, each half in a savepoint of its own, until the
event that spoils it stands alone: it waits for its retry, or is a dead letter, and the others are
done. Where everything fails, nothing is to be isolated: when all of its events have failed, or so
many parts of it, and none has succeeded, the list is set back as a whole. Known limit: what a
handler did outside the database before it failed is done again for each half.
"""

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from typing import Any

import anyio.lowlevel

from inboxd.api.connection import BlockingConnection
from inboxd.api.context import EventContext
from inboxd.api.lists import BlockingEventList, EventList, Facts
from inboxd.api.messages import moment
from inboxd.api.records import ListHandler
from inboxd.engine import telling
from inboxd.engine.execution import Task
from inboxd.engine.outcomes import is_ours
from inboxd.engine.parts import Parts
from inboxd.errors import (
    Defer,
    HandlerTimeout,
    NoHandler,
    PayloadError,
    Reject,
    Retry,
)
from inboxd.events.lists.reading import Ask, Held, Part, Payloads, Stored, Unread, read_rows
from inboxd.events.settling import EventSettling, Outgoing, Results, Spoiled
from inboxd.model.lineage import Lineage, child_of, uuid7
from inboxd.model.outcome import Succeeded
from inboxd.store.commands import Parent
from inboxd.store.connections import Connection
from inboxd.store.events import Setback
from inboxd.store.handler_connection import PageSavepoint
from inboxd.store.lists import Common, Stretch
from inboxd.store.rows import ClaimedEvent
from inboxd.telemetry.logs import bound, get_logger

_handler_log = get_logger("inboxd.handler")

# So many runs of parts without a success, and it is not one event that spoils the list.
_HOPELESS = 32
# So many outcomes of single events are noted at once.
_AT_ONCE = 100


@dataclass(slots=True)
class Written:
    """What lists have to write. settled: stretches of lines, with the seconds of each event.

    leaving: ids of filed events that do not stay in their lines.
    """

    results: Results = field(default_factory=Results)
    settled: list[tuple[Stretch, float, float]] = field(default_factory=list)
    leaving: list[int] = field(default_factory=list)
    # Of settled stretches: type, events, seconds of each, how long the list had been due.
    types: list[tuple[str, int, float, float]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Listed:
    """A list that is due, before it is run."""

    handler: ListHandler
    facts: Facts
    whole: Part
    unread: Unread


class ListRun:
    """Runs lists in the transaction of a visit."""

    def __init__(self, parts: Parts, settling: EventSettling) -> None:
        """Run lists with the plugins of `parts`; `settling` judges what fails."""
        self._parts = parts
        self._settling = settling

    def limit(self, handler: ListHandler) -> float:
        """Seconds that a list has."""
        return handler.runs.timeout or self._parts.settings.events.list_timeout.total_seconds()

    async def run(
        self, task: Task, connection: Connection, listed: Listed, written: Written
    ) -> BaseException | None:
        """Run a list; the error for which it is to be set back as a whole, if there is one."""
        mark = _Mark.of(written)
        todo: list[Part] = [listed.whole]
        course = _SplitProgress()
        while todo:
            part = todo.pop()
            if isinstance(part, Stored) and part is not listed.whole:
                held = await part.hold(connection, listed.unread)
                if held is None:
                    continue
                part = held
            error = await self._try(task, connection, listed, part, written)
            if error is None:
                course.successes += 1
                continue
            own = self._is_its_own(error, part.first, listed.handler)
            if part.size == 1 and not listed.handler.rule.belongs:
                self._set_back(written, part.first, error, listed.handler)
                course.failed(error, own=own, alone=True)
            elif not _may_halve(listed.handler, error):
                return mark.back(written, error) if part is listed.whole else error
            else:
                course.failed(error, own=own, alone=False)
                todo += reversed(part.halves())
            if course.is_hopeless(more=bool(todo)):
                return course.error if course.told else mark.back(written, course.error)
        return None

    def _is_its_own(self, error: BaseException, row: ClaimedEvent, handler: ListHandler) -> bool:
        """Whether an error speaks of what was run: a verdict, or a time of its own."""
        policy = self._settling.policy(handler.topic, handler.readers.get(row["type"]))
        own = (Reject, Retry, Defer, PayloadError, NoHandler)
        return isinstance(error, own) or policy.is_permanent(error)

    async def alone(
        self,
        task: Task,
        connection: Connection,
        row: ClaimedEvent,
        payloads: Payloads,
        results: Results,
    ) -> None:
        """Run an event as a list of one: a retry, a replay, or a suspect."""
        handler, written = self._parts.registry.lists[row["topic"]], Written(results)
        listed = self.listed(handler, [row], payloads)
        error = await self.run(task, connection, listed, written)
        if error is not None:
            self._set_back(written, row, error, handler)

    # -------------------------------------------------------------------------------- one run

    async def _try(
        self, task: Task, connection: Connection, listed: Listed, part: Part, written: Written
    ) -> BaseException | None:
        """Run one part; the error that undid it, if any. Raises Spoiled."""
        if telling.tells_starts():
            telling.list_starts(listed.facts, part.first, part.size)
        started = time.monotonic()
        preambles = (self._parts.pool.preamble, self.patience(listed.handler))
        savepoint = PageSavepoint(connection, "; ".join(filter(None, preambles)))
        results = written.results
        before = results.sizes()
        origin = _origin(part, await part.common(connection))
        try:
            events = await self._call(task, listed, part, savepoint, results, origin)
            if part.to_finish:
                await savepoint.tidy()  # it is read with the daemon's own rights and settings
                await part.finish(connection, listed.unread)
            await savepoint.keep()
        except BaseException as error:
            if is_ours(error):
                await savepoint.abandon()
                raise
            results.cut(before)
            await savepoint.undo()
            if savepoint.broken:
                # Remembered: the driver raises an error of its own when the transaction is left.
                reader = listed.handler.readers.get(part.first["type"])
                results.spoiled = Spoiled(part.first, reader, error)
                raise results.spoiled from error
            if connection.is_closed():
                raise
            return error
        seconds = time.monotonic() - started
        await self._settle(written, listed, part, events, seconds / part.size)
        if telling.tells_ends():
            more = sum(results.sizes()[:2]) - sum(before[:2])
            told = (listed.facts, part.size, seconds, more)
            results.told.append(partial(telling.list_succeeded, *told))
        return None

    async def _call(
        self,
        task: Task,
        listed: Listed,
        part: Part,
        savepoint: PageSavepoint,
        results: Results,
        origin: tuple[Any, Parent],
    ) -> EventList[Any] | BlockingEventList[Any]:
        handler, runs = listed.handler, listed.handler.runs
        ask: Ask = savepoint.lend
        lend: Callable[[], Any] = savepoint.lend
        make: Any = EventList
        if runs.executor == "thread":
            lend = lambda: BlockingConnection(savepoint.lend())  # noqa: E731 - as short as its name
            make = BlockingEventList
        size = len(part.events) if isinstance(part, Held) else part.size
        facts = replace(listed.facts, size=size)
        events = make(facts, partial(part.read, ask, listed.unread))
        if isinstance(part, Held) and not part.events:
            return events  # type: ignore[no-any-return] # all are unreadable: there is no list
        row, parent = origin
        context = EventContext(row, lend, self._parts.registry, _handler_log)
        with bound(topic=facts.topic, key=facts.key, correlation_id=context.correlation_id):
            try:
                await self._parts.executions.run(
                    task, "event", row["id"], runs, events, context, self.limit(handler)
                )
                plan = context.plan()
            finally:
                events.end()
                context.close()
        plans = [] if plan is None else [plan]
        Outgoing(context.drafts, context.events, plans).note(parent, results)
        return events  # type: ignore[no-any-return] # one of the two

    def patience(self, handler: ListHandler) -> str:
        """What lets the server wait for as long as the list may take."""
        usual = self._parts.settings.database.idle_in_transaction_timeout.total_seconds()
        seconds = max(usual, self.limit(handler) + usual)
        return f"SET LOCAL idle_in_transaction_session_timeout = {int(seconds * 1000)}"

    # ------------------------------------------------------------------------------- outcomes

    async def _settle(
        self,
        written: Written,
        listed: Listed,
        part: Part,
        events: EventList[Any] | BlockingEventList[Any],
        seconds: float,
    ) -> None:
        """Note what became of each event of a part whose handler ended well."""
        own = _own_outcomes(events, listed.unread, part)
        for number, (row, error) in enumerate(own.values(), 1):
            self._set_back(written, row, error, listed.handler)
            if number % _AT_ONCE == 0:  # each is logged: the others have their turn
                await anyio.lowlevel.checkpoint()
        if isinstance(part, Stored):
            written.settled.append((part.stretch, seconds, part.first["waited"]))
            return
        assert isinstance(part, Held)  # noqa: S101 - there are two forms
        rows = part.rows if not own else [row for row in part.rows if row["id"] not in own]
        results = written.results
        results.done += [(row["id"], seconds) for row in rows]
        succeeded = Succeeded()
        results.counts += [
            (row["type"], succeeded, seconds, max(0.0, row["waited"])) for row in rows
        ]

    def _set_back(
        self, written: Written, row: ClaimedEvent, error: BaseException, handler: ListHandler
    ) -> None:
        """One event waits for its retry, alone, or is a dead letter."""
        if row.get("place") is not None:  # one that is run from its lane has no place
            written.leaving.append(row["id"])
        reader = handler.readers.get(row["type"])
        if isinstance(error, NoHandler) and reader is None:
            # Another worker may take it; if none does, `events.unhandled` decides.
            written.results.setbacks.append(Setback(row["id"], "pending", delay=0.0))
            return
        outcome = self._settling.judge(error, row, reader)
        self._settling.set_back(row, outcome, written.results)
        written.results.counts.append((row["type"], outcome, 0.0, max(0.0, row["waited"])))

    def listed(
        self, handler: ListHandler, rows: Sequence[ClaimedEvent], payloads: Payloads
    ) -> Listed:
        """The list of rows that are in memory."""
        unread = Unread()
        events = read_rows(handler.readers, rows, payloads, unread)
        types = {event.type for event in events}
        facts = facts_of(handler, rows[0], len(events), types)
        return Listed(handler, facts, Held(rows, events), unread)


def facts_of(handler: ListHandler, first: ClaimedEvent, size: int, types: Collection[str]) -> Facts:
    """What is known of a list of `size` events of these types, which begins with the row `first`.

    It is taken now, by the database's clock. What cannot be read is no part of it, and is missing.
    """
    rule = handler.rule
    oldest = moment(first["created_at"])
    now = oldest + timedelta(seconds=first["age"])
    closes_at = rule.closes_at(oldest)
    opened_at = None if closes_at is None else rule.opened_at(closes_at)
    missing = rule.missing(types)
    short = len(missing) if rule.expected else max(0, (rule.full or 0) - size)
    return Facts(
        topic=handler.topic,
        key=first["ordering_key"] or "",
        size=size,
        since=oldest if opened_at is None else opened_at,
        until=now if closes_at is None else min(now, closes_at),
        missing=missing,
        short=short,
    )


def left_of(part: Held, written: Sequence[Results]) -> list[ClaimedEvent]:
    """The events of a list that nothing was noted of."""
    met = {id_ for results in written for id_, _ in results.done}
    met |= {each.id for results in written for each in results.setbacks}
    return [row for row in part.rows if row["id"] not in met]


def _may_halve(handler: ListHandler, error: BaseException) -> bool:
    """Whether half of the list may be run instead, at once."""
    return handler.may_split and not isinstance(error, (Retry, Defer, HandlerTimeout))


def _origin(part: Part, common: Common) -> tuple[Any, Parent]:
    """What a list's context shows of its row, and what its commands come from: its first event.

    Its story is that of its events, if they have one in common, or else a story of its own.
    """
    first = part.first
    if part.size == 1:
        lineage = Lineage(first["correlation_id"], first["causation_id"], first["traceparent"])
        return first, Parent("event", first["id"], child_of(lineage, first["event_id"]))
    own = uuid7()
    story = common.correlation_id or str(own)
    row = {
        "id": first["id"],
        "event_id": own,
        "correlation_id": story,
        "tenant": common.tenant,
        "attempts": first["attempts"],
    }
    return row, Parent(
        "event", first["id"], Lineage(story, first["event_id"], first["traceparent"])
    )


def _own_outcomes(
    events: EventList[Any] | BlockingEventList[Any], unread: Unread, part: Part
) -> dict[int, tuple[ClaimedEvent, BaseException]]:
    """The events of a part that are not done although its handler ended well."""
    return {**part.unread(unread), **events.outcomes}


@dataclass(slots=True)
class _SplitProgress:
    """How the parts of a list have fared.

    told: of one event it is known what becomes of it. error: what the list, or the rest of it, is
    set back for: the last one that is not an event's own, as long as there was any.
    """

    successes: int = 0
    failures: int = 0
    told: bool = False
    error: BaseException = field(default_factory=RuntimeError)
    _general: bool = False

    def failed(self, error: BaseException, *, own: bool, alone: bool) -> None:
        """A part has failed, or an event alone."""
        self.failures += 1
        self.told = self.told or (own and alone)
        if not (own and self._general):
            self.error, self._general = error, not own

    def is_hopeless(self, *, more: bool) -> bool:
        """Whether it is not single events that spoil the list; `more`: parts are left to be run."""
        if self.successes or self.failures == 1:
            return False
        return self.failures >= _HOPELESS if more else not self.told


@dataclass(frozen=True, slots=True)
class _Mark:
    """How much was written before a list."""

    setbacks: int
    counts: int
    leaving: int

    @classmethod
    def of(cls, written: Written) -> "_Mark":
        results = written.results
        return cls(len(results.setbacks), len(results.counts), len(written.leaving))

    def back(self, written: Written, error: BaseException) -> BaseException:
        """Take back what was noted of a list that is set back as a whole."""
        del written.results.setbacks[self.setbacks :]
        del written.results.counts[self.counts :]
        del written.leaving[self.leaving :]
        return error
