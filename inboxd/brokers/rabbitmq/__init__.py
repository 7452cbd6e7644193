"""RabbitMQ: messages are published to exchanges, and consumed from one queue, or one stream.

`publisher`, and `consumer` or `stream`, implement `contract`; `looking` inspects without consuming.
`connection` is their base, and `servers` opens it; `amqp` writes messages as bytes, `incoming`
reads them.

aio-pika is not used: it cannot drop unsent data; it closes the connection at a message that it
cannot decode (for example a timestamp in nanoseconds), so one such message would block its queue
for good; and it needs several times as long per message. Only its dependency pamqp is used, which
has the methods of AMQP 0.9.1.
"""

from inboxd.brokers.rabbitmq.looking import look_at_streams
from inboxd.brokers.rabbitmq.opening import open_consumer
from inboxd.brokers.rabbitmq.publisher import open_publisher

__all__ = ["look_at_streams", "open_consumer", "open_publisher"]
