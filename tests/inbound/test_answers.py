"""Each answer of the receiver, and the order in which it judges."""

from typing import Any

import pytest

from inboxd.telemetry.logs import collected
from tests.inbound import calls
from tests.inbound.calls import KEYS, PROVIDER, RESULT, SECRET, ask, call, receiving, scope

pytestmark = pytest.mark.anyio

_PROBLEM = "application/problem+json"


@pytest.fixture(autouse=True, params=["in messages", "at once"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways from the listener to the application have the same answers."""
    monkeypatch.setattr(calls, "at_once", request.param == "at once")


async def test_what_is_stored_is_answered_with_its_ids() -> None:
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
async def test_whatever_becomes_of_it_the_answer_is_the_same(outcome: str) -> None:
    async with receiving() as received:
        first = await received.post()
        received.written.outcome = outcome
        second = await received.post()
        assert (
            received.count("inboxd_webhook_requests_total", source="provider", outcome=outcome) == 1
        )
    assert (first.status, sorted(first.json)) == (second.status, sorted(second.json))


@pytest.mark.parametrize("status", [200, 201, 202, 204])
async def test_the_status_of_a_success_is_the_source_s(status: int) -> None:
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
async def test_a_refusal(asked: dict[str, Any], status: int, reason: str) -> None:
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
    assert "connection" not in answered.headers, "that is the listener's to say, once"


@pytest.mark.parametrize("encoding", ["identity", "Identity", ""])
async def test_a_body_that_is_not_encoded_may_say_so(encoding: str) -> None:
    async with receiving() as received:
        answered = await received.post(headers={"content-encoding": encoding})
    assert answered.status == 202


async def test_a_body_in_pieces_is_one_body() -> None:
    async with receiving() as received:
        chunks = [RESULT[:10], b"", RESULT[10:50], RESULT[50:]]
        answered = await received.post(chunks=chunks)
        assert answered.status == 202
        assert received.written.receipts[0].body == RESULT


async def test_refusing_is_a_way_to_pause() -> None:
    async with receiving({"provider": {**PROVIDER, "paused": "refuse"}}) as received:
        answered = await received.post()
        assert received.written.receipts == []
    assert answered.status == 503
    assert int(answered.headers["retry-after"]) > 0


async def test_holding_is_another() -> None:
    async with receiving({"provider": {**PROVIDER, "paused": "hold"}}) as received:
        answered = await received.post()
        assert received.written.receipts[0].hold
    assert answered.status == 202


async def test_what_cannot_be_made_durable_is_not_accepted() -> None:
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
async def test_what_is_refused_unread(
    source: dict[str, Any], http: dict[str, Any], asked: dict[str, Any], status: int
) -> None:
    """Route, address, its rate and size are judged before the body is asked for."""

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


async def test_a_rate_says_when_to_come_again() -> None:
    source = {**PROVIDER, "rate": "60/m", "burst": 2}
    async with receiving({"provider": source}) as received:
        statuses = [(await received.post()).status for _ in range(3)]
        answered = await received.post()
    assert statuses == [202, 202, 429]
    assert answered.headers["retry-after"] == "1"


async def test_strangers_spend_nothing_of_a_source_s_rate() -> None:
    """Whoever knows its name sent so many unsigned requests that the sender was answered 429."""
    source = {**PROVIDER, "rate": "1/h", "burst": 1}
    async with receiving({"provider": source}, knock=True) as received:
        for knock in ("no", "", "no"):
            refused = await call(received.app, "/in/provider", b"{}", headers={"x-knock": knock})
            assert refused.status in {400, 401}
        statuses = [(await received.post()).status for _ in range(2)]
    assert statuses == [202, 429], "the sender has all of it, and no more"


async def test_addresses_are_rationed_one_by_one() -> None:
    async with receiving(http={"rate_per_address": "1/h", "burst_per_address": 1}) as received:
        statuses = [
            (await received.post(client=(client, 1))).status
            for client in ("192.0.2.1", "192.0.2.2", "192.0.2.1", "::ffff:192.0.2.2")
        ]
    assert statuses == [202, 202, 429, 429]


async def test_nothing_is_decoded_before_it_is_authentic() -> None:
    """What breaks decoding is refused as what it is: not authentic."""
    async with receiving(knock=True) as received:
        answered = await call(received.app, "/in/provider", b"[" * 500, headers={"x-knock": "no"})
        assert answered.status == 401
        kept = await call(received.app, "/in/provider", b"[" * 500, headers={"x-knock": "yes"})
        assert kept.status == 202
        assert received.written.receipts[0].events[0].broken


async def test_who_leaves_gets_no_answer() -> None:
    async def receive() -> Any:
        return {"type": "http.disconnect"}

    async with receiving() as received:
        answered = await ask(received.app, scope("/in/provider"), receive)
        assert (received.app.in_flight.requests, received.app.in_flight.bytes) == (0, 0)
        assert received.written.receipts == []
    assert answered.status == 0


async def test_a_fault_of_the_receiver_is_no_success() -> None:
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


async def test_a_fault_after_the_commit_leaves_nobody_without_an_answer() -> None:
    async with receiving() as received:
        received.metrics.webhooks.accepted = None  # type: ignore[method-assign,assignment]
        assert (await received.post()).status == 500
        assert (received.app.in_flight.requests, received.app.in_flight.bytes) == (0, 0)


async def test_no_secret_and_nothing_of_a_request_is_logged() -> None:
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


async def test_refusals_are_a_few_lines_a_second() -> None:
    with collected("debug") as lines:
        async with receiving() as received:
            for _ in range(500):
                await call(received.app, "/in/other")
            reasons = {"source": "", "reason": "unknown"}
            assert received.count("inboxd_webhook_refused_total", **reasons) == 500
    assert 1 <= len([line for line in lines if line["message"] == "webhook refused"]) <= 20


async def test_a_request_s_trace_goes_to_its_event() -> None:
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
