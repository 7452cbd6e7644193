"""Rates of ordering keys: when the next command of a key may start.

Owns the statement that grants a start. Promises that two starts of a key are at least the required
time apart, on whichever workers, by the database's clock. Known limit: a start counts even if the
command fails, or its worker dies.
*See:* `commands/run.py`, before a handler begins; `maintenance/purge.py`, which forgets.
"""

from inboxd.store.connections import Connection
from inboxd.store.statements import Statements


async def take(
    connection: Connection, sql: Statements, queue: str, key: str, seconds: float
) -> float:
    """Grant the key a start every `seconds`; returns 0 if granted, else the seconds to wait."""
    return float(await connection.fetchval(sql["take_key_turn"], queue, key, seconds))
