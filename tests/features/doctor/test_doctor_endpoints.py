"""The doctor finds endpoints that are disabled or failing, or have an unsafe URL."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.cli.conftest import Cli

Sql = Callable[..., list[Any]]


@pytest.fixture(autouse=True)
def known(sql: Sql) -> None:
    sql(
        "insert into inboxd.endpoints (name, url, types, secrets)"
        """ values ('acme', 'https://acme.example', '{*}', '[{"secret": "s"}]')"""
    )


def findings(cli: Cli) -> list[tuple[str, str]]:
    found = cli("doctor", "--json").json["findings"]
    return [(each["verdict"], each["found"]) for each in found if each["subject"] == "endpoints"]


def test_healthy_endpoints_are_ok(cli: Cli) -> None:
    assert findings(cli) == [("ok", "all accept their webhooks")]


@pytest.mark.parametrize(
    ("by", "verdict"), [("failures", "warning"), ("gone", "warning"), ("operator", "notice")]
)
def test_disabled_endpoint_is_found(cli: Cli, sql: Sql, by: str, verdict: str) -> None:
    sql(
        "update inboxd.endpoints set enabled = false, disabled_at = now() - interval '2 hours',"
        f" disabled_by = '{by}', disabled_reason = 'it answered 410'"
    )
    assert findings(cli) == [(verdict, "acme has been disabled for 2h: it answered 410")]


@pytest.mark.parametrize(("hours", "verdict"), [(2, "notice"), (25, "warning")])
def test_failing_endpoint_is_found(cli: Cli, sql: Sql, hours: int, verdict: str) -> None:
    sql(
        f"update inboxd.endpoints set failing_since = now() - interval '{hours} hours',"
        " last_failure = '503'"
    )
    ((found, told),) = findings(cli)
    assert (found, "acme has been failing for" in told, "503" in told) == (verdict, True, True)


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("http://acme.example", "acme has an http URL"),
        ("https://10.0.0.7/in", "acme has a private address: 10.0.0.7"),
        ("https://[::1]/in", "acme has a private address: ::1"),
        ("http://localhost:8000", "acme has a private address: localhost"),
    ],
)
def test_unsafe_url_is_found(cli: Cli, sql: Sql, url: str, told: str) -> None:
    sql("update inboxd.endpoints set url = $1", url)
    ((verdict, found),) = findings(cli)
    assert (verdict, told in found) == ("notice", True)
