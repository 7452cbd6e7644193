"""Opens the queue or the stream of a source."""

from inboxd.brokers.contract import Consumer, Stored
from inboxd.brokers.rabbitmq import consumer, stream
from inboxd.settings import Broker, MessageSource


async def open_consumer(
    name: str, broker: Broker, source: str, settings: MessageSource, stored: Stored
) -> Consumer:
    """Connect, and consume. Raises BrokerUnavailable or StreamLost."""
    opens = consumer.open_consumer if settings.rabbitmq_stream is None else stream.open_consumer
    return await opens(name, broker, source, settings, stored)
