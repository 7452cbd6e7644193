"""A Kafka cluster of a test's own: librdkafka's mock, which speaks the protocol on loopback.

    with mock_kafka() as kafka:
        topic = kafka.topic(partitions=2)
        kafka.answer(PRODUCE, NOT_LEADER)  # the next PRODUCE request fails

The mock has no SASL and no TLS. It keeps at most 5 MB and 100,000 messages per partition, and
deletes the oldest. A fetch without data is answered only at its timeout, though messages arrive
meanwhile. Repeated batches are not detected. A client that asks for an unknown topic creates it,
unless `missing` says otherwise.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from aiokafka.conn import create_conn
from aiokafka.protocol.fetch import FetchRequest
from aiokafka.protocol.metadata import MetadataRequest
from aiokafka.protocol.offset import OffsetRequest
from aiokafka.record.memory_records import MemoryRecords

from inboxd.settings import Broker
from tests.support.waiting import patient

# Error codes of Kafka.
OFFSET_OUT_OF_RANGE, UNKNOWN_TOPIC, NOT_LEADER, TIMED_OUT, TOO_LARGE = 1, 3, 6, 7, 10
LEADER_NOT_AVAILABLE, INVALID_TOPIC, REBALANCING, NOT_ALLOWED = 5, 17, 27, 29
OUT_OF_ORDER, INVALID_RECORD = 45, 87
# The mock's own code: it closes the connection instead of answering.
CUT = -195

# Keys of requests.
PRODUCE, FETCH, LIST_OFFSETS, METADATA, OFFSET_COMMIT, OFFSET_FETCH = 0, 1, 2, 3, 8, 9
COORDINATOR, JOIN, HEARTBEAT, PRODUCER_ID = 10, 11, 12, 22
_FAULTY = (
    PRODUCE,
    FETCH,
    LIST_OFFSETS,
    METADATA,
    OFFSET_COMMIT,
    OFFSET_FETCH,
    COORDINATOR,
    JOIN,
    HEARTBEAT,
    PRODUCER_ID,
)
_PROCESS = Path(__file__).with_name("kafka_process.py")
_ALL = -1


@dataclass(frozen=True, slots=True)
class Record:
    """A record of a partition, and the batch that it came in."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: dict[str, bytes | None]
    producer: int
    sequence: int
    """Of its batch."""


class MockKafka:
    """A running cluster; its brokers are numbered from 1."""

    def __init__(self, process: "subprocess.Popen[str]", brokers: int) -> None:
        self._process = process
        self._names = count()
        self.brokers = range(1, brokers + 1)
        self.servers = tuple(str(self._heard()).split(","))

    def broker(self, **settings: Any) -> Broker:
        return Broker.model_validate(
            {"kind": "kafka", "servers": self.servers, "connect_timeout": "2s", **settings}
        )

    def topic(self, partitions: int = 4) -> str:
        """Create a topic with a new name."""
        name = f"topic-{next(self._names)}"
        self.create(name, partitions)
        return name

    def create(self, topic: str, partitions: int) -> None:
        """Create a topic with this name."""
        self._run("topic_create", topic, partitions, 1)

    def delete(self, topic: str) -> None:
        """Delete a topic and its messages; a client that asks for it creates it again."""
        self._run("topic_delete", topic)

    def missing(self, topic: str, error: int = UNKNOWN_TOPIC) -> None:
        """Report the topic as missing, or with another error; 0: it exists."""
        self._run("topic_set_error", topic, error)

    def lead(self, topic: str, partition: int, broker: int) -> None:
        """Give a partition another leader; -1: none."""
        self._run("partition_set_leader", topic, partition, broker)

    def forget(self, topic: str, partition: int, before: int) -> None:
        """Delete the messages before this offset, as retention does."""
        self._run("partition_delete_records", topic, partition, before)

    def answer(self, request: int, *errors: int) -> None:
        """Answer the next requests of a kind with these errors, one each."""
        self._run("push_request_errors", request, *errors)

    def answer_partition(self, topic: str, partition: int, request: int, *errors: int) -> None:
        """Answer the next requests of a kind with these errors for this partition."""
        self._run("partition_push_request_errors", topic, partition, request, *errors)

    def delay(self, broker: int, request: int, milliseconds: int) -> None:
        """Answer the next request of a kind with this delay; it is executed."""
        self._run("broker_push_request_error_rtts", broker, request, 0, milliseconds)

    def slow(self, milliseconds: int) -> None:
        """Answer everything with this delay."""
        self._run("broker_set_rtt", _ALL, milliseconds)

    def down(self, broker: int = _ALL) -> None:
        """Close connections, and refuse new ones."""
        self._run("broker_set_down", broker)

    def up(self, broker: int = _ALL) -> None:
        self._run("broker_set_up", broker)

    def coordinate(self, group: str, broker: int) -> None:
        """Make this broker the coordinator of a group."""
        self._run("coordinator_set", "group", group, broker)

    def advertise(self, broker: int, host: str, port: int) -> None:
        """Tell clients another address of a broker."""
        self._run("broker_set_host_port", broker, host, port)

    def speak(self, request: int, newest: int) -> None:
        """Support no version of a request above this one."""
        self._run("set_apiversion", request, 0, newest)

    @contextmanager
    def hanging(self) -> Iterator[None]:
        """Stop the process during the block: its kernel still accepts what its buffers hold."""
        self._process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self._process.pid, os.WSTOPPED | os.WNOWAIT)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    def heal(self) -> None:
        """End all faults, except those of topics."""
        self.up()
        self.slow(0)
        for request in _FAULTY:
            self._run("clear_request_errors", request)

    async def records(self, topic: str) -> list[Record]:
        """All records of a topic, by partition and offset."""
        connection = await self._connected(self.servers[0])
        metadata = await connection.send(MetadataRequest([topic]))
        connection.close()
        places = {node: f"{host}:{port}" for node, host, port, _ in metadata.brokers}
        found: list[Record] = []
        for _, partition, leader, *_ in sorted(metadata.topics[0][-1], key=lambda each: each[1]):
            connection = await self._connected(places[leader])
            found += await _read(connection, topic, partition)
            connection.close()
        return found

    def _run(self, *command: str | int) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()
        assert (code := self._heard()) == 0, (command, code)

    def _heard(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the mock of Kafka ended"
        return json.loads(line)

    async def _connected(self, server: str) -> Any:
        host, port = server.rsplit(":", 1)
        return await create_conn(host, int(port))


async def _read(connection: Any, topic: str, partition: int) -> list[Record]:
    found: list[Record] = []
    offset = await _offset(connection, topic, partition, -2)
    end = await _offset(connection, topic, partition, -1)
    while offset < end:
        request = FetchRequest(1, 1, 2**24, 0, [(topic, [(partition, offset, 2**24)])])
        answer = await connection.send(request)
        records = MemoryRecords(answer.topics[0][1][0][-1])
        while records.has_next():
            batch = records.next_batch()
            assert batch.validate_crc()
            found += [
                Record(
                    topic,
                    partition,
                    record.offset,
                    record.key,
                    record.value,
                    dict(record.headers),
                    batch.producer_id,
                    batch.base_sequence,
                )
                for record in batch
            ]
            offset = batch.next_offset
    return found


async def _offset(connection: Any, topic: str, partition: int, of: int) -> int:
    answer = await connection.send(OffsetRequest(-1, 0, [(topic, [(partition, of)])]))
    offset: int = answer.topics[0][1][0][-1]
    return offset


@contextmanager
def mock_kafka(brokers: int = 3) -> Iterator[MockKafka]:
    process = subprocess.Popen(
        [sys.executable, "-I", str(_PROCESS), str(brokers)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield MockKafka(process, brokers)
    finally:
        process.kill()
        for end in (process.stdin, process.stdout):
            if end is not None:
                with suppress(OSError):
                    end.close()
        process.wait(patient())
