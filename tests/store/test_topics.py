"""Topics in the database: columns that an insert gets, and rows that outlive their workers."""

from datetime import timedelta
from typing import Any

import asyncpg
import pytest

from inboxd.api.topics import TopicDeclaration, checked
from inboxd.store import topics
from inboxd.store.session import Session
from tests.support.databases import Database
from tests.support.rows import daemon_session

pytestmark = pytest.mark.anyio


async def declare(session: Session, *pairs: tuple[str, str], **values: Any) -> list[Any]:
    name = values.pop("name", "rewards")
    declared = TopicDeclaration(name, "test", values)
    return await topics.declare(session, [checked(declared)], pairs)


async def insert(session: Session, **values: Any) -> Any:
    columns = {"type": "purchase.completed", "payload": '{"user": {"id": 7}}', **values}
    names = ", ".join(columns)
    places = ", ".join(f"${n}" for n in range(1, len(columns) + 1))
    return await session.connection.fetchrow(
        f"INSERT INTO inboxd.events ({names}) VALUES ({places}) "
        "RETURNING id, topic, mode, status, ordering_key, bucket",
        *columns.values(),
    )


async def test_events_without_declarations_are_single(database: Database) -> None:
    async with daemon_session(database) as session:
        row = await insert(session)
        assert (row["topic"], row["mode"], row["status"]) == ("default", "single", "pending")
        row = await insert(session, topic="elsewhere", mode="sequential", ordering_key="a")
        assert (row["topic"], row["mode"], row["status"]) == ("elsewhere", "sequential", "waiting")


async def test_insert_gets_topic_mode_and_ordering_key(database: Database) -> None:
    async with daemon_session(database) as session:
        pair = ("rewards", "purchase.completed")
        await declare(session, pair, mode="sequential", key="/user/id")
        row = await insert(session)
        assert (row["topic"], row["mode"], row["status"]) == ("rewards", "sequential", "waiting")
        assert row["ordering_key"] == "7"
        bucket = await session.connection.fetchval("SELECT inboxd.bucket_of('rewards', '7')")
        assert row["bucket"] == bucket
        assert (await insert(session, ordering_key="own"))["ordering_key"] == "own"
        assert (await insert(session, payload="{}"))["ordering_key"] == ""
        assert (await insert(session, type="other"))["topic"] == "default"
        later = await insert(session)
        assert later["id"] > row["id"]


@pytest.mark.parametrize(
    ("values", "part"),
    [
        ({"topic": "rewards", "mode": "single"}, "declared as sequential"),
        ({"topic": "rewards", "mode": "batch"}, "declared as sequential"),
        ({"topic": "nobody", "mode": "batch"}, "no topic of that name"),
    ],
)
async def test_a_topic_has_one_mode(database: Database, values: dict[str, Any], part: str) -> None:
    async with daemon_session(database) as session:
        await declare(session, mode="sequential")
        with pytest.raises(asyncpg.PostgresError, match=part) as refused:
            await insert(session, **values)
        assert refused.value.sqlstate == "IB007"


async def test_changed_mode_is_reported(database: Database) -> None:
    async with daemon_session(database) as session:
        assert await declare(session, mode="sequential") == []
        assert await declare(session, mode="sequential") == []
        (changed,) = await declare(session, mode="batch", count=3)
        assert (changed["name"], changed["mode"], changed["was"]) == (
            "rewards",
            "batch",
            "sequential",
        )


async def test_a_subscription_outlives_its_workers_for_a_week(database: Database) -> None:
    async with daemon_session(database) as session:
        await declare(session, ("rewards", "purchase.completed"))
        marked, unsubscribed = await topics.mark_undeclared(session)
        assert marked == ["rewards"]
        assert [row["type"] for row in unsubscribed] == ["purchase.completed"]
        assert await topics.mark_undeclared(session) == ([], [])
        assert await topics.forget_undeclared(session) == ([], [])
        assert (await insert(session))["topic"] == "rewards"
        for table in ("topics", "subscriptions"):
            await session.connection.execute(
                f"UPDATE inboxd.{table} SET undeclared_at = now() - interval '8 days'"
            )
        gone, ended = await topics.forget_undeclared(session)
        assert gone == ["rewards"]
        assert len(ended) == 1


async def test_topic_is_kept_as_long_as_its_dedup_keys(database: Database) -> None:
    age = "UPDATE inboxd.topics SET undeclared_at = undeclared_at - $1::interval"
    async with daemon_session(database) as session:
        await declare(session, mode="sequential")
        await session.connection.execute(
            """UPDATE inboxd.topics SET rules = '{"dedup_window": "90d"}'"""
        )
        await topics.mark_undeclared(session)
        await session.connection.execute(age, timedelta(days=89))
        assert await topics.forget_undeclared(session) == ([], [])
        await session.connection.execute(age, timedelta(days=2))
        assert await topics.forget_undeclared(session) == (["rewards"], [])


async def test_topic_with_events_is_kept(database: Database) -> None:
    async with daemon_session(database) as session:
        await declare(session, mode="sequential")
        await insert(session, topic="rewards")
        await topics.mark_undeclared(session)
        await session.connection.execute(
            "UPDATE inboxd.topics SET undeclared_at = now() - interval '8 days'"
        )
        assert await topics.forget_undeclared(session) == ([], [])


async def test_an_operator_ends_a_subscription(database: Database) -> None:
    async with daemon_session(database) as session:
        await declare(session, ("rewards", "a"), ("rewards", "b"))
        assert await topics.unsubscribe(session, "rewards", None) == []
        await topics.mark_undeclared(session)
        assert await topics.unsubscribe(session, "rewards", "a") == ["a"]


async def insert_line(session: Session, *positions: int) -> list[int]:
    """Insert lined up rows of one line; the first is its head."""
    ids = []
    for position in positions:
        row = await insert(session, topic="rewards", ordering_key="k")
        await session.connection.execute(
            "UPDATE inboxd.events SET position = $2, head = $3 WHERE id = $1",
            row["id"],
            position,
            position == positions[0],
        )
        ids.append(row["id"])
    return ids


async def head(session: Session) -> list[int]:
    rows = await session.connection.fetch("SELECT id FROM inboxd.events WHERE head")
    return [row["id"] for row in rows]


async def test_the_next_in_line_succeeds_its_head(database: Database) -> None:
    async with daemon_session(database) as session:
        await declare(session, mode="sequential")
        first, second, third = await insert_line(session, 1, 2, 3)
        await session.connection.execute("DELETE FROM inboxd.events WHERE id = $1", first)
        assert await head(session) == [second]
        await session.connection.execute(
            "UPDATE inboxd.events SET status = 'failed', head = false, position = NULL"
            " WHERE id = $1",
            second,
        )
        assert await head(session) == [third]
        await session.connection.execute("DELETE FROM inboxd.events WHERE id = $1", third)
        assert await head(session) == []


async def test_replayed_dead_letter_waits_in_its_line(database: Database) -> None:
    async with daemon_session(database) as session:
        await declare(session, mode="sequential")
        (first, _) = await insert_line(session, 1, 2)
        for status in ("failed", "pending"):
            await session.connection.execute(
                "UPDATE inboxd.events SET status = $2 WHERE id = $1", first, status
            )
        status = await session.connection.fetchval(
            "SELECT status FROM inboxd.events WHERE id = $1", first
        )
        assert status == "waiting"
        assert await head(session) == [first]
