"""Events that no living worker handles: kept, dead letters, or ignored on purpose (promise 10).

Owns what becomes of those in lanes, and how ignored ones end (`Choice`); lines are for
`unhandled_lines`. Promises that nothing is touched that a living worker handles, nor
before the grace is over, so that a rolling deploy loses nothing; that what is kept costs nobody
anything but a probe for each topic and type; and that what is ignored is counted in the transaction
that ends it. Known limit: the grace counts from when this worker first saw the lane.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from time import monotonic
from uuid import UUID

import orjson

from inboxd.api.topics import DEFAULT
from inboxd.maintenance.grace import Grace, IsOpen
from inboxd.model.lane import Key, Sighting
from inboxd.settings import Unhandled
from inboxd.store import events, statistics, workers
from inboxd.store.connections import Connection
from inboxd.store.pools import Pool, lend, transaction
from inboxd.store.statements import Statements
from inboxd.telemetry.logs import get_logger
from inboxd.telemetry.metrics import Metrics

_log = get_logger(__name__)

_PAGE = 1_000


@dataclass(slots=True)
class Choice:
    """What the settings say of each type (`of`), and what follows from it; `me` counts."""

    of: Callable[[str], Unhandled]
    sql: Statements
    metrics: Metrics
    me: UUID
    _told: set[tuple[str, str]] = field(default_factory=set)

    def tell_kept(self, lanes: Iterable[Key]) -> None:
        """Say once of each (topic, type) that its events are kept."""
        kept = {(str(topic), str(type_)) for topic, type_ in lanes}
        for topic, type_ in sorted(kept - self._told):
            _log.warning("nobody handles these events: they are kept", topic=topic, type=type_)
        self._told = kept

    async def ignore(self, connection: Connection, topic: str, type_: str, ids: list[int]) -> None:
        """Let events, locked in the caller's transaction, end as dismissed."""
        if ids:
            reason = f'Ignored: {_nobody(topic, type_)}, and unhandled = "ignore"'
            gone = await events.ignore(connection, self.sql, ids, _error(reason))
            await statistics.add_ignored(connection, self.sql, self.me, type_, gone)

    def ignored(self, topic: str, type_: str, count: int) -> None:
        """Count what has been committed."""
        if count:
            self.metrics.count_ignored(type_, count)
            _log.info("ignored events that nobody handles", topic=topic, type=type_, events=count)


def dead_letter(topic: str, type_: str) -> str:
    """The entry of `errors` of an event that is a dead letter since nobody handles it."""
    reason = f"NoHandler: {_nobody(topic, type_)}: install a plugin that declares it, then replay"
    return _error(f"{reason} the row")


def _nobody(topic: str, type_: str) -> str:
    where = f" in topic {topic!r}" if topic != DEFAULT else ""
    return f"no live worker handles event type {type_!r}{where}"


def _error(reason: str) -> str:
    return orjson.dumps({"error": reason}).decode()


class UnhandledEvents:
    """One turn for the lanes of events."""

    def __init__(
        self, pool: Pool, sql: Statements, grace: timedelta, is_open: IsOpen, choice: Choice
    ) -> None:
        """Do what `choice` says with lanes that nobody has handled for `grace`.

        `is_open` says that a lane is not paused: what an operator holds back is nobody's failure.
        """
        self._pool = pool
        self._sql = sql
        self._grace = grace
        self._is_open = is_open
        self._choice = choice
        self._lanes = Grace(grace.total_seconds())

    async def turn(self) -> None:
        """Look once."""
        async with lend(self._pool) as connection:
            async with transaction(self._pool, connection):
                seen = await events.survey(connection, self._sql)
                pairs = [(str(s.key[0]), str(s.key[1])) for s in seen]
                nobodys = await workers.unhandled(connection, self._sql, pairs)
            open_ = [pair for pair in nobodys if self._is_open("topic", *pair)]
            due = set(self._lanes.look(open_, monotonic()))
            self._choice.tell_kept(p for p in due if self._choice.of(str(p[1])) == "keep")
            await self._end(connection, [s for s in seen if s.key in due])

    async def _end(self, connection: Connection, lanes: Sequence[Sighting]) -> None:
        for lane in lanes:
            topic, type_ = str(lane.key[0]), str(lane.key[1])
            choice = self._choice.of(type_)
            if choice == "dead":
                await self._fail(connection, lane, topic, type_)
            elif choice == "ignore":
                await self._ignore(connection, lane, topic, type_)

    async def _fail(self, connection: Connection, lane: Sighting, topic: str, type_: str) -> None:
        error, total, failed = dead_letter(topic, type_), 0, _PAGE
        while failed == _PAGE:
            async with transaction(self._pool, connection):
                failed = await events.fail_unhandled(
                    connection, self._sql, lane, error, _PAGE, self._grace
                )
            total += failed
        if total:
            _log.error("no handler", kind="event", topic=topic, type=type_, dead_letters=total)

    async def _ignore(self, connection: Connection, lane: Sighting, topic: str, type_: str) -> None:
        total, ids = 0, [0] * _PAGE
        while len(ids) == _PAGE:
            async with transaction(self._pool, connection):
                ids = await events.stranded(connection, self._sql, lane, _PAGE, self._grace)
                await self._choice.ignore(connection, topic, type_, ids)
            total += len(ids)
        self._choice.ignored(topic, type_, total)
