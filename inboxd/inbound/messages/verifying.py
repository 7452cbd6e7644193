"""Compares the brokers' contents, the stored positions, and the rows of the last stored messages.

A gap is a position from which the broker cannot continue, or messages up to it without events that
are too new for history to have dropped them. Nothing is consumed or changed; a reader that
continues meanwhile causes no gap. Known limits: a message without a row may have been erased, or
skipped by a reset; a message's age is by the broker's clock.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID

import anyio

from inboxd.brokers import kinds
from inboxd.brokers.contract import IncomingMessage, SeenStream, StreamPosition
from inboxd.errors import DatabaseError, InboxdError, SchemaError
from inboxd.inbound.messages.compiled import CompiledMessageSource
from inboxd.model.message import ReceivedMessage
from inboxd.model.wording import plural
from inboxd.operations.doctor.finding import Verdict
from inboxd.settings import Broker, MessageSource, Settings
from inboxd.store import stream_positions, topics
from inboxd.store.session import Session

# A reader may continue during the comparison: compare again if the position has changed.
_TRIES = 3
# Seconds beyond `connect_timeout` of each server.
LOOKING_SECONDS = 60.0
_SHOWN = 5  # the most ranges of positions in a text
_WHERE_TO_GO_ON = ". Set where to continue: "  # begins the remedy in each `StreamLost`


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedStream:
    """oldest, end: positions that the broker has; None: it has none, or was not asked.

    waiting: messages behind the position; None: unknown. looked: stored messages that were compared
    with rows; missing: positions without rows. seen: whether the broker was asked.
    """

    source: str
    broker: str | None
    stream: str | None
    position: int | None
    stored_at: datetime | None
    oldest: int | None = None
    end: int | None = None
    waiting: int | None = None
    looked: int = 0
    missing: Sequence[int] = ()
    seen: bool = True
    verdict: Verdict = Verdict.OK
    found: str = ""
    remedy: str = ""


_Rows = Mapping[str, stream_positions.StreamRow]


async def verify(session: Session, settings: Settings, most: int) -> list[VerifiedStream]:
    """All streams of the sources. most: how many stored messages of each to compare with rows."""
    found = []
    for name, source in settings.inbound.messages.items():
        found += await _Comparison(session, settings, name, source, most).streams()
    known = {(each.source, each.stream) for each in found if each.seen}
    unseen = {each.source for each in found if not each.seen}
    for row in await stream_positions.listed(session):
        if row["source"] not in unseen and (row["source"], row["stream"]) not in known:
            found.append(_given_up(row))
    return found


class _Comparison:
    def __init__(
        self, session: Session, settings: Settings, name: str, source: MessageSource, most: int
    ) -> None:
        self._session = session
        self._settings = settings
        self._name = name
        self._source = source
        self._most = most
        self._broker: Broker = settings.brokers[source.broker]

    async def streams(self) -> list[VerifiedStream]:
        """A result for each stream; one result for all, if the broker cannot be asked."""
        limit = (
            self._broker.connect_timeout.total_seconds() * len(self._broker.servers)
            + LOOKING_SECONDS
        )
        try:
            with anyio.fail_after(limit):
                compiled = CompiledMessageSource(self._name, self._broker.kind, self._source)
                rows, seen = await self._look()
                return [await self._judge(compiled, rows, each) for each in seen]
        except (DatabaseError, SchemaError):
            raise
        except TimeoutError:
            return [self._unseen(f"the broker did not answer within {limit:g} s")]
        except InboxdError as error:
            return [self._unseen(str(error))]

    async def _look(self) -> tuple[_Rows, Sequence[SeenStream]]:
        """The stored positions, and the broker's contents, which are read after them."""
        look_at = kinds.look_of(self._broker.kind)
        rows = await self._rows()
        seen: Sequence[SeenStream] = ()
        for _ in range(_TRIES):
            given = (self._source.broker, self._broker, self._name, self._source)
            seen = await look_at(*given, _positions(rows), self._most)
            before, rows_now = rows, await self._rows()
            if not any(each.lost for each in seen) or _positions(rows_now) == _positions(before):
                break
            rows = rows_now
        return rows, seen

    async def _rows(self) -> _Rows:
        listed = await stream_positions.listed(self._session, self._name)
        return {row["stream"]: row for row in listed}

    async def _judge(
        self, compiled: CompiledMessageSource, rows: _Rows, seen: SeenStream
    ) -> VerifiedStream:
        row = rows.get(seen.stream)
        position = None if row is None else row["position"]
        missing = [] if seen.lost else await self._missing(compiled, seen.latest)
        verdict, found, remedy = Verdict.OK, _described(seen, position), ""
        if seen.lost:
            verdict = Verdict.CRITICAL
            found, _, remedy = seen.lost.partition(_WHERE_TO_GO_ON)
        elif missing:
            verdict = Verdict.WARNING
            found += f"; no rows: {_ranges(missing)}"
            to = "oldest" if missing[0] <= (seen.oldest or 0) else missing[0] - 1
            remedy = (
                "nothing, if these were erased, left out by a reset, or came twice under a dedup "
                f"key; else `inboxd messages reset {self._name} {seen.stream} --to {to}`: later "
                "messages are delivered and stored again"
            )
        return VerifiedStream(
            source=self._name,
            broker=self._source.broker,
            stream=seen.stream,
            position=position,
            stored_at=None if row is None else row["stored_at"],
            oldest=seen.oldest,
            end=seen.end,
            waiting=seen.waiting,
            looked=len(seen.latest),
            missing=missing,
            verdict=verdict,
            found=found,
            remedy=remedy,
        )

    async def _missing(
        self, compiled: CompiledMessageSource, messages: Sequence[IncomingMessage]
    ) -> list[int]:
        oldest = _kept_since(self._settings)
        read = {
            message.position: compiled.received(message)
            for message in messages
            if message.position is not None and _is_newer(message, oldest)
        }
        ids = {position: {*_ids(each)} for position, each in read.items()}
        there = await stream_positions.there(self._session, set[UUID]().union(*ids.values()))
        without = {at: each for at, each in read.items() if not there & ids[at]}
        by_key = await self._with_dedup_keys(without.values()) if without else frozenset()
        return sorted(
            at
            for at, each in without.items()
            if not any(event.dedup_key or event.type in by_key for event in each.events)
        )

    async def _with_dedup_keys(self, messages: Iterable[ReceivedMessage]) -> frozenset[str]:
        """Types of events that a topic may have dropped as duplicates."""
        session = self._session
        listed = await topics.listed(session)
        by_key = {row["topic"] for row in listed if row["dedup_path"] is not None}
        found = set()
        for type_ in {event.type for each in messages for event in each.events}:
            meant = self._source.topics or await topics.of_types(session, [type_])
            if by_key.intersection(meant):
                found.add(type_)
        return frozenset(found)

    def _unseen(self, why: str) -> VerifiedStream:
        return VerifiedStream(
            source=self._name,
            broker=self._source.broker,
            stream=None,
            position=None,
            stored_at=None,
            seen=False,
            verdict=Verdict.WARNING,
            found=f"not compared: {why}",
            remedy="correct the cause, and run the command again",
        )


def _positions(rows: _Rows) -> dict[str, StreamPosition]:
    return {
        stream: StreamPosition(row["position"], row["identity"])
        for stream, row in rows.items()
        if row["position"] is not None
    }


def _given_up(row: stream_positions.StreamRow) -> VerifiedStream:
    return VerifiedStream(
        source=row["source"],
        broker=None,
        stream=row["stream"],
        position=row["position"],
        stored_at=row["stored_at"],
        verdict=Verdict.NOTICE,
        found=f"stored up to {row['position']}, and these settings have no source that consumes it",
        remedy="nothing, if that is intended; else give the command the workers' settings",
    )


def _described(seen: SeenStream, position: int | None) -> str:
    waits = "" if seen.waiting is None else f"waiting: {seen.waiting:,}"
    if seen.oldest is None or seen.end is None:
        return f"a queue, which has no positions; {waits}"
    there = f"{seen.oldest} to {seen.end}" if seen.end >= seen.oldest else "nothing"
    begun = "nothing is stored" if position is None else f"stored up to {position}"
    found = ", ".join(filter(None, (begun, f"the broker has {there}", waits)))
    if seen.latest:
        found += f"; compared with rows: {plural(len(seen.latest), 'message')}"
    return found


def _ids(message: ReceivedMessage) -> Iterator[UUID]:
    yield from (event.event_id for event in message.events)
    if message.other_id is not None:
        yield message.other_id


def _kept_since(settings: Settings) -> datetime | None:
    """Messages sent after this time are certainly in history; None: all messages are."""
    kept = [settings.history.events, *(each.retention for each in settings.types.values())]
    ages: list[timedelta] = [age for age in kept if age is not None]
    return datetime.now(UTC) - min(ages) if ages else None


def _is_newer(message: IncomingMessage, oldest: datetime | None) -> bool:
    if oldest is None:
        return True
    return message.sent_at is not None and message.sent_at > oldest.timestamp()


def _ranges(positions: Sequence[int]) -> str:
    """A text such as "6 to 8, 11", with at most _SHOWN ranges."""
    found: list[list[int]] = []
    for position in positions:
        if found and position == found[-1][1] + 1:
            found[-1][1] = position
        else:
            found.append([position, position])
    told = [str(one) if one == other else f"{one} to {other}" for one, other in found[:_SHOWN]]
    more = len(found) - _SHOWN
    return ", ".join(told) + (f", and {more} more ranges" if more > 0 else "")
