"""The table of endpoints: columns that workers read, and results of deliveries that they write."""

import json
from typing import Any

import asyncpg
import pytest

from inboxd.store import endpoints
from tests.support import Database
from tests.support.endpoints import SECRET, add
from tests.support.rows import daemon_session

pytestmark = pytest.mark.anyio


async def test_columns_that_workers_read(database: Database) -> None:
    await add(database, "one", ordered=True, rate="10/s", concurrency=3)
    async with daemon_session(database) as session:
        read = (await endpoints.read(session))["one"]
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
    async with daemon_session(database) as session:
        assert (await endpoints.read(session))["one"].secrets == ("new", "old")


async def test_endpoint_fails_and_recovers(database: Database) -> None:
    await add(database, "one")
    async with daemon_session(database) as session:
        first = await endpoints.fail(session, "one", 1, (503, "503: busy"), 0.0)
        assert first == 2
        assert await endpoints.fail(session, "one", 1, (503, "late"), 0.0) is None
        since = await database.fetchval("select failing_since from inboxd.endpoints")
        assert await endpoints.fail(session, "one", 2, (None, "refused"), 0.0) == 3
        (row,) = await database.fetch("select * from inboxd.endpoints")
        assert row["failing_since"] == since
        assert (row["last_failure"], row["last_status"]) == ("refused", None)
        failing = (await endpoints.read(session))["one"].failing
        assert failing is not None
        assert 0 < failing < 60
        assert await endpoints.recover(session, "one", 2, 200, 0.0) is None
        assert await endpoints.recover(session, "one", 3, 204, 0.0) == 4
    (row,) = await database.fetch("select * from inboxd.endpoints")
    assert (row["failing_since"], row["last_status"]) == (None, 204)
    assert row["last_success_at"] is not None


_GONE: Any = ("gone", "it answered 410", (410, "410: go away"))


async def test_endpoint_is_disabled_when_given_up(database: Database) -> None:
    await add(database, "one")
    async with daemon_session(database) as session:
        assert await endpoints.give_up(session, "one", 7, *_GONE) is None
        assert await endpoints.give_up(session, "one", 1, *_GONE) == 2
        assert await endpoints.give_up(session, "one", 2, *_GONE) is None
        assert not (await endpoints.read(session))["one"].enabled
    (row,) = await database.fetch("select * from inboxd.endpoints")
    assert (row["disabled_by"], row["disabled_reason"]) == ("gone", "it answered 410")
    assert (row["last_status"], row["last_failure"]) == (410, "410: go away")


async def test_endpoint_fails_since_the_time_of_the_failure(
    database: Database,
) -> None:
    await add(database, "one")
    async with daemon_session(database) as session:
        assert await endpoints.fail(session, "one", 1, (503, "busy"), 20.0) == 2
        failing = (await endpoints.read(session))["one"].failing
        assert failing is not None
        assert 20.0 <= failing < 50.0


async def test_endpoint_with_a_later_success_does_not_fail(database: Database) -> None:
    """Noted by any worker, also by one that has ended."""
    await add(database, "one")
    async with daemon_session(database) as session:
        await endpoints.note_success(session, "one", 200, 100.0, last=False)
        assert await endpoints.fail(session, "one", 1, (503, "busy"), 200.0) is None
        (row,) = await database.fetch("select * from inboxd.endpoints")
        assert (row["failing_since"], row["last_failure"], row["version"]) == (None, None, 1)
        succeeded = (await endpoints.read(session))["one"].succeeded
        assert succeeded is not None
        assert 100.0 <= succeeded < 130.0
        # A failure after the success counts.
        assert await endpoints.fail(session, "one", 1, (503, "busy"), 50.0) == 2


async def test_recovery_by_a_noted_success_keeps_the_note(database: Database) -> None:
    await add(database, "one")
    async with daemon_session(database) as session:
        await endpoints.fail(session, "one", 1, (503, "busy"), 200.0)
        await endpoints.note_success(session, "one", 204, 100.0, last=False)
        before = await database.fetchval("select last_success_at from inboxd.endpoints")
        await database.execute("update inboxd.endpoints set last_status = 204")
        assert await endpoints.recover(session, "one", 2, None, 101.0) == 3
    (row,) = await database.fetch("select * from inboxd.endpoints")
    assert (row["failing_since"], row["last_status"]) == (None, 204)
    assert row["last_success_at"] == before


@pytest.mark.parametrize("by", ["operator", "settings"])
async def test_new_url_does_not_inherit_the_failure(database: Database, by: str) -> None:
    """Otherwise the first failure of the new URL could disable the endpoint."""
    given: dict[str, Any] = {
        "name": "one",
        "url": "https://one.example/new",
        "types": ["*"],
        "tenant": None,
        "secrets": [SECRET],
        "ordered": False,
        "rate": None,
        "concurrency": None,
        "disable_after": "5 days",
    }
    managed_by = "settings" if by == "settings" else "rows"
    await add(database, "one", managed_by=managed_by)
    failing = "select failing_since is not null from inboxd.endpoints"
    async with daemon_session(database) as session:

        async def change(**changes: Any) -> None:
            if by == "operator":
                assert await endpoints.change(session, "one", changes)
            else:
                await endpoints.declare(session, [{**given, **changes}])

        await endpoints.fail(session, "one", 1, (503, "busy"), 20.0)
        await change(url="https://one.example/hooks", rate="7/s")
        assert await database.fetchval(failing), "the URL is unchanged"
        await change(url="https://one.example/new")
        assert not await database.fetchval(failing)


async def test_endpoint_that_returns_to_settings_has_no_failure(
    database: Database,
) -> None:
    await add(database, "one", managed_by="settings")
    await database.execute(
        "update inboxd.endpoints set failing_since = now() - interval '9 days', enabled = false,"
        " disabled_at = now(), disabled_by = 'settings'"
    )
    given = {"name": "one", "url": "https://one.example/hooks", "types": ["*"]}
    given |= {"secrets": [SECRET], "ordered": False, "disable_after": "5 days"}  # type: ignore[dict-item]
    async with daemon_session(database) as session:
        await endpoints.declare(session, [given])
    (row,) = await database.fetch("select * from inboxd.endpoints")
    assert (row["enabled"], row["failing_since"]) == (True, None)


async def test_success_is_written_once_a_minute_in_the_same_version(database: Database) -> None:
    await add(database, "one")
    async with daemon_session(database) as session:
        for status, last in ((200, False), (204, False), (202, True)):
            noted = await endpoints.note_success(session, "one", status, 0.0, last=last)
            assert noted == (status != 204)
            (row,) = await database.fetch("select * from inboxd.endpoints")
            assert (row["last_status"], row["version"]) == (202 if last else 200, 1)


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
async def test_invalid_columns_of_an_endpoint_are_refused(
    database: Database, columns: dict[str, Any]
) -> None:
    with pytest.raises(asyncpg.CheckViolationError):
        await add(database, **{"name": "one", **columns})
