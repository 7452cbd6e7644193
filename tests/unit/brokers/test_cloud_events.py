"""CloudEvents: written as each binding asks, and read in both modes."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inboxd.brokers import cloud_events
from inboxd.brokers.cloud_events import CloudEvent
from inboxd.brokers.contract import OutgoingMessage
from inboxd.errors import MessageRefused

EVENT = CloudEvent(
    id="42",
    source="/bets",
    type="match.result",
    subject="match/7",
    time=datetime(2026, 5, 1, 12, 30, 15, 250000, tzinfo=UTC),
    dataschema="https://schemas.example/match.result/1",
    extensions={"partitionkey": "7", "schemaversion": "1"},
)
WRITTEN = {
    "specversion": "1.0",
    "id": "42",
    "source": "/bets",
    "type": "match.result",
    "subject": "match/7",
    "time": "2026-05-01T12:30:15.250000Z",
    "dataschema": "https://schemas.example/match.result/1",
    "partitionkey": "7",
    "schemaversion": "1",
}
STRUCTURED = "application/cloudevents+json; charset=UTF-8"
MINIMAL = b'"specversion": "1.0", "id": "1", "source": "/a", "type": "t"'


def _message(
    attributes: dict[str, str] | None = None, headers: dict[str, str] | None = None
) -> OutgoingMessage:
    return OutgoingMessage(
        to="t", key=None, id="1", body=b"{}", attributes=attributes or {}, headers=headers or {}
    )


def _lower(headers: dict[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


def test_attributes_have_the_names_of_the_specification_and_values_that_are_set() -> None:
    assert cloud_events.attributes(EVENT) == WRITTEN
    bare = CloudEvent(id="1", source="/a", type="t")
    assert cloud_events.attributes(bare) == {
        "specversion": "1.0",
        "id": "1",
        "source": "/a",
        "type": "t",
    }


@pytest.mark.parametrize("prefix", ["ce-", "ce_", "cloudEvents:"])
def test_written_events_are_read_back(prefix: str) -> None:
    headers = cloud_events.headers(_message(WRITTEN, {"traceparent": "00-1-2-01"}), prefix)
    assert headers[f"{prefix}id"] == "42"
    assert headers["traceparent"] == "00-1-2-01"
    assert cloud_events.read(_lower(headers), ["other-", prefix]) == EVENT


def test_only_the_binding_of_nats_encodes_by_percents() -> None:
    told = {**WRITTEN, "subject": 'Euro € 😀 "50%"'}
    encoded = "Euro%20%E2%82%AC%20%F0%9F%98%80%20%2250%25%22"
    nats = cloud_events.headers(_message(told), "ce-")
    assert nats["ce-subject"] == encoded
    assert nats["ce-dataschema"] == WRITTEN["dataschema"]
    kafka = cloud_events.headers(_message(told), "ce_")
    assert kafka["ce_subject"] == told["subject"]
    for headers, prefix in ((nats, "ce-"), (kafka, "ce_")):
        event = cloud_events.read(_lower(headers), [prefix])
        assert event is not None
        assert event.subject == told["subject"]


@given(st.text(st.characters(exclude_categories=["Cc", "Cs"]), min_size=1))
def test_any_text_comes_back_unchanged(text: str) -> None:
    for prefix in ("ce-", "ce_", "cloudEvents:"):
        headers = cloud_events.headers(_message({**WRITTEN, "subject": text}), prefix)
        event = cloud_events.read(_lower(headers), [prefix])
        assert event is not None
        assert event.subject == text
        if prefix == "ce-":
            assert all(0x20 < ord(each) < 0x7F for each in headers["ce-subject"])


@pytest.mark.parametrize(
    ("value", "decoded"),
    [
        ('"a \\"b\\" \\\\"', 'a "b" \\'),
        ("%e2%82%ac", "€"),
        ("100%", "100%"),
        ("%61", "a"),
        ('"', '"'),
        ('"a%20b"', "a b"),
    ],
)
def test_older_and_unnecessary_encodings_are_read(value: str, decoded: str) -> None:
    headers = {"ce-specversion": "1.0", "ce-id": "1", "ce-source": "/a", "ce-type": value}
    event = cloud_events.read(headers, ["ce-"])
    assert event is not None
    assert event.type == decoded


@pytest.mark.parametrize("where", ["attributes", "headers"])
@pytest.mark.parametrize(
    ("name", "value"),
    [("a", "1\r\nb: 2"), ("a", "\x00"), ("a", "\x7f"), ("a", "\x85"), ("a", "\ud800"), ("a\n", "")],
)
def test_a_control_character_is_refused_for_good(where: str, name: str, value: str) -> None:
    given = {"first": "fine", name: value}
    message = _message(given) if where == "attributes" else _message(WRITTEN, given)
    with pytest.raises(MessageRefused, match="control character") as refused:
        cloud_events.headers(message, "ce_")
    assert refused.value.for_good
    assert not value or value not in str(refused.value)


def test_text_of_other_scripts_is_no_control_character() -> None:
    headers = cloud_events.headers(_message(WRITTEN, {"city": "Zürich\u00a0\u2028 東京"}), "ce_")
    assert headers["city"] == "Zürich\u00a0\u2028 東京"


def test_a_header_of_the_events_own_is_not_an_attribute() -> None:
    own = {"CE-Id": "another", "ce-foo": "bar", "kept": "yes"}
    headers = cloud_events.headers(_message(WRITTEN, own), "ce-")
    assert headers == {**{f"ce-{name}": value for name, value in WRITTEN.items()}, "kept": "yes"}


@pytest.mark.parametrize(
    "change",
    [
        {"ce-specversion": "0.3"},
        {"ce-id": ""},
        {"ce-type": "%C0%A0"},
        {"ce-type": "%00"},
        {"ce-source": "\n"},
    ],
)
def test_an_event_that_breaks_the_specification_is_not_read(change: dict[str, str]) -> None:
    headers = {"ce-specversion": "1.0", "ce-id": "1", "ce-source": "/a", "ce-type": "t"}
    assert cloud_events.read(headers, ["ce-"]) is not None
    assert cloud_events.read({**headers, **change}, ["ce-"]) is None
    without = {name: value for name, value in headers.items() if name not in change}
    assert cloud_events.read(without, ["ce-"]) is None


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("2018-04-05T17:31:00Z", datetime(2018, 4, 5, 17, 31, tzinfo=UTC)),
        (
            "2018-04-05T17:31:00.123456789+02:00",
            datetime(2018, 4, 5, 15, 31, 0, 123456, tzinfo=UTC),
        ),
        ("2018-04-05T17:31:00", None),
        ("yesterday", None),
        ("0001-01-01T00:00:00+14:00", None),
    ],
)
def test_a_time_is_read_or_left_out(text: str, time: datetime | None) -> None:
    headers = {"ce_specversion": "1.0", "ce_id": "1", "ce_source": "/a", "ce_type": "t"}
    event = cloud_events.read({**headers, "ce_time": text}, ["ce_"])
    assert event is not None
    assert event.time == time


def test_the_content_type_is_the_attribute_or_the_header() -> None:
    headers = {"ce_specversion": "1.0", "ce_id": "1", "ce_source": "/a", "ce_type": "t"}
    headers["content-type"] = "application/xml"
    event = cloud_events.read(headers, ["ce_"])
    assert event is not None
    assert event.datacontenttype == "application/xml"
    event = cloud_events.read({**headers, "ce_datacontenttype": "text/plain"}, ["ce_"])
    assert event is not None
    assert event.datacontenttype == "text/plain"


def test_names_that_are_not_attributes_are_left_out() -> None:
    headers = {"ce_specversion": "1.0", "ce_id": "1", "ce_source": "/a", "ce_type": "t"}
    event = cloud_events.read({**headers, "ce_with-dash": "1", "ce_": "2", "ce_x1": "3"}, ["ce_"])
    assert event is not None
    assert event.extensions == {"x1": "3"}


@pytest.mark.parametrize(
    ("members", "body"),
    [
        (b'"data": {"a": 1.10, "b": 12345678901234567890123, "c": "\\u00e9"}',) * 2,
        (b'"data" :\t["}", {"data": 1}]', b'["}", {"data": 1}]'),
        (b'"data": "text"', b'"text"'),
        (b'"data": null', b"null"),
        (b'"x": null', b"null"),
        (b'"data_base64": "AQID", "datacontenttype": "application/octet-stream"', b"\x01\x02\x03"),
        (b'"data": "<a/>", "datacontenttype": "application/xml"', b"<a/>"),
        (b'"data": "a", "datacontenttype": "application/vnd.x+json; a=b"', b'"a"'),
        (b'"data": 1, "data": 2', b"2"),
    ],
)
def test_the_data_of_a_structured_event_is_as_in_binary_mode(members: bytes, body: bytes) -> None:
    document = b" {\n" + MINIMAL + b", " + members + b"\n} "
    found = cloud_events.read_structured(document, STRUCTURED)
    assert found is not None
    assert found[0].id == "1"
    assert found[1] == body.removeprefix(b'"data": ')


def test_attributes_of_a_structured_event_are_texts() -> None:
    document = b"{" + MINIMAL + b', "subject": null, "count": 5, "done": true, "odd": [1]}'
    found = cloud_events.read_structured(document, "application/CloudEvents+JSON")
    assert found is not None
    event, _ = found
    assert event.subject is None
    assert event.datacontenttype == "application/json"
    assert event.extensions == {"count": "5", "done": "true"}


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (b"{" + MINIMAL + b"}", "application/json"),
        (b"{" + MINIMAL + b"}", None),
        (b"{" + MINIMAL + b"}", "application/cloudevents-batch+json"),
        (b"[]", STRUCTURED),
        (b"{", STRUCTURED),
        (b"\xff", STRUCTURED),
        (b'{"specversion": "1.0", "id": "1", "source": "/a"}', STRUCTURED),
        (b'{"specversion": "1.0", "id": 1.5, "source": "/a", "type": "t"}', STRUCTURED),
        (b"{" + MINIMAL.replace(b"1.0", b"0.3") + b"}", STRUCTURED),
        (b"{" + MINIMAL + b', "data_base64": "!"}', STRUCTURED),
        (b"{" + MINIMAL + b', "data_base64": 1}', STRUCTURED),
    ],
)
def test_an_invalid_structured_event_is_not_read(body: bytes, content_type: str | None) -> None:
    assert cloud_events.read_structured(body, content_type) is None


@given(st.binary())
def test_a_body_of_any_content_raises_no_error(body: bytes) -> None:
    assert cloud_events.read_structured(body, STRUCTURED) is None
    cloud_events.read_structured(b"{" + MINIMAL + b', "data": ' + body + b"}", STRUCTURED)
