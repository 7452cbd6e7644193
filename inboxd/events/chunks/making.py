"""Makes chunks: decides how many of a line's oldest events belong together.

A chunk which does not fit in memory stays in its line. Known limit: the whole chunk runs in one
transaction, which has the bucket. *See:* `visit`, before it; `due_chunk`, `run`, after it.
"""

from collections.abc import Iterator, Sequence

from inboxd.api.messages import moment
from inboxd.api.records import ChunkHandler
from inboxd.events.chunks.cursors import ChunkCursors
from inboxd.events.chunks.due_chunk import DueChunk, in_memory, info_of
from inboxd.events.chunks.reading import StoredChunk, UnreadEvents
from inboxd.model.arrivals import Bucket
from inboxd.settings import Events as Limits
from inboxd.store import bodies, chunks
from inboxd.store.chunks import OpenLine, PositionRange
from inboxd.store.rows import ClaimedEvent
from inboxd.store.session import Session

# Maximum rows that a visit claims, lines up and runs; a longer chunk is read in portions.
ROWS = 5_000


class ChunkMaker:
    def __init__(
        self, limits: Limits, cursors: ChunkCursors, handler: ChunkHandler, bucket: Bucket
    ) -> None:
        self._limits = limits
        self._cursors = cursors
        self._handler = handler
        self._bucket = bucket

    def cap(self, line: OpenLine) -> int:
        """Rows of a line to read into memory: one more than allowed, to detect a longer chunk."""
        most = self._cursors.most(self._bucket, line.key, self._handler.rule.full or ROWS + 1)
        return min(most, ROWS + 1)

    async def at_head(
        self, session: Session, line: OpenLine, cap: int, rows: Sequence[ClaimedEvent] | None = None
    ) -> DueChunk:
        if rows is None:
            found = await chunks.read_lines(session, self._handler.topic, [(line, cap)])
            rows = found[0]
        size = self.belong(rows)
        if size <= ROWS and bodies.weight(rows[:size]) <= self._limits.page_bytes:
            return await self.of_rows(session, rows[:size])
        period = self._handler.rule.period(line.created_at)
        most = self._cursors.most(self._bucket, line.key, self._handler.rule.full or line.length)
        size, last = await chunks.measure(session, self._handler.topic, line, period, most)
        stretch = PositionRange(self._handler.topic, line.key, line.position, last)
        whole = StoredChunk(self._limits, self._handler, stretch, size, rows[0])
        types = {row["type"] for row in rows}
        if missing := self._handler.rule.missing(types):
            types.update(await chunks.types_in(session, stretch, missing))
        info = info_of(self._handler, rows[0], size, types)
        return DueChunk(self._handler, info, whole, UnreadEvents())

    async def of_rows(self, session: Session, rows: Sequence[ClaimedEvent]) -> DueChunk:
        payloads = await bodies.read(session, rows)
        rows = await bodies.complete(session, rows)
        return in_memory(self._handler, rows, payloads)

    def belong(self, rows: Sequence[ClaimedEvent]) -> int:
        if self._handler.rule.cron is None:
            return len(rows)
        return self._handler.rule.takes([moment(row["created_at"]) for row in rows])

    async def oldest(self, session: Session, line: OpenLine, most: int) -> list[ClaimedEvent]:
        """The oldest events of a line: `most`, or its whole length, if that is larger."""
        wanted = [(line, max(most, line.length))]
        return (await chunks.read_lines(session, self._handler.topic, wanted))[0]


def pages(wanted: Sequence[tuple[OpenLine, int]]) -> Iterator[list[tuple[OpenLine, int]]]:
    page: list[tuple[OpenLine, int]] = []
    room = ROWS
    for line, cap in wanted:
        size = min(cap, line.length)
        if page and size > room:
            yield page
            page, room = [], ROWS
        page.append((line, cap))
        room -= size
    if page:
        yield page
