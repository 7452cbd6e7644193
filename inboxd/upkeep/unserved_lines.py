"""Events in lines of sequential topics that no live worker serves: dead letters, after a grace.

Owns the same judgement as `Unserved`, for lines: arrivals of a topic that nobody has handlers in
are filed, in their order, and a head that nobody serves becomes a dead letter. Promises that the
order is kept: what is replayed later, when the handler is there, still stands before what came
after it. Known limit: of a line, only the head is a dead letter; the others wait behind it.
"""

from collections.abc import Sequence
from datetime import timedelta
from time import monotonic

import orjson

from inboxd.model.horizon import Horizon
from inboxd.model.lane import Lane, Sighting
from inboxd.store import lines, workers
from inboxd.store.connections import Connection, Row
from inboxd.store.lines import Arrived, Stretch
from inboxd.store.pools import Pool, lend, transaction
from inboxd.store.statements import Statements
from inboxd.telemetry.logs import get_logger
from inboxd.upkeep.unserved import IsOpen, Orphans

_log = get_logger(__name__)

_PAGE = 500


class UnservedLines:
    """One turn for the lines of all sequential topics."""

    def __init__(self, pool: Pool, sql: Statements, grace: timedelta, is_open: IsOpen) -> None:
        """As `Unserved`."""
        self._pool = pool
        self._sql = sql
        self._grace = grace
        self._is_open = is_open
        self._horizon = Horizon()
        self._arrivals = Orphans(grace.total_seconds())
        self._heads = Orphans(grace.total_seconds())

    async def turn(self) -> None:
        """Look once."""
        async with lend(self._pool) as connection:
            async with transaction(self._pool, connection):
                living = await workers.living(connection, self._sql)
                self._horizon.take(await lines.read_horizon(connection, self._sql))
                arrived = await lines.survey_arrivals(connection, self._sql)
                heads = await lines.survey_heads(connection, self._sql)
            lost = [each for each in arrived if self._is_lost(each, living)]
            due = self._arrivals.look([(each.topic, each.type) for each in lost], monotonic())
            for each in lost:
                if (each.topic, each.type) in due:
                    await self._file(connection, each)
            unserved = [
                seen for seen, mode in heads if mode == "sequential" and self._nobodys(seen, living)
            ]
            for key in self._heads.look([seen.key for seen in unserved], monotonic()):
                await self._fail(connection, str(key[0]), str(key[1]))

    def _is_lost(self, each: Arrived, living: Sequence[Row]) -> bool:
        """Whether nobody takes the arrivals of a bucket, be it only to file them."""
        return (
            each.mode == "sequential"
            and self._is_open("topic", each.topic, each.type)
            and not any(workers.serves_topic(row, each.topic) for row in living)
            and not any(workers.serves_event(row, each.topic, each.type) for row in living)
        )

    def _nobodys(self, seen: Sighting, living: Sequence[Row]) -> bool:
        topic, type_ = str(seen.key[0]), str(seen.key[1])
        return self._is_open("topic", topic, type_) and not any(
            workers.serves_event(row, topic, type_) for row in living
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

    async def _fail(self, connection: Connection, topic: str, type_: str) -> None:
        """Make dead letters of the heads of one topic and type."""
        reason = (
            f"NoHandler: no live worker serves event type {type_!r} in topic {topic!r}: install a "
            "plugin that declares it, then replay the row"
        )
        error = orjson.dumps({"error": reason}).decode()
        lane, total = Lane((topic, type_)), 0
        while True:
            async with transaction(self._pool, connection):
                heads = await lines.due_heads(connection, self._sql, [lane], _PAGE)
                if not heads:
                    break
                lane.advance(heads[-1].run_at, heads[-1].id)
                buckets = sorted({(head.line.topic, head.line.bucket) for head in heads})
                had = set(await lines.try_buckets(connection, self._sql, buckets))
                ids = [h.id for h in heads if (h.line.topic, h.line.bucket) in had]
                total += await lines.fail_heads(connection, self._sql, ids, error, self._grace)
        if total:
            _log.error("no handler", kind="event", topic=topic, type=type_, dead_letters=total)
