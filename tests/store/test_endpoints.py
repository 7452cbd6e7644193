"""The endpoints table: what workers read of it, and what they write of deliveries."""

import json
from typing import Any

import asyncpg
import pytest

from inboxd.store import endpoints
from tests.support import Database
from tests.support.endpoints import SECRET, add
from tests.support.rows import SQL, daemon_session

pytestmark = pytest.mark.anyio


async def test_what_workers_read(database: Database) -> None:
    await add(database, "one", ordered=True, rate="10/s", concurrency=3)
    async with daemon_session(database) as connection:
        read = (await endpoints.read(connection, SQL))["one"]
    assert (read.url, read.secrets) == ("https://one.example/hooks", (SECRET,))
    assert (read.ordered, read.rate, read.concurrency) == (True, "10/s", 3)
    assert (read.enabled, read.failing, read.disable_after) == (True, None, 5 * 86400.0)
    assert SECRET not in repr(read)


async def test_secrets_sign_until_they_expire(database: Database) -> None:
    secrets = [
        {"secret": "new", "created_at": "2026-01-03T00:00:00Z", "expires_at": None},
        {
            "secret": "old",
            "created_at": "2026-01-02T00:00:00Z",
            "expires_at": "2200-01-01T00:00:00Z",
        },
        {
            "secret": "gone",
            "created_at": "2026-01-01T00:00:00Z",
            "expires_at": "2026-01-02T00:00:00Z",
        },
    ]
    await add(database, "one", secrets=json.dumps(secrets))
    async with daemon_session(database) as connection:
        assert (await endpoints.read(connection, SQL))["one"].secrets == ("new", "old")


async def test_failing_and_recovering(database: Database) -> None:
    await add(database, "one")
    async with daemon_session(database) as connection:
        first = await endpoints.fail(connection, SQL, "one", 1, 503, "503: busy")
        assert first == 2
        assert await endpoints.fail(connection, SQL, "one", 1, 503, "late") is None
        since = await database.fetchval("select failing_since from inboxd.endpoints")
        assert await endpoints.fail(connection, SQL, "one", 2, None, "refused") == 3
        (row,) = await database.fetch("select * from inboxd.endpoints")
        assert row["failing_since"] == since
        assert (row["last_failure"], row["last_status"]) == ("refused", None)
        failing = (await endpoints.read(connection, SQL))["one"].failing
        assert failing is not None
        assert 0 < failing < 60
        assert await endpoints.recover(connection, SQL, "one", 2, 200) is None
        assert await endpoints.recover(connection, SQL, "one", 3, 204) == 4
    (row,) = await database.fetch("select * from inboxd.endpoints")
    assert (row["failing_since"], row["last_status"]) == (None, 204)
    assert row["last_success_at"] is not None


_GONE: Any = ("gone", "it answered 410", (410, "410: go away"))


async def test_giving_up(database: Database) -> None:
    await add(database, "one")
    async with daemon_session(database) as connection:
        assert await endpoints.give_up(connection, SQL, "one", 7, *_GONE) is None
        assert await endpoints.give_up(connection, SQL, "one", 1, *_GONE) == 2
        assert await endpoints.give_up(connection, SQL, "one", 2, *_GONE) is None
        assert not (await endpoints.read(connection, SQL))["one"].enabled
    (row,) = await database.fetch("select * from inboxd.endpoints")
    assert (row["disabled_by"], row["disabled_reason"]) == ("gone", "it answered 410")
    assert (row["last_status"], row["last_failure"]) == (410, "410: go away")


async def test_a_success_is_written_once_a_minute_and_is_no_news(database: Database) -> None:
    await add(database, "one")
    async with daemon_session(database) as connection:
        await endpoints.note_success(connection, SQL, "one", 200)
        await endpoints.note_success(connection, SQL, "one", 204)
    (row,) = await database.fetch("select * from inboxd.endpoints")
    assert (row["last_status"], row["version"]) == (200, 1)


@pytest.mark.parametrize(
    "columns",
    [
        {"name": "a b"},
        {"name": "x" * 101},
        {"url": "ftp://example.com"},
        {"url": "https://"},
        {"types": []},
        {"secrets": "[]"},
        {"secrets": "{}"},
        {"rate": "0/s"},
        {"rate": "10 per second"},
        {"concurrency": 0},
        {"managed_by": "me"},
        {"enabled": False},
    ],
    ids=str,
)
async def test_what_no_endpoint_can_be(database: Database, columns: dict[str, Any]) -> None:
    with pytest.raises(asyncpg.CheckViolationError):
        await add(database, **{"name": "one", **columns})
