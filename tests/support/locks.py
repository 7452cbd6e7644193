"""Who waits for a lock: the signal that two sessions have met.

Promises: only sessions of the test's own database count, however many share its server. Known
limit: it is asked again and again, since the server tells nobody when a wait begins.
"""

from tests.support.databases import Database
from tests.support.waiting import WITHIN, eventually

_WAITING = (
    "from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()"
    " and application_name like $1 and query like $2"
)


async def lock_awaited(
    database: Database,
    sessions: int = 1,
    *,
    who: str = "%",
    query: str = "%",
    within: float = WITHIN,
) -> None:
    """Wait until so many sessions wait for a lock; `who` is their application, both are LIKE."""

    async def are_waiting() -> bool:
        return await waiters(database, who=who, query=query) >= sessions

    await eventually(are_waiting, within)


async def waiters(database: Database, *, who: str = "%", query: str = "%") -> int:
    """How many sessions wait for a lock now."""
    found: int = await database.fetchval(f"select count(*) {_WAITING}", who, query)
    return found


async def end_waiters(database: Database, *, query: str = "%") -> int:
    """End the sessions that wait for a lock now; how many there were."""
    ended = await database.fetch(f"select pg_terminate_backend(pid) {_WAITING}", "%", query)
    return len(ended)
