"""`inboxd webhooks replay`: sends the same bytes again, with a new signature if there is a key."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from inboxd.cli.exits import Exit
from inboxd.embedded import free_port
from inboxd.model.receipt import Receipt
from inboxd.signatures import Key, SignedRequest, verifier
from tests.cli.answering import Answering, answering
from tests.cli.conftest import Cli
from tests.support import Database
from tests.support.receipts import receipt, receive

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
BODY = b'{ "n" : 1 }\n\xff'


@pytest.fixture
def target() -> Iterator[Answering]:
    """Start the receiver of replays."""
    with answering() as server:
        yield server


@pytest.fixture
def stored(database: Database) -> Receipt:
    """Write the receipt of a request with an old signature."""
    made = receipt(source="bank")
    made.body = BODY
    made.headers = (
        '{"webhook-id": "msg_1", "webhook-timestamp": "1", "webhook-signature": "v1,old", '
        '"x-request-id": "r"}'
    )
    anyio.run(receive, database, made)
    return made


def configure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    path = tmp_path / "inboxd.toml"
    path.write_text(f'[inbound.webhooks.bank]\ntype = "a"\nkeys = [{{ {key} }}]\n')
    monkeypatch.setenv("INBOXD_CONFIG", str(path))


def replay(cli: Cli, which: object, target: Answering, *options: str) -> Any:
    return cli("webhooks", "replay", which, "--url", f"{target.url}/x?token=t", *options)


def test_replay_has_a_new_signature_and_the_old_id(
    cli: Cli,
    stored: Receipt,
    target: Answering,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    sql: Callable[..., list[Any]],
) -> None:
    configure(tmp_path, monkeypatch, f'secret = "{SECRET}"')
    result = replay(cli, stored.receipt_id, target, "--reason", "they lost it", "--json")
    assert result.code == 0
    assert result.json["signed"] == "anew"
    assert result.json["receipt"] == str(stored.receipt_id)
    assert result.json["status"] == 202
    (came,) = target.came
    assert (came.path, came.body) == ("/x?token=t", BODY)
    assert came.headers["content-type"] == "application/json"
    assert came.headers["webhook-id"] == "msg_1"
    assert came.headers["x-request-id"] == "r"
    verify = verifier("standard_webhooks", [Key("1", SECRET.encode())], tolerance=300).verify
    assert verify(SignedRequest(came.headers, came.body), time.time()) == "1"
    (entry,) = sql("select action, target, reason, count from inboxd.audit")
    assert tuple(entry) == (
        "send to 127.0.0.1",  # without the path, which may be a secret
        f"receipt {stored.receipt_id}",
        "they lost it",
        1,
    )
    assert cli("audit", "--action", "send", "--json").json["audit"]


_TOKEN = "production-token-of-thirty-characters"


@pytest.mark.parametrize(
    "scheme", ['scheme = "bearer"', 'scheme = "bearer"\noptions = { header = "x-api-key" }']
)
def test_replay_sends_a_bearer_secret_only_with_its_option(
    cli: Cli,
    stored: Receipt,
    target: Answering,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    scheme: str,
    sql: Callable[..., list[Any]],
) -> None:
    """With a bearer scheme, a new signature is the production token itself."""
    path = tmp_path / "inboxd.toml"
    keys = f'keys = [{{ secret = "{_TOKEN}" }}]'
    path.write_text(f'[inbound.webhooks.bank]\ntype = "a"\n{scheme}\n{keys}\n')
    monkeypatch.setenv("INBOXD_CONFIG", str(path))
    refused = replay(cli, stored.receipt_id, target)
    assert (refused.code, target.came) == (Exit.USAGE, [])
    assert "--with-secret sends it nevertheless" in refused.err
    over_http = ("--url", "http://colleague.example/", "--with-secret")
    refused = cli("webhooks", "replay", stored.receipt_id, *over_http)
    assert refused.code == Exit.USAGE
    assert "would be sent unencrypted to colleague.example" in refused.err
    assert sql("select * from inboxd.audit") == [], "nothing was sent"
    assert replay(cli, stored.receipt_id, target, "--original").code == 0
    assert _TOKEN not in str(target.came[0].headers)
    assert replay(cli, stored.receipt_id, target, "--with-secret").code == 0
    assert _TOKEN in str(target.came[1].headers)


@pytest.mark.parametrize(
    ("key", "options"),
    [
        (None, []),
        (f'secret = "{SECRET}"', ["--original"]),
        (f'secret = "{SECRET}", not_after = 2020-01-01', []),
    ],
)
def test_replay_without_a_valid_key_keeps_the_old_signature(
    cli: Cli,
    stored: Receipt,
    target: Answering,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    key: str | None,
    options: list[str],
) -> None:
    if key is not None:
        configure(tmp_path, monkeypatch, key)
    result = replay(cli, stored.receipt_id, target, *options)
    assert result.code == 0
    assert "as it came" in result.out
    (came,) = target.came
    assert (came.headers["webhook-signature"], came.headers["webhook-timestamp"]) == ("v1,old", "1")


def test_replay_takes_an_event_id(
    cli: Cli, stored: Receipt, target: Answering, sql: Callable[..., list[Any]]
) -> None:
    target.status = 503
    (row,) = sql("select id from inboxd.events")
    assert replay(cli, row["id"], target).code == Exit.PROBLEMS
    (came,) = target.came
    assert came.body == stored.body


def test_impossible_replays_are_refused(cli: Cli, stored: Receipt, target: Answering) -> None:
    result = cli("webhooks", "replay", stored.receipt_id, "--url", "example.com")
    assert result.code == Exit.USAGE
    result = replay(cli, "0193a5f2-7c1e-7000-8000-5f2c1e0d9a7b", target)
    assert (result.code, target.came) == (Exit.PROBLEMS, [])
    gone = f"http://127.0.0.1:{free_port()}/"
    result = cli("webhooks", "replay", stored.receipt_id, "--url", gone)
    assert result.code == Exit.UNAVAILABLE
