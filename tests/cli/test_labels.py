"""Titles, names of tenants and links beside ids; a failing query does no harm."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.cli.conftest import Cli

Sql = Callable[..., list[Any]]
Set = Callable[[str], None]

BY_ID = "select id, name from public.customers where id = any ($1)"


@pytest.fixture(autouse=True)
def id(cli: Cli, sql: Sql) -> int:
    """Write events; returns the number of one with a declared type and a tenant with a name."""
    assert cli("declare").code == 0
    sql("create table customers (id text primary key, name text)")
    sql("insert into customers values ('t1', 'Acme')")
    sql("insert into customers values ('t2', E'\\u202e\\u001b[31mred' || repeat('x', 1000000))")
    trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    written = [
        sql(
            "select id from inboxd.emit_event('test.noop', tenant => $1, entity_type => 'order',"
            " entity_id => 'a/b', traceparent => $2)",
            tenant,
            trace,
        )
        for tenant in ("t1", "t2", "t3")
    ]
    return int(written[0][0][0])


@pytest.fixture
def query(monkeypatch: pytest.MonkeyPatch) -> Set:
    """Return a function that sets the tenants' query."""
    return lambda text: monkeypatch.setenv("INBOXD_TENANTS__QUERY", text)


def test_type_has_a_title_and_a_description(cli: Cli, id: int, sql: Sql) -> None:
    row = cli("events", "show", id, "--json").json
    assert (row["title"], row["description"]) == ("Test noop", "Do nothing, without a connection.")
    assert "Do nothing, without a connection." in cli("events", "show", id).out
    sql("update inboxd.declared_types set title = E'\\u001b[31mred' || repeat('x', 1000000)")
    told = cli("events", "show", id).out
    assert "\x1b" not in told
    assert len(told) < 5_000
    titles = {row["title"] for row in cli("events", "list", "--json").json["events"]}
    assert {len(title) for title in titles} == {100}
    sql("delete from inboxd.declared_types")
    assert cli("events", "show", id, "--json").json["title"] == "Test noop"


@pytest.mark.parametrize("text", [BY_ID, "select id, name from public.customers"])
def test_tenant_has_a_name(cli: Cli, id: int, query: Set, text: str) -> None:
    assert "tenant_name" not in cli("events", "list", "--json").json["events"][0]
    query(text)
    rows = cli("events", "list", "--json").json["events"]
    names = {row["tenant"]: row["tenant_name"] for row in rows}
    assert (names["t1"], names["t3"]) == ("Acme", None)
    assert "\x1b" not in names["t2"]
    assert "\u202e" not in names["t2"]
    assert len(names["t2"]) == 100
    assert "Acme" in cli("events", "list", "--wide").out
    shown = cli("events", "show", id, "--json").json
    assert (shown["tenant_name"], shown["names_missing"]) == ("Acme", None)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("select id, name from public.nowhere", "nowhere"),
        ("select id from public.customers", "two columns"),
        ("select 1, 2, 3", "two columns"),
        ("commit", "two columns"),
        ("delete from public.customers returning id, name", "read-only"),
        ("select id, pg_sleep(60)::text from public.customers", "timeout"),
        ("select id, name from public.customers where id = $1", "expected str"),
        ("select 1; select 2", "multiple commands"),
        ("nonsense", "syntax"),
        ("select $1::text, $2::text", "in its parameters or its answer"),
        ("select 'x', 1 / 0", "zero"),
        ("select 't1', '290000-01-01'::timestamp", "OverflowError"),
    ],
)
def test_failing_query_shows_ids_and_a_reason(
    cli: Cli,
    sql: Sql,
    id: int,
    query: Set,
    monkeypatch: pytest.MonkeyPatch,
    text: str,
    why: str,
) -> None:
    monkeypatch.setenv("INBOXD_TENANTS__TIMEOUT", "200ms")
    query(text)
    result = cli("events", "list", "--wide")
    assert result.code == 0
    assert "t1" in result.out
    (told,) = [line for line in result.err.splitlines() if "shown by their ids" in line]
    assert why in told
    assert "inboxd migrate" not in told, "the error is not about tables of inboxd"
    assert cli("events", "show", id).code == 0
    assert sql("select count(*) from customers")[0][0] == 2


def test_links_are_made_from_templates(cli: Cli, id: int, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cli("events", "show", id, "--json").json["links"] == {}
    monkeypatch.setenv("INBOXD_LINKS__ENTITY", "https://crm.example/{entity_type}/{entity_id}")
    monkeypatch.setenv("INBOXD_LINKS__TRACE", "https://traces.example/{trace_id}")
    links = cli("events", "show", id, "--json").json["links"]
    assert links == {
        "entity": "https://crm.example/order/a%2Fb",
        "trace": "https://traces.example/4bf92f3577b34da6a3ce929d0e0e4736",
    }
    assert "https://crm.example/order/a%2Fb" in cli("events", "show", id, "--wide").out


def test_check_refuses_a_template_without_http(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INBOXD_LINKS__ENTITY", "javascript:{entity_id}")
    result = cli("check")
    assert result.code == 78
    assert "[links] entity" in result.err
    assert "must begin with http:// or https://" in result.err


def test_topic_shows_titles_of_its_types(cli: Cli) -> None:
    titles = cli("topics", "show", "default", "--json").json["titles"]
    assert titles["test.noop"] == "Test noop"
    assert "test.noop (Test noop)" in cli("topics", "show", "default").out
