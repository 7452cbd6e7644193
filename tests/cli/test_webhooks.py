"""`inboxd webhooks list`, `show`, `pause`, `resume`: receipts and their events."""

import base64
import io
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from inboxd.cli.exits import Exit
from inboxd.model.receipt import Receipt
from tests.cli.conftest import Cli
from tests.support import Database
from tests.support.receipts import receipt, receive, received

Sql = Callable[..., list[Any]]


@pytest.fixture
def came(database: Database) -> Callable[..., Receipt]:
    """Return a function that writes a request and returns its receipt."""

    def write(*events: Any, **given: Any) -> Receipt:
        body = given.pop("body", None)
        made = receipt(*events, **given)
        if body is not None:
            made.body = body
        anyio.run(receive, database, made)
        return made

    return write


def listed(cli: Cli, *options: object) -> list[str]:
    return [
        row["receipt_id"] for row in cli("webhooks", "list", "--json", *options).json["receipts"]
    ]


def test_list_fits_the_terminal(
    cli: Cli, came: Callable[..., Receipt], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The list has a contradiction, the longest word of its column."""
    monkeypatch.setenv("COLUMNS", "80")
    for payload in ({"n": 1}, {"n": 2}):
        came(received("a.b", payload, dedup_key="k"), source="payments")
    assert {row["outcome"] for row in cli("webhooks", "list", "--json").json["receipts"]} == {
        "stored",
        "contradiction",
    }
    lines = cli("webhooks", "list", "--aligned").out.splitlines()
    assert [line for line in lines[:4] if len(line) > 80] == []
    assert "contradiction" in "".join(lines)


def test_receipts_are_listed_with_the_states_of_their_events(
    cli: Cli, came: Callable[..., Receipt], sql: Sql
) -> None:
    waits, ended, broken, held = (
        came(received("a.b", dedup_key="k")),
        came(received("a.c")),
        came(received("a.d", broken="it is not JSON")),
        came(received("a.e"), source="other", hold=True),
    )
    again = came(received("a.b", dedup_key="k"))
    sql("delete from inboxd.events where type = 'a.c'")
    found = cli("webhooks", "list", "--json").json
    assert found["next"] is None
    assert [(row["receipt_id"], row["outcome"], row["became"]) for row in found["receipts"]] == [
        (str(again.receipt_id), "duplicate", "pending"),
        (str(held.receipt_id), "held", "pending"),
        (str(broken.receipt_id), "broken", "failed"),
        (str(ended.receipt_id), "stored", None),
        (str(waits.receipt_id), "stored", "pending"),
    ]
    told = cli("webhooks", "list").out
    assert "1 pending" in told
    assert "192.0.2.1" in told
    assert "came" not in told, "bodies are not shown"
    assert "msg_1" not in told, "headers are not shown"


def test_list_is_filtered_and_paged(cli: Cli, came: Callable[..., Receipt]) -> None:
    ids = [str(came(received("a.b", broken="b" if n % 2 else None)).receipt_id) for n in range(6)]
    other = str(came(source="other").receipt_id)
    assert listed(cli) == [other, *reversed(ids)]
    assert listed(cli, "--source", "other") == [other]
    assert listed(cli, "--state", "failed") == [ids[5], ids[3], ids[1]]
    assert listed(cli, "--state", "failed", "--state", "pending") == [other, *reversed(ids)]
    assert listed(cli, "--since", "1h") == [other, *reversed(ids)]
    assert listed(cli, "--since", "2999-01-01") == []
    page = cli("webhooks", "list", "--json", "--state", "failed", "--limit", 2).json
    assert page["next"] == ids[3]
    assert listed(cli, "--state", "failed", "--after", page["next"]) == [ids[1]]
    assert f"add --after {ids[4]}" in cli("webhooks", "list", "--limit", 3).err
    assert "--after" not in cli("webhooks", "list", "--state", "failed").err, "the list is complete"
    assert cli("webhooks", "list", "--state", "lost").code == Exit.USAGE
    assert cli("webhooks", "list", "--after", "x").code == Exit.USAGE


def test_receipt_is_shown_by_its_id_or_its_event(
    cli: Cli, came: Callable[..., Receipt], sql: Sql
) -> None:
    given = came(received("a.b", topic="there"), received("a.c"))
    for row in sql("select id, event_id from inboxd.events"):
        for name in (row["id"], row["event_id"]):
            assert cli("webhooks", "show", name, "--json").json["receipt_id"] == str(
                given.receipt_id
            )
    found = cli("webhooks", "show", given.receipt_id, "--json").json
    assert [(e["type"], e["topic"], e["status"]) for e in found["events"]] == [
        ("a.b", "there", "pending"),
        ("a.c", "default", "pending"),
    ]
    assert "body" not in found
    told = cli("webhooks", "show", given.receipt_id).out
    assert "2 pending" in told
    assert "k1" in told
    assert "came" not in told
    told = cli("webhooks", "show", given.receipt_id, "--payload").out
    assert '"came": "so"' in told
    assert '"webhook-id": "msg_1"' in told


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        (b'{"n": 1}', {"n": 1}),
        (b"n=1", "n=1"),
        (b"\xff\x00", {"base64": base64.b64encode(b"\xff\x00").decode()}),
    ],
)
def test_raw_body_is_written_unchanged(
    cli: Cli,
    came: Callable[..., Receipt],
    monkeypatch: pytest.MonkeyPatch,
    body: bytes,
    shown: object,
) -> None:
    given = came(body=body)
    found = cli("webhooks", "show", given.receipt_id, "--json", "--payload").json
    assert (found["body"], found["headers"]) == (shown, {"webhook-id": "msg_1"})
    raw = io.TextIOWrapper(io.BytesIO())
    with monkeypatch.context() as patched:
        patched.setattr(sys, "stdout", raw)
        cli("webhooks", "show", given.receipt_id, "--raw")
    assert raw.buffer.getvalue() == body


def test_missing_receipts_and_bodies_are_explained(
    cli: Cli, came: Callable[..., Receipt], sql: Sql
) -> None:
    came(received("a.b", dedup_key="k"))
    again = came(received("a.b", dedup_key="k"))
    result = cli("webhooks", "show", again.receipt_id, "--raw")
    assert result.code == Exit.PROBLEMS
    assert "is not kept: the receipt is a duplicate" in result.err
    sql("insert into inboxd.events (type) values ('a.x')")
    (row,) = sql("select id from inboxd.events where type = 'a.x'")
    result = cli("webhooks", "show", row["id"])
    assert result.code == Exit.PROBLEMS
    assert "did not come as a webhook" in result.err
    assert "there is no receipt and no event 999999" in cli("webhooks", "show", 999999).err
    unknown = "0193a5f2-7c1e-7000-8000-5f2c1e0d9a7b"
    assert cli("webhooks", "show", unknown).code == Exit.PROBLEMS
    assert cli("webhooks", "show", "x").code == Exit.USAGE


@pytest.fixture
def bank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write settings with one source."""
    path = tmp_path / "inboxd.toml"
    path.write_text('[inbound.webhooks.psp]\ntype = "a"\nkeys = [{ secret = "s" }]\n')
    monkeypatch.setenv("INBOXD_CONFIG", str(path))


@pytest.mark.usefixtures("bank")
def test_source_is_paused_and_resumed_with_audit(
    cli: Cli, came: Callable[..., Receipt], sql: Sql
) -> None:
    told = cli("webhooks", "pause", "psp", "--reason", "it is mended")
    assert told.code == 0
    assert "Paused: source psp, new webhooks are stored and held; 0 receipts held" in told.out
    given = came()
    assert sql("select count(*) from inboxd.events")[0][0] == 0
    assert cli("webhooks", "show", given.receipt_id, "--json").json["held"] is True
    assert "until its source is resumed" in cli("webhooks", "show", given.receipt_id).out
    assert cli("webhooks", "pause", "psp").code == Exit.PROBLEMS
    assert cli("webhooks", "resume", "psp", "--json").json == {
        "resumed": {"source": "psp"},
        "released": 1,
    }
    assert sql("select count(*) from inboxd.events")[0][0] == 1
    assert cli("webhooks", "resume", "psp").code == Exit.PROBLEMS
    found = cli("webhooks", "pause", "psp", "--refuse", "--json").json
    assert found == {"paused": {"source": "psp", "mode": "refuse"}, "held": 0}
    entries = sql("select action, target, reason from inboxd.audit order by id")
    assert [tuple(entry) for entry in entries] == [
        ("pause", "source psp", "it is mended"),
        ("resume", "source psp", None),
        ("refuse", "source psp", None),
    ]


@pytest.mark.usefixtures("bank")
def test_source_outside_the_settings_needs_force(cli: Cli) -> None:
    result = cli("webhooks", "pause", "pps")
    assert result.code == Exit.UNKNOWN_NAME
    assert "did you mean 'psp'?" in result.err
    assert cli("webhooks", "pause", "pps", "--force").code == 0
