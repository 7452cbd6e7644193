"""The notices table: what was worth waking somebody for, since when, and until when.

Owns its statements. Promises that a cause has at most one open notice, whoever leads, and that a
notice and the event that tells of it are written together or not at all (`tell`).
Known limit: at most `MOST` are open; further causes begin one when others have ended.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from typing import Any

import orjson

from inboxd.model.notices import Cause
from inboxd.store.connections import Connection, Row
from inboxd.store.session import Session
from inboxd.store.statements import Statements

MOST = 500
_SOURCE = "inboxd"


async def begin(connection: Connection, sql: Statements, causes: Collection[Cause]) -> list[Row]:
    """Begin those that have no open notice; the rows that begin."""
    return await connection.fetch(sql["begin_notices"], *_columns(causes), MOST)


async def end(
    connection: Connection, sql: Statements, causes: Collection[Cause], settled: timedelta
) -> list[Row]:
    """End those whose cause is not among these, and has not been for so long; the rows that end."""
    return await connection.fetch(sql["end_notices"], *_columns(causes), settled)


async def open_ones(connection: Connection, sql: Statements) -> list[Row]:
    """Those that have not ended."""
    return await connection.fetch(sql["list_notices"], True, MOST)  # noqa: FBT003


async def close(connection: Connection, sql: Statements, causes: Collection[Cause]) -> list[Row]:
    """End the open ones of these at once; the rows that end."""
    return await connection.fetch(sql["close_notices"], *_columns(causes))


async def tell(
    connection: Connection,
    sql: Statements,
    topic: str,
    type_: str,
    row: Row,
    payload: Mapping[str, Any],
) -> None:
    """Emit the event of a notice, in the transaction that begins or ends it."""
    at = row.get("ended_at") or row["began_at"]
    fixed = (topic, type_, 1, _SOURCE, None)
    body = orjson.dumps(payload).decode()
    await connection.execute(sql["emit_scheduled"], *fixed, [body], [f"notice {row['id']}"], [at])


async def open_breakers(connection: Connection, sql: Statements) -> list[str]:
    """The names of the breakers that let nothing pass."""
    return [row["name"] for row in await connection.fetch(sql["open_breakers"])]


async def forget(connection: Connection, sql: Statements) -> None:
    """Remove what ended 30 days ago."""
    await connection.execute(sql["forget_notices"])


async def listed(session: Session, *, only_open: bool, limit: int) -> list[dict[str, Any]]:
    """The newest of them."""
    return [dict(row) for row in await session.fetch("list_notices", only_open, limit)]


def _columns(causes: Collection[Cause]) -> Sequence[list[str]]:
    each = sorted(causes, key=lambda one: (one.cause != "open breaker", one))
    return [one.cause for one in each], [one.kind for one in each], [one.subject for one in each]
