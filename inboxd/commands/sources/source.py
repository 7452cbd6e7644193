"""Sources of commands: the contract that `processing` uses, and the survey that they share."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from inboxd.engine.processor import Survey
from inboxd.model.lane import Lane, Sighting
from inboxd.model.priority_order import Ask
from inboxd.store import commands, limits
from inboxd.store.limits import KeyedSighting
from inboxd.store.rows import ClaimedCommand
from inboxd.store.session import Session


@dataclass(frozen=True, slots=True)
class Sightings:
    lanes: Sequence[Sighting]
    lines: Sequence[KeyedSighting]


async def look(session: Session) -> Sightings:
    return Sightings(await commands.survey(session), await limits.survey(session))


class CommandSource(Protocol):
    @property
    def again(self) -> float | None:
        """Seconds until the source may have more rows than now; None: only after a wake-up."""

    def forget(self) -> None:
        """Forget the server, since the connection was lost; a claim may have committed."""

    async def survey(self, session: Session, seen: Sightings) -> Survey:
        """Take over a survey; returns whether a row is due here, and when the next row is."""

    def asks(self) -> list[Ask]: ...

    async def claim(self, ask: Ask, most: int) -> list[ClaimedCommand]:
        """Lease up to `most` commands, and of each queue at most its room."""


def advance(lanes: Sequence[Lane], rows: Sequence[ClaimedCommand]) -> list[Lane]:
    """Move lanes behind the claimed rows, which hold lane numbers; returns the moved lanes."""
    moved = []
    for number, taken in itertools.groupby(rows, key=lambda row: row["lane"]):
        if number:  # else the row is of a key's line
            lane, last = lanes[number - 1], list(taken)[-1]
            lane.advance(last["run_at"], last["id"])
            moved.append(lane)
    return moved
