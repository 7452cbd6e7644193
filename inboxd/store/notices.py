"""The notices table: alerts, with the times at which they began and ended.

Promises at most one open notice per cause, `MOST` in all, and its event in its transaction.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from typing import Any

import orjson

from inboxd.model.notices import Cause
from inboxd.store.connections import Row
from inboxd.store.session import Session

MOST = 500
_SOURCE = "inboxd"


async def begin(session: Session, causes: Collection[Cause]) -> list[Row]:
    return await session.fetch("begin_notices", *_columns(causes), MOST)


async def end(session: Session, causes: Collection[Cause], settled: timedelta) -> list[Row]:
    """End notices whose causes have been absent for `settled`; returns the ended rows."""
    return await session.fetch("end_notices", *_columns(causes), settled)


async def open_ones(session: Session) -> list[Row]:
    return await session.fetch("list_notices", True, MOST)  # noqa: FBT003


async def close(session: Session, causes: Collection[Cause]) -> list[Row]:
    """End the open notices of these causes at once; returns the ended rows."""
    return await session.fetch("close_notices", *_columns(causes))


async def tell(
    session: Session, topic: str, type_: str, row: Row, payload: Mapping[str, Any]
) -> None:
    """Emit a notice's event, in the transaction that begins or ends the notice."""
    at = row.get("ended_at") or row["began_at"]
    fixed = (topic, type_, 1, _SOURCE, None)
    body = orjson.dumps(payload).decode()
    await session.execute("emit_scheduled", *fixed, [body], [f"notice {row['id']}"], [at])


async def open_breakers(session: Session) -> list[str]:
    return [row["name"] for row in await session.fetch("open_breakers")]


async def forget(session: Session) -> None:
    await session.execute("forget_notices")


async def listed(session: Session, *, only_open: bool, limit: int) -> list[dict[str, Any]]:
    return [dict(row) for row in await session.fetch("list_notices", only_open, limit)]


def _columns(causes: Collection[Cause]) -> Sequence[list[str]]:
    each = sorted(causes, key=lambda one: (one.cause != "open breaker", one))
    return [one.cause for one in each], [one.kind for one in each], [one.subject for one in each]
