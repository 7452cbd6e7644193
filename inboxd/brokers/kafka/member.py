"""aiokafka's consumer as a member of a group; it ends in seconds, whatever the brokers do.

Limits of memory: one fetch per partition, all together at most `page_bytes`, and at most `prefetch`
times 256 bytes, but at least 64 KiB per partition. Known limits: there may be more than `prefetch`
tiny messages; compressed messages need more bytes after unpacking; a batch that is larger than a
fetch arrives as a whole.
"""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from aiokafka import AIOKafkaConsumer
from aiokafka.structs import OffsetAndMetadata, TopicPartition

from inboxd.brokers.kafka.access import Access
from inboxd.brokers.kafka.cluster import abort
from inboxd.settings import MessageSource

# The size that `prefetch` assumes: Kafka limits bytes, not messages.
_SMALL_MESSAGE_BYTES = 256
_LEAST_BYTES_OF_A_PARTITION = 64 * 1024
# Time in which added partitions of a Kafka topic may stay unnoticed.
_METADATA_AGE_MS = 60_000
# Brokers remove a member after the session timeout; by default they allow 6 s or more.
_SESSION_MS, _HEARTBEAT_MS = 10_000, 3_000
LEAVE_SECONDS = 1.0


def member(access: Access, settings: MessageSource, partitions: int) -> AIOKafkaConsumer:
    """A consumer that has not joined yet; partitions: the number of all its Kafka topics."""
    held = max(
        _LEAST_BYTES_OF_A_PARTITION,
        min(settings.page_bytes, settings.prefetch * _SMALL_MESSAGE_BYTES),
    )
    return AIOKafkaConsumer(
        bootstrap_servers=[*access.servers],
        group_id=settings.kafka_group,
        enable_auto_commit=False,
        auto_offset_reset="none",
        isolation_level="read_committed",
        fetch_max_bytes=held,
        max_partition_fetch_bytes=max(_LEAST_BYTES_OF_A_PARTITION, held // partitions),
        metadata_max_age_ms=_METADATA_AGE_MS,
        session_timeout_ms=_SESSION_MS,
        heartbeat_interval_ms=_HEARTBEAT_MS,
        **access.arguments,
    )


async def commit(consumer: Any, offsets: Mapping[TopicPartition, int]) -> None:
    """Send offsets to the group once; aiokafka's `commit` retries forever. Raises KafkaError."""
    found = {partition: OffsetAndMetadata(offset, "") for partition, offset in offsets.items()}
    await consumer._coordinator._do_commit_offsets(None, found)


async def ended(consumer: AIOKafkaConsumer) -> None:
    """Leave the group; if its brokers do not answer, only end tasks and connections."""
    stopping = asyncio.create_task(consumer.stop())
    await asyncio.wait([stopping], timeout=LEAVE_SECONDS)
    # `stop` waits for tasks that it has cancelled, and may end as cancelled.
    if not stopping.done() or stopping.cancelled() or stopping.exception() is not None:
        await _torn_down(consumer, stopping)


async def _torn_down(consumer: Any, stopping: asyncio.Task[None]) -> None:
    """End tasks and connections one by one: aiokafka's own way always asks a broker."""
    client, coordinator, fetcher = consumer._client, consumer._coordinator, consumer._fetcher
    tasks = {stopping, client._sync_task}
    if coordinator is not None:
        tasks |= {
            coordinator._coordination_task,
            coordinator._heartbeat_task,
            coordinator._commit_refresh_task,
        }
    if fetcher is not None:
        tasks |= {fetcher._fetch_task, *fetcher._pending_tasks}
    tasks.discard(None)
    for task in tasks:
        task.cancel()
    for connection in client._conns.values():
        abort(connection)
    done, _ = await asyncio.wait(tasks, timeout=LEAVE_SECONDS)
    for task in done:
        with suppress(asyncio.CancelledError):
            task.exception()
