"""The tables of topics and subscriptions: what producers' inserts are filled in from.

Owns their statements. Promises that what a worker declares counts for every insert that begins
after its start, and that a subscription outlives its workers for a week: what comes meanwhile waits
for them. Known limit: of workers that declare one topic differently, the last to join is heeded.
"""

from collections.abc import Iterable, Sequence

import orjson

from inboxd.api.topics import Topic
from inboxd.store.connections import Connection, Row
from inboxd.store.statements import Statements


async def declare(
    connection: Connection,
    sql: Statements,
    topics: Iterable[Topic],
    subscriptions: Sequence[tuple[str, str]],
) -> list[Row]:
    """Publish this worker's topics and (topic, type) subscriptions.

    Returns name, mode and was of each topic whose mode is another one now.
    """
    given = sorted(topics, key=lambda topic: topic.name)
    changed: list[Row] = await connection.fetch(
        sql["declare_topics"],
        [topic.name for topic in given],
        [topic.mode for topic in given],
        [_json(topic.key_path) for topic in given],
        [_json(topic.dedup_path) for topic in given],
        [_json(topic.rules()) for topic in given],
        [topic.source for topic in given],
    )
    await connection.execute(
        sql["declare_subscriptions"],
        [topic for topic, _ in subscriptions],
        [type_ for _, type_ in subscriptions],
    )
    return changed


async def mark_undeclared(connection: Connection, sql: Statements) -> tuple[list[str], list[Row]]:
    """Note which topics and subscriptions no living worker declares any more; which are new so."""
    topics = await connection.fetch(sql["mark_topics"])
    subscriptions = await connection.fetch(sql["mark_subscriptions"])
    return (
        [row["name"] for row in topics if row["name"] is not None],
        [row for row in subscriptions if row["topic"] is not None],
    )


async def forget_undeclared(connection: Connection, sql: Statements) -> tuple[list[str], list[Row]]:
    """Remove what nobody has declared for a week: names of topics, and subscriptions."""
    subscriptions = await connection.fetch(sql["forget_subscriptions"])
    topics = await connection.fetch(sql["forget_topics"])
    return [row["name"] for row in topics], subscriptions


async def unsubscribe(
    connection: Connection, sql: Statements, topic: str, type_: str | None
) -> list[str]:
    """Remove subscriptions of a topic that no living worker declares; their types."""
    return [row["type"] for row in await connection.fetch(sql["unsubscribe"], topic, type_)]


def _json(value: object) -> str | None:
    return None if value is None else orjson.dumps(value).decode()
