"""Sources of pages of events: the contract, and the order in which the processor asks them.

Owns the contract, the turns of the sources, and the survey of all lines from their beginnings,
which all users of lines share: each survey must pass the dead rows that old snapshots keep. There
are two sources: `SingleSource`, for events one by one, and `SequentialSource`, for events of
sequential topics in the order of their keys. Chunks are not pages: each has a transaction of its
own, beside the pages (`inboxd.events.chunks`). *See:* `events/page.py`, which asks; `single` and
`sequential`, which answer.
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
    """Arrivals, and heads with the mode of their topic.

    complete: the bound of each bucket before the survey; events above it may still commit before
    the ones that were seen. held: topics whose intake adds waiting events before the existing ones.
    """

    arrived: Sequence[Arrived]
    heads: Sequence[tuple[Sighting, str]]
    complete: Sequence[int]
    held: Collection[str]


async def look(session: Session, reader: HorizonReader) -> LineLook:
    """Survey all lines once from their beginnings."""
    complete, held = reader.horizon.bounds(), reader.horizon.held
    arrived, heads = await lines.survey(session)
    return LineLook(arrived, heads, complete, held)


class Claim(Protocol):
    """The result of one claim. All methods but `hold` are called between transactions."""

    @property
    def rows(self) -> Sequence[ClaimedEvent]:
        """The claimed rows, at least one."""

    @property
    def full(self) -> bool:
        """Whether the source may have more rows."""

    @property
    def order(self) -> PageOrder | None:
        """The lines of the page; None: its rows have no lines."""

    @property
    def exclusive(self) -> bool:
        """Whether no other page can have its buckets before this page has ended."""

    def ran(self, met: int) -> None:
        """Note that the first `met` rows were reached; their page is about to be settled."""

    def ended(self, met: int, *, committed: bool) -> None:
        """Note that the page has ended, and whether it committed."""

    async def hold(
        self, session: Session, row: ClaimedEvent, before: Sequence[ClaimedEvent]
    ) -> None:
        """Make it safe to process one row by its id, in a transaction of its own.

        before: earlier rows of the same page, which are unsettled again.
        """


class Source(Protocol):
    """A source of pages. All but `claim` are called between transactions."""

    @property
    def again(self) -> float | None:
        """Seconds until rows may be claimable that are not now; None: there are none."""

    def forget(self) -> None:
        """Forget everything: the connection was lost, or a page did not commit."""

    async def survey(self, session: Session, looked: LineLook) -> Survey:
        """Survey from the beginning, and rewind the cursors of lanes that are due.

        looked: the shared survey of all lines.
        """

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
        """Seconds until rows may be claimable that are not now."""
        return soonest([source.again for source in self._sources])

    def forget(self) -> None:
        for source in self._sources:
            source.forget()

    async def survey(self, session: Session, looked: LineLook) -> Survey:
        """Survey all sources from their beginnings."""
        return Survey.of([await source.survey(session, looked) for source in self._sources])

    def are_known(self) -> bool:
        """Whether a source has anything to claim from."""
        return any(source.is_known() for source in self._sources)

    async def claim(self, session: Session, most: int) -> Claim | None:
        """Ask the sources in turn, until one has rows."""
        for source in [each for each in self._sources if each.is_known()]:
            claim = await source.claim(session, most)
            if claim is not None:
                self._sources.remove(source)
                self._sources.append(source)
                return claim
        return None
