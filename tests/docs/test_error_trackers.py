"""The plugins on the page of frameworks in a worker: which data reaches a tracker."""

import gzip
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.support import Database, StartWorker, eventually
from tests.support.plugins import found, install
from tests.support.types import StrictTypes, assert_accepted

pytestmark = pytest.mark.anyio

PAGE = (Path(__file__).parents[2] / "docs/frameworks.md").read_text()
SECTION = PAGE.partition("\n## Sentry\n")[2]
SENTRY, OTHER = re.findall(r"^```python\n(.*?)^```$", SECTION, re.DOTALL | re.MULTILINE)

SHOP = """
from inboxd import CommandContext, Fixed, Handlers

handlers = Handlers("shop")


@handlers.command("shop.pay", retry=Fixed(base="10ms", attempts=2, jitter="none"))
async def pay(command: dict, ctx: CommandContext) -> None:
    pin = command["pin"]
    raise ValueError("the bank says no")
"""


class _Tracker(ThreadingHTTPServer):
    """A tracker that keeps its requests."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Receiving)
        self.received: list[tuple[str, bytes]] = []

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.server_address[1]}"


class _Receiving(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        assert isinstance(self.server, _Tracker)
        self.server.received.append((self.path, body))
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_: object) -> None:
        """Silent: the test checks the received requests."""


@contextmanager
def _tracker() -> Iterator[_Tracker]:
    with _Tracker() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def test_the_plugins_pass_strict_types(tmp_path: Path, strict: StrictTypes) -> None:
    folder = tmp_path / "plugins"
    folder.mkdir()
    (folder / "with_sentry.py").write_text(SENTRY)
    (folder / "with_another.py").write_text(OTHER)
    assert_accepted(strict(folder))


async def _fail_twice(
    database: Database, start_worker: StartWorker, folder: Path, tracker: str
) -> None:
    """Run a command in a worker until it fails finally, and drain the worker."""
    install(folder, "shop", SHOP)
    with found(install(folder, "tracker", tracker)):
        worker = await start_worker({"worker": {"plugins": ["shop", "tracker"]}})
    await database.execute(
        "insert into inboxd.commands (type, queue, payload, tenant) "
        "values ('shop.pay', 'default', '{\"pin\": \"s3cret\"}', 'acme')"
    )

    async def is_dead() -> bool:
        status = await database.fetchval("select status from inboxd.commands")
        return bool(status == "failed")

    await eventually(is_dead)
    assert await worker.stop() == 0


async def test_sentry_gets_each_failure_once_without_the_payload(
    database: Database,
    start_worker: StartWorker,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with _tracker() as server:
        monkeypatch.setenv("SENTRY_DSN", f"http://key@{server.address}/1")
        await _fail_twice(database, start_worker, tmp_path, SENTRY)
        events = [_event(body) for path, body in server.received if path.endswith("/envelope/")]
    first, last = (event for event in events if event)
    assert (first["level"], last["level"]) == ("warning", "error")
    [error] = last["exception"]["values"]
    assert (error["type"], error["value"]) == ("ValueError", "the bank says no")
    assert error["stacktrace"]["frames"][-1]["function"] == "pay"
    assert last["tags"] == {"type": "shop.pay", "tenant": "acme"}
    assert last["contexts"]["inboxd"]["attempt"] == 2
    assert first["fingerprint"] == last["fingerprint"]
    assert b"s3cret" not in b"".join(body for _, body in server.received)


async def test_another_tracker_gets_failures_over_http(
    database: Database,
    start_worker: StartWorker,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with _tracker() as server:
        monkeypatch.setenv("TRACKER_URL", f"http://{server.address}")
        await _fail_twice(database, start_worker, tmp_path, OTHER)
    told = [json.loads(body) for path, body in server.received if path == "/errors"]
    assert [each["message"] for each in told] == ["ValueError: the bank says no"] * 2


def _event(envelope: bytes) -> dict[str, Any] | None:
    """The error in an envelope: in lines of JSON, each item follows its header."""
    lines = [json.loads(line) for line in envelope.splitlines() if line]
    for header, item in pairwise(lines):
        if header.get("type") == "event":
            return dict(item)
    return None
