"""Kafka: relays publish to its topics, sources of messages consume from them.

aiokafka logs nothing at any log level: at "debug" it logs payloads and passwords. Known limit:
tested against librdkafka's mock of a cluster, which does not recognise a repeated batch; its SASL
and TLS are a proxy of the tests.
"""

import logging

from inboxd.brokers.kafka.consumer import open_consumer
from inboxd.brokers.kafka.looking import look_at_streams
from inboxd.brokers.kafka.publisher import open_publisher

__all__ = ["look_at_streams", "open_consumer", "open_publisher"]

logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
