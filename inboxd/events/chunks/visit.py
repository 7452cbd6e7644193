"""A visit to a bucket of a batch topic: one transaction, in which its chunks are made and run.

Full chunks of new arrivals run at once; other arrivals are lined up with their due times; then due
chunks run (promise 2). The chunk of a period runs only when each id drawn before the period's end
has committed or rolled back, and is lined up. Known limit: a producer that stays open over the end
of a period delays that period's chunks in its bucket. *See:* `processing`; `making`, `run`.
"""

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from inboxd.api.chunk_due import NEVER, SLACK
from inboxd.api.records import ChunkHandler
from inboxd.engine.parts import Parts
from inboxd.events.chunks.cursors import ChunkCursors
from inboxd.events.chunks.due_chunk import DueChunk
from inboxd.events.chunks.making import ROWS, ChunkMaker, pages
from inboxd.events.chunks.reading import ChunkPart
from inboxd.events.chunks.requeue import ChunkRequeue, FailedChunk, RequeueResult
from inboxd.events.chunks.run import ChunkRun
from inboxd.events.chunks.written import WrittenChunks
from inboxd.events.settling import EventSettling
from inboxd.model.arrivals import Bucket
from inboxd.store import bodies, chunks, lines
from inboxd.store.chunks import OpenLine
from inboxd.store.rows import ClaimedEvent
from inboxd.store.session import Session

_LINES = 500
_ENDS = 1_000


@dataclass(slots=True)
class Visit:
    """waits: open producers must end first. last: after the commit, all up to it are lined up."""

    parts: Parts
    chunks: ChunkRun
    settling: EventSettling
    cursors: ChunkCursors
    handler: ChunkHandler
    bucket: Bucket
    keys: set[str]
    more: bool = False
    waits: bool = False
    rows: int = 0
    last: int = 0
    exhausted: bool = True
    written: list[WrittenChunks] = field(default_factory=list)
    # The visit ends after this many rows; 1: it runs one chunk.
    enough: int = ROWS
    # Whether chunks run one by one, after the transaction that lines up their events.
    careful: bool = False
    # The chunks that ran; if the transaction fails, the last one is at fault.
    ran: list[tuple[str, ChunkPart]] = field(default_factory=list)
    failed: list[FailedChunk] = field(default_factory=list)
    _maker: ChunkMaker = field(init=False)

    def __post_init__(self) -> None:
        limits = self.settling.limits
        self._maker = ChunkMaker(limits, self.cursors, self.handler, self.bucket)

    async def run(self, session: Session, bound: int) -> None:
        """Run everything due, in a transaction that has the bucket. bound: the last id to read."""
        await session.connection.execute(self.chunks.patience(self.handler))
        after = self.last = self.cursors.after(self.bucket)
        full = self.handler.rule.full
        seen: Sequence[ClaimedEvent] | None = None
        if full is not None and full <= ROWS and not self.careful:
            seen = await lines.claim_arrivals(
                session, [lines.IdRange(*self.bucket, after, bound)], ROWS
            )
            await self._run_full(session, seen, full)
            await self._write(session)
        grown = await self._line_up(session, after, bound, seen)
        await self.requeue(session)
        await self._run_due(session, self.keys | set(grown), bound)
        await self._write(session)
        await self.requeue(session)

    async def run_one(self, session: Session, line: OpenLine) -> None:
        await session.connection.execute(self.chunks.patience(self.handler))
        chunk = await self._maker.at_head(session, line, self._maker.cap(line))
        await self._run(session, line.key, chunk)
        await self._write(session)
        await self.requeue(session)
        await self.look_again(session, [line.key])

    # ------------------------------------------------------------------------------- arrivals

    async def _run_full(self, session: Session, seen: Sequence[ClaimedEvent], full: int) -> None:
        """Run the chunks that new arrivals complete; their events need not be lined up first."""
        fresh: dict[str, list[ClaimedEvent]] = defaultdict(list)
        for row in seen:
            if row["type"] in self.handler.readers:  # other types do not count for a full chunk
                fresh[row["ordering_key"] or ""].append(row)
        lined_up = await self._lined_up(session, [row for row in seen if row["behind"]])
        for key, rows in fresh.items():
            line = lined_up.get(key)
            if line is None and rows[0]["behind"]:
                continue  # the line waits for a retry
            if line is not None and any(row["again"] for row in rows):
                continue  # replayed events come before its lined-up events
            if self.cursors.is_cut(self.bucket, key) or self._stops():
                continue
            if (0 if line is None else line.length) + len(rows) >= full:
                before = [] if line is None else await self._maker.oldest(session, line, full)
                await self._cut(session, key, [*before, *rows], full)

    async def _lined_up(
        self, session: Session, rows: Sequence[ClaimedEvent]
    ) -> dict[str, OpenLine]:
        """The lines in front of these rows, except lines that are too long or wait."""
        keys = list({row["ordering_key"] or "" for row in rows})
        if not keys:
            return {}
        found = await chunks.open_lines(session, self.handler.topic, keys, len(keys), due=False)
        return {
            line.key: line
            for line in found
            if not line.postponed and not line.crashes and line.length < ROWS
        }

    async def _cut(
        self, session: Session, key: str, rows: Sequence[ClaimedEvent], full: int
    ) -> None:
        """Run full chunks, from the oldest row on."""
        limit = self.settling.limits.page_bytes
        start = 0
        while len(rows) - start >= full and not self._stops():
            taken = rows[start : start + full]
            if self._maker.belong(taken) < full or bodies.weight(taken) > limit:
                return
            chunk = await self._maker.of_rows(session, taken)
            if await self._run(session, key, chunk) is not None:
                return
            start += full

    async def _line_up(
        self, session: Session, after: int, bound: int, seen: Sequence[ClaimedEvent] | None
    ) -> list[str]:
        """Line up arrivals that did not run; returns the lines that have grown."""
        if seen is not None:
            self.last = seen[-1]["id"] if seen else after
            bound = self.last if len(seen) == ROWS else bound
            self.exhausted = len(seen) < ROWS
        rule = self.handler.rule
        oldest = await chunks.oldest_arrival(session, self.bucket, after, bound)
        if oldest is None:
            self.more = self.more or not self.exhausted
            return []
        created_at, now = oldest
        ends = rule.ends(created_at - SLACK, now, _ENDS)
        lined_up = await chunks.line_up_arrivals(
            session,
            lines.IdRange(*self.bucket, after, bound),
            ROWS,
            rule.age or NEVER,
            ends,
            self.handler.readers,
        )
        await self._complete(session, lined_up.keys)
        self.rows += lined_up.rows
        self.last = max(self.last, lined_up.last)
        cut_short = lined_up.rows == ROWS or (len(ends) == _ENDS and ends[-1] <= now)
        self.exhausted = self.exhausted and not cut_short
        self.more = self.more or not self.exhausted
        return lined_up.keys

    # ------------------------------------------------------------------------------ due chunks

    async def _run_due(self, session: Session, keys: set[str], bound: int) -> None:
        if not keys or self._stops():
            return
        topic = self.handler.topic
        due = await chunks.open_lines(session, topic, list(keys), _LINES)
        self.more = self.more or len(due) == _LINES
        ready = [line for line in due if await self._is_closed(session, line, bound)]
        suspects = [line for line in ready if line.crashes or self.careful]
        self.cursors.suspects += [(self.bucket, line.key) for line in suspects]
        ready = [line for line in ready if not (line.crashes or self.careful)]
        longer: list[str] = []
        for page in pages([(line, self._maker.cap(line)) for line in ready]):
            found = await chunks.read_lines(session, topic, page)
            for (line, cap), rows in zip(page, found, strict=True):
                if self._stops():
                    self.more = True
                    break
                chunk = await self._maker.at_head(session, line, cap, rows)
                await self._run(session, line.key, chunk)
                if line.length > chunk.whole.size:
                    longer.append(line.key)
            await self._write(session)
        if longer:
            await self.look_again(session, longer)

    async def _is_closed(self, session: Session, line: OpenLine, bound: int) -> bool:
        """Whether the chunk of a due line is complete, since no further event can join it."""
        closes_at = self.handler.rule.closes_at(line.created_at)
        if closes_at is None or closes_at > line.now:
            return True
        drawn = self.cursors.closing.get(closes_at)
        if drawn is None:
            drawn = await chunks.newest(session)
            self.cursors.close(closes_at, drawn)
        if not self.exhausted and self.last < drawn:
            return False  # more arrivals must be lined up: the next visit follows at once
        if bound < drawn:
            self.waits = True
            return False
        return True

    async def look_again(self, session: Session, keys: Sequence[str]) -> None:
        """Let the next visit look at these lines: they may be full again."""
        await self._complete(session, keys)
        self.cursors.hint(self.bucket, keys)
        self.more = True

    async def _complete(self, session: Session, keys: Sequence[str]) -> None:
        """Make those of these lines due that need not wait for their time."""
        rule = self.handler.rule
        if keys and (rule.full is not None or rule.expected):
            await chunks.complete(session, self.handler.topic, keys, rule.full, rule.expected)

    # -------------------------------------------------------------------------------- results

    def _stops(self) -> bool:
        """Whether this visit has done enough, or its topic was paused during the visit."""
        if self.rows >= self.enough:
            self.more = True
            return True
        return not self.cursors.allows(self.handler)

    async def _run(self, session: Session, key: str, chunk: DueChunk) -> BaseException | None:
        if not self.written:
            self.written.append(WrittenChunks())
        self.ran.append((key, chunk.whole))
        written = self.written[-1]
        error = await self.chunks.run(asyncio.current_task(), session, chunk, written)
        self.rows += chunk.whole.size
        if error is not None:
            self.failed.append(FailedChunk(key, chunk.whole, error))
        else:
            self.cursors.went_well(self.bucket, key, chunk.whole.size)
        self.parts.metrics.chunk_events.labels(self.handler.topic).observe(chunk.whole.size)
        return error

    async def _write(self, session: Session) -> None:
        if not self.written:
            return
        written = self.written[-1]
        place_of = self.parts.metrics.tally.place_of
        if written.leaving:
            await lines.leave_line(session, written.leaving)
        await self.settling.write(session, written.results)
        for stretch, seconds, waited in written.settled:
            me = self.parts.me.id
            found = await chunks.settle(session, stretch, seconds, me, place_of)
            written.types += [
                (type_, tenant, rows, seconds, waited) for type_, tenant, rows in found
            ]
        self.written.append(WrittenChunks())

    async def requeue(self, session: Session) -> None:
        """Requeue the chunks that failed as a whole; their events are lined up."""
        failed, self.failed = self.failed, []
        requeues = ChunkRequeue(self.parts, self.settling, self.handler)
        noted = [written.results for written in self.written]
        for each in failed:
            became = await requeues.requeue(session, each, noted)
            if became is RequeueResult.HALVES:
                # The next visit tries half of the chunk, which might end in time, and so on.
                self.cursors.cut(self.bucket, each.key, each.part.size // 2)
                self.more = True
            elif became is RequeueResult.DEAD:
                await self.look_again(session, [each.key])
