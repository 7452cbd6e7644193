"""A chunk that runs alone after a death, or is replaced by its events, each alone.

A chunk whose run was counted as a crash does not run again as a chunk: its events run alone. If it
must not be split, it runs again, and after `worker.crash_limit` crashes all its events die.
"""

from collections.abc import Callable
from datetime import timedelta

from inboxd.engine.outcomes import error_entry
from inboxd.engine.parts import Parts
from inboxd.events.chunks.visit import Visit
from inboxd.events.quarantine import Quarantine
from inboxd.model.outcome import Site
from inboxd.store import chunks, lines
from inboxd.store.chunks import OpenLine, PositionRange
from inboxd.store.events import Mark
from inboxd.store.session import Session


class LoneChunk:
    """The chunk at the head of a line. on_suspects: called when its events must run alone."""

    def __init__(
        self,
        parts: Parts,
        visit: Visit,
        key: str,
        quarantine: Quarantine,
        on_suspects: Callable[[], None],
    ) -> None:
        self._parts = parts
        self._visit = visit
        self._key = key
        self._quarantine = quarantine
        self._on_suspects = on_suspects
        self._line: OpenLine | None = None

    @property
    def keep(self) -> timedelta:
        """How long the mark lasts: the time limit of an idle session and of the chunk, added."""
        usual = self._parts.settings.database.idle_in_transaction_timeout
        return usual + timedelta(seconds=self._visit.chunks.limit(self._visit.handler))

    async def find(self, session: Session) -> Mark | None:
        """Lock the bucket and find the chunk; convict a chunk whose run was counted before."""
        topic = self._visit.handler.topic
        await lines.hold(session, [self._visit.bucket])
        found = await chunks.open_lines(session, topic, [self._key], 1)
        if not found:
            return None
        line = self._line = found[0]
        if line.crashes and await self._convict(session, line):
            await self._visit.look_again(session, [self._key])
            return None
        return Mark(line.id, line.crashes, line.run_at.timestamp())

    async def marked(self, session: Session) -> None:
        """Write nothing: the mark at the head of the line suffices."""

    async def find_again(self, session: Session) -> bool:
        """Lock the bucket, so that no other worker has the line."""
        await lines.hold(session, [self._visit.bucket])
        return True

    async def run(self, session: Session) -> None:
        assert self._line is not None  # noqa: S101 - it was marked
        await self._visit.run_one(session, self._line)

    async def _convict(self, session: Session, line: OpenLine) -> bool:
        """Release its events to run alone, or make them dead letters; False: it runs again."""
        handler = self._visit.handler
        period = handler.rule.period(line.created_at)
        _, last = await chunks.measure(session, handler.topic, line, period, handler.rule.full)
        stretch = PositionRange(handler.topic, line.key, line.position, last)
        if handler.may_split:
            await chunks.release_to_lanes(session, stretch)
            self._on_suspects()
            return True
        if not self._quarantine.is_guilty(line.crashes):
            return False
        site = Site(handler.topic)
        failure = self._quarantine.convict(line.crashes, site, topic=handler.topic, key=line.key)
        entry = error_entry(failure, line.attempts + 1, self._parts.me)
        await chunks.fail(session, stretch, entry, failure.fingerprint, line.crashes)
        return True
