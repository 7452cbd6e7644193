"""Topics in the database: columns that an insert gets, and rows that outlive their workers."""

from datetime import timedelta
from typing import Any

import asyncpg
import pytest

from inboxd.api.topics import TopicDeclaration, checked
from inboxd.store import topics
from inboxd.store.statements import Statements
from tests.support.databases import Database

pytestmark = pytest.mark.anyio

SQL = Statements("inboxd")


async def declare(connection: Any, *pairs: tuple[str, str], **values: Any) -> list[Any]:
    name = values.pop("name", "rewards")
    declared = TopicDeclaration(name, "test", values)
    return await topics.declare(connection, SQL, [checked(declared)], pairs)


async def insert(connection: Any, **values: Any) -> Any:
    columns = {"type": "purchase.completed", "payload": '{"user": {"id": 7}}', **values}
    names = ", ".join(columns)
    places = ", ".join(f"${n}" for n in range(1, len(columns) + 1))
    return await connection.fetchrow(
        f"INSERT INTO inboxd.events ({names}) VALUES ({places}) "
        "RETURNING id, topic, mode, status, ordering_key, bucket",
        *columns.values(),
    )


async def test_events_without_declarations_are_single(database: Database) -> None:
    async with database.connect() as connection:
        row = await insert(connection)
        assert (row["topic"], row["mode"], row["status"]) == ("default", "single", "pending")
        row = await insert(connection, topic="elsewhere", mode="sequential", ordering_key="a")
        assert (row["topic"], row["mode"], row["status"]) == ("elsewhere", "sequential", "waiting")


async def test_insert_gets_topic_mode_and_ordering_key(database: Database) -> None:
    async with database.connect() as connection:
        pair = ("rewards", "purchase.completed")
        await declare(connection, pair, mode="sequential", key="/user/id")
        row = await insert(connection)
        assert (row["topic"], row["mode"], row["status"]) == ("rewards", "sequential", "waiting")
        assert row["ordering_key"] == "7"
        bucket = await connection.fetchval("SELECT inboxd.bucket_of('rewards', '7')")
        assert row["bucket"] == bucket
        assert (await insert(connection, ordering_key="own"))["ordering_key"] == "own"
        assert (await insert(connection, payload="{}"))["ordering_key"] == ""
        assert (await insert(connection, type="other"))["topic"] == "default"
        later = await insert(connection)
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
    async with database.connect() as connection:
        await declare(connection, mode="sequential")
        with pytest.raises(asyncpg.PostgresError, match=part) as refused:
            await insert(connection, **values)
        assert refused.value.sqlstate == "IB007"


async def test_changed_mode_is_reported(database: Database) -> None:
    async with database.connect() as connection:
        assert await declare(connection, mode="sequential") == []
        assert await declare(connection, mode="sequential") == []
        (changed,) = await declare(connection, mode="batch", count=3)
        assert (changed["name"], changed["mode"], changed["was"]) == (
            "rewards",
            "batch",
            "sequential",
        )


async def test_a_subscription_outlives_its_workers_for_a_week(database: Database) -> None:
    async with database.connect() as connection:
        await declare(connection, ("rewards", "purchase.completed"))
        marked, unsubscribed = await topics.mark_undeclared(connection, SQL)
        assert marked == ["rewards"]
        assert [row["type"] for row in unsubscribed] == ["purchase.completed"]
        assert await topics.mark_undeclared(connection, SQL) == ([], [])
        assert await topics.forget_undeclared(connection, SQL) == ([], [])
        assert (await insert(connection))["topic"] == "rewards"
        for table in ("topics", "subscriptions"):
            await connection.execute(
                f"UPDATE inboxd.{table} SET undeclared_at = now() - interval '8 days'"
            )
        gone, ended = await topics.forget_undeclared(connection, SQL)
        assert gone == ["rewards"]
        assert len(ended) == 1


async def test_topic_is_kept_as_long_as_its_dedup_keys(database: Database) -> None:
    age = "UPDATE inboxd.topics SET undeclared_at = undeclared_at - $1::interval"
    async with database.connect() as connection:
        await declare(connection, mode="sequential")
        await connection.execute("""UPDATE inboxd.topics SET rules = '{"dedup_window": "90d"}'""")
        await topics.mark_undeclared(connection, SQL)
        await connection.execute(age, timedelta(days=89))
        assert await topics.forget_undeclared(connection, SQL) == ([], [])
        await connection.execute(age, timedelta(days=2))
        assert await topics.forget_undeclared(connection, SQL) == (["rewards"], [])


async def test_topic_with_events_is_kept(database: Database) -> None:
    async with database.connect() as connection:
        await declare(connection, mode="sequential")
        await insert(connection, topic="rewards")
        await topics.mark_undeclared(connection, SQL)
        await connection.execute(
            "UPDATE inboxd.topics SET undeclared_at = now() - interval '8 days'"
        )
        assert await topics.forget_undeclared(connection, SQL) == ([], [])


async def test_an_operator_ends_a_subscription(database: Database) -> None:
    async with database.connect() as connection:
        await declare(connection, ("rewards", "a"), ("rewards", "b"))
        assert await topics.unsubscribe(connection, SQL, "rewards", None) == []
        await topics.mark_undeclared(connection, SQL)
        assert await topics.unsubscribe(connection, SQL, "rewards", "a") == ["a"]


async def insert_line(connection: Any, *positions: int) -> list[int]:
    """Insert lined up rows of one line; the first is its head."""
    ids = []
    for position in positions:
        row = await insert(connection, topic="rewards", ordering_key="k")
        await connection.execute(
            "UPDATE inboxd.events SET position = $2, head = $3 WHERE id = $1",
            row["id"],
            position,
            position == positions[0],
        )
        ids.append(row["id"])
    return ids


async def head(connection: Any) -> list[int]:
    rows = await connection.fetch("SELECT id FROM inboxd.events WHERE head")
    return [row["id"] for row in rows]


async def test_the_next_in_line_succeeds_its_head(database: Database) -> None:
    async with database.connect() as connection:
        await declare(connection, mode="sequential")
        first, second, third = await insert_line(connection, 1, 2, 3)
        await connection.execute("DELETE FROM inboxd.events WHERE id = $1", first)
        assert await head(connection) == [second]
        await connection.execute(
            "UPDATE inboxd.events SET status = 'failed', head = false, position = NULL"
            " WHERE id = $1",
            second,
        )
        assert await head(connection) == [third]
        await connection.execute("DELETE FROM inboxd.events WHERE id = $1", third)
        assert await head(connection) == []


async def test_replayed_dead_letter_waits_in_its_line(database: Database) -> None:
    async with database.connect() as connection:
        await declare(connection, mode="sequential")
        (first, _) = await insert_line(connection, 1, 2)
        for status in ("failed", "pending"):
            await connection.execute(
                "UPDATE inboxd.events SET status = $2 WHERE id = $1", first, status
            )
        status = await connection.fetchval("SELECT status FROM inboxd.events WHERE id = $1", first)
        assert status == "waiting"
        assert await head(connection) == [first]
