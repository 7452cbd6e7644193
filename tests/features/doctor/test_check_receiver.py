"""`inboxd check` with a login that has only the receiver's role."""

from collections.abc import Callable, Iterator
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest

from tests.cli.conftest import Cli
from tests.support import Database
from tests.support.sender import SECRET

Sql = Callable[..., list[asyncpg.Record]]


@pytest.fixture
def door(cli: Cli, sql: Sql, database: Database, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Make a login with the receiver's role, which commands then use; returns its name."""
    del cli  # this fixture sets another login, so it must run first
    name = f"{database.name}_door"
    sql(f"CREATE ROLE {name} LOGIN IN ROLE inboxd_receiver")
    parts = urlsplit(database.dsn)
    netloc = f"{name}@{parts.netloc.rpartition('@')[2]}"
    monkeypatch.setenv("INBOXD_DATABASE__DSN", urlunsplit(parts._replace(netloc=netloc)))
    yield name
    sql(f"DROP ROLE {name}")


@pytest.fixture
def source(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set a source of webhooks."""
    bets = f'{{"bets": {{"type": "test.fan", "keys": [{{"secret": "{SECRET}"}}]}}}}'
    monkeypatch.setenv("INBOXD_INBOUND__WEBHOOKS", bets)


@pytest.mark.usefixtures("source")
def test_receivers_login_suffices_for_a_receiver(cli: Cli, door: str) -> None:
    result = cli("check", "--json")
    lines = {line["subject"]: line for line in result.json["checks"]}
    assert (lines["schema"]["verdict"], lines["privileges"]["verdict"]) == ("ok", "warn")
    assert "`inboxd receive`" in lines["privileges"]["found"]
    assert door in lines["privileges"]["found"]
    assert result.code == 0, result.out


@pytest.mark.usefixtures("source", "door")
def test_receivers_login_is_refused_for_a_receiving_daemon(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INBOXD_INBOUND__HTTP__ENABLED", "true")
    assert cli("check").code == 1


@pytest.mark.usefixtures("source")
def test_missing_rights_of_a_receiver_fail(cli: Cli, door: str, sql: Sql) -> None:
    sql(f"REVOKE inboxd_receiver FROM {door}")
    result = cli("check", "--json")
    assert result.code == 1
    assert "fail" in {line["verdict"] for line in result.json["checks"]}


@pytest.mark.usefixtures("door")
def test_receivers_login_without_a_source_is_checked_as_a_workers(cli: Cli) -> None:
    assert cli("check").code == 1
