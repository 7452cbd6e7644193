"""RabbitMQ: messages are published to exchanges, and consumed from one queue, or one stream.

`publisher` and `consumer`, or `stream`, are the two faces of `contract`, `looking` looks beside
them;
`connection` is what all stand on, and `servers` opens it; `amqp` and `incoming` turn messages into
bytes, and back.

Why not aio-pika: it cannot be told to drop what it has not sent; it gives a whole connection up at
a message that it cannot decode (a timestamp in nanoseconds is enough), so one such message would
hold its queue for good; and it costs several times as much a message. Of what it stands on, pamqp
is kept: it knows the methods of AMQP 0.9.1.
"""

from inboxd.brokers.rabbitmq.looking import look_at_streams
from inboxd.brokers.rabbitmq.opening import open_consumer
from inboxd.brokers.rabbitmq.publisher import open_publisher

__all__ = ["look_at_streams", "open_consumer", "open_publisher"]
