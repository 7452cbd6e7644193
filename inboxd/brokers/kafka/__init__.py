"""Kafka: relays publish to its topics, sources of messages consume from them.

`publisher` and `consumer` are the two faces, `looking` looks beside them; `access` is how a cluster
is reached, `cluster` the connections to its brokers. Promises that aiokafka logs nothing, whoever
has the logs: it tells payloads and passwords at "debug"; of errors, ours tell more, and without
tracebacks. Known limit: tried against librdkafka's mock of a cluster, which knows neither SASL nor
TLS, nor whether a batch is a repetition.
"""

import logging

from inboxd.brokers.kafka.consumer import open_consumer
from inboxd.brokers.kafka.looking import look_at_streams
from inboxd.brokers.kafka.publisher import open_publisher

__all__ = ["look_at_streams", "open_consumer", "open_publisher"]

logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
