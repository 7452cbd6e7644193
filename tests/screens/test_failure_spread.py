"""Spread of a failure group: release, host and tenant of its first and newest rows; its hours."""

from dataclasses import replace
from datetime import timedelta
from uuid import uuid4

import httpx
import orjson
import pytest

from inboxd.daemon.introduction import release_of
from inboxd.engine.outcomes import error_entry
from inboxd.model.outcome import Failure
from inboxd.operations import failures
from inboxd.operations.failures import FIRST, Spread, spread_of, trends_of
from inboxd.store import workers
from inboxd.store.operator_sessions import open_session
from tests.screens.reading import read
from tests.support import Database
from tests.support.rows import daemon_pool, daemon_session, send, settings_of

pytestmark = pytest.mark.anyio

_FAILURE = Failure("no", "ValueError", "", "f")
_ME = workers.WorkerIdentity(uuid4(), "w", "node-a", 1, "1", (), (), (), "same")
HOSTILE = "\"'><img src=x onerror=alert(1)>"


async def _die(
    database: Database, count: int, release: str | None, process: str, tenant: str, ago: timedelta
) -> None:
    await database.execute(
        "insert into inboxd.commands (queue, type, tenant, status, attempts, fingerprint, errors,"
        " updated_at) select 'q', 'mail.send', $1, 'failed', 1, 'g1', jsonb_build_array("
        " jsonb_strip_nulls(jsonb_build_object('error', 'no', 'release', $2::text, 'process',"
        " $3::text))), now() - $4::interval from generate_series(1, $5)",
        *(tenant, release, process, ago, count),
    )


async def _spread(database: Database) -> Spread:
    async with open_session(settings_of(database)) as session:
        (group,) = await failures(session, "g1")
        found = await spread_of(session, group)
    assert found is not None
    return found


async def test_a_group_tells_its_beginning_and_its_spread(
    screens: httpx.AsyncClient, database: Database
) -> None:
    await _die(database, FIRST, "school 1.4", "node-a:811", "malta", timedelta(hours=3))
    await _die(database, 30, "school 1.4", "node-b:7", "gozo", timedelta(hours=2))
    await _die(database, 5, HOSTILE, f"{HOSTILE}:7", "gozo", timedelta(0))
    found = await _spread(database)
    assert found.began == {
        "release": [{"name": "school 1.4", "count": 20}],
        "host": [{"name": "node-a", "count": 20}],
        "tenant": [{"name": "malta", "count": 20}],
    }
    assert [(each["name"], each["count"]) for each in found.newest["tenant"]] == [
        *(("gozo", 35), ("malta", 20)),
    ]
    assert (found.hours[-4], found.hours[-3], found.hours[-1]) == (20, 30, 5)
    page = await read(screens, "/failures/g1")
    assert "Began with release school 1.4" in page.text
    assert "Began on host node-a" in page.text
    assert "still happening" in page.text
    assert HOSTILE in page.text
    assert "still happening" in (await read(screens, "/failures")).text


async def test_a_large_group_shows_the_spread_of_its_newest_rows(
    screens: httpx.AsyncClient, database: Database
) -> None:
    await _die(database, 600, "school 1.3", "node-a:1", "malta", timedelta(hours=5))
    await _die(database, 100, "school 1.4", "node-b:1", "malta", timedelta(hours=2))
    found = await _spread(database)
    assert found.looked == 500
    assert [each["count"] for each in found.newest["release"]] == [400, 100]
    assert found.began["release"] == [{"name": "school 1.3", "count": 20}]
    assert found.hours[:18] == [None] * 18, "hours before the oldest of the newest 500 rows"
    page = await read(screens, "/failures/g1")
    assert "of the newest 500 rows" in page.text
    assert "last 2h ago" in page.text


async def _trends(database: Database) -> dict[str | None, list[int | None]]:
    async with open_session(settings_of(database)) as session:
        found = await trends_of(session, await failures(session))
    return {fingerprint: hours for (_, fingerprint), hours in found.items()}


async def test_the_list_has_the_trend_of_each_group(
    screens: httpx.AsyncClient, database: Database
) -> None:
    await _die(database, 3, None, "node-a:1", "malta", timedelta(hours=2))
    await _die(database, 4, None, "node-a:1", "malta", timedelta(days=3))
    await database.execute("update inboxd.commands set fingerprint = 'g' || id where id > 5")
    await _die(database, 2, None, "node-a:1", "malta", timedelta(0))
    await _die(database, 1, None, "node-a:1", "malta", timedelta(0))
    await database.execute("update inboxd.commands set fingerprint = null where id = 10")
    found = await _trends(database)
    assert found == {
        "g1": [*[0] * 21, 3, 0, 2],
        "g6": [0] * 24,
        "g7": [0] * 24,
    }
    page = await read(screens, "/failures")
    labels = [value for tag, name, value in page.attributes if (tag, name) == ("svg", "aria-label")]
    assert labels == ["dead letters in each hour of the last day"] * 3
    assert page.tags.count("tr") == 1 + 4, "a group without a name has no trend"


async def test_the_trend_of_a_large_group_begins_with_its_newest_rows(database: Database) -> None:
    await _die(database, 700, None, "node-a:1", "malta", timedelta(hours=5))
    await _die(database, 100, None, "node-a:1", "malta", timedelta(hours=2))
    assert await _trends(database) == {"g1": [*[None] * 18, 500, 0, 0, 100, 0, 0]}


async def test_a_spread_lacks_the_release_that_errors_lack(database: Database) -> None:
    """Errors that older workers wrote have no release."""
    await _die(database, 2, None, "node-a:1", "malta", timedelta(0))
    assert set((await _spread(database)).newest) == {"host", "tenant"}


def test_an_error_names_the_release_that_failed() -> None:
    entries = [
        orjson.loads(error_entry(_FAILURE, 1, replace(_ME, release=release)))
        for release in ("school 1.4", None)
    ]
    assert [each.get("release") for each in entries] == ["school 1.4", None]


async def test_a_worker_that_died_is_named_with_its_release(database: Database) -> None:
    async with daemon_session(database) as session, daemon_pool(database) as pool:
        await workers.join(session, replace(_ME, release="school 1.4"))
        (id_,) = await send(session.connection, 1)
        await session.connection.execute(
            "update inboxd.commands set status = 'running', worker_id = $1 where id = $2",
            *(_ME.id, id_),
        )
        assert await workers.declare_dead(pool, _ME.id, 0, 3)
    errors = await database.fetchval("select errors from inboxd.commands")
    (entry,) = orjson.loads(errors)
    assert (entry["release"], entry["process"]) == ("school 1.4", "node-a:1")


def test_a_release_names_the_packages_of_the_loaded_plugins() -> None:
    assert release_of(["no such plugin"]) is None
    everything = release_of()
    assert everything is None or len(everything) <= 200
