"""Each answer of the receiver, and the order of its checks."""

import threading
from typing import Any

import anyio
import pytest

from inboxd.errors import Unauthentic
from inboxd.inbound.sources import CompiledSource
from inboxd.signatures import SignedRequest
from inboxd.telemetry.logs import collected
from tests.inbound import calls
from tests.inbound.calls import (
    KEYS,
    PROVIDER,
    RESULT,
    SECRET,
    Knock,
    Received,
    ask,
    call,
    receiving,
    scope,
)
from tests.support import eventually
from tests.support.waiting import patient

pytestmark = pytest.mark.anyio

_PROBLEM = "application/problem+json"


@pytest.fixture(autouse=True, params=["in messages", "at once"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests in messages and whole requests get the same answers."""
    monkeypatch.setattr(calls, "at_once", request.param == "at once")


class Held(Knock):
    """Each verification waits until the test allows it, which needs a free loop."""

    def __init__(self) -> None:
        self.allowed = threading.Event()
        self.under_way = self.most = 0
        self._lock = threading.Lock()

    def seconds(self, _size: int) -> float:
        return 1.0

    def verify(self, request: SignedRequest, now: float) -> str:
        with self._lock:
            self.under_way += 1
            self.most = max(self.most, self.under_way)
        is_allowed = self.allowed.wait(patient(20))
        with self._lock:
            self.under_way -= 1
        if not is_allowed:
            raise Unauthentic("the loop is held up")
        return super().verify(request, now)


async def test_slow_verifications_run_beside_the_loop_two_at_once() -> None:
    held, knocks = Held(), ("yes", "yes", "no", "yes")
    answered: list[int] = []

    async def knock(received: Received, given: str) -> None:
        answer = await received.post(source="slow", headers={"x-knock": given})
        answered.append(answer.status)

    async def are_held() -> bool:
        return held.under_way == 2

    async with receiving({"provider": PROVIDER, "slow": PROVIDER}) as received:
        slow = CompiledSource("slow", received.sources["slow"].settings, held)
        received.app.reload({**received.sources, "slow": slow})
        async with anyio.create_task_group() as group:
            for given in knocks:
                group.start_soon(knock, received, given)
            await eventually(are_held)
            assert (await received.post()).status == 202
            assert answered == []
            held.allowed.set()
        assert sorted(answered) == [202, 202, 202, 401]
        assert held.most == 2
        assert (received.app.in_flight.requests, received.app.in_flight.bytes) == (0, 0)


async def test_a_stored_request_is_answered_with_its_ids() -> None:
    async with receiving() as received:
        answered = await received.post()
        [receipt] = received.written.receipts
    assert answered.status == 202
    assert answered.headers["content-type"] == "application/json"
    assert int(answered.headers["content-length"]) == len(answered.body)
    assert answered.json == {
        "receipt": str(receipt.receipt_id),
        "events": [str(receipt.events[0].event_id)],
    }
    assert receipt.receipt_id.version == receipt.events[0].event_id.version == 7
    assert (receipt.source, receipt.body, receipt.key_id) == ("provider", RESULT, "k1")
    assert receipt.address == "192.0.2.1"


@pytest.mark.parametrize("outcome", ["duplicate", "contradiction", "broken", "held"])
async def test_the_answer_is_the_same_for_every_outcome(outcome: str) -> None:
    async with receiving() as received:
        first = await received.post()
        received.written.outcome = outcome
        second = await received.post()
        assert (
            received.count("inboxd_webhook_requests_total", source="provider", outcome=outcome) == 1
        )
    assert (first.status, sorted(first.json)) == (second.status, sorted(second.json))


@pytest.mark.parametrize("status", [200, 201, 202, 204])
async def test_the_source_sets_the_status_of_a_success(status: int) -> None:
    async with receiving({"provider": {**PROVIDER, "answer": status}}) as received:
        answered = await received.post()
    assert answered.status == status
    assert bool(answered.body) is (status != 204)
    assert ("content-type" in answered.headers) is (status != 204)


@pytest.mark.parametrize(
    ("asked", "status", "reason"),
    [
        ({"path": "/in/other"}, 404, "unknown"),
        ({"path": "/in/"}, 404, "unknown"),
        ({"path": "/"}, 404, "unknown"),
        ({"path": "/in/provider/"}, 404, "unknown"),
        ({"method": "GET"}, 405, "method"),
        ({"method": "PUT"}, 405, "method"),
        ({"method": "OPTIONS"}, 405, "method"),
        ({"headers": {"x-knock": "no"}}, 401, "unauthentic"),
        ({"headers": {}}, 400, "malformed"),
        ({"headers": {"x-knock": "yes", "content-length": "x"}, "length": False}, 400, "malformed"),
        (
            {"headers": {"x-knock": "yes", "content-length": "-1"}, "length": False},
            400,
            "malformed",
        ),
        ({"headers": {"x-knock": "yes", "content-encoding": "gzip"}}, 415, "unsupported"),
        ({"body": b"x" * 1001}, 413, "too_large"),
        ({"headers": {"content-length": "9" * 30}, "length": False}, 413, "too_large"),
        ({"chunks": [b"x" * 600, b"x" * 600]}, 413, "too_large"),
        ({"client": ("198.51.100.1", 1)}, 403, "address"),
        ({"client": None}, 403, "address"),
    ],
)
async def test_each_refusal_has_its_status_and_its_reason(
    asked: dict[str, Any], status: int, reason: str
) -> None:
    source = {**PROVIDER, "max_body": 1000, "addresses": ["192.0.2.0/24"]}
    asked = {"path": "/in/provider", "body": b"{}", "headers": {"x-knock": "yes"}} | asked
    async with receiving({"provider": source}, knock=True) as received:
        answered = await call(received.app, asked.pop("path"), asked.pop("body"), **asked)
        name = "" if status == 404 else "provider"
        assert received.count("inboxd_webhook_refused_total", source=name, reason=reason) == 1
        assert received.written.receipts == []
        assert (received.app.in_flight.requests, received.app.in_flight.bytes) == (0, 0)
    assert answered.status == status
    assert answered.headers["content-type"] == _PROBLEM
    assert sorted(answered.json) == ["status", "title", "type"]
    assert answered.json["status"] == status
    if status == 405:
        assert answered.headers["allow"] == "POST"
    if status == 401:
        assert answered.headers["www-authenticate"]
    assert "connection" not in answered.headers, "the listener adds it, once"


@pytest.mark.parametrize("encoding", ["identity", "Identity", ""])
async def test_a_content_encoding_of_identity_is_accepted(encoding: str) -> None:
    async with receiving() as received:
        answered = await received.post(headers={"content-encoding": encoding})
    assert answered.status == 202


async def test_a_body_in_pieces_is_one_body() -> None:
    async with receiving() as received:
        chunks = [RESULT[:10], b"", RESULT[10:50], RESULT[50:]]
        answered = await received.post(chunks=chunks)
        assert answered.status == 202
        assert received.written.receipts[0].body == RESULT


async def test_a_paused_source_can_refuse_requests() -> None:
    async with receiving({"provider": {**PROVIDER, "paused": "refuse"}}) as received:
        answered = await received.post()
        assert received.written.receipts == []
    assert answered.status == 503
    assert int(answered.headers["retry-after"]) > 0


async def test_a_paused_source_can_hold_requests() -> None:
    async with receiving({"provider": {**PROVIDER, "paused": "hold"}}) as received:
        answered = await received.post()
        assert received.written.receipts[0].hold
    assert answered.status == 202


async def test_a_request_that_cannot_be_stored_is_answered_503() -> None:
    async def write(_page: object) -> list[Any]:
        raise ConnectionResetError

    async with receiving(write=write, within=0.2) as received:
        answered = await received.post()
    assert answered.status == 503
    assert int(answered.headers["retry-after"]) > 0


@pytest.mark.parametrize(
    ("source", "http", "asked", "status"),
    [
        ({}, {}, {"path": "/in/other"}, 404),
        ({}, {}, {"method": "GET"}, 405),
        ({"addresses": ["198.51.100.0/24"]}, {}, {}, 403),
        ({}, {"rate_per_address": "1/h"}, {}, 429),
        ({"paused": "refuse"}, {}, {}, 503),
        ({}, {}, {"headers": [("content-length", "1001")]}, 413),
        ({}, {}, {"headers": [("content-encoding", "br")]}, 415),
    ],
)
async def test_refusals_before_the_body_do_not_read_it(
    source: dict[str, Any], http: dict[str, Any], asked: dict[str, Any], status: int
) -> None:
    """Route, address, rate and size are checked before the body is read."""

    async def receive() -> Any:
        raise AssertionError("the body was read")

    settings = {"provider": {**PROVIDER, "max_body": 1000, **source}}
    async with receiving(settings, http, knock=True) as received:
        if status == 429:
            await call(received.app, "/in/provider", b"{}", headers={"x-knock": "no"})
        received.app.in_flight.bytes += 200
        answered = await ask(received.app, scope(**{"path": "/in/provider"} | asked), receive)
        received.app.in_flight.bytes -= 200
        assert (received.app.in_flight.requests, received.app.in_flight.bytes) == (0, 0)
    assert answered.status == status


async def test_a_429_says_when_the_rate_allows_the_next_request() -> None:
    source = {**PROVIDER, "rate": "60/m", "burst": 2}
    async with receiving({"provider": source}) as received:
        statuses = [(await received.post()).status for _ in range(3)]
        answered = await received.post()
    assert statuses == [202, 202, 429]
    assert answered.headers["retry-after"] == "1"


async def test_unsigned_requests_do_not_use_up_a_source_s_rate() -> None:
    """Unsigned requests of strangers once used up the rate, and the sender got 429."""
    source = {**PROVIDER, "rate": "1/h", "burst": 1}
    async with receiving({"provider": source}, knock=True) as received:
        for knock in ("no", "", "no"):
            refused = await call(received.app, "/in/provider", b"{}", headers={"x-knock": knock})
            assert refused.status in {400, 401}
        statuses = [(await received.post()).status for _ in range(2)]
    assert statuses == [202, 429], "the sender gets the whole rate, and no more"


async def test_each_address_has_its_own_rate() -> None:
    async with receiving(http={"rate_per_address": "1/h", "burst_per_address": 1}) as received:
        statuses = [
            (await received.post(client=(client, 1))).status
            for client in ("192.0.2.1", "192.0.2.2", "192.0.2.1", "::ffff:192.0.2.2")
        ]
    assert statuses == [202, 202, 429, 429]


async def test_a_body_is_not_decoded_before_it_is_authentic() -> None:
    """A body that cannot be decoded is refused for its signature."""
    async with receiving(knock=True) as received:
        answered = await call(received.app, "/in/provider", b"[" * 500, headers={"x-knock": "no"})
        assert answered.status == 401
        kept = await call(received.app, "/in/provider", b"[" * 500, headers={"x-knock": "yes"})
        assert kept.status == 202
        assert received.written.receipts[0].events[0].broken


async def test_a_client_that_disconnects_gets_no_answer() -> None:
    async def receive() -> Any:
        return {"type": "http.disconnect"}

    async with receiving() as received:
        answered = await ask(received.app, scope("/in/provider"), receive)
        assert (received.app.in_flight.requests, received.app.in_flight.bytes) == (0, 0)
        assert received.written.receipts == []
    assert answered.status == 0


async def test_an_error_in_the_receiver_is_answered_500() -> None:
    with collected("debug") as lines:
        async with receiving() as received:
            received.sources["provider"].receipt = None  # type: ignore[method-assign,assignment]
            answered = await received.post()
            assert (
                received.count("inboxd_webhook_requests_total", source="provider", outcome="failed")
                == 1
            )
    assert answered.status == 500
    assert [line["message"] for line in lines] == ["webhook failed"]


async def test_an_error_after_the_commit_is_answered_500() -> None:
    async with receiving() as received:
        received.metrics.webhooks.accepted = None  # type: ignore[method-assign,assignment]
        assert (await received.post()).status == 500
        assert (received.app.in_flight.requests, received.app.in_flight.bytes) == (0, 0)


async def test_log_lines_hold_no_secret_and_no_body() -> None:
    sources = {"provider": PROVIDER, "bearer": {**PROVIDER, "scheme": "github", "keys": KEYS}}
    with collected("debug") as lines:
        async with receiving(sources) as received:
            await received.post()
            await received.post(b"not JSON, but private")
            for headers in ({}, {"authorization": SECRET}, {"x-hub-signature-256": SECRET}):
                await call(received.app, "/in/bearer", b"private", headers=headers)
            await call(received.app, f"/in/{SECRET}", b"private")
    shown = repr(lines)
    assert "webhook received" in shown
    assert "webhook refused" in shown
    assert SECRET not in shown
    assert "private" not in shown


async def test_refusals_are_logged_a_few_times_per_second() -> None:
    with collected("debug") as lines:
        async with receiving() as received:
            for _ in range(500):
                await call(received.app, "/in/other")
            reasons = {"source": "", "reason": "unknown"}
            assert received.count("inboxd_webhook_refused_total", **reasons) == 500
    assert 1 <= len([line for line in lines if line["message"] == "webhook refused"]) <= 20


async def test_an_event_has_the_trace_of_its_request() -> None:
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    later = f"01{trace[2:]}-more"
    none = "00-" + "0" * 32 + "-b7ad6b7169203331-01"
    given = [
        trace,
        later,
        trace + "-more",
        trace.upper(),
        none,
        "ff" + trace[2:],
        later + "\0",
        "x",
    ]
    async with receiving() as received:
        for text in given:
            await received.post(headers={"traceparent": text})
        found = [each.events[0].traceparent for each in received.written.receipts]
    assert found == [trace, later, *[None] * 6]
