"""NATS JetStream: relays publish to its subjects, sources of messages consume its streams.

`publisher` and `consumer` are the two faces; `connection` is what both have, `protocol` how
messages look there, `jetstream` the requests to its API, `resumption` whether a stream can be gone
on with. Known limits: no JetStream domains, no accounts by NKEY or JWT; more than one subject of a
stream needs NATS 2.10.
"""

from inboxd.brokers.nats.opening import open_consumer
from inboxd.brokers.nats.publisher import open_publisher

__all__ = ["open_consumer", "open_publisher"]
