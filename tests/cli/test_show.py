"""`inboxd events show` and `trace` show the webhook of an event."""

from collections.abc import Callable
from typing import Any

import anyio
import pytest

from inboxd.cli.exits import Exit
from tests.cli.conftest import Cli
from tests.support import Database
from tests.support.receipts import receipt, receive, received

Sql = Callable[..., list[Any]]


def test_event_is_shown_with_its_receipt(cli: Cli, sql: Sql, database: Database) -> None:
    given = receipt()
    anyio.run(receive, database, given)
    ((id_,),) = sql("select id from inboxd.events")
    found = cli("events", "show", id_, "--json").json
    told = found["receipt"]
    assert (told["receipt_id"], told["source"]) == (str(given.receipt_id), "psp")
    assert (told["address"], told["key_id"], told["body_bytes"]) == ("192.0.2.1", "k1", 14)
    assert "body" not in told
    out = cli("events", "show", id_).out
    assert f"receipt {given.receipt_id}" in out
    assert "received body" not in out

    told = cli("events", "show", id_, "--raw", "--json").json["receipt"]
    assert (told["body"], told["headers"]) == ('{"came": "so"}', {"webhook-id": "msg_1"})
    out = cli("events", "show", id_, "--raw").out
    assert 'received body:\n{"came": "so"}' in out
    assert '"webhook-id": "msg_1"' in out


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b"\xff\x00", {"body_base64": "/wA="}),
        ("ü\x1b[31m".encode(), {"body": "ü\x1b[31m"}),
    ],
)
def test_binary_body_is_shown(
    cli: Cli, sql: Sql, database: Database, body: bytes, told: dict[str, str]
) -> None:
    given = receipt()
    given.body = body
    anyio.run(receive, database, given)
    ((id_,),) = sql("select id from inboxd.events")
    found = cli("events", "show", id_, "--raw", "--json").json["receipt"]
    assert told.items() <= found.items()
    assert "\x1b" not in cli("events", "show", id_, "--raw").out


def test_body_keeps_tabs_and_line_breaks(cli: Cli, sql: Sql, database: Database) -> None:
    given = receipt()
    given.body = b'{\r\n\t"a":\t1,\r\n\t"b": "\x1b[31m\r\x07"\r\n}'
    anyio.run(receive, database, given)
    ((id_,),) = sql("select id from inboxd.events")
    out = cli("events", "show", id_, "--raw").out
    shown = '{\r\n\t"a":\t1,\r\n\t"b": "\ufffd[31m\ufffd\ufffd"\r\n}'
    assert f"received body:\n{shown}" in out


def test_event_without_its_receipt_is_shown(cli: Cli, sql: Sql, database: Database) -> None:
    anyio.run(receive, database, receipt())
    sql("delete from inboxd.receipts")
    ((id_,),) = sql("select id from inboxd.events")
    assert cli("events", "show", id_, "--raw", "--json").json["receipt"] is None
    assert cli("trace", "event", id_).code == 0


def test_command_has_no_receipt(cli: Cli) -> None:
    refused = cli("commands", "show", 1, "--raw")
    assert refused.code == Exit.USAGE
    assert "a command has no webhook" in refused.err


def test_story_begins_with_the_receipt(cli: Cli, sql: Sql, database: Database) -> None:
    given = receipt(received("a.first"), received("a.second"))
    anyio.run(receive, database, given)
    first, _ = (row[0] for row in sql("select id from inboxd.events order by id"))
    sql(
        "insert into inboxd.commands (queue, type, causation_id, origin_kind, origin_id)"
        " select 'q', 'do.it', event_id, 'event', id from inboxd.events where type = 'a.first'"
    )
    for asked in (("event", first), (given.receipt_id,), ("receipt", given.receipt_id)):
        rows = cli("trace", *asked, "--json").json["rows"]
        assert [(row["kind"], row["type"]) for row in rows] == [
            ("receipt", "psp"),
            ("event", "a.first"),
            ("command", "do.it"),
            ("event", "a.second"),
        ]
        assert [row["parent"] for row in rows] == [
            None,
            *(["receipt", 0], ["event", first], ["receipt", 0]),
        ]
    out = cli("trace", given.receipt_id).out
    assert out.startswith(f"receipt {given.receipt_id}  psp  stored  ")
    assert "receipt0" in cli("trace", given.receipt_id, "--mermaid").out
