"""Where commands come from: what `processing` asks of a source.

Owns the contract, and the look that all sources judge. There are three: `lanes`, commands of queues
without limits; `limited`, queues with limits over all workers, and the lines of ordering keys; and
`suspects`, commands that ran on a worker when it died. *See:* `commands/processing.py`, which asks.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from inboxd.engine.processor import Survey
from inboxd.model.lane import Lane, Sighting
from inboxd.model.priority_order import Ask
from inboxd.store import commands, limits
from inboxd.store.connections import Connection
from inboxd.store.limits import KeyedSighting
from inboxd.store.rows import ClaimedCommand
from inboxd.store.statements import Statements


@dataclass(frozen=True, slots=True)
class Sightings:
    """What was seen from the beginning, once for all sources: every lane, and every line."""

    lanes: Sequence[Sighting]
    lines: Sequence[KeyedSighting]


async def look(connection: Connection, sql: Statements) -> Sightings:
    """Look at everything from the beginning."""
    return Sightings(await commands.survey(connection, sql), await limits.survey(connection, sql))


class CommandSource(Protocol):
    """A source of commands."""

    @property
    def again(self) -> float | None:
        """Seconds until it may have what it could not give in this page; None: when woken."""

    def forget(self) -> None:
        """The connection was lost: another server may answer next, and a claim may be unknown."""

    async def survey(self, connection: Connection, seen: Sightings) -> Survey:
        """Judge a look from the beginning: whether anything is due here, and when it will be."""

    def asks(self) -> list[Ask]:
        """The claims that are worth making now, each with its level."""

    async def claim(self, ask: Ask, most: int) -> list[ClaimedCommand]:
        """Lease up to `most` commands; of each queue no more than it has room."""


def advance(lanes: Sequence[Lane], rows: Sequence[ClaimedCommand]) -> list[Lane]:
    """Move the lanes, which rows name by number, behind what was claimed of them; which moved."""
    moved = []
    for number, taken in itertools.groupby(rows, key=lambda row: row["lane"]):
        if number:  # else from no lane, but from a key's line
            lane, last = lanes[number - 1], list(taken)[-1]
            lane.advance(last["run_at"], last["id"])
            moved.append(lane)
    return moved
