"""Looks at the outage while it happens, several times a second, and what they tell together.

Owns the SQL of the looks. Promises: an attempt that is spent while the breaker is open is found,
between two looks of one break, as soon as what ran when it began has ended.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

# What runs when a break begins ends within this: twice the time that an ask has.
_RUNNING_ENDS = 2.0

_LOOK = """
    SELECT (SELECT count(*) FROM registration.users) AS registered,
           (SELECT count(*) FROM inboxd.commands WHERE type = 'accounts.provision') AS pending,
           (SELECT count(*) FROM registration.users WHERE provisioned_at IS NOT NULL)
           AS provisioned,
           (SELECT coalesce(sum(attempts), 0) FROM (
                SELECT attempts FROM inboxd.commands WHERE type = 'accounts.provision'
                 UNION ALL
                SELECT attempts FROM inboxd.commands_history WHERE type = 'accounts.provision') a)
           AS attempts,
           coalesce(b.state, 'closed') AS state, coalesce(b.version, 0) AS version,
           coalesce(extract(epoch FROM clock_timestamp() - b.changed_at), 0)::float8 AS since
      FROM (SELECT) one LEFT JOIN inboxd.breakers b ON b.name = 'accounts'
"""


class Look(NamedTuple):
    """What was seen at one moment."""

    at: float  # seconds since the first registration
    registered: int
    pending: int
    provisioned: int
    attempts: int
    state: str
    version: int  # one more with each transition of the breaker
    since: float  # seconds since that transition


async def look(connection: Any, at: float) -> Look:
    """Look now."""
    return Look(at, *await connection.fetchrow(_LOOK))


def spent_while_open(looks: Sequence[Look]) -> tuple[int, int]:
    """Attempts that were spent within breaks, and how many pairs of looks show it."""
    pairs = [
        (before, after)
        for before, after in pairwise(looks)
        if before.state == after.state == "open"
        and before.version == after.version
        and before.since > _RUNNING_ENDS
    ]
    return sum(after.attempts - before.attempts for before, after in pairs), len(pairs)
