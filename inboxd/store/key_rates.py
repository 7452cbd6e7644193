"""Rates of ordering keys: when the next command of a key may start.

Owns the statement that lets one start. Promises that two starts of a key are as far apart as is
asked, whichever workers run them, by the database's clock. Known limit: a start counts whatever
becomes of it, also one that its worker did not live to see.
*See:* `commands/run.py`, before a handler begins; `maintenance/purge.py`, which forgets.
"""

from inboxd.store.connections import Connection
from inboxd.store.statements import Statements


async def take(
    connection: Connection, sql: Statements, queue: str, key: str, seconds: float
) -> float:
    """Let a command of this key start, so long after the last; seconds to wait, 0: it starts."""
    return float(await connection.fetchval(sql["take_key_turn"], queue, key, seconds))
