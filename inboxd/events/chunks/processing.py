"""Visits to the buckets of batch topics, beside the pages of single events.

At most one task of this worker visits a bucket. A chunk which makes its transaction fail is halved
until the event at fault is alone; after a death, chunks run one by one, each counted before it
runs, and the events of a counted chunk run alone (ADR 3). *See:* `events/processing.py`; `visit`.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import anyio
import anyio.lowlevel
from anyio.abc import TaskGroup

from inboxd.api.records import ChunkHandler
from inboxd.engine.forgiveness import LossExemptions
from inboxd.engine.parts import Parts
from inboxd.engine.processor import Survey, soonest
from inboxd.events.chunks.cursors import ChunkCursors
from inboxd.events.chunks.lone_chunk import LoneChunk
from inboxd.events.chunks.making import ROWS
from inboxd.events.chunks.recovery import VisitRecovery
from inboxd.events.chunks.run import ChunkRun
from inboxd.events.chunks.visit import Visit
from inboxd.events.horizon import HorizonReader
from inboxd.events.quarantine import Quarantine
from inboxd.events.settling import EventSettling
from inboxd.events.sources.source import LineLook
from inboxd.model.arrivals import Bucket
from inboxd.model.lane import Lane
from inboxd.store import lines, topics
from inboxd.store.pools import lend, transaction
from inboxd.store.session import Session
from inboxd.telemetry.logs import get_logger

_log = get_logger(__name__)

_DUE = 200
# Number of chunks that run one by one after a death.
_CAREFUL = 100
# Pause before the next visit to a bucket, in seconds: the first, and the longest.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.005, 0.5


@dataclass(frozen=True, slots=True)
class ChunkCalls:
    """suspects: events must run alone, since one of them may kill its worker."""

    ended: Callable[[], None]
    suspects: Callable[[], None]
    left_to_peer: Callable[[], None]


class ChunkProcessing:
    def __init__(
        self,
        parts: Parts,
        tasks: TaskGroup,
        reader: HorizonReader,
        run: ChunkRun,
        settling: EventSettling,
        calls: ChunkCalls,
    ) -> None:
        self._calls = calls
        self._run = run
        self._parts = parts
        self._tasks = tasks
        self._reader = reader
        self._rewinds = reader.rewinds
        self._settling = settling
        self._cursors = ChunkCursors(parts.controls)
        self._visits: dict[Bucket, Visit] = {}
        self._pauses: dict[Bucket, tuple[float, float]] = {}
        # Buckets with a failed transaction: one chunk per transaction until the cause is found.
        self._alone: set[Bucket] = set()
        self._quarantine = Quarantine(parts, "chunk")
        losses = LossExemptions(parts.settings.worker.crash_limit)
        self._recovery = VisitRecovery(parts, settling, self._cursors, self._quarantine, losses)
        self._stopping = False
        self._idle = anyio.Event()
        self._idle.set()

    @property
    def in_flight(self) -> int:
        return sum(part.size for visit in self._visits.values() for _, part in visit.ran[-1:])

    @property
    def is_visiting(self) -> bool:
        return bool(self._visits)

    @property
    def again(self) -> float | None:
        """Seconds until a paused bucket may be visited; None: none has anything to do."""
        waiting = [
            until for bucket, (until, _) in self._pauses.items() if bucket in self._cursors.due
        ]
        return max(0.0, min(waiting) - time.monotonic()) if waiting else None

    def be_careful(self) -> None:
        self._quarantine.begin(_CAREFUL)

    def forget(self) -> None:
        self._cursors.forget()
        self._pauses.clear()

    async def survey(self, session: Session, looked: LineLook) -> Survey:
        served = self._parts.registry.chunks
        if not served:
            return Survey(due=False, next=None)
        for each in looked.arrived:
            bucket = (each.topic, each.bucket)
            if each.topic in served and bucket not in self._visits:
                # An intake adds events before the existing ones.
                first = 1 if each.topic in looked.held else each.first
                self._cursors.rewind(bucket, min(first - 1, looked.complete[each.bucket]))
                self._cursors.hint(bucket)
        seen = [s for s, _ in looked.heads if s.key[0] in served]
        lanes = [Lane(s.key) for s in seen if s.oldest is not None]
        if lanes:
            for head in await lines.due_heads(session, lanes, _DUE):
                self._cursors.hint((head.line.topic, head.line.bucket), [head.line.key])
        nearest = soonest([*(s.next for s in seen), self.again])
        return Survey(bool(self._ready()), nearest)

    def start(self) -> int:
        room = self._parts.settings.events.chunk_concurrency - len(self._visits)
        begun = self._ready()[: max(0, room)] if not self._stopping else []
        for bucket in begun:
            handler = self._parts.registry.chunks[bucket[0]]
            self._visits[bucket] = self._visit(bucket, handler)
            self._idle = anyio.Event()
            self._tasks.start_soon(self._stay, bucket, handler)
        return len(begun)

    async def finish(self) -> None:
        self._stopping = True
        while self._visits:
            await self._idle.wait()

    async def give_back(self) -> None:
        await self._quarantine.give_back()

    # ------------------------------------------------------------------------------ one bucket

    def _ready(self) -> list[Bucket]:
        now = time.monotonic()
        served = self._parts.registry.chunks
        return [
            bucket
            for bucket in self._cursors.due
            if bucket not in self._visits
            and self._pauses.get(bucket, (0.0, 0.0))[0] <= now
            and self._cursors.allows(served[bucket[0]])
        ]

    def _visit(self, bucket: Bucket, handler: ChunkHandler) -> Visit:
        keys = self._cursors.due.pop(bucket, set())
        return Visit(
            self._parts,
            self._run,
            self._settling,
            self._cursors,
            handler,
            bucket,
            keys,
            enough=1 if bucket in self._alone else ROWS,
            careful=self._quarantine.is_on,
        )

    async def _stay(self, bucket: Bucket, handler: ChunkHandler) -> None:
        try:
            while True:
                visit = self._visits[bucket]
                await self._turn(visit)
                if visit.more:
                    self._cursors.hint(bucket)
                stops = self._stopping or self._parts.exclusive_run.wanted
                if not visit.more or stops or self._ready() or bucket in self._pauses:
                    return
                self._visits[bucket] = self._visit(bucket, handler)
        finally:
            del self._visits[bucket]
            if not self._visits:
                self._idle.set()
            self._calls.ended()

    async def _turn(self, visit: Visit) -> None:
        """Make one visit, and handle its failure; does not raise."""
        session = None
        try:
            async with lend(self._parts.pool) as session:
                await self._transact(session, visit)
                await self._one_by_one(session, visit)
        except Exception as error:  # noqa: BLE001 - the next visit must come
            lost = session is None or session.connection.is_closed()
            await self._failed(visit, error, lost=lost)

    async def _transact(self, session: Session, visit: Visit) -> None:
        bucket = visit.bucket
        async with transaction(self._parts.pool, session):
            if not await self._may_begin(session, bucket):
                self._pause(bucket)
                self._cursors.hint(bucket, visit.keys)
                return
            await visit.run(session, self._reader.horizon.bound(bucket[1], bucket[0]))
        self._cursors.advance(bucket, visit.last)
        await self._count(visit)
        if visit.ran and not visit.failed:
            self._alone.discard(bucket)
        if visit.rows:
            self._pauses.pop(bucket, None)
        if visit.waits or not visit.rows:
            self._pause(bucket)
        if visit.waits:
            self._cursors.hint(bucket, visit.keys)

    async def _may_begin(self, session: Session, bucket: Bucket) -> bool:
        """Lock the bucket and a slot of its topic; read the horizon if it is due."""
        if not await lines.try_buckets(session, [bucket]):
            return False
        if not await self._has_slot(session, bucket[0]):
            return False
        await self._reader.read_if_due(session)
        if self._rewinds != self._reader.rewinds:
            self._rewinds = self._reader.rewinds
            self._cursors.forget()
        # Chunks, too, must wait for an intake into their topic.
        return bucket[0] not in self._reader.horizon.held

    async def _has_slot(self, session: Session, topic: str) -> bool:
        slots = self._parts.registry.topics[topic].total_concurrency
        if slots is None:
            return True
        return bool(await topics.try_slots(session, [topic], [slots]))

    def _pause(self, bucket: Bucket) -> None:
        pause = min(2 * self._pauses.get(bucket, (0.0, _FIRST_PAUSE / 2))[1], _LONGEST_PAUSE)
        self._pauses[bucket] = (time.monotonic() + pause, pause)

    async def _count(self, visit: Visit) -> None:
        """Count committed events; yield to other tasks, since there may be a million."""
        tally, topic = self._parts.metrics.tally, visit.bucket[0]
        for written in visit.written:
            for type_, tenant, rows, seconds, waited in written.types:
                since_due = max(0.0, waited)
                for _ in range(rows):
                    tally.add(
                        *("event", type_, "succeeded", seconds, since_due),
                        *(topic, since_due, "", tenant),
                    )
                await anyio.lowlevel.checkpoint()
            self._settling.count(written.results)
            if written.results.left_to_peer:
                self._calls.left_to_peer()

    async def _failed(self, visit: Visit, error: Exception, *, lost: bool) -> None:
        """Visit the bucket again after a pause, since a visit did not commit."""
        self._pause(visit.bucket)
        self._cursors.hint(visit.bucket, visit.keys)
        if await self._recovery.sort_out(visit, error, lost=lost):
            self._alone.add(visit.bucket)

    # -------------------------------------------------------------------------------- suspects

    async def _one_by_one(self, session: Session, visit: Visit) -> None:
        mine = [key for bucket, key in self._cursors.suspects if bucket == visit.bucket]
        self._cursors.suspects = [s for s in self._cursors.suspects if s[0] != visit.bucket]
        for key in mine:
            visit.ran.clear()
            alone = replace(visit, written=[], failed=[], rows=0)
            suspect = LoneChunk(self._parts, alone, key, self._quarantine, self._calls.suspects)
            mark = await self._quarantine.mark(session, suspect)
            if mark is not None:
                await self._quarantine.run(session, suspect, mark)
                self._quarantine.one_less()
                await self._count(alone)
            visit.more = visit.more or alone.more
