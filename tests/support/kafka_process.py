"""librdkafka's mock of a Kafka cluster, in a process of its own: it can be stopped and killed.

    python -I kafka_process.py BROKERS

It prints its servers, then answers each line of JSON (a command and its arguments) with a line of
JSON: the value that the command returned. It ends with its standard input. The names of commands
are those of `rdkafka_mock.h`, looked up in the library that `confluent-kafka` ships.
"""

import ctypes
import json
import re
import sys
from collections.abc import Callable
from importlib.metadata import files
from typing import Any

_Pointer, _Text, _Int, _Long, _Size = (
    ctypes.c_void_p,
    ctypes.c_char_p,
    ctypes.c_int,
    ctypes.c_int64,
    ctypes.c_size_t,
)
# The parameters after the cluster. "..." stands for a list of errors.
_COMMANDS: dict[str, list[Any]] = {
    "topic_create": [_Text, _Int, _Int],
    "topic_delete": [_Text],
    "topic_set_error": [_Text, _Int],
    "partition_set_leader": [_Text, _Int, _Int],
    "partition_delete_records": [_Text, _Int, _Long],
    "partition_push_request_errors": [_Text, _Int, _Int, ...],
    "push_request_errors": [_Int, ...],
    "broker_push_request_error_rtts": [_Int, _Int, ...],
    "clear_request_errors": [_Int],
    "broker_set_down": [_Int],
    "broker_set_up": [_Int],
    "broker_set_rtt": [_Int, _Int],
    "broker_set_host_port": [_Int, _Text, _Int],
    "coordinator_set": [_Text, _Text, _Int],
    "set_apiversion": [_Int, _Int, _Int],
}


_RETURN_NOTHING = (
    "topic_set_error",
    "push_request_errors",
    "clear_request_errors",
    "broker_set_host_port",
)


def load() -> ctypes.CDLL:
    """Load the library of the wheel."""
    of_wheel = files("confluent-kafka") or ()
    found = [file for file in of_wheel if re.match(r"librdkafka.*\.(so|dylib|dll)", file.name)]
    if len(found) != 1:
        sys.exit("confluent-kafka is not installed as a wheel, with librdkafka in it.")
    return ctypes.CDLL(str(found[0].locate()))


class KafkaCluster:
    """A cluster; its brokers are numbered from 1."""

    def __init__(self, library: ctypes.CDLL, brokers: int) -> None:
        self._library = library
        make = self._function("rd_kafka_new", [_Int, _Pointer, _Text, _Size], _Pointer)
        new = self._function("rd_kafka_mock_cluster_new", [_Pointer, _Int], _Pointer)
        configuration = self._function("rd_kafka_conf_new", [], _Pointer)()
        configure = self._function(
            "rd_kafka_conf_set", [_Pointer, _Text, _Text, _Text, _Size], _Int
        )
        problem = ctypes.create_string_buffer(512)
        # Without this the client logs that no servers are configured.
        configure(configuration, b"log_level", b"0", problem, len(problem))
        self._cluster = new(make(0, configuration, problem, len(problem)), brokers)
        # A group waits for more members, as in real brokers, but for a shorter time.
        delay = self._function(
            "rd_kafka_mock_group_initial_rebalance_delay_ms", [_Pointer, _Int], None
        )
        delay(self._cluster, 100)

    def servers(self) -> str:
        """The addresses of all brokers."""
        found = self._function("rd_kafka_mock_cluster_bootstraps", [_Pointer], _Text)
        text: bytes = found(self._cluster)
        return text.decode()

    def run(self, name: str, arguments: list[Any]) -> int:
        """Call the function of a command."""
        types = [kind for kind in _COMMANDS[name] if kind is not ...]
        values = [each.encode() if isinstance(each, str) else each for each in arguments]
        if ... in _COMMANDS[name]:
            # The function needs the number of errors; for "rtts" an error is a pair.
            rest = values[len(types) :]
            each = 2 if name.endswith("rtts") else 1
            values = [*values[: len(types)], len(rest) // each, *(_Int(int(one)) for one in rest)]
            types = [*types, _Size]
        returns = None if name in _RETURN_NOTHING else _Int
        call = self._function(f"rd_kafka_mock_{name}", [_Pointer, *types], returns)
        return int(call(self._cluster, *values) or 0)

    def _function(self, name: str, parameters: list[Any], returns: Any) -> Callable[..., Any]:
        found = self._library[name]
        found.argtypes, found.restype = parameters, returns
        return found


def main() -> None:
    cluster = KafkaCluster(load(), int(sys.argv[1]))
    say(cluster.servers())
    for line in sys.stdin:
        name, *arguments = json.loads(line)
        say(cluster.run(name, arguments))


def say(what: Any) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
