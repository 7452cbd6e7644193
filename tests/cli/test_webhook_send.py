"""`inboxd webhooks send` and `openapi`: a sample is signed as by its sender."""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from inboxd.cli.exits import Exit
from inboxd.embedded import free_port
from inboxd.signatures import Key, SignedRequest, verifier
from tests.cli.answering import Answering, answering
from tests.cli.conftest import Cli

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
_SETTINGS = f"""
[inbound.http]
port = {{port}}
[inbound.webhooks.bank]
type = "bank.paid"
keys = [{{{{ id = "old", secret = "{SECRET}", not_after = 2020-01-01 }}}},
        {{{{ id = "new", secret = "{SECRET}" }}}}]
[inbound.webhooks.hub]
scheme = "github"
type_from = "header:x-github-event"
body = "text"
keys = [{{{{ secret = "hunter2" }}}}]
[inbound.webhooks.late]
type = "late"
keys = [{{{{ secret = "{SECRET}", not_before = 2999-01-01 }}}}]
[inbound.webhooks.wrong]
type = "wrong"
keys = [{{{{ secret = "hunter2" }}}}]
[inbound.webhooks.token]
scheme = "bearer"
type = "token"
keys = [{{{{ secret = "hunter2-of-sixteen-bytes" }}}}]
"""


@pytest.fixture
def receiver() -> Iterator[Answering]:
    """Start a server in place of a receiver."""
    with answering() as server:
        yield server


@pytest.fixture
def settings(receiver: Answering, tmp_path: Path) -> Path:
    """Write settings whose listener is that server."""
    path = tmp_path / "inboxd.toml"
    path.write_text(_SETTINGS.format(port=receiver.url.rpartition(":")[2]))
    return path


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    """Write a body with odd blanks."""
    path = tmp_path / "sample.json"
    path.write_bytes(b'{ "id" : 1 }\n')
    return path


def test_sample_is_signed_as_by_its_sender(
    run_cli: Cli, receiver: Answering, settings: Path, sample: Path
) -> None:
    given = ("webhooks", "send", "-c", settings, "--source", "bank", "--file", sample)
    result = run_cli(*given, "--json")
    assert result.code == 0
    assert result.json == {
        "source": "bank",
        "url": f"{receiver.url}/in/bank",
        "status": 202,
        "answer": {"receipt": "r", "events": ["e"]},
    }
    (came,) = receiver.came
    assert came.path == "/in/bank"
    assert came.body == sample.read_bytes()
    assert came.headers["content-type"] == "application/json"
    assert came.headers["webhook-id"].startswith("msg_")
    keys = [Key("new", SECRET.encode())]
    verify = verifier("standard_webhooks", keys, tolerance=300).verify
    assert verify(SignedRequest(came.headers, came.body, came.path), time.time()) == "new"
    told = run_cli(*given, "--id", "msg_7").out
    assert "202 Accepted" in told
    assert '"receipt": "r"' in told
    assert receiver.came[1].headers["webhook-id"] == "msg_7"
    assert SECRET not in told + result.out


def test_headers_body_and_address_may_be_given(
    run_cli: Cli, receiver: Answering, settings: Path
) -> None:
    given = ("webhooks", "send", "-c", settings, "--source", "hub", "--file", "-")
    url = f"{receiver.url}/elsewhere?a=b"
    more = ("--url", url, "--header", "X-GitHub-Event: push", "--header", "content-type:a/b")
    assert run_cli(*given, *more, stdin="text").code == 0
    (came,) = receiver.came
    assert (came.path, came.body) == ("/elsewhere?a=b", b"text")
    assert came.headers["x-github-event"] == "push"
    assert came.headers["content-type"] == "a/b"
    assert came.headers["x-hub-signature-256"].startswith("sha256=")


def test_bearer_secret_is_sent_to_this_machine(
    run_cli: Cli, receiver: Answering, settings: Path, sample: Path
) -> None:
    given = ("webhooks", "send", "-c", settings, "--source", "token", "--file", sample)
    assert run_cli(*given).code == run_cli(*given, "--url", f"{receiver.url}/x").code == 0
    assert [came.headers["authorization"] for came in receiver.came] == [
        "Bearer hunter2-of-sixteen-bytes"
    ] * 2


@pytest.mark.parametrize("status", [401, 503, 302, 500])
def test_answers_that_are_failures_for_a_sender_exit_with_1(
    run_cli: Cli, receiver: Answering, settings: Path, sample: Path, status: int
) -> None:
    receiver.status, receiver.body = status, b"not \x1b[31mJSON"
    receiver.headers = {"retry-after": "7", "location": "/in/hub"}
    given = ("webhooks", "send", "-c", settings, "--source", "bank", "--file", sample)
    result = run_cli(*given)
    assert result.code == Exit.PROBLEMS
    assert f"status       {status}" in result.out
    assert "retry after  7" in result.out
    assert "\x1b" not in result.out
    assert len(receiver.came) == 1, "no redirect is followed"
    assert run_cli(*given, "--json").json["status"] == status


def test_missing_answer_is_explained(
    run_cli: Cli, receiver: Answering, settings: Path, sample: Path
) -> None:
    given = ("webhooks", "send", "-c", settings, "--source", "bank", "--file", sample, "--url")
    url = f"http://127.0.0.1:{free_port()}/in/bank"
    result = run_cli(*given, url)
    assert result.code == Exit.UNAVAILABLE
    assert f"{url}: nothing listens there; start `inboxd receive`" in result.err
    receiver.closes = True
    result = run_cli(*given, receiver.url)
    assert result.code == Exit.UNAVAILABLE
    assert "closed without an answer; the request may have been received" in result.err
    result = run_cli(*given, receiver.url.replace("http", "https"))
    assert result.code == Exit.UNAVAILABLE
    assert "TLS failed" in result.err


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ("--source bnk --file FILE", Exit.UNKNOWN_NAME, "did you mean 'bank'?"),
        ("--source late --file FILE", Exit.USAGE, "no key is valid now"),
        ("--source wrong --file FILE", Exit.CONFIG, "[inbound.webhooks.wrong]: key '1'"),
        ("--source bank --file /nowhere", Exit.USAGE, "cannot read the body (No such file"),
        ("--source bank --file FILE --header x", Exit.USAGE, "is not a valid header"),
        ("--source bank --file FILE --url bank", Exit.USAGE, "is not a valid URL of a receiver"),
        ("--source bank --file FILE --url http://a:b@c/", Exit.USAGE, "without a user"),
        ("--source bank --file FILE --header a:b\u2028c", Exit.USAGE, "cannot be sent"),
        ("--source token --file FILE --url https://a.example/", Exit.USAGE, "--with-secret sends"),
        (
            "--source token --file FILE --with-secret --url http://a.example/",
            *(Exit.USAGE, "would be sent unencrypted to a.example"),
        ),
    ],
)
def test_invalid_samples_are_refused(
    run_cli: Cli, settings: Path, sample: Path, arguments: str, code: int, words: str
) -> None:
    given = arguments.replace("FILE", str(sample)).split(" ")
    result = run_cli("webhooks", "send", "-c", settings, *given)
    assert result.code == code
    assert words in result.err
    assert "hunter2" not in result.err


def test_listener_with_any_port_needs_a_url(
    run_cli: Cli, settings: Path, sample: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INBOXD_INBOUND__HTTP__PORT", "0")
    result = run_cli("webhooks", "send", "-c", settings, "--source", "bank", "--file", sample)
    assert result.code == Exit.USAGE
    assert "give the URL with --url" in result.err


def test_openapi_document_has_the_sources_of_the_settings(run_cli: Cli, settings: Path) -> None:
    result = run_cli("webhooks", "openapi", "-c", settings)
    names = ["bank", "hub", "late", "wrong", "token"]
    assert [*json.loads(result.out)["paths"]] == [f"/in/{name}" for name in names]
    assert SECRET not in result.out
