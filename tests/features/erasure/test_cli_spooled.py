"""A receipt that waited in a spool during an erasure is written without the erased data."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Cli
from tests.support.receipts import receipt, received
from tests.support.spooled import spool

Sql = Callable[..., list[Any]]
USER = ("--entity-type", "user", "--entity-id", "42")


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Set a spool of this host."""
    monkeypatch.setenv("INBOXD_INBOUND__SPOOL__PATH", str(tmp_path))
    return tmp_path


def about(entity: str, **given: Any) -> Any:
    return received(entity_type="user", entity_id=entity, **given)


def receives(sql: Sql) -> None:
    """Let a receiver have joined before its outage."""
    sql(
        "insert into inboxd.receivers (id, name, host, pid, version)"
        " values (gen_random_uuid(), 'door', 'h', 1, '0.1')"
    )


@pytest.mark.parametrize("subject", [USER, ("--tenant", "acme"), (*USER, "--tenant", "acme")])
def test_spooled_receipt_is_written_without_erased_data(
    cli: Cli, sql: Sql, path: Path, subject: tuple[str, ...]
) -> None:
    receives(sql)
    page = [
        receipt(about("42", tenant="acme"), about("43", payload={"stays": 1})),
        receipt(about("43", tenant="other")),
    ]
    spool(path, *page).release()
    erased = cli("erase", *subject, "--yes", "--force")
    assert erased.code == 0
    assert [tuple(row) for row in sql("select action, count from inboxd.audit")] == [("erase", 0)]

    assert cli("spool", "drain", "--json").json["drained"] == 2
    rows = sql("select entity_id, payload from inboxd.events order by id")
    assert [tuple(row) for row in rows] == [("43", '{"stays": 1}'), ("43", "{}")]
    first, second = sql("select body, headers, address from inboxd.receipts order by receipt_id")
    assert tuple(first) == (b"", None, None)
    assert second["body"] == b'{"came": "so"}'


def test_receipt_after_an_erasure_is_complete(cli: Cli, sql: Sql, path: Path) -> None:
    receives(sql)
    cli("erase", *USER, "--yes", "--force")
    spool(path, receipt(about("42"))).release()
    cli("spool", "drain")
    assert sql("select entity_id from inboxd.events")[0][0] == "42"


def test_empty_erasure_without_receivers_is_not_audited(cli: Cli, sql: Sql) -> None:
    assert cli("erase", *USER, "--yes", "--force").code == 0
    assert sql("select from inboxd.audit") == []


def test_receivers_role_may_call_erased_and_not_read_the_audit(sql: Sql) -> None:
    [row] = sql(
        "select has_function_privilege(role, 'inboxd.erased(text[], timestamptz)', 'execute'),"
        " has_table_privilege(role, 'inboxd.audit', 'select')"
        " from (values ('inboxd_receiver')) as given(role)"
    )
    assert tuple(row) == (True, False)
