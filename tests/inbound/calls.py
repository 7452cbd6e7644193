"""Calls the receiver's application in this process, as a server would.

async with receiving({"provider": PROVIDER}) as received:
    answered = await received.post(RESULT)
    assert (answered.status, len(received.written.receipts)) == (202, 1)
"""

import time
from collections.abc import AsyncIterator, Callable, Mapping, MutableMapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
import orjson

from inboxd.errors import Malformed, Unauthentic
from inboxd.inbound.application import Receiver
from inboxd.inbound.compiling import compile_sources
from inboxd.inbound.group_commit import GroupCommit, Write
from inboxd.inbound.sources import CompiledSource
from inboxd.model.receipt import Receipt
from inboxd.settings import Inbound
from inboxd.signatures import SignedRequest, Verifier
from inboxd.store.receipts import Stored
from inboxd.telemetry.metrics import Metrics
from tests.support.waiting import bounded

SECRET = "a secret that no log line may have"
RESULT = (
    b'{"matchExternalId": "m-1", "homeScore": 2, "awayScore": 1, "status": "FINISHED", '
    b'"providerEventId": "e-1"}'
)
KEYS = [{"id": "k1", "secret": SECRET}]
# A source that signs as GitHub does, and takes its keys from the body.
PROVIDER: dict[str, Any] = {
    "scheme": "github",
    "keys": KEYS,
    "type": "match.result",
    "dedup_key": "pointer:/providerEventId",
    "ordering_key": "pointer:/matchExternalId",
}


# Whether `call` gives the application a request in one piece; a fixture of the tests sets it.
at_once = False


class Knock(Verifier):
    """Accepts requests with `x-knock: yes`; values other than `yes` and `no` are malformed."""

    signed_headers = frozenset({"x-knock"})

    def verify(self, request: SignedRequest, _now: float) -> str:
        match request.headers.get("x-knock"):
            case "yes":
                return "k1"
            case "no":
                raise Unauthentic("its x-knock is no")
        raise Malformed("it has no x-knock")

    def sign(self, _body: bytes, _message_id: str, _now: float) -> dict[str, str]:
        return {"x-knock": "yes"}


@dataclass
class Answered:
    """The answer that the application sent."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""

    @property
    def json(self) -> Any:
        return orjson.loads(self.body)


@dataclass
class Written:
    """A write that records receipts, and succeeds at once."""

    receipts: list[Receipt] = field(default_factory=list)
    pages: list[int] = field(default_factory=list)
    outcome: str = "stored"

    async def __call__(self, page: Sequence[Receipt]) -> list[Stored]:
        self.receipts += page
        self.pages.append(len(page))
        return [
            Stored(list(dict.fromkeys(e.event_id for e in receipt.events)), self.outcome)
            for receipt in page
        ]


@dataclass
class Received:
    """An application, and the receipts that it has written."""

    app: Receiver
    commit: GroupCommit
    metrics: Metrics
    sources: Mapping[str, CompiledSource]
    written: Written

    async def post(self, body: bytes = RESULT, source: str = "provider", **more: Any) -> Answered:
        """Send a signed request to the source."""
        signed = self.sources[source].verifier.sign(body, "msg-1", time.time())
        headers = signed | more.pop("headers", {})
        return await call(self.app, f"/in/{source}", body, headers=headers, **more)

    def count(self, name: str, **labels: str) -> float:
        """The value of a metric."""
        return self.metrics.registry.get_sample_value(name, labels) or 0.0


@asynccontextmanager
async def receiving(
    sources: Mapping[str, Any] | None = None,
    http: Mapping[str, Any] | None = None,
    *,
    write: Write | None = None,
    knock: bool = False,
    **commit: Any,
) -> AsyncIterator[Received]:
    """Run a receiver of these sources for the block. knock: `Knock` verifies their requests."""
    inbound = settings(sources, http)
    compiled = compile_sources(inbound)
    if knock:
        compiled = {
            name: CompiledSource(name, source, Knock()) for name, source in inbound.webhooks.items()
        }
    metrics, written = Metrics("test"), Written()
    group_commit = GroupCommit(write or written, on_written=metrics.webhooks.written, **commit)
    app = Receiver(inbound.http, compiled, group_commit, metrics.webhooks)
    async with anyio.create_task_group() as group:
        await group.start(group_commit.run)
        yield Received(app, group_commit, metrics, compiled, written)
        group.cancel_scope.cancel()


def settings(
    sources: Mapping[str, Any] | None = None, http: Mapping[str, Any] | None = None
) -> Inbound:
    """Settings of `[inbound]`; the default source is `provider`."""
    return Inbound(http=dict(http or {}), webhooks=sources or {"provider": PROVIDER})  # type: ignore[arg-type]  # as the file has them


async def call(
    app: Callable[..., Any],
    path: str,
    body: bytes = b"",
    *,
    method: str = "POST",
    headers: Mapping[str, str] | Sequence[tuple[str, str]] = (),
    chunks: Sequence[bytes] | None = None,
    client: tuple[str, int] | None = ("192.0.2.1", 5000),
    length: bool = True,
) -> Answered:
    """Send one request; with `chunks` in several messages, without Content-Length."""
    pairs = [*(headers.items() if isinstance(headers, Mapping) else headers)]
    if chunks is None and length:
        pairs.append(("content-length", str(len(body))))
    asked = scope(path, method, pairs, client)
    if at_once and method == "POST" and chunks is None and isinstance(app, Receiver):
        return await take(app, asked, body)
    pieces = [body] if chunks is None else [*chunks]
    messages: list[MutableMapping[str, Any]] = [
        {"type": "http.request", "body": piece, "more_body": number < len(pieces) - 1}
        for number, piece in enumerate(pieces)
    ]

    async def receive() -> MutableMapping[str, Any]:
        await anyio.lowlevel.checkpoint()
        return messages.pop(0) if messages else {"type": "http.disconnect"}

    return await ask(app, asked, receive)


async def take(app: Receiver, asked: dict[str, Any], body: bytes) -> Answered:
    """Give the application a whole request at once, as the listener does with nearly all."""
    answered = Answered()
    ended = anyio.Event()

    def answer(start: Mapping[str, Any], end: Mapping[str, Any]) -> None:
        assert not answered.status, "an answer begins once"
        answered.status, answered.body = start["status"], end["body"]
        answered.headers = {name.decode(): text.decode() for name, text in start["headers"]}
        ended.set()

    app.take(asked, body, answer)
    with bounded():
        await ended.wait()
    return answered


def scope(
    path: str,
    method: str = "POST",
    headers: Sequence[tuple[str, str]] = (),
    client: tuple[str, int] | None = ("192.0.2.1", 5000),
) -> dict[str, Any]:
    """The ASGI scope of a request."""
    return {
        "type": "http",
        "path": path,
        "method": method,
        "headers": [(name.encode("latin-1"), text.encode("latin-1")) for name, text in headers],
        "client": client,
    }


async def ask(app: Callable[..., Any], asked: dict[str, Any], receive: Any) -> Answered:
    """Call the application with a body that comes from `receive`."""
    answered = Answered()

    async def send(message: Mapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            assert not answered.status, "an answer begins once"
            answered.status = message["status"]
            answered.headers = {name.decode(): text.decode() for name, text in message["headers"]}
        else:
            answered.body += message["body"]

    await app(asked, receive, send)
    return answered
