"""Endpoints of the settings: written at a worker's start, disabled when no settings have them."""

import json
from pathlib import Path
from typing import Any

import pytest

from inboxd.daemon.declared_endpoints import declared_endpoints
from inboxd.errors import SettingsError
from inboxd.settings.endpoints import Endpoint
from inboxd.store import endpoints
from tests.support import Database, StartWorker, eventually
from tests.support.endpoints import SECRET, add
from tests.support.rows import daemon_session, join

pytestmark = pytest.mark.anyio
OLD = "whsec_b2xkIG9sZCBvbGQgb2xkIG9sZCBvbGQgb2xk"


@pytest.fixture
def secret_file(tmp_path: Path) -> Path:
    file = tmp_path / "secret"
    file.write_text(f"{SECRET}\n")
    return file


def declared(file: Path, **more: Any) -> list[dict[str, Any]]:
    given = {"url": "https://a.example", "types": ["user.*"], "secret_file": file, **more}
    return declared_endpoints({"a": Endpoint(**given)})


async def the_one(database: Database) -> Any:
    (row,) = await database.fetch("select * from inboxd.endpoints")
    return row


async def declare(database: Database, found: list[dict[str, Any]]) -> None:
    async with daemon_session(database) as session:
        await endpoints.declare(session, found)


async def test_a_worker_writes_declared_endpoints(
    database: Database, start_worker: StartWorker, secret_file: Path
) -> None:
    given = {"url": "https://a.example", "types": ["user.*"], "secret_file": str(secret_file)}
    more = {"rate": "10/s", "ordered": True, "events": True}
    await start_worker({"endpoints": {"a": given | more}})

    async def written() -> list[Any]:
        return await database.fetch("select * from inboxd.endpoints")

    (row,) = await eventually(written)
    assert (row["managed_by"], row["url"], row["types"]) == ("settings", given["url"], ["user.*"])
    assert (row["rate"], row["ordered"], row["disable_after"].days) == ("10/s", True, 5)
    assert row["events"]
    assert [each["secret"] for each in json.loads(row["secrets"])] == [SECRET]
    assert await database.fetchval("select endpoints from inboxd.workers") == ["a"]


async def test_an_unchanged_endpoint_is_not_written_again(
    database: Database, secret_file: Path, tmp_path: Path
) -> None:
    await declare(database, declared(secret_file))
    before = await the_one(database)
    await declare(database, declared(secret_file))
    assert await the_one(database) == before
    await declare(database, declared(secret_file, url="https://b.example"))
    after = await the_one(database)
    assert (after["version"], after["secrets"]) == (2, before["secrets"])
    old = tmp_path / "old"
    old.write_text(OLD)
    await declare(database, declared(secret_file, old_secret_file=old))
    found = json.loads((await the_one(database))["secrets"])
    assert [each["secret"] for each in found] == [SECRET, OLD]


async def test_an_operators_endpoint_is_not_overwritten(
    database: Database, secret_file: Path
) -> None:
    await add(database, "a")
    with pytest.raises(SettingsError, match=r"\[endpoints\.a\]: an operator has already added"):
        await declare(database, declared(secret_file))
    assert (await the_one(database))["managed_by"] == "rows"


async def test_endpoints_without_a_worker_for_an_hour_are_disabled(
    database: Database, secret_file: Path
) -> None:
    await declare(database, declared(secret_file))
    async with daemon_session(database) as session:
        worker = await join(session)
        await database.execute("update inboxd.workers set endpoints = '{a}'")
        assert await endpoints.mark_undeclared(session) == []
        await database.execute("update inboxd.workers set state = 'stopped' where id = $1", worker)
        assert await endpoints.mark_undeclared(session) == ["a"]
        assert await endpoints.mark_undeclared(session) == [], "reported once"
        assert await endpoints.disable_undeclared(session) == [], (
            "disabled too early: a deploy takes time"
        )
        await database.execute(
            "update inboxd.endpoints set undeclared_at = now() - interval '61 minutes'"
        )
        assert await endpoints.disable_undeclared(session) == ["a"]
    assert (await the_one(database))["disabled_by"] == "settings"
    await declare(database, declared(secret_file))
    row = await the_one(database)
    assert (row["enabled"], row["undeclared_at"], row["disabled_reason"]) == (True, None, None)


async def test_an_endpoint_that_an_operator_disabled_stays_disabled(
    database: Database, secret_file: Path
) -> None:
    await declare(database, declared(secret_file))
    await database.execute(
        "update inboxd.endpoints set enabled = false, disabled_at = now(),"
        " disabled_by = 'operator', disabled_reason = 'no'"
    )
    await declare(database, declared(secret_file, url="https://b.example"))
    row = await the_one(database)
    assert (row["enabled"], row["disabled_reason"], row["url"]) == (
        False,
        "no",
        "https://b.example",
    )


async def test_a_file_without_a_secret_is_refused(tmp_path: Path) -> None:
    (tmp_path / "wrong").write_text("hunter2")
    with pytest.raises(
        SettingsError, match=r"\[endpoints\.a\]: the secret in .*wrong must be"
    ) as no:
        declared(tmp_path / "wrong")
    assert "hunter2" not in str(no.value)
    with pytest.raises(SettingsError, match="cannot read the secret"):
        declared(tmp_path / "none")
