"""The partitions of history and bodies, a day each.

Owns the question how far ahead they reach. Promises to make them on a connection that waits briefly
for its locks, never inside a settlement. Known limit: dropping old ones is not done yet.
"""

from inboxd.store.connections import Connection
from inboxd.store.statements import Statements


async def days_ahead(connection: Connection, sql: Statements) -> int:
    """How many days after today have partitions; -1: not even today."""
    days: int = await connection.fetchval(sql["partition_days"])
    return days


async def make(connection: Connection, sql: Statements, days: int) -> int:
    """Make what is missing for the days ahead; returns how many were made."""
    made: int = await connection.fetchval(sql["make_partitions"], days)
    return made
