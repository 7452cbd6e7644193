"""Events of a message, with all its attributes; or a dead letter with the reason."""

from base64 import b64encode
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any
from uuid import UUID, uuid4

import orjson
import pytest

from inboxd.brokers import cloud_events
from inboxd.brokers.cloud_events import CloudEvent
from inboxd.brokers.contract import IncomingMessage, LeftOutBody, OutgoingMessage, kept
from inboxd.inbound.messages.compiled import CompiledMessageSource
from inboxd.model.message import ReceivedMessage
from inboxd.model.receipt import ReceivedEvent
from inboxd.settings import MessageSource
from tests.support.messages import incoming

_TRACE = "00-" + "a" * 32 + "-" + "b" * 16 + "-01"
_ID = "0193a5f2-7c1e-7001-8000-5f2c1e0d9a7b"
_LEFT_OUT = LeftOutBody(29, "ab" * 32)
_BINARY = {"specversion": "1.0", "id": _ID, "source": "/bets", "type": "bet.paid"}


def _compiled(source: dict[str, Any] | None = None, kind: str = "kafka") -> CompiledMessageSource:
    return CompiledMessageSource("results", kind, MessageSource(**(source or {})))


def _received(message: IncomingMessage, kind: str = "kafka", **source: Any) -> ReceivedMessage:
    return _compiled(source, kind).received(message)


def _event(message: IncomingMessage, kind: str = "kafka", **source: Any) -> ReceivedEvent:
    [event] = _received(message, kind, **source).events
    return event


def _headers(event: ReceivedEvent) -> dict[str, str]:
    found: dict[str, str] = orjson.loads(event.headers or "{}")
    return found


# ---------------------------------------------------------------------------------- CloudEvents


@pytest.mark.parametrize("prefix", ["ce-", "ce_", "cloudEvents:", "cloudEvents_"])
def test_cloud_events_are_understood_with_the_prefix_of_each_binding(prefix: str) -> None:
    attributes = {
        **_BINARY,
        "subject": "bet/7",
        "time": "2026-11-05T12:00:00Z",
        "tracestate": "a=b",
        "correlationid": "story-1",
        "causationid": str(UUID(int=7)),
        "partitionkey": "m-1",
    }
    named = {f"{prefix}{name}".lower(): value for name, value in attributes.items()}
    found = _received(incoming(1, {"n": 1}, headers={**named, "traceparent": _TRACE}))
    [event] = found.events
    assert (event.type, event.event_id, event.payload) == ("bet.paid", UUID(_ID), '{"n":1}')
    assert (event.traceparent, event.ordering_key, event.broken) == (_TRACE, "m-1", None)
    assert (found.correlation_id, found.causation_id) == ("story-1", UUID(int=7))
    assert found.occurred_at == datetime(2026, 11, 5, 12, tzinfo=UTC)
    assert _headers(event) == {
        "ce-id": _ID,
        "ce-source": "/bets",
        "ce-type": "bet.paid",
        "ce-subject": "bet/7",
        "ce-tracestate": "a=b",
    }


_RELAYED = {
    "correlationid": "é 1",
    "causationid": _ID,
    "partitionkey": "k 1",
    "schemaversion": "3",
    "tenant": "acme",
    "entitytype": "bet",
    "entityid": "7",
}


def test_a_relayed_event_is_the_same_event_here() -> None:
    """Attributes and headers are those that `cloud_events` writes, over NATS."""
    origin = CloudEvent(
        id=_ID,
        source="/bets",
        type="bet.paid",
        time=datetime(2026, 11, 5, 12, tzinfo=UTC),
        extensions=_RELAYED,
    )
    out = OutgoingMessage(
        to="bets",
        key="k 1",
        id=_ID,
        body=b"{}",
        attributes=cloud_events.attributes(origin),
        headers={"traceparent": _TRACE},
    )
    written = cloud_events.headers(out, cloud_events.NATS_PREFIX)
    headers = {name.lower(): value for name, value in written.items()}
    found = _received(incoming(1, {}, headers=headers, sent_to="bets"), "nats")
    [event] = found.events
    assert (event.event_id, event.ordering_key, event.traceparent) == (UUID(_ID), "k 1", _TRACE)
    assert (found.correlation_id, found.causation_id) == ("é 1", UUID(_ID))
    assert (event.tenant, event.entity_type, event.entity_id) == ("acme", "bet", "7")
    assert found.schema_version == 3
    assert _headers(event) == {"ce-id": _ID, "ce-source": "/bets", "ce-type": "bet.paid"}
    own = _received(incoming(1, {}, headers=headers), tenant="text:x", entity_type="match").events
    assert (own[0].tenant, own[0].entity_type, own[0].entity_id) == ("x", "match", None)


def test_structured_mode_is_understood() -> None:
    document = {**_BINARY, "data": {"n": 1.50}, "traceparent": _TRACE, "datacontenttype": "x/json"}
    message = incoming(1, document, content_type="Application/CloudEvents+JSON; charset=utf-8")
    found = _received(message, type_prefix="shop.")
    [event] = found.events
    assert (event.type, event.payload) == ("shop.bet.paid", '{"n":1.5}')
    assert (event.event_id, event.traceparent) == (UUID(_ID), _TRACE)
    assert found.body == message.body, "a dead letter would keep the raw body"


def test_a_cloud_event_without_data_has_null() -> None:
    headers = {f"ce_{name}": value for name, value in _BINARY.items()}
    assert _event(incoming(1, b"", headers=headers)).payload == "null"
    assert _event(incoming(1, b"", headers=headers), body="text").payload == '""'
    plain = _event(incoming(1, b""), type="a")
    assert "not JSON" in (plain.broken or "")


def test_the_settings_go_before_the_cloud_event() -> None:
    headers = {f"ce_{name}": value for name, value in _BINARY.items()}
    message = incoming(1, {"id": "e-1", "m": 7}, headers={**headers, "x-tenant": "acme"}, key="k")
    event = _event(
        message,
        type="match.result",
        dedup_key="pointer:/id",
        ordering_key="pointer:/m",
        tenant="header:x-tenant",
        entity_type="match",
        entity_id="pointer:/m",
        headers=["x-tenant"],
    )
    assert (event.type, event.dedup_key, event.ordering_key) == ("match.result", "e-1", "7")
    assert (event.tenant, event.entity_type, event.entity_id) == ("acme", "match", "7")
    assert _headers(event)["x-tenant"] == "acme"


def test_an_event_is_copied_for_each_topic() -> None:
    found = _received(incoming(1), type="a", topics=["one", "two"])
    assert [event.topic for event in found.events] == ["one", "two"]
    assert len({event.event_id for event in found.events}) == 1


# ------------------------------------------------------------------------------------ its own id


def test_a_redelivered_message_has_the_same_id() -> None:
    given: list[dict[str, Any]] = [
        {"position": 1, "identity": "i"},
        {"position": 1, "identity": "i of this delivery"},
        {"position": None, "id": "m-1"},
        {"position": None, "headers": {f"ce_{k}": v for k, v in _BINARY.items()}},
    ]
    for each in given:
        one, two = (_event(incoming(body={}, **each), type="a") for _ in range(2))
        assert one.event_id == two.event_id, each
    ids = {_event(incoming(body={}, **each), type="a").event_id for each in given}
    assert len(ids) == 3


def test_different_messages_have_different_ids() -> None:
    place: dict[str, Any] = {"position": 1, "identity": "i", "stream": "t/0"}
    others: list[dict[str, Any]] = [
        place,
        {**place, "position": 2},
        {**place, "identity": "j"},
        {**place, "stream": "t/1"},
        {**place, "position": None, "id": "1"},
        {**place, "position": None, "id": "2"},
        {**place, "position": None},
        {**place, "position": None},
    ]
    ids = {_event(incoming(body={}, **each), type="a").event_id for each in others}
    other_source = CompiledMessageSource("other", "kafka", MessageSource(type="a"))
    ids |= {event.event_id for event in other_source.received(incoming(**place)).events}
    assert len(ids) == len(others) + 1


@pytest.mark.parametrize(
    ("given", "key"),
    [
        ({"position": 1, "id": "m-1"}, None),
        ({"position": None, "id": "m-1"}, "m-1"),
        ({"position": None}, None),
        ({"position": None, "headers": {f"ce_{k}": v for k, v in _BINARY.items()}}, _ID),
        (
            {
                "position": None,
                "headers": {f"ce_{k}": v for k, v in (_BINARY | {"id": "1"}).items()},
            },
            "/bets 1",
        ),
    ],
)
def test_the_default_dedup_key_is_the_broker_s(given: dict[str, Any], key: str | None) -> None:
    assert _event(incoming(body={}, **given), "rabbitmq", type="a").dedup_key == key
    assert _event(incoming(body={}, **given), "rabbitmq", type="a", dedup_key="").dedup_key is None


@pytest.mark.parametrize(
    ("kind", "given", "key"),
    [
        ("kafka", {"key": "k", "stream": "t/0"}, "k"),
        ("kafka", {"key": "", "stream": "t/0"}, ""),
        ("kafka", {"key": None, "stream": "t/0"}, "t/0"),
        ("nats", {"sent_to": "orders.7", "stream": "ORDERS"}, "orders.7"),
        ("rabbitmq", {"sent_to": "orders", "stream": "queue", "position": None}, "queue"),
    ],
)
def test_the_default_ordering_key_is_the_broker_s(
    kind: str, given: dict[str, Any], key: str
) -> None:
    assert _event(incoming(body={}, **given), kind, type="a").ordering_key == key


@pytest.mark.parametrize("key", ["x" * 256, "é" * 128, "a\0b"])
def test_a_key_that_no_column_can_store_is_hashed(key: str) -> None:
    ordering = _event(incoming(key=key), type="a").ordering_key
    dedup = _event(incoming(None, id=key), "rabbitmq", type="a").dedup_key
    for made in (ordering, dedup):
        assert made is not None
        assert made.isalnum()
        assert len(made) in (32, 64)


# ---------------------------------------------------------------------------------------- poison


@pytest.mark.parametrize(
    ("source", "given", "reason"),
    [
        ({"type": "a"}, {"body": b"<x/>"}, "not JSON"),
        ({"type": "a"}, {"body": b"\xff\xfe"}, "not JSON"),
        ({"type": "a"}, {"body": b'{"a": "\\u0000"}'}, "cannot store"),
        ({"type": "a"}, {"body": b"[" * 2000 + b"]" * 2000}, "not JSON"),
        ({"type": "a"}, {"body": b"1e400"}, "not JSON"),
        ({"type": "a", "body": "text"}, {"body": b"\0"}, "NUL"),
        ({"type": "a", "max_body": 16}, {"body": b"", "left_out": _LEFT_OUT}, "has 29 bytes, more"),
        ({}, {"body": b"{}"}, "neither type nor type_from"),
        ({"type_from": "pointer:/t"}, {"body": b'{"t": {}}'}, "cannot be a key"),
        ({"type_from": "header:x-type"}, {}, "no header x-type"),
        ({"type_from": "header:x-type"}, {"headers": {"x-type": "a\0"}}, "NUL"),
        ({"type_from": "pointer:/t"}, {"body": b'{"t": "%b"}' % (b"x" * 300)}, "has 300 bytes"),
        ({"type": "a", "tenant": "pointer:/t"}, {"body": b'{"t": "%b"}' % (b"x" * 300)}, "tenant"),
        ({"type": "a", "headers": ["x-h"]}, {"headers": {"x-h": "x" * 20_000}}, "headers have"),
        (
            {},
            {"headers": {f"ce_{k}": v for k, v in (_BINARY | {"type": "x" * 300}).items()}},
            "type has 300 bytes",
        ),
    ],
)
def test_an_unusable_message_is_a_dead_letter(
    source: dict[str, Any], given: dict[str, Any], reason: str
) -> None:
    message = incoming(**given)
    event = _event(message, **source)
    assert reason in (event.broken or "")
    assert event.type == source.get("type", "results.broken")
    payload = orjson.loads(event.payload)
    body = message.body
    if "max_body" in source:
        assert payload is None
    elif "not JSON" in reason or "store" in reason or "NUL" in reason:
        texts = [{"base64": b64encode(body).decode()}, body.decode("latin-1"), {}]
        assert payload in texts
    else:
        assert payload == orjson.loads(body)


def test_an_erasure_finds_broken_events() -> None:
    of = _BINARY | {"tenant": "acme", "entitytype": "user", "entityid": "42"}
    message = incoming(1, b"not JSON", headers={f"ce_{name}": each for name, each in of.items()})
    event = _event(message)
    assert event.broken
    assert (event.tenant, event.entity_type, event.entity_id) == ("acme", "user", "42")


def test_a_too_large_message_is_identified_by_its_whole_body() -> None:
    bodies = [b'{"a": "%d0000000000000"}' % n for n in (1, 2)]
    for max_body in (1000, 16):
        came = [kept(body, max_body) for body in bodies]
        events = [
            _event(incoming(None, body, left_out=left_out), type="a", dedup_key="body")
            for body, left_out in came
        ]
        assert [event.dedup_key for event in events] == [sha256(b).hexdigest() for b in bodies]
        assert [event.broken is None for event in events] == [max_body == 1000] * 2


def test_invalid_lineage_is_left_out() -> None:
    extensions = {"correlationid": "x" * 300, "causationid": "not a uuid", "traceparent": "00-1"}
    extensions["schemaversion"] = "99999"
    named = {f"ce_{name}": value for name, value in (_BINARY | extensions).items()}
    found = _received(incoming(1, {}, headers={**named, "traceparent": "nothing"}))
    [event] = found.events
    assert (found.causation_id, event.traceparent, event.broken) == (None, None, None)
    assert found.schema_version == 1
    assert found.correlation_id is not None
    assert len(found.correlation_id) == 64, "the hash names the whole story"


@pytest.mark.parametrize(
    ("sent_at", "there"), [(1.5, True), (-5.0, False), (1e15, False), (float("nan"), False)]
)
def test_the_time_of_sending_is_the_default_time_of_an_event(sent_at: float, there: bool) -> None:
    found = _received(incoming(1, {}, sent_at=sent_at), type="a").occurred_at
    assert (found is not None) is there
    assert not there or found == datetime.fromtimestamp(1.5, UTC)


@pytest.mark.parametrize(
    ("given", "other"),
    [
        ({"position": 1}, True),
        ({"position": None}, True),
        ({"position": None, "dedup_key": ""}, False),
    ],
)
def test_an_event_has_another_id_if_the_sender_s_is_used_already(
    given: dict[str, Any], other: bool
) -> None:
    source = {"dedup_key": given.pop("dedup_key")} if "dedup_key" in given else {}
    headers = {f"ce_{name}": value for name, value in _BINARY.items()}
    found = _received(incoming(body={}, headers=headers, **given), "rabbitmq", **source)
    assert found.events[0].event_id == UUID(_ID)
    assert (found.other_id not in (None, UUID(_ID))) is other
    assert _received(incoming(body={}, **given), type="a").other_id is None


def test_an_id_that_is_almost_a_uuid_is_not_used() -> None:
    for text in (uuid4().hex, "{" + str(uuid4()) + "}", "x" * 36, "urn:uuid:" + str(uuid4())):
        named = {f"ce_{name}": value for name, value in (_BINARY | {"id": text}).items()}
        event = _event(incoming(1, {}, headers=named))
        assert event.event_id.version == 5, text
