"""The receiver's application: one request, from its route to its answer (ASGI).

The order: route, address and its rate, size, body, authentication, the source's rate, events,
commit, answer.
Promises: a receipt is durable before a 2xx; no part of a body is decoded before the request is
authentic, and an unwanted body is not read; requests that are not authentic count against the rate
of their address, not of the source; answers and log lines contain no secret, and no data of a
request except its address. Known limit: the whole body is in memory, since the signature covers it.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, MutableMapping
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import anyio
import anyio.to_thread

from inboxd.errors import NotDurable
from inboxd.inbound import answers
from inboxd.inbound.answers import Answer, Refusal
from inboxd.inbound.backpressure import AddressBuckets, InFlight, allowance
from inboxd.inbound.body_reader import ClientGone, Room, take_room
from inboxd.inbound.group_commit import GroupCommit
from inboxd.inbound.keys import AuthenticRequest, traceparent
from inboxd.inbound.receiver_log import ReceiverLog
from inboxd.inbound.sources import CompiledSource
from inboxd.inbound.uuids import Uuids
from inboxd.model.addresses import Networks, client_address, normal_peer
from inboxd.model.receipt import Receipt
from inboxd.settings import InboundHttp
from inboxd.signatures import Malformed, SignedRequest, Unauthentic
from inboxd.store.receipts import Stored
from inboxd.telemetry.webhooks import WebhookMetrics

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
# Sends an answer, given as its two messages.
Reply: TypeAlias = Callable[[Mapping[str, Any], Mapping[str, Any]], None]
Send: TypeAlias = Callable[[Mapping[str, Any]], Awaitable[None]]

ROUTE = "/in/"
# Values of Retry-After, in seconds.
_SECONDS_WHEN_AWAY = 5
_SECONDS_WHEN_PAUSED = 60
_LENGTH_DIGITS = 18
# A verification that may take longer than this runs in a thread, and does not block the loop.
_BLOCKING_SECONDS = 0.005
_VERIFYING_THREADS = 2


class _Admitted(NamedTuple):
    source: CompiledSource
    path: str
    headers: Mapping[str, str]
    address: str | None
    is_proxied: bool


class Receiver:
    def __init__(
        self,
        settings: InboundHttp,
        sources: Mapping[str, CompiledSource],
        commit: GroupCommit,
        metrics: WebhookMetrics,
    ) -> None:
        self._commit = commit
        self._metrics = metrics
        self._log = ReceiverLog()
        self._uuids = Uuids()
        self._proxies = Networks(settings.trusted_proxies)
        self.in_flight = InFlight(settings.max_requests, settings.max_bytes)
        self._addresses: AddressBuckets | None = None
        if settings.rate_per_address is not None:
            allowed = allowance(settings.rate_per_address, settings.burst_per_address)
            self._addresses = AddressBuckets(allowed)
        metrics.watch(lambda: self.in_flight.requests, lambda: self.in_flight.bytes)
        self._verifying = anyio.CapacityLimiter(_VERIFYING_THREADS)
        self._tasks = set[asyncio.Task[None]]()
        self._sources: dict[str, CompiledSource] = {}
        self.reload(sources)

    def reload(self, sources: Mapping[str, CompiledSource]) -> None:
        """Replace the sources; a bucket whose rate is unchanged keeps its tokens."""
        before = self._sources
        self._sources = {ROUTE + name: source for name, source in sources.items()}
        for path, source in self._sources.items():
            source.keep_bucket_of(before.get(path))
        self._metrics.declare(sources)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise RuntimeError(f"the receiver answers HTTP requests, not {scope['type']}")
        try:
            answer = await self._answer(scope, receive)
        except ClientGone:
            return
        except Exception as error:  # noqa: BLE001 - answered
            answer = self._answer_to(error, scope)
        await send(answer.start)
        await send(answer.body)

    def take(self, scope: Scope, body: bytes, answer: Reply) -> None:
        """Answer a request whose body is given, usually without a task (`fast_path.py`)."""
        room: Room | None = None
        try:
            admitted = self._admitted(scope)
            room = Room(self.in_flight, admitted.address)
            take_room(len(body), room, admitted.source.max_body)
            if _is_slow(admitted.source, body):
                self._begin(self._answer_later(scope, admitted, body, room, answer))
                return
            receipt = self._receipt(admitted, body)
            self._commit.submit(
                receipt, partial(self._finish, scope, admitted, receipt, room, answer)
            )
        except Exception as error:  # noqa: BLE001 - answered
            if room is not None:
                room.leave()
            answer(*self._answer_to(error, scope))

    def _finish(
        self,
        scope: Scope,
        admitted: _Admitted,
        receipt: Receipt,
        room: Room,
        answer: Reply,
        outcome: Stored | NotDurable,
    ) -> None:
        room.leave()
        try:
            if isinstance(outcome, NotDurable):
                found = self._answer_to(outcome, scope)
            else:
                found = self._accepted(admitted.source, receipt, outcome)
        except Exception as error:  # noqa: BLE001 - answered
            found = self._answer_to(error, scope)
        answer(*found)

    def _begin(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Run the coroutine in a task, and keep a reference: the event loop has a weak one only."""
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer_later(
        self, scope: Scope, admitted: _Admitted, body: bytes, room: Room, answer: Reply
    ) -> None:
        try:
            receipt = await self._receipt_aside(admitted, body)
            found = self._accepted(admitted.source, receipt, await self._commit.store(receipt))
        except Exception as error:  # noqa: BLE001 - answered
            found = self._answer_to(error, scope)
        finally:
            room.leave()
        answer(*found)

    async def _answer(self, scope: Scope, receive: Receive) -> Answer:
        """Return the answer of a success. Raises Refusal or ClientGone."""
        admitted = self._admitted(scope)
        room = Room(self.in_flight, admitted.address)
        try:
            body = await room.fill(receive, admitted.source.max_body)
            if _is_slow(admitted.source, body):
                receipt = await self._receipt_aside(admitted, body)
            else:
                receipt = self._receipt(admitted, body)
            return self._accepted(admitted.source, receipt, await self._commit.store(receipt))
        finally:
            room.leave()

    def _admitted(self, scope: Scope) -> _Admitted:
        """Check everything that is known before the body arrives. Raises Refusal."""
        source = self._sources.get(scope["path"])
        if source is None:
            raise Refusal(answers.NOT_FOUND, "unknown")
        if scope["method"] != "POST":
            raise Refusal(answers.METHOD_NOT_ALLOWED, "method")
        headers = _headers_of(scope["headers"])
        address = normal_peer(scope.get("client"))
        is_proxied = False
        if self._proxies and address is not None:
            is_proxied = address in self._proxies
            address = client_address(address, headers, self._proxies)
        if source.is_guarded or source.refuses or self._addresses is not None:
            self._admit(source, address)
        encoding = headers.get("content-encoding")
        if encoding is not None and encoding.strip().lower() not in {"identity", ""}:
            raise Refusal(answers.UNSUPPORTED, "unsupported")
        _check_announced(source, headers)
        return _Admitted(source, scope["path"], headers, address, is_proxied)

    def _receipt(self, admitted: _Admitted, body: bytes) -> Receipt:
        now = time.time_ns()
        return self._receipt_of(admitted, body, now, _verify(admitted, body, now))

    async def _receipt_aside(self, admitted: _Admitted, body: bytes) -> Receipt:
        now = time.time_ns()
        limit = self._verifying
        key_id = await anyio.to_thread.run_sync(_verify, admitted, body, now, limiter=limit)
        return self._receipt_of(admitted, body, now, key_id)

    def _receipt_of(self, admitted: _Admitted, body: bytes, now: int, key_id: str) -> Receipt:
        source, _, headers, address, _ = admitted
        if source.bucket is not None and (wait := source.bucket.take(time.monotonic())):
            raise Refusal(answers.too_many(wait), "rate", f"inbound.webhooks.{source.name}.rate")
        request = AuthenticRequest(headers, body, address, key_id, traceparent(headers), now)
        return source.receipt(self._uuids, request)

    def _admit(self, source: CompiledSource, address: str | None) -> None:
        if source.addresses and (address is None or address not in source.addresses):
            raise Refusal(answers.FORBIDDEN, "address")
        buckets, now = self._addresses, time.monotonic()
        if buckets is not None and address is not None and (wait := buckets.take(address, now)):
            raise Refusal(answers.too_many(wait), "rate", "inbound.http.rate_per_address")
        if source.refuses:
            raise Refusal(answers.unavailable(_SECONDS_WHEN_PAUSED), "paused")

    def _accepted(self, source: CompiledSource, receipt: Receipt, stored: Stored) -> Answer:
        outcome = stored.outcome
        self._metrics.accepted(source.name, outcome)
        if outcome in _DEAD:
            reason = next((e.broken for e in receipt.events if e.broken), None) or outcome
            self._log.dead_letter(source.name, outcome, receipt.receipt_id, reason)
        self._log.received(
            source.name, outcome, receipt.receipt_id, stored.event_ids, receipt.key_id
        )
        return answers.accepted(source.answer, receipt.receipt_id, stored.event_ids)

    def _answer_to(self, error: Exception, scope: Scope) -> Answer:
        source = self._sources.get(scope["path"])
        name = "" if source is None else source.name
        if isinstance(error, NotDurable):
            error = Refusal(answers.unavailable(_SECONDS_WHEN_AWAY), "not_durable", str(error))
        if not isinstance(error, Refusal):
            self._metrics.failed(name)
            self._log.failed(name, error)
            return answers.ERROR
        self._metrics.refused(name, error.reason)
        peer = normal_peer(scope.get("client"))
        self._log.refused(name, error.reason, peer, error.detail)
        return error.answer


_DEAD = frozenset({"broken", "contradiction"})


def _headers_of(pairs: list[tuple[bytes, bytes]]) -> dict[str, str]:
    found = {name.decode("latin-1"): value.decode("latin-1") for name, value in pairs}
    if len(found) != len(pairs):
        found = {}
        for raw_name, raw_value in pairs:
            name, value = raw_name.decode("latin-1"), raw_value.decode("latin-1")
            found[name] = f"{found[name]}, {value}" if name in found else value
    return found


def _check_announced(source: CompiledSource, headers: Mapping[str, str]) -> None:
    text = headers.get("content-length")
    if text is None:
        return
    if not (text.isascii() and text.isdigit()):
        raise Refusal(answers.BAD_REQUEST, "malformed", "content-length")
    # Bound the digits: int() of a long string is slow.
    if len(text) > _LENGTH_DIGITS or int(text) > source.max_body:
        raise Refusal(answers.TOO_LARGE, "too_large")


def _is_slow(source: CompiledSource, body: bytes) -> bool:
    return source.verifier.seconds(len(body)) > _BLOCKING_SECONDS


def _verify(admitted: _Admitted, body: bytes, now: int) -> str:
    """Return the id of the key that signed the request. Raises Refusal."""
    source, path, headers, _, is_proxied = admitted
    try:
        request = SignedRequest(headers, body, path, is_proxied)
        return source.verifier.verify(request, now / 1e9)
    except Unauthentic as error:
        raise Refusal(answers.UNAUTHORIZED, "unauthentic", str(error)) from None
    except Malformed as error:
        raise Refusal(answers.BAD_REQUEST, "malformed", str(error)) from None
