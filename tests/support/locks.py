"""Sessions that wait for a lock: the signal that two sessions have met.

    await lock_awaited(database, query="%update inboxd.events%")

Promises: only sessions of the test's own database count, though others share its server. Known
limit: this polls, since the server does not report when a wait begins.
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
    """Wait until this many sessions wait for a lock. who: application_name; both texts are LIKE."""

    async def are_waiting() -> bool:
        return await waiters(database, who=who, query=query) >= sessions

    await eventually(are_waiting, within)


async def waiters(database: Database, *, who: str = "%", query: str = "%") -> int:
    """The number of sessions that wait for a lock now."""
    found: int = await database.fetchval(f"select count(*) {_WAITING}", who, query)
    return found


async def end_waiters(database: Database, *, query: str = "%") -> int:
    """End the sessions that wait for a lock now; return their number."""
    ended = await database.fetch(f"select pg_terminate_backend(pid) {_WAITING}", "%", query)
    return len(ended)
