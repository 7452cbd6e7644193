"""NATS JetStream: relays publish to its subjects, sources of messages consume its streams.

Known limits: no JetStream domains, no accounts by NKEY or JWT; several subjects need NATS 2.10.
"""

from inboxd.brokers.nats.looking import look_at_streams
from inboxd.brokers.nats.opening import open_consumer
from inboxd.brokers.nats.publisher import open_publisher

__all__ = ["look_at_streams", "open_consumer", "open_publisher"]
