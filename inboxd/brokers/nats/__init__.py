"""NATS JetStream: relays publish to its subjects, sources of messages consume its streams.

`publisher` and `consumer` are the two faces, `looking` looks beside them; `connection` is what all
have, `protocol` how messages look there, `jetstream` the requests to its API, `resumption` whether
a stream can be gone on with. Known limits: no JetStream domains, no accounts by NKEY or JWT; more
than one subject of a stream needs NATS 2.10.
"""

from inboxd.brokers.nats.looking import look_at_streams
from inboxd.brokers.nats.opening import open_consumer
from inboxd.brokers.nats.publisher import open_publisher

__all__ = ["look_at_streams", "open_consumer", "open_publisher"]
