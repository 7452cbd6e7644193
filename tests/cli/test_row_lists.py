"""Lists with each filter, and how far they looked back."""

from typing import Any

import pytest

from tests.cli.conftest import Cli
from tests.cli.test_rows import Sql, emit, fail, send, settle


def test_incomplete_list_says_how_far_it_looked(cli: Cli, sql: Sql) -> None:
    ids = [emit(sql) for _ in range(4)]
    settle(sql, ids[0])
    wanted = ("events", "list", "--status", "pending", "--type", "none", "--look", 2)
    found = cli(*wanted, "--json").json
    created = sql("SELECT created_at FROM inboxd.events WHERE id = $1", ids[2])[0][0]
    assert found["events"] == []
    assert (found["looked_at"], found["next"]) == (2, ids[2])
    assert found["looked_back_to"].startswith(f"{created:%Y-%m-%dT%H:%M:%S}")
    told = cli(*wanted).err
    assert "Looked back to" in told
    assert "(2 rows): 0 found; --look N looks further." in told
    assert f"There may be more: add --after {ids[2]}" in told


def test_next_pages_lead_to_the_end(cli: Cli, sql: Sql) -> None:
    ids = [emit(sql, type_) for type_ in ("rare", *["a.b"] * 5)]
    settle(sql, ids[0])
    listed: list[int] = []
    after: tuple[Any, ...] = ()
    lists = 0
    while True:
        found = cli("events", "list", "--type", "rare", "--look", 1, *after, "--json").json
        listed += [row["id"] for row in found["events"]]
        lists += 1
        if found["next"] is None:
            break
        after = ("--after", found["next"])
    assert listed == [ids[0]]
    assert lists > 2
    assert found["looked_back_to"] is None
    at_once = cli("events", "list", "--type", "rare", "--look", 10, "--json").json
    assert [row["id"] for row in at_once["events"]] == [ids[0]]


@pytest.mark.parametrize("settled", [False, True])
@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (("--entity", "order"), [1, 0]),
        (("--entity", "order:17"), [0]),
        (("--entity", "order:1"), []),
        (("--payload", "order_id=17"), [1, 0]),
        (("--payload", "order_id=18"), []),
        (("--payload", '{"of": {"town": "Recife"}}'), [0]),
        (("--payload", "of.town=Recife"), [0]),
        (("--until", "1h"), []),
        (("--until", "2100-01-01"), [2, 1, 0]),
        (("--until", "9999-12-31T23:59:59Z"), [2, 1, 0]),
        (("--since", "0001-01-01T00:00:00Z"), [2, 1, 0]),
    ],
)
def test_rows_are_found_by_filters(
    cli: Cli, sql: Sql, wanted: tuple[str, ...], found: list[int], settled: bool
) -> None:
    of: list[dict[str, Any]] = [
        {"entity_type": "order", "entity_id": "17"}
        | {"payload": '{"order_id": 17, "of": {"town": "Recife"}}'},
        {"entity_type": "order", "entity_id": "18", "payload": '{"order_id": "17"}'},
        {"payload": '{"order_id": [17]}'},
    ]
    ids = [emit(sql, **values) for values in of]
    if settled:
        for id_ in ids:
            _settle(sql, id_)
    listed = [row["id"] for row in cli("events", "list", *wanted, "--json").json["events"]]
    assert listed == [ids[place] for place in found]


def _settle(sql: Sql, id_: int) -> None:
    (row,) = sql("SELECT entity_type, entity_id FROM inboxd.events WHERE id = $1", id_)
    settle(sql, id_)
    sql(
        "UPDATE inboxd.events_history SET entity_type = $2, entity_id = $3 WHERE id = $1",
        *(id_, *row),
    )


def test_dead_letters_are_found_by_their_errors(cli: Cli, sql: Sql) -> None:
    dead, _ = send(sql), send(sql)
    fail(sql, "commands", dead)
    for text, found in (("valueerror", [dead]), ("KeyError", [])):
        listed = cli("commands", "list", "--error", text, "--json").json["commands"]
        assert [row["id"] for row in listed] == found


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ("id=12345678901234567890123", True),
        ("id=12345678901234567890124", False),
        ("id=1.2345678901234567890123e22", True),
        ('{"id": 12345678901234567890123}', True),
        ('{"id": 12345678901234567890124}', False),
        ("far=1e400", True),
        ("of=null", True),
        ("of.it=null", False),
        ('said="\\\\u0000"', True),
        ('said="\\u0000"', False),
        ('id=1, "far": 2', False),
    ],
)
def test_payload_filter_compares_exact_values(cli: Cli, sql: Sql, wanted: str, found: bool) -> None:
    payload = '{"id": 12345678901234567890123, "far": 1e400, "of": null, "said": "\\\\u0000"}'
    emit(sql, payload=payload)
    rows = cli("events", "list", "--payload", wanted, "--json").json["events"]
    assert len(rows) == found


@pytest.mark.parametrize(
    "text",
    [
        *("order_id", "=17", "a..b=1", '{"order_id": ', '{"a": NaN}', '{"a": "\\u0000"}'),
        *("a=\udcff", '{"a": "\udcff"}', '{"a": "\\ud800"}', ".".join("a" * 9999) + "=1"),
    ],
)
def test_invalid_payload_filter_is_a_usage_error(cli: Cli, text: str) -> None:
    refused = cli("events", "list", "--payload", text)
    assert refused.code == 2
    assert "not a valid payload filter" in refused.err or "not valid JSON" in refused.err


def test_commands_option_is_only_for_events(cli: Cli) -> None:
    assert cli("events", "list", "--commands", "failed", "--json").json["events"] == []
    assert cli("commands", "list", "--commands", "failed").code == 2
