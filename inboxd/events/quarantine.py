"""Quarantine: after a worker's death, rows that may have killed it run alone (ADR 3).

A first transaction marks the row: it counts a crash, and keeps the row from other workers. A second
one removes the mark and runs the row. If the worker dies between them, the crash stays counted; a
row with `worker.crash_limit` crashes is convicted. A run which ends without an outcome while this
process lives is not a crash: its mark is removed.
"""

from datetime import timedelta
from typing import Protocol

from inboxd.engine.parts import Parts
from inboxd.errors import HandlerCrashed
from inboxd.model.outcome import Failure, Site, explain
from inboxd.store import events
from inboxd.store.events import Mark
from inboxd.store.pools import borrow, transaction
from inboxd.store.session import Session
from inboxd.telemetry.logs import get_logger

_log = get_logger(__name__)


class Suspect(Protocol):
    @property
    def keep(self) -> timedelta:
        """How long a mark keeps the row from other workers."""

    async def find(self, session: Session) -> Mark | None:
        """Find the row to mark, and return its present values; None: no row may run now."""

    async def marked(self, session: Session) -> None:
        """Write the changes that must commit together with the mark."""

    async def find_again(self, session: Session) -> bool:
        """Find the row in a later transaction; False: another worker has it."""

    async def run(self, session: Session) -> None: ...


class Quarantine:
    def __init__(self, parts: Parts, noun: str) -> None:
        """noun: names a row in the log. Before `begin`, no row runs alone."""
        self._parts = parts
        self._noun = noun
        self._left = 0
        self._marks: dict[int, Mark] = {}

    @property
    def is_on(self) -> bool:
        return self._left > 0

    def begin(self, most: int) -> None:
        """Run the next `most` rows alone, since a worker has died: it had at most this many."""
        self._left = most

    def one_less(self) -> None:
        self._left = max(0, self._left - 1)

    async def mark(self, session: Session, suspect: Suspect) -> Mark | None:
        """Count a crash before the run, in a transaction of its own; None: no row may run."""
        async with transaction(self._parts.pool, session):
            mark = await suspect.find(session)
            if mark is not None:
                self._marks[mark.id] = mark  # before the commit, whose answer may be lost
                await events.mark_crash(session, mark.id, suspect.keep)
                await suspect.marked(session)
        return mark

    async def run(self, session: Session, suspect: Suspect, mark: Mark) -> bool:
        """False: a claim from before the mark still holds the row's lock, until its page ends."""
        async with transaction(self._parts.pool, session):
            found = await suspect.find_again(session)
            if found:
                await events.unmark_crash(session, mark)
                await suspect.run(session)
        if found:
            self.settled(mark.id)
        return found

    def settled(self, row_id: int) -> None:
        self._marks.pop(row_id, None)

    async def give_back(self) -> None:
        """Remove the marks of runs that ended without an outcome, since this process is alive."""
        for mark in list(self._marks.values()):
            async with borrow(self._parts.pool) as session:
                await events.unmark_crash(session, mark)
            self.settled(mark.id)

    def is_guilty(self, crashes: int) -> bool:
        return crashes >= self._parts.settings.worker.crash_limit

    def convict(self, crashes: int, site: Site, **names: object) -> Failure:
        """The failure for the dead letter; `names` identify the row in the log."""
        self._parts.metrics.crashes.labels("event").inc(crashes)
        _log.error(f"{self._noun} is a dead letter: it kills its worker", **names)
        text = f"its worker died {crashes} times while it ran this {self._noun}"
        return explain(HandlerCrashed(text), site)
