"""Our bytes of AMQP are equal to those of pamqp, which decodes them here."""

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pamqp import commands, frame
from pamqp.body import ContentBody
from pamqp.header import ContentHeader

from inboxd.brokers.contract import OutgoingMessage
from inboxd.brokers.rabbitmq import amqp

_FRAME_MAX = 4096


def _read(raw: bytes) -> list[object]:
    found: list[object] = []
    while raw:
        size, channel, read = frame.unmarshal(raw)
        assert channel == amqp.CHANNEL
        found.append(read)
        raw = raw[size:]
    return found


@given(
    body=st.binary(max_size=3 * _FRAME_MAX),
    to=st.text("abcä.#", max_size=100),
    headers=st.dictionaries(st.text("abcä-", max_size=60), st.text("abcä \U0001f600", max_size=30)),
    kind=st.text("ab.", max_size=300),
)
def test_the_bytes_of_a_message(body: bytes, to: str, headers: dict[str, str], kind: str) -> None:
    message = OutgoingMessage(
        to=to,
        key=None,
        id="id",
        body=body,
        exchange="x",
        headers=headers,
        attributes={"type": kind},
    )
    publish, header, *bodies = _read(amqp.published(message, amqp.stamp(1_700_000_000.9), 65_536))
    assert isinstance(publish, commands.Basic.Publish)
    assert (publish.exchange, publish.routing_key) == ("x", to)
    assert publish.mandatory
    assert not publish.immediate
    assert isinstance(header, ContentHeader)
    assert header.body_size == len(body)
    properties = header.properties
    assert properties.headers == {**headers, "cloudEvents:type": kind}
    assert properties.delivery_mode == 2
    assert properties.message_id == "id"
    assert properties.timestamp == dt.datetime.fromtimestamp(1_700_000_000, dt.UTC)
    assert properties.message_type == (kind if 0 < len(kind) < 256 else None)
    assert b"".join(each.value for each in bodies if isinstance(each, ContentBody)) == body


@pytest.mark.parametrize("size", [0, 1, _FRAME_MAX - 8, _FRAME_MAX - 7, 3 * _FRAME_MAX])
def test_no_amqp_frame_is_larger_than_agreed(size: int) -> None:
    message = OutgoingMessage(to="q", key=None, id="id", body=b"x" * size)
    _, _, *bodies = _read(amqp.published(message, amqp.stamp(0), _FRAME_MAX))
    sizes = [len(each.value) for each in bodies if isinstance(each, ContentBody)]
    assert sum(sizes) == size
    assert max(sizes, default=0) <= _FRAME_MAX - 8
    assert 0 not in sizes


@pytest.mark.parametrize("exclusive", [False, True])
def test_the_bytes_of_methods(exclusive: bool) -> None:
    (consume,) = _read(amqp.consumed("Ä!", "tag", exclusive=exclusive))
    assert isinstance(consume, commands.Basic.Consume)
    assert (consume.queue, consume.consumer_tag) == ("Ä!", "tag")
    assert consume.exclusive is exclusive
    assert not consume.no_ack
    (declare,) = _read(amqp.declared_passively("Ä!"))
    assert isinstance(declare, commands.Queue.Declare)
    assert declare.queue == "Ä!"
    assert declare.passive
    assert not declare.durable
    (ack,) = _read(amqp.acknowledged(5, multiple=exclusive))
    assert isinstance(ack, commands.Basic.Ack)
    assert (ack.delivery_tag, ack.multiple) == (5, exclusive)


@pytest.mark.parametrize("offset", [0, 2**40, "first", "last"])
def test_a_stream_is_consumed_from_an_offset_on(offset: int | str) -> None:
    (consume,) = _read(amqp.consumed("s", "tag", offset=offset))
    assert isinstance(consume, commands.Basic.Consume)
    assert (consume.queue, consume.exclusive) == ("s", False)
    assert consume.arguments == {"x-stream-offset": offset}
