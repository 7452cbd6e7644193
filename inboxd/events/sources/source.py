"""Sources of pages of events: the contract, and the order in which the processor asks them.

All users of lines share one survey: each survey must pass the dead rows that old snapshots keep.
Chunks are not pages (`inboxd.events.chunks`). *See:* `events/page.py`; `single`; `sequential`.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

from inboxd.engine.processor import Survey, soonest
from inboxd.events.horizon import HorizonReader
from inboxd.events.page_order import PageOrder
from inboxd.model.lane import Sighting
from inboxd.store import lines
from inboxd.store.lines import Arrived
from inboxd.store.rows import ClaimedEvent
from inboxd.store.session import Session


@dataclass(frozen=True, slots=True)
class LineLook:
    """complete: bounds before the survey; above them events may still commit before those seen."""

    arrived: Sequence[Arrived]
    heads: Sequence[tuple[Sighting, str]]
    complete: Sequence[int]
    held: Collection[str]


async def look(session: Session, reader: HorizonReader) -> LineLook:
    complete, held = reader.horizon.bounds(), reader.horizon.held
    arrived, heads = await lines.survey(session)
    return LineLook(arrived, heads, complete, held)


class Claim(Protocol):
    """The result of one claim. All methods but `hold` are called between transactions."""

    @property
    def rows(self) -> Sequence[ClaimedEvent]: ...

    @property
    def full(self) -> bool: ...

    @property
    def order(self) -> PageOrder | None:
        """The lines of the page; None: its rows have no lines."""

    @property
    def exclusive(self) -> bool:
        """Whether no other page can have its buckets before this page has ended."""

    def ran(self, met: int) -> None:
        """Note that the first `met` rows were reached; their page is about to be settled."""

    def ended(self, met: int, *, committed: bool) -> None: ...

    async def hold(
        self, session: Session, row: ClaimedEvent, before: Sequence[ClaimedEvent]
    ) -> None:
        """Make one row safe to process by its id. before: earlier rows, unsettled again."""


class Source(Protocol):
    """A source of pages. All but `claim` are called between transactions."""

    @property
    def again(self) -> float | None:
        """Seconds until rows may be claimable that are not now; None: there are none."""

    def forget(self) -> None:
        """Forget everything: the connection was lost, or a page did not commit."""

    async def survey(self, session: Session, looked: LineLook) -> Survey:
        """It rewinds the cursors of lanes that are due."""

    def is_known(self) -> bool:
        """Whether there is anything to claim from; if not, only a survey can find events."""

    async def claim(self, session: Session, most: int) -> Claim | None:
        """Claim at most `most` rows in the page's transaction; None: there are none."""


class PageSources:
    """The sources of one worker: the least recently used one is asked first."""

    def __init__(self, *sources: Source) -> None:
        self._sources = list(sources)

    @property
    def again(self) -> float | None:
        return soonest([source.again for source in self._sources])

    def forget(self) -> None:
        for source in self._sources:
            source.forget()

    async def survey(self, session: Session, looked: LineLook) -> Survey:
        return Survey.of([await source.survey(session, looked) for source in self._sources])

    def are_known(self) -> bool:
        return any(source.is_known() for source in self._sources)

    async def claim(self, session: Session, most: int) -> Claim | None:
        for source in [each for each in self._sources if each.is_known()]:
            claim = await source.claim(session, most)
            if claim is not None:
                self._sources.remove(source)
                self._sources.append(source)
                return claim
        return None
