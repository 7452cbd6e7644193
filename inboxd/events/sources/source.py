"""Where pages of events come from: what the event processor asks of a source, and in which order.

Owns the contract, whose turn it is, and the look at all lines from their beginning: under a
snapshot that somebody holds, a look passes all that is dead, so all who serve lines share one.
There are two sources: `SingleSource`, events each by itself, and `SequentialSource`, events of
sequential topics, in the order of their keys. Chunks are no pages: each is a transaction of its
own, beside the others (`inboxd.events.chunks`).
*See:* `events/page.py`, which asks; `single` and `sequential`, which answer.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

from inboxd.engine.processor import Survey, soonest
from inboxd.events.horizon import HorizonReader
from inboxd.events.page_order import PageOrder
from inboxd.model.lane import Sighting
from inboxd.store import lines
from inboxd.store.connections import Connection
from inboxd.store.lines import Arrived
from inboxd.store.rows import ClaimedEvent
from inboxd.store.statements import Statements


@dataclass(frozen=True, slots=True)
class LineLook:
    """Arrivals, and heads with the mode of their topic.

    complete: the bound of each bucket before the look; what is above it may come to lie before what
    was seen. held: the topics that take in what waits, before what is there.
    """

    arrived: Sequence[Arrived]
    heads: Sequence[tuple[Sighting, str]]
    complete: Sequence[int]
    held: Collection[str]


async def look(connection: Connection, sql: Statements, reader: HorizonReader) -> LineLook:
    """Look once at everything in lines."""
    complete, held = reader.horizon.bounds(), reader.horizon.held
    arrived, heads = await lines.survey(connection, sql)
    return LineLook(arrived, heads, complete, held)


class Claim(Protocol):
    """What one claim brought. All but `hold` are called between transactions."""

    @property
    def rows(self) -> Sequence[ClaimedEvent]:
        """At least one."""

    @property
    def full(self) -> bool:
        """Whether there may be more."""

    @property
    def order(self) -> PageOrder | None:
        """Of rows in lines: which lines stand still."""

    @property
    def exclusive(self) -> bool:
        """Whether nobody can take what its page has before that has ended."""

    def ran(self, met: int) -> None:
        """The first `met` rows were run; their page is about to be settled."""

    def ended(self, met: int, *, committed: bool) -> None:
        """The page has ended."""

    async def hold(
        self, connection: Connection, row: ClaimedEvent, before: Sequence[ClaimedEvent]
    ) -> None:
        """In a transaction of its own: make it safe to deal with one row by its id.

        before: rows of the same page that were met before it, and are unsettled again.
        """


class Source(Protocol):
    """A source of pages. All but `claim` are called between transactions."""

    @property
    def again(self) -> float | None:
        """Seconds after which rows that could not be had may be; None: nothing is waited for."""

    def forget(self) -> None:
        """The connection was lost, or a page did not commit: drop what was remembered."""

    async def survey(self, connection: Connection, looked: LineLook) -> Survey:
        """Look at everything from the beginning, and rewind the cursors of what is due.

        looked: what was seen of all lines, once for all who serve some.
        """

    def is_known(self) -> bool:
        """Whether there is anything to ask; if not, only a survey can find something."""

    async def claim(self, connection: Connection, most: int) -> Claim | None:
        """Take at most `most` rows, in the page's transaction; None: there are none."""


class PageSources:
    """The sources of one worker: the one least recently used is asked first."""

    def __init__(self, *sources: Source) -> None:
        """Ask these in turn."""
        self._sources = list(sources)

    @property
    def again(self) -> float | None:
        """Seconds after which rows that could not be had may be."""
        return soonest([source.again for source in self._sources])

    def forget(self) -> None:
        """Drop what was remembered."""
        for source in self._sources:
            source.forget()

    async def survey(self, connection: Connection, looked: LineLook) -> Survey:
        """Look at everything from the beginning."""
        return Survey.of([await source.survey(connection, looked) for source in self._sources])

    def are_known(self) -> bool:
        """Whether any has something to ask."""
        return any(source.is_known() for source in self._sources)

    async def claim(self, connection: Connection, most: int) -> Claim | None:
        """Ask them in turn, until one has something."""
        for source in [each for each in self._sources if each.is_known()]:
            claim = await source.claim(connection, most)
            if claim is not None:
                self._sources.remove(source)
                self._sources.append(source)
                return claim
        return None
