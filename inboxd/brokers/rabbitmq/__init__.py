"""RabbitMQ: messages are published to exchanges, and consumed from one queue, or one stream.

Only pamqp is used, and not aio-pika: that cannot drop unsent data; it closes the connection at a
message that it cannot decode, so one such message would block its queue for good; and it needs
several times as long per message.
"""

from inboxd.brokers.rabbitmq.looking import look_at_streams
from inboxd.brokers.rabbitmq.opening import open_consumer
from inboxd.brokers.rabbitmq.publisher import open_publisher

__all__ = ["look_at_streams", "open_consumer", "open_publisher"]
