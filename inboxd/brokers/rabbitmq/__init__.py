"""RabbitMQ: messages are published to exchanges, and consumed from one queue, or one stream.

`publisher`, and `consumer` or `stream`, implement `contract`; `looking` inspects without consuming.
`connection` is their base, and `servers` opens it; `amqp` writes messages as bytes, `incoming`
reads them.

Why not aio-pika: it cannot be told to drop unsent data; it gives up a whole connection at a message
that it cannot decode (a timestamp in nanoseconds is enough), so one such message would block its
queue for good; and it costs several times as much per message. Of its dependencies, pamqp is used:
it knows the methods of AMQP 0.9.1.
"""

from inboxd.brokers.rabbitmq.looking import look_at_streams
from inboxd.brokers.rabbitmq.opening import open_consumer
from inboxd.brokers.rabbitmq.publisher import open_publisher

__all__ = ["look_at_streams", "open_consumer", "open_publisher"]
