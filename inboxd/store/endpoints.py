"""The endpoints table: who gets webhooks, and how that has gone.

Owns its statements. Promises that what became of deliveries is written only by who knew the newest
version, and that every change of what is delivered reaches all workers, since a trigger notifies.
Known limit: all of it is read each time.
*See:* `migrations/functions/write_webhooks.sql`, by which webhooks become deliveries.
"""

from typing import Literal

from inboxd.model.endpoints import WrittenEndpoint
from inboxd.store.connections import Connection
from inboxd.store.statements import Statements


async def read(connection: Connection, sql: Statements) -> dict[str, WrittenEndpoint]:
    """All endpoints, by name, with the secrets that sign now."""
    rows = await connection.fetch(sql["read_endpoints"])
    return {
        row["name"]: WrittenEndpoint(**{**row, "secrets": tuple(row["secrets"])}) for row in rows
    }


async def fail(
    connection: Connection, sql: Statements, name: str, version: int, status: int | None, error: str
) -> int | None:
    """Write that one fails; since when stays. Its version; None: somebody changed it meanwhile."""
    found: int | None = await connection.fetchval(
        sql["fail_endpoint"], name, version, status, error
    )
    return found


async def recover(
    connection: Connection, sql: Statements, name: str, version: int, status: int
) -> int | None:
    """Write that one fails no more. Its version; None: somebody changed it meanwhile."""
    found: int | None = await connection.fetchval(sql["recover_endpoint"], name, version, status)
    return found


async def note_success(connection: Connection, sql: Statements, name: str, status: int) -> None:
    """Write that one took a delivery; written once a minute, and no news to workers."""
    await connection.execute(sql["note_success"], name, status)


async def give_up(
    connection: Connection,
    sql: Statements,
    name: str,
    version: int,
    by: Literal["failures", "gone"],
    reason: str,
) -> int | None:
    """Disable one that fails. Its version; None: somebody changed it, or it is disabled."""
    found: int | None = await connection.fetchval(
        sql["give_up_endpoint"], name, version, by, reason
    )
    return found
