"""NATS JetStream: relays publish to its subjects, sources of messages consume its streams.

`publisher` and `consumer` implement the contract, `looking` inspects streams without consuming;
`connection` is common to all three, `protocol` is the wire format of messages, `jetstream` has the
requests to its API, `resumption` decides whether the reading of a stream can continue. Known
limits: no JetStream domains, no accounts by NKEY or JWT; several subjects of one stream need NATS
2.10.
"""

from inboxd.brokers.nats.looking import look_at_streams
from inboxd.brokers.nats.opening import open_consumer
from inboxd.brokers.nats.publisher import open_publisher

__all__ = ["look_at_streams", "open_consumer", "open_publisher"]
