"""Libraries of brokers are imported only if the settings name a broker of their kind."""

import json
import subprocess
import sys

import pytest

_PROGRAM = """
import json, sys
import inboxd.daemon.message_sources, inboxd.daemon.hosted_worker
from inboxd.registry.plugins import build_registry, configured
from inboxd.settings import Settings
configured(build_registry([]), Settings.model_validate(json.loads(sys.argv[1])))
print(*sorted({"aiokafka", "nats", "pamqp"} & sys.modules.keys()))
"""


@pytest.mark.parametrize(
    ("kind", "stream", "imported"),
    [
        ("", {}, ""),
        ("kafka", {"kafka_topics": ["a"]}, "aiokafka"),
        ("nats", {"nats_stream": "A"}, "nats"),
        ("rabbitmq", {"rabbitmq_queue": "a"}, "pamqp"),
    ],
)
def test_only_the_library_of_a_named_kind_is_imported(
    kind: str, stream: dict[str, object], imported: str
) -> None:
    settings = {
        "brokers": {"main": {"kind": kind, "servers": ["127.0.0.1:1"]}},
        "relays": {"out": {"broker": "main", "types": ["a"]}},
        "inbound": {"messages": {"in": {"broker": "main", "type": "b", **stream}}},
    }
    given = json.dumps(settings if kind else {})
    ran = subprocess.run(
        [sys.executable, "-c", _PROGRAM, given], capture_output=True, text=True, check=True
    )
    assert ran.stdout.split() == imported.split()
