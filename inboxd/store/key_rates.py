"""Rates of ordering keys: when the next command of a key may start.

Promises the required time between two starts of a key, by the database's clock, on all workers.
Known limit: a start counts even if the command fails.
"""

from datetime import datetime
from typing import NamedTuple

from inboxd.store.session import Session


class Start(NamedTuple):
    """wait: seconds until a command may start; 0: it starts now, and next_at undoes that."""

    wait: float
    next_at: datetime | None


async def take(session: Session, queue: str, key: str, seconds: float) -> Start:
    """Grant the key a start every `seconds`, if the last one was long enough ago."""
    return Start(*await session.one("take_key_turn", queue, key, seconds))


async def give_back(session: Session, queue: str, key: str, next_at: datetime) -> None:
    """Undo a granted start; a later one of the key stays."""
    await session.execute("give_back_key_turn", queue, key, next_at)
