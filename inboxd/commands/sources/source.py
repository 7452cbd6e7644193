"""Sources of commands: the contract that `processing` uses.

Owns the contract, and the look that all sources share. There are three: `lanes`, commands of queues
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
    """Every lane and every line, seen once from the beginning for all sources."""

    lanes: Sequence[Sighting]
    lines: Sequence[KeyedSighting]


async def look(connection: Connection, sql: Statements) -> Sightings:
    """Look at everything from the beginning."""
    return Sightings(await commands.survey(connection, sql), await limits.survey(connection, sql))


class CommandSource(Protocol):
    @property
    def again(self) -> float | None:
        """Seconds until it may have more than it gave in this page; None: only when woken."""

    def forget(self) -> None:
        """The connection was lost: a claim may have committed, and the server may be another."""

    async def survey(self, connection: Connection, seen: Sightings) -> Survey:
        """Take over a look from the beginning; returns whether a row is due here, and when."""

    def asks(self) -> list[Ask]:
        """The claims that are worth making now, each with its level."""

    async def claim(self, ask: Ask, most: int) -> list[ClaimedCommand]:
        """Lease up to `most` commands; of each queue at most its room."""


def advance(lanes: Sequence[Lane], rows: Sequence[ClaimedCommand]) -> list[Lane]:
    """Move lanes behind the claimed rows, which have their numbers; returns the moved lanes."""
    moved = []
    for number, taken in itertools.groupby(rows, key=lambda row: row["lane"]):
        if number:  # else it is of a key's line, not of a lane
            lane, last = lanes[number - 1], list(taken)[-1]
            lane.advance(last["run_at"], last["id"])
            moved.append(lane)
    return moved
