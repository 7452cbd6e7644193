"""Turns rows that the caller found unhandled into dead letters, except rows which others hold."""

from datetime import timedelta
from typing import Literal

from inboxd.model.lane import Key
from inboxd.store.session import Session

Way = Literal["events", "commands", "suspects", "keyed"]

_STATEMENTS: dict[Way, str] = {
    "events": "fail_unhandled_events",
    "commands": "fail_unhandled_commands",
    "suspects": "fail_unhandled_suspects",
    "keyed": "fail_unhandled_lines",
}


async def fail(
    session: Session, way: Way, lane: Key, error: str, rows: int, waited: timedelta
) -> int:
    """Turn at most `rows` rows into dead letters; suspects, keyed: of a queue and type."""
    lane = lane if way in ("events", "commands") else lane[:2]
    return len(await session.fetch(_STATEMENTS[way], *lane, error, rows, waited))
