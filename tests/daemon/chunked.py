"""Waits of tests of chunks: for chunks that ran, lined-up events, dead letters.

    ids = await emit(inbox, "counted", "a key", [{}] * 5)
    [chunk] = await chunks(inbox, "counted", "a key", 1)

The handlers are in `inboxd_testplugin.chunked`.
"""

from collections.abc import Sequence
from typing import Any

import asyncpg

from tests.daemon.inbox import Inbox
from tests.support import eventually


async def emit(
    inbox: Inbox, topic: str, key: str, payloads: Sequence[dict[str, Any]], type_: str = ""
) -> list[int]:
    """Insert events of a line, in order; return their ids."""
    return await inbox.write_many(
        "event", type_ or f"chunked.{topic}", [{"key": key, **each} for each in payloads]
    )


async def chunks(inbox: Inbox, topic: str, key: str, count: int) -> list[asyncpg.Record]:
    """Wait until a line has had at least `count` chunks; return them."""

    async def find() -> list[asyncpg.Record]:
        found = await inbox.database.fetch(
            "select * from chunks where topic = $1 and key = $2 order by id", topic, key
        )
        return found if len(found) >= count else []

    return await eventually(find)


async def failed(inbox: Inbox, row_id: int) -> asyncpg.Record:
    """Wait until the event is a dead letter; return it."""

    async def find() -> list[asyncpg.Record]:
        return await inbox.database.fetch(
            "select * from inboxd.events where id = $1 and status = 'failed'", row_id
        )

    return (await eventually(find))[0]


async def lined_up(inbox: Inbox, topic: str, key: str, count: int) -> list[asyncpg.Record]:
    """Wait until a line has exactly `count` lined-up events; return them."""

    async def find() -> list[asyncpg.Record]:
        found = await inbox.database.fetch(
            "select * from inboxd.events where topic = $1 and ordering_key = $2 "
            "and position is not null order by position",
            topic,
            key,
        )
        return found if len(found) == count else []

    return await eventually(find)
