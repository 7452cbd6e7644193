"""Record batches: the partition of a key, and what a batch holds."""

import struct

import pytest
from aiokafka.partitioner import murmur2 as of_aiokafka
from aiokafka.record.memory_records import MemoryRecords
from aiokafka.structs import TopicPartition
from hypothesis import given
from hypothesis import strategies as st

from inboxd.brokers.contract import OutgoingMessage
from inboxd.brokers.kafka.batches import MOST_BYTES, batched, halves, murmur2


def outgoing(body: bytes, key: str | None = "k") -> OutgoingMessage:
    return OutgoingMessage(to="topic", key=key, id="1", body=body)


@given(st.binary(max_size=40))
def test_the_hash_of_a_key_is_that_of_other_clients(key: bytes) -> None:
    assert murmur2(key) == of_aiokafka(key)


def test_a_batch_is_within_the_bytes_that_its_topic_takes() -> None:
    messages = [outgoing(b"x" * 100_000) for _ in range(7)]
    told = list[int]()
    lines = batched(messages, {"topic": [1]}, {}, 0, lambda place, _: told.append(place))
    (line,) = lines.values()
    assert [batch.places for batch in line] == [[0, 1, 2, 3, 4], [5, 6]]
    assert all(len(batch.numbered((1, 0), 0)) <= MOST_BYTES for batch in line)
    lines = batched(messages, {"topic": [1]}, {"topic": 250_000}, 0, lambda *_: None)
    assert [batch.places for batch in lines[TopicPartition("topic", 0)]] == [
        [0, 1],
        [2, 3],
        [4, 5],
        [6],
    ]
    assert told == []


def test_a_repeated_batch_has_the_same_bytes() -> None:
    lines = batched([outgoing(b"a"), outgoing(b"b")], {"topic": [1]}, {}, 0, lambda *_: None)
    batch = lines[TopicPartition("topic", 0)][0]
    sent = bytes(batch.numbered((7, 1), 40))
    assert bytes(batch.numbered((8, 2), 99)) == sent
    found = MemoryRecords(sent).next_batch()
    assert (found.producer_id, found.producer_epoch, found.base_sequence) == (7, 1, 40)
    (attributes,) = struct.unpack(">h", sent[21:23])
    assert attributes == 0  # neither compressed nor of a transaction


def test_halves_have_all_messages_of_the_batch() -> None:
    messages = [outgoing(bytes([letter]), key) for letter in b"abc" for key in ("k", None)]
    lines = batched(messages, {"topic": [1]}, {}, 0, lambda *_: None)
    batch = lines[TopicPartition("topic", 0)][0]
    whole = [*MemoryRecords(bytes(batch.numbered((1, 0), 0))).next_batch()]
    found = []
    for half in halves(batch, messages):
        found += [*MemoryRecords(bytes(half.numbered((1, 0), 0))).next_batch()]
    assert [(each.key, each.value, each.headers) for each in found] == [
        (each.key, each.value, each.headers) for each in whole
    ]


@pytest.mark.parametrize("turn", range(4))
def test_messages_without_a_key_take_turns(turn: int) -> None:
    lines = batched([outgoing(b"a", None)] * 2, {"topic": [1, 1, 1]}, {}, turn, lambda *_: None)
    assert [*lines] == [TopicPartition("topic", turn % 3)]
