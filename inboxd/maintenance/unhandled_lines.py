"""Events in lines of sequential topics that no live worker handles: each keeps its place.

Owns the same judgement as `unhandled_events`, for lines: arrivals of a topic that no
worker visits, since none has handlers that could serve it, are filed, in their order, so that each
key that stands still can be seen; a head that nobody handles is kept and blocks its line, or is
a dead letter, or is ignored with what follows it alike. Promises that the order is kept: what
waits, or is replayed later, when the handler is there, still stands before what came after it.
Known limit: of a line, only the head is a dead letter; the others wait behind it.
"""

from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from itertools import takewhile
from time import monotonic

from inboxd.maintenance.grace import Grace, IsOpen
from inboxd.maintenance.unhandled_events import Choice, dead_letter
from inboxd.model.horizon import Horizon
from inboxd.model.lane import Lane
from inboxd.store import lines, workers
from inboxd.store.connections import Connection, Row
from inboxd.store.lines import Arrived, Head, Stretch
from inboxd.store.pools import Pool, lend, transaction
from inboxd.store.statements import Statements
from inboxd.telemetry.logs import get_logger

_log = get_logger(__name__)

_PAGE = 500


class UnhandledLines:
    """One turn for the lines of all sequential topics."""

    def __init__(
        self,
        pool: Pool,
        sql: Statements,
        grace: timedelta,
        is_open: IsOpen,
        choice: Choice,
        freed: Callable[[], Awaitable[None]],
    ) -> None:
        """As `UnhandledEvents`; `freed` is awaited when others may run what stood behind."""
        self._pool = pool
        self._sql = sql
        self._grace = grace
        self._is_open = is_open
        self._choice = choice
        self._freed = freed
        self._horizon = Horizon()
        self._arrivals = Grace(grace.total_seconds())
        self._heads = Grace(grace.total_seconds())

    async def turn(self) -> None:
        """Look once."""
        async with lend(self._pool) as connection:
            async with transaction(self._pool, connection):
                self._horizon.take(await lines.read_horizon(connection, self._sql))
                arrived, seen = await lines.survey(connection, self._sql)
                heads = {(str(s.key[0]), str(s.key[1])) for s, mode in seen if mode == "sequential"}
                pairs = heads | {(each.topic, each.type) for each in arrived}
                nobodys = await workers.unhandled(connection, self._sql, pairs)
            lost = [each for each in arrived if self._is_lost(each, nobodys)]
            due = self._arrivals.look([(each.topic, each.type) for each in lost], monotonic())
            filed = [each for each in lost if (each.topic, each.type) in due]
            for each in filed:
                await self._file(connection, each)
            waiting = [pair for pair in heads if pair in nobodys and self._is_open("topic", *pair)]
            due = self._heads.look(sorted(waiting), monotonic())
            self._choice.tell_kept(p for p in due if self._choice.of(str(p[1])) == "keep")
            ended = [await self._end(connection, str(key[0]), str(key[1])) for key in due]
        if filed or any(ended):
            await self._freed()

    def _is_lost(self, each: Arrived, nobodys: Mapping[tuple[str, str], bool]) -> bool:
        """Whether nobody takes the arrivals of a bucket, be it only to file them."""
        return (
            each.mode == "sequential"
            and self._is_open("topic", each.topic, each.type)
            and not nobodys.get((each.topic, each.type), True)
        )

    async def _file(self, connection: Connection, each: Arrived) -> None:
        """File what has arrived in a bucket, as far as nothing before it can come any more."""
        bucket, after = (each.topic, each.bucket), each.first - 1
        bound = self._horizon.bound(each.bucket, each.topic)
        while True:
            async with transaction(self._pool, connection):
                if not await lines.try_buckets(connection, self._sql, [bucket]):
                    return
                stretch = Stretch(*bucket, after, bound)
                rows = await lines.claim_arrivals(connection, self._sql, [stretch], _PAGE)
                if not rows:
                    return
                await lines.file(connection, self._sql, [row["id"] for row in rows])
                after = rows[-1]["id"]

    async def _end(self, connection: Connection, topic: str, type_: str) -> int:
        """Do with the heads of one topic and type what the settings say; to how many events."""
        choice = self._choice.of(type_)
        if choice == "dead":
            return await self._fail(connection, topic, type_)
        return await self._ignore(connection, topic, type_) if choice == "ignore" else 0

    async def _fail(self, connection: Connection, topic: str, type_: str) -> int:
        """Make dead letters of the heads of one topic and type."""
        error, lane, total = dead_letter(topic, type_), Lane((topic, type_)), 0
        while True:
            async with transaction(self._pool, connection):
                heads = await self._page(connection, lane)
                if not heads:
                    break
                ids = [head.id for head in await self._held(connection, heads)]
                total += await lines.fail_heads(connection, self._sql, ids, error, self._grace)
        if total:
            _log.error("no handler", kind="event", topic=topic, type=type_, dead_letters=total)
        return total

    async def _ignore(self, connection: Connection, topic: str, type_: str) -> int:
        """Ignore the heads of one topic and type, and what follows them of that type."""
        lane, total = Lane((topic, type_)), 0
        while True:
            async with transaction(self._pool, connection):
                heads = await self._page(connection, lane)
                if not heads or not await workers.unhandled(
                    connection, self._sql, [(topic, type_)]
                ):
                    break
                held = [head.line for head in await self._held(connection, heads)]
                rows = await lines.claim_filed(connection, self._sql, held, _PAGE) if held else []
                ids = self._alike(rows, type_)
                await self._choice.ignore(connection, topic, type_, ids)
            total += len(ids)
            if len(rows) == _PAGE and ids:
                lane.rewind()  # the same lines go on
        self._choice.ignored(topic, type_, total)
        return total

    def _alike(self, rows: list[Row], type_: str) -> list[int]:
        """Of each line, the events from the head on that are of the type and have waited enough."""
        grace, by_line = self._grace.total_seconds(), dict[int, list[Row]]()
        for row in rows:
            by_line.setdefault(row["lane"], []).append(row)
        return [
            row["id"]
            for line in by_line.values()
            for row in takewhile(
                lambda row: row["type"] == type_ and row["ready"] and row["waited"] >= grace, line
            )
        ]

    async def _page(self, connection: Connection, lane: Lane) -> list[Head]:
        """The next heads of a lane that are due."""
        heads = await lines.due_heads(connection, self._sql, [lane], _PAGE)
        if heads:
            lane.advance(heads[-1].run_at, heads[-1].id)
        return heads

    async def _held(self, connection: Connection, heads: list[Head]) -> list[Head]:
        """Those whose buckets could be taken."""
        buckets = sorted({(head.line.topic, head.line.bucket) for head in heads})
        had = set(await lines.try_buckets(connection, self._sql, buckets))
        return [head for head in heads if (head.line.topic, head.line.bucket) in had]
