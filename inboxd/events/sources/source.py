"""Where pages of events come from: what the event processor asks of a source.

Owns the contract, nothing else. There are two sources: `SingleSource`, events each by itself, and
`SequentialSource`, events of sequential topics, in the order of their keys.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from inboxd.engine.processor import Survey
from inboxd.events.page_order import PageOrder
from inboxd.events.sources.line_look import LineLook
from inboxd.model.lane import Lane
from inboxd.store.connections import Connection, Row


@dataclass(slots=True)
class Claim:
    """What one claim brought; full: there may be more. order: which lines stand still."""

    rows: list[Row]
    full: bool = False
    order: PageOrder | None = None
    lanes: Sequence[Lane] = ()
    # What the source itself remembers of it.
    note: Any = field(default=None)


class Source(Protocol):
    """A source of pages. All but `claim` and `hold` are called between transactions."""

    # Whether nobody can take what a page of ours has before that page has ended.
    exclusive: bool

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

    async def claim(self, connection: Connection, most: int) -> Claim:
        """Take up to so many rows, in the page's transaction."""

    def ran(self, claim: Claim, met: int) -> None:
        """The first `met` rows were run; their page is about to be settled."""

    def ended(self, claim: Claim, met: int, *, committed: bool) -> None:
        """The page has ended."""

    async def hold(self, connection: Connection, row: Row, before: Sequence[Row]) -> None:
        """In a transaction of its own: make it safe to deal with one row by its id.

        before: rows of the same page that were met before it, and are unsettled again.
        """
