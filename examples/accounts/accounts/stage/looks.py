"""Looks at the outage: the demo's state, read several times a second, and what the looks show.

Owns the SQL of a look. Promises: an attempt that is spent while the breaker is open shows as a
difference between two looks.
Known limit: not in the first seconds of a break, when attempts that began before it may still end.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

# Attempts that run when a break begins end within this: twice the time limit of a call.
_LAST_ATTEMPTS_SECONDS = 2.0

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
    """The demo's state at one moment."""

    at: float  # seconds since the first registration
    registered: int
    pending: int
    provisioned: int
    attempts: int
    state: str
    version: int  # one more with each transition of the breaker
    since: float  # seconds since that transition


async def look(connection: Any, at: float) -> Look:
    return Look(at, *await connection.fetchrow(_LOOK))


def spent_while_open(looks: Sequence[Look]) -> tuple[int, int]:
    """Attempts spent while the breaker was open, and the pairs of looks that were compared."""
    pairs = [
        (before, after)
        for before, after in pairwise(looks)
        if before.state == after.state == "open"
        and before.version == after.version
        and before.since > _LAST_ATTEMPTS_SECONDS
    ]
    return sum(after.attempts - before.attempts for before, after in pairs), len(pairs)
