"""A look at all lines of events from their beginning, one for all who serve some.

Owns what belongs together: what was seen, and how far that was complete before. Under a snapshot
that somebody holds, a look passes all that is dead, so sequential topics and chunks share it.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from inboxd.events.horizon import HorizonReader
from inboxd.model.lane import Sighting
from inboxd.store import lines
from inboxd.store.connections import Connection
from inboxd.store.lines import Arrived
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
