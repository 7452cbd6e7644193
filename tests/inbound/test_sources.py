"""Events of an authentic body, or one broken event with the reason."""

import time
from base64 import b64encode
from dataclasses import replace
from typing import Any

import orjson
import pytest

from inboxd.errors import SettingsError
from inboxd.inbound.bodies import BrokenBody
from inboxd.inbound.compiling import compile_sources
from inboxd.inbound.items import elements
from inboxd.inbound.keys import AuthenticRequest
from inboxd.inbound.sources import CompiledSource, broken_instead
from inboxd.inbound.uuids import Uuids
from inboxd.model.receipt import Receipt, ReceivedEvent
from inboxd.settings import WebhookSource
from tests.inbound.calls import KEYS, PROVIDER, RESULT, Knock, settings

_UUIDS = Uuids()


def _receipt(source: dict[str, Any], body: bytes = RESULT, **headers: str) -> Receipt:
    given = WebhookSource(**{"keys": KEYS, "scheme": "github", "type": "match.result", **source})
    compiled = CompiledSource("provider", given, Knock())
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    request = AuthenticRequest(named, body, "192.0.2.1", "k1", None, time.time_ns())
    return compiled.receipt(_UUIDS, request)


def _event(source: dict[str, Any], body: bytes = RESULT, **headers: str) -> ReceivedEvent:
    [event] = _receipt(source, body, **headers).events
    return event


def test_keys_are_read_from_headers_and_body() -> None:
    event = _event(
        {
            "type": None,
            "type_from": "header:x-event",
            "type_prefix": "provider.",
            "dedup_key": "pointer:/providerEventId",
            "ordering_key": "pointer:/matchExternalId",
            "tenant": "text:acme",
            "entity_type": "match",
            "entity_id": "header:x-match",
        },
        x_event="result",
        x_match="m-1",
    )
    assert (event.type, event.dedup_key, event.ordering_key) == ("provider.result", "e-1", "m-1")
    assert (event.tenant, event.entity_type, event.entity_id) == ("acme", "match", "m-1")
    assert event.payload == RESULT.decode()
    assert event.broken is None


@pytest.mark.parametrize(
    ("value", "key"),
    [
        (b'"a"', "a"),
        (b"1", "1"),
        (b"-7", "-7"),
        (b"true", "true"),
        (b"1.50", "1.50"),
        (b"12345678901234567890123", "12345678901234567890123"),
        (b"12345678901234567890124", "12345678901234567890124"),
        ('"caf\u00e9"'.encode(), "caf\u00e9"),
        (b'"a\\u0062"', "ab"),
    ],
)
def test_a_key_keeps_its_text_in_the_body(value: bytes, key: str) -> None:
    event = _event({"dedup_key": "pointer:/id"}, b'{"id": %b}' % value)
    assert (event.dedup_key, event.broken) == (key, None)


@pytest.mark.parametrize(
    ("setting", "long"), [("dedup_key", 64), ("ordering_key", 32), ("tenant", None)]
)
def test_a_too_long_key_is_hashed(setting: str, long: int | None) -> None:
    for key in ("x" * 256, "\u00e9" * 128):
        body = orjson.dumps({"id": key})
        event = _event({setting: "pointer:/id"}, body)
        assert (event.broken is None) is (long is not None)
        assert long is None or len(getattr(event, setting)) == long
    for key in ("x" * 255, "\u00e9" * 127):
        event = _event({setting: "pointer:/id"}, orjson.dumps({"id": key}))
        assert getattr(event, setting) == key


@pytest.mark.parametrize(
    ("source", "body"),
    [
        ({"dedup_key": "pointer:/id"}, b"{}"),
        ({"dedup_key": "pointer:/id"}, b'{"id": null}'),
        ({"dedup_key": "pointer:/id"}, b'{"id": ""}'),
        ({"dedup_key": "pointer:/id"}, b'{"id": {"a": 1}}'),
        ({"dedup_key": "pointer:/id"}, b'{"id": [1]}'),
        ({"dedup_key": "pointer:/id"}, b"[]"),
        ({"dedup_key": "pointer:/id"}, b"7"),
        ({"dedup_key": "header:x-id"}, b"{}"),
        ({"ordering_key": "header:x-id"}, b"{}"),
        ({"tenant": "pointer:/t"}, b"{}"),
        ({"entity_id": "pointer:/t"}, b"{}"),
        ({"type": None, "type_from": "header:x-event"}, b"{}"),
        ({"type": None, "type_from": "pointer:/type"}, b'{"type": "%b"}' % (b"x" * 256)),
        ({}, b""),
        ({}, b"{"),
        ({}, b"NaN"),
        ({}, b'"\\ud800"'),
        ({}, b'{"a": ["\\u0000"]}'),
        ({}, b"1e400"),
        ({}, b"9" * 400),
        ({}, b"1e-20000"),
        ({}, b"[" * 1100 + b"]" * 1100),
        ({}, b"\xff"),
        ({"items": ""}, b"{}"),
        ({"items": "/a"}, b'{"a": {}}'),
        ({"items": "/a"}, b"{}"),
        ({"body": "form"}, b"a=%ff"),
        ({"body": "form"}, b"a=%00"),
        ({"body": "form"}, b"\xff=1"),
        ({"body": "form", "dedup_key": "pointer:/id"}, b"a=1"),
        ({"body": "text"}, b"\xff"),
        ({"body": "text"}, b"\x00"),
    ],
)
def test_an_unusable_body_is_one_broken_event(source: dict[str, Any], body: bytes) -> None:
    event = _event(source, body)
    assert event.broken
    assert "x" * 50 not in event.broken, "a reason quotes nothing of the body"
    assert event.type
    payload = orjson.loads(event.payload)
    if "not JSON" in event.broken or "cannot store" in event.broken or b"\x00" in body:
        assert payload in (body.decode("latin-1"), {"base64": b64encode(body).decode()})
    elif "nothing at" in event.broken and source.get("body") != "form":
        assert payload == orjson.loads(body), "the payload is kept for a replay"


_WHOSE = {"tenant": "pointer:/tenant", "entity_type": "user", "entity_id": "pointer:/user"}


@pytest.mark.parametrize(
    ("source", "body"),
    [
        ({"ordering_key": "pointer:/match"}, b'{"tenant": "acme", "user": 42}'),
        ({}, b'{"tenant": "acme", "user": 42, "name": "\\u0000"}'),
        ({}, b'{"tenant": "acme", "user": 42, "x": 1e-20000}'),
        ({"items": "", "dedup_key": "pointer:/id"}, b'[{"tenant": "acme", "user": 42}]'),
        (
            {"items": "", "ordering_key": "pointer:/id"},
            b'[{"tenant": "acme", "user": 42, "id": 1}, {"tenant": "acme", "user": 42}, {"id": 3}]',
        ),
        ({"body": "form", "ordering_key": "pointer:/match"}, b"tenant=acme&user=42"),
    ],
)
def test_an_erasure_finds_broken_events(source: dict[str, Any], body: bytes) -> None:
    """Once an erasure missed broken events, although their subjects could be read."""
    event = _event({**_WHOSE, **source}, body)
    assert event.broken
    assert (event.tenant, event.entity_type, event.entity_id) == ("acme", "user", "42")


@pytest.mark.parametrize(
    ("source", "body"),
    [
        ({}, b'{"tenant": "ac\\u0000me", "user": "4\\u00002"}'),
        ({}, b'{"tenant": "%b", "user": "%b\\u0000"}' % (b"x" * 256, b"x" * 256)),
        (
            {"items": "", "dedup_key": "pointer:/id"},
            b'[{"tenant": "a", "user": 1}, {"tenant": "b", "user": 2}]',
        ),
        ({}, b"not JSON"),
    ],
)
def test_ambiguous_subjects_are_left_out_of_broken_events(
    source: dict[str, Any], body: bytes
) -> None:
    """Values that no column can store, and items that disagree."""
    event = _event({**_WHOSE, **source}, body)
    assert event.broken
    assert (event.tenant, event.entity_id) == (None, None)


@pytest.mark.parametrize("levels", [10, 400, 1000])
@pytest.mark.parametrize("opens", [b"[", b'{"a":'])
def test_a_deep_body_that_cannot_be_stored_is_broken(levels: int, opens: bytes) -> None:
    """Once it was answered 500 for ever, since the search for the error recursed too deeply."""
    closes = b"]" if opens == b"[" else b"}"
    event = _event({}, opens * levels + b'"\\u0000"' + closes * levels)
    assert event.broken is not None
    assert "text with a NUL character cannot be stored" in event.broken
    assert len(event.broken) <= 500


def test_a_broken_event_keeps_its_readable_keys() -> None:
    source = {"dedup_key": "header:x-id", "ordering_key": "pointer:/match"}
    event = _event(source, b"not JSON", x_id="i-1")
    assert (event.dedup_key, event.ordering_key, event.payload) == ("i-1", None, '"not JSON"')
    event = _event({**source, "dedup_key": "pointer:/id"}, b'{"match": "m-1"}')
    assert (event.dedup_key, event.ordering_key) == (None, "m-1")


@pytest.mark.parametrize(
    "text",
    [
        '{"a": "\\\\u0000"}',
        '{"a": "1e-20000"}',
        '{"a": 1e-300, "b": 1E-0000007}',
        '{"a": 0.12345678901234567890123456789}',
        '{"a": 123456789012345678901234567890}',
        '{"a": 1, "a": 2}',
        "null",
        '"text"',
        "[" * 1000 + "]" * 1000,
    ],
)
def test_storable_json_is_kept_to_the_digit(text: str) -> None:
    event = _event({"dedup_key": "header:x-id"}, text.encode(), x_id="1")
    assert (event.payload, event.broken) == (text, None)


def test_a_byte_order_mark_is_left_out() -> None:
    assert _event({}, b"\xef\xbb\xbf{}").payload == "{}"


def test_forms_and_texts_are_json() -> None:
    form = _event({"body": "form", "dedup_key": "pointer:/id"}, b"id=1&a=x+y&b=%C3%A9&b=&c")
    assert orjson.loads(form.payload) == {"id": "1", "a": "x y", "b": ["\u00e9", ""], "c": ""}
    assert form.dedup_key == "1"
    assert orjson.loads(_event({"body": "text"}, "caf\u00e9".encode()).payload) == "caf\u00e9"


_ITEMS = b'{"n": 2, "data": {"results": [ {"id":1.50} , {"id":"b","x":[1,{"y":"]"}]} ,3], "z": []}}'


def test_items_are_texts_of_the_body() -> None:
    receipt = _receipt({"items": "/data/results"}, _ITEMS)
    texts = ['{"id":1.50}', '{"id":"b","x":[1,{"y":"]"}]}', "3"]
    assert [event.payload for event in receipt.events] == texts
    assert len({event.event_id for event in receipt.events}) == 3
    assert [event.payload for event in _receipt({"items": ""}, b' [1 ,"a"] ').events] == [
        "1",
        '"a"',
    ]
    assert _receipt({"items": ""}, b"[]").events == []
    assert _receipt({"items": "/a~1b"}, b'{"a/b": [1], "a\\u002fb": [2]}').events[0].payload == "2"


def test_pointers_start_at_the_item() -> None:
    source = {"items": "", "dedup_key": "pointer:/id", "ordering_key": "pointer:/m"}
    receipt = _receipt(source, b'[{"id": 1, "m": "a"}, {"id": 2, "m": "b"}]')
    assert [(event.dedup_key, event.ordering_key) for event in receipt.events] == [
        ("1", "a"),
        ("2", "b"),
    ]


def test_an_array_of_too_many_items_is_one_broken_event() -> None:
    source = {"items": "/a", "max_items": 3}
    assert len(_receipt(source, b'{"a": [1, 2, 3]}').events) == 3
    event = _event(source, b'{"a": [1, 2, 3, 4]}')
    assert event.broken == "/a has more than 3 items, the most that max_items allows"
    assert event.payload == '{"a": [1, 2, 3, 4]}'
    many = _event({"items": ""}, b"[" + b"1," * 500_000 + b"1]")
    assert many.broken == "the body has more than 1000 items, the most that max_items allows"


def test_an_array_is_not_read_beyond_the_maximum_of_items() -> None:
    """Reading all items would block the event loop; so invalid JSON at the end goes unnoticed."""
    with pytest.raises(BrokenBody, match="more than 2 items"):
        elements("[1, 2, 3, what is this?", (), 2)


def test_a_form_with_a_repeated_name_is_read_once() -> None:
    """Reading it once per value would block the event loop."""
    payload = _event({"body": "form"}, b"&".join([b"a=1"] * 9_999) + b"&b=2").payload
    assert orjson.loads(payload) == {"a": ["1"] * 9_999, "b": "2"}


def test_a_key_of_the_request_gets_the_item_s_number() -> None:
    keys: list[str | None] = []
    for dedup in ("header:x-id", "body"):
        source = {"items": "", "dedup_key": dedup}
        first, again = (_receipt(source, b"[1, 1]", x_id="r") for _ in range(2))
        keys = [event.dedup_key for event in first.events]
        assert len(set(keys)) == 2
        assert keys == [event.dedup_key for event in again.events]
    other = _receipt({"items": "", "dedup_key": "body"}, b"[1, 2]")
    assert other.events[0].dedup_key != keys[0], "another body has another key"


def test_one_broken_item_breaks_the_array() -> None:
    source = {"items": "", "dedup_key": "pointer:/id"}
    receipt = _receipt(source, b'[{"id": 1}, {"no": 2}]')
    [event] = receipt.events
    assert event.broken is not None
    assert event.broken.startswith("item 1: ")
    assert event.payload == '[{"id": 1}, {"no": 2}]'


def test_copies_for_several_topics_share_the_event_id() -> None:
    receipt = _receipt({"topics": ["a", "b"]})
    assert [event.topic for event in receipt.events] == ["a", "b"]
    assert len({event.event_id for event in receipt.events}) == 1
    broken = _receipt({"topics": ["a", "b"]}, b"{")
    assert [(event.topic, bool(event.broken)) for event in broken.events] == [
        ("a", True),
        ("b", True),
    ]
    assert len({event.event_id for event in broken.events}) == 1


def test_only_chosen_headers_are_kept() -> None:
    receipt = _receipt({"headers": ["X-Request-Id"]}, x_request_id="r", x_knock="yes", cookie="c")
    assert orjson.loads(receipt.headers or "") == {"x-knock": "yes", "x-request-id": "r"}
    assert orjson.loads(receipt.events[0].headers or "") == {"x-request-id": "r"}
    assert _receipt({}).headers is None
    long = _event({"headers": ["x-long"]}, x_long="x" * 17_000)
    assert long.broken is not None
    assert "headers" in long.broken


def test_nul_is_removed_from_headers() -> None:
    receipt = _receipt({"headers": ["x-a"]}, x_a="a\0b", content_type="text/\0plain")
    assert receipt.content_type == "text/plain"
    assert orjson.loads(receipt.events[0].headers or "") == {"x-a": "ab"}


def test_refused_events_become_dead_letters() -> None:
    receipt = _receipt({"topics": ["a", "b"], "dedup_key": "pointer:/providerEventId"})
    instead = broken_instead(receipt, "it refuses")
    assert instead is not None
    assert instead.receipt_id == receipt.receipt_id
    assert [event.topic for event in instead.events] == ["a", "b"]
    assert {event.broken for event in instead.events} == {"it refuses"}
    assert receipt.events[0].broken is None, "the given receipt is unchanged"
    mine = _receipt({"tenant": "text:acme", "entity_type": "user", "entity_id": "text:42"})
    one, two = mine.events[0], replace(mine.events[0], entity_id="43")
    for events, entity in (([one, one], "42"), ([one, two], None)):
        whose = broken_instead(replace(mine, events=events), "it refuses")
        assert whose is not None
        told = [(each.tenant, each.entity_type, each.entity_id) for each in whose.events]
        assert told == [("acme", "user", entity)], "only values that all events share"
    assert broken_instead(_receipt({"items": ""}, b"[]"), "x") is None


def _signed(key_id: str, body: bytes, source: dict[str, Any]) -> list[ReceivedEvent]:
    """Events of a request that is signed with this key."""
    keys = [{"id": "a", "secret": "canary", "tenant": "acme"}, {"id": "b", "secret": "canary-2"}]
    given = WebhookSource(**{"keys": keys, "scheme": "github", "type": "match.result", **source})
    compiled = CompiledSource("provider", given, Knock())
    request = AuthenticRequest({}, body, "192.0.2.1", key_id, None, time.time_ns())
    return compiled.receipt(_UUIDS, request).events


def test_dedup_keys_are_shared_by_keys_unless_scoped_by_key() -> None:
    """One sender of a shared source could use another's id first, which dropped that message."""
    body, source = b'{"id": "e-1"}', {"dedup_key": "pointer:/id"}
    for scope, expected in (("source", ["e-1"] * 2), ("key", ["a:e-1", "b:e-1"])):
        given = {**source, "dedup_scope": scope}
        assert [_signed(key, body, given)[0].dedup_key for key in ("a", "b")] == expected
    several = {**source, "dedup_scope": "key", "items": "", "topics": ["t", "u"]}
    found = [event.dedup_key for event in _signed("b", b'[{"id": 1}, {"id": 2}]', several)]
    assert found == ["b:1", "b:1", "b:2", "b:2"]
    [event] = _signed("b", b'{"id": "%b"}' % (b"x" * 254), {**source, "dedup_scope": "key"})
    assert len(event.dedup_key or "") == 64, "a long key is hashed"
    [event] = _signed("a", body, {"dedup_key": "", "dedup_scope": "key"})
    assert event.dedup_key is None


def test_a_body_cannot_claim_another_key_s_tenant() -> None:
    source = {"tenant": "pointer:/tenant", "dedup_key": ""}
    for body in (b'{"tenant": "other"}', b"{}", b"not JSON"):
        [event] = _signed("a", body, source)
        assert event.tenant == "acme"
    assert [event.tenant for event in _signed("b", b'{"tenant": "other"}', source)] == ["other"]


def test_the_scheme_s_dedup_key_can_be_switched_off() -> None:
    given = {"scheme": "github", "keys": KEYS, "type": "push"}
    for more, key in (({}, "d-1"), ({"dedup_key": ""}, None)):
        compiled = compile_sources(settings({"github": {**given, **more}}))["github"]
        headers = {"x-github-delivery": "d-1"}
        request = AuthenticRequest(headers, b"{}", None, None, None, time.time_ns())
        assert compiled.receipt(_UUIDS, request).events[0].dedup_key == key


def test_an_error_of_a_source_names_its_table() -> None:
    with pytest.raises(SettingsError, match=r"\[inbound.webhooks.provider\]: .*unheard_of"):
        compile_sources(settings({"provider": {**PROVIDER, "scheme": "unheard_of"}}))


def test_a_secret_header_is_never_stored() -> None:
    class Token(Knock):
        secret_headers = frozenset({"x-token"})
        signed_headers = frozenset({"x-knock", "x-token"})

    given = WebhookSource(scheme="github", keys=KEYS, type="a")  # type: ignore[arg-type]  # as the file has them
    headers = {"x-knock": "yes", "x-token": "hunter2"}
    request = AuthenticRequest(headers, RESULT, None, "k1", None, time.time_ns())
    kept = CompiledSource("provider", given, Token()).receipt(_UUIDS, request).headers
    assert kept == '{"x-knock":"yes"}'
