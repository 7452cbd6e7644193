"""The wire format of NATS messages; also of what no test server sends."""

import pytest

from inboxd.brokers.contract import OutgoingMessage
from inboxd.brokers.nats.protocol import (
    Delivered,
    delivered,
    headers_of,
    is_meant,
    publication,
    status_of,
)
from inboxd.errors import MessageRefused


def test_a_message_is_a_line_its_headers_and_its_body() -> None:
    message = OutgoingMessage(to="a.b", key=None, id="1", body=b"x\r\ny", attributes={"id": "ä"})
    head = (
        b"NATS/1.0\r\nNats-Msg-Id: 1@a.b\r\ncontent-type: application/json\r\nce-id: %C3%A4\r\n\r\n"
    )
    line = b"HPUB a.b reply %d %d\r\n" % (len(head), len(head) + 4)
    assert publication(message, "reply", 1000) == line + head + b"x\r\ny\r\n"


def test_headers_count_in_the_servers_limit() -> None:
    message = OutgoingMessage(to="a", key=None, id="1", body=b"x" * 100)
    size = len(publication(message, "r", 1000)) - len(b"HPUB a r 62 162\r\n\r\n")
    assert publication(message, "r", size)
    with pytest.raises(MessageRefused, match=f"{size} bytes with its headers"):
        publication(message, "r", size - 1)


@pytest.mark.parametrize(
    "reply",
    [
        b"$JS.ACK.STREAM.inboxd-a.2.17.9.1700000000123456789.4",
        b"$JS.ACK.domain.account.STREAM.inboxd-a.2.17.9.1700000000123456789.4",
        b"$JS.ACK._.account.STREAM.inboxd-a.2.17.9.1700000000123456789.4.random",
    ],
)
def test_the_subject_of_an_acknowledgement_has_the_position(reply: bytes) -> None:
    assert delivered(reply) == Delivered(17, 9, 1700000000123456789)


@pytest.mark.parametrize(
    ("block", "code", "words"),
    [
        (b"NATS/1.0 503\r\n\r\n", 503, ""),
        (b"NATS/1.0 409 Consumer Deleted\r\n\r\n", 409, "Consumer Deleted"),
        (b"NATS/1.0 100 Idle Heartbeat\r\nNats-Last-Stream: 7\r\n\r\n", 100, "Idle Heartbeat"),
        (b"NATS/1.0\r\nA: 503\r\n\r\n", 0, ""),
        (None, 0, ""),
    ],
)
def test_the_status_of_a_server_is_read(block: bytes | None, code: int, words: str) -> None:
    assert status_of(block) == (code, words)


def test_headers_of_any_form_are_read() -> None:
    block = b"NATS/1.0 100 Idle\r\nA:b: c \r\nEmpty:\r\nno colon\r\nA: later\r\nL: \xe4\r\n\r\n"
    assert headers_of(block) == {"a": "later", "empty": "", "l": "ä"}
    assert headers_of(None) == {}


@pytest.mark.parametrize(
    ("pattern", "subjects"),
    [
        ("a.b", ["a.b"]),
        ("a.*", ["a.b", "a.c"]),
        ("*.b", ["a.b"]),
        ("a.>", ["a.b", "a.c", "a.b.c"]),
        (">", ["a", "a.b", "a.c", "a.b.c"]),
        ("a.*.c", ["a.b.c"]),
    ],
)
def test_a_pattern_matches_subjects(pattern: str, subjects: list[str]) -> None:
    found = [each for each in ("a", "a.b", "a.c", "a.b.c") if is_meant(each, pattern)]
    assert found == subjects
