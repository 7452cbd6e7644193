"""`inboxd check` on brokers: which can be reached, and the reasons of failures."""

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from inboxd.features.doctor import check_brokers
from tests.cli.conftest import Cli
from tests.support import kafka as mock
from tests.support.kafka import mock_kafka
from tests.support.plugins import install
from tests.support.ports import held_port

# A publisher whose `options` decide how opening it ends.
PUBLISHER = """
import asyncio
from inboxd import BrokerUnavailable

class Pigeon:
    async def publish(self, messages, tell):
        raise AssertionError("check publishes nothing")

    async def close(self):
        pass

async def open_publisher(name, broker):
    match broker.options.get("becomes"):
        case "lost":
            raise BrokerUnavailable(f"{name}: the loft is empty; {broker.secret()} was no use")
        case "failed":
            raise ValueError(f"odd {broker.secret()}")
        case "hanging":
            await asyncio.Event().wait()
    return Pigeon()
"""
POINTS = "[inboxd.publishers]\npigeon = pigeon:open_publisher\nbroken = pigeon:missing\n"
RELAY = '[relays.results]\nbroker = "main"\ntypes = ["test.count"]\n'
OWN = '[brokers.main]\nkind = "pigeon"\npassword = "hunter2"\n'
SHOP = '[inbound.messages.shop]\nbroker = "main"\nrabbitmq_queue = "shop"\n'
Check = Callable[[str], list[dict[str, Any]]]


@pytest.fixture
def check(run_cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Check]:
    """Check settings without a database; returns the lines of brokers, relays and sources."""
    monkeypatch.setenv("INBOXD_DATABASE__DSN", "postgresql://127.0.0.1:1/none")
    monkeypatch.setenv("INBOXD_WORKER__PLUGINS", "testplugin")
    monkeypatch.setattr(check_brokers, "_GRACE_SECONDS", 0.25)
    monkeypatch.syspath_prepend(install(tmp_path / "site", "pigeon", PUBLISHER, points=POINTS))

    def run(text: str) -> list[dict[str, Any]]:
        settings = tmp_path / "inboxd.toml"
        settings.write_text(text)
        result = run_cli("check", "-c", settings, "--json")
        assert "hunter2" not in result.out + result.err
        assert "Traceback" not in result.err
        told = re.compile(r"broker: |settings \[(relays|inbound\.messages)\.")
        checks: list[dict[str, Any]] = result.json["checks"]
        return [each for each in checks if told.match(f"{each['subject']} {each['found']}")]

    yield run
    sys.modules.pop("pigeon", None)


def test_settings_without_brokers_give_no_line(check: Check) -> None:
    assert check("") == []


def test_reachable_broker_is_ok(check: Check) -> None:
    (line,) = check(OWN + RELAY)
    assert line["subject"] == "broker: main"
    assert (line["verdict"], line["found"]) == ("ok", "pigeon: a connection was opened")


def test_unused_broker_is_not_connected_to(check: Check) -> None:
    (line,) = check(f'{OWN}options = {{ becomes = "failed" }}\n')
    assert line["verdict"] == "warn"
    assert line["found"] == "no relay and no source of messages uses it"


@pytest.mark.parametrize(
    ("lines", "told", "remedy"),
    [
        ('options = { becomes = "lost" }', "main: the loft is empty; … was no use", "start the br"),
        ('options = { becomes = "failed" }', "ValueError: odd …", "or correct [brokers.main]"),
        (
            'options = { becomes = "hanging" }\nconnect_timeout = "250ms"',
            "no answer within 0.5 s",
            "start the broker",
        ),
    ],
)
def test_unreachable_broker_fails(check: Check, lines: str, told: str, remedy: str) -> None:
    (line,) = check(f"{OWN}{lines}\n{RELAY}")
    assert line["verdict"] == "fail"
    assert told in line["found"]
    assert remedy in line["remedy"]


def test_unreachable_builtin_broker_has_one_remedy(check: Check) -> None:
    with held_port() as held:  # no process listens there
        server = f"localhost:{held.getsockname()[1]}"
        (line,) = check(f'[brokers.main]\nkind = "rabbitmq"\nservers = ["{server}"]\n{SHOP}')
    assert line["found"] == (
        f"broker 'main' at {server} cannot be reached (Connection refused): start it, or correct "
        "servers of [brokers.main]."
    )
    assert line["remedy"] == (
        "correct this error: until then workers neither publish to it nor consume from it"
    )


def test_invalid_broker_is_not_connected_to(check: Check) -> None:
    assert check(f'[brokers.main]\nkind = "rabbitmq"\nservers = ["127.0.0.1"]\n{SHOP}') == []


def test_unreadable_password_file_is_named(check: Check) -> None:
    own = OWN.replace('password = "hunter2"', 'password_file = "/nowhere/at/all"')
    (line,) = check(f'{own}options = {{ becomes = "failed" }}\n{RELAY}')
    assert line["verdict"] == "fail"
    assert "/nowhere/at/all: cannot read the secret (No such file or directory)" in line["found"]
    assert line["remedy"] == (
        "correct it: until then workers neither publish to it nor consume from it"
    )


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ("pidgin", "'pidgin' is not a kind of broker; known: broken, kafka, "),
        ("broken", "pigeon 1.0, entry point broken = pigeon:missing: import failed: Attr"),
    ],
)
def test_unknown_kind_of_broker_fails(check: Check, kind: str, told: str) -> None:
    (line,) = check(f'[brokers.main]\nkind = "{kind}"\n{RELAY}')
    assert line["verdict"] == "fail"
    assert told in line["found"]
    assert line["remedy"]


def test_broker_of_sources_alone_needs_no_right_to_publish(check: Check, one_kafka: None) -> None:
    with mock_kafka(1) as kafka:
        topic, (server,) = kafka.topic(1), kafka.servers
        kafka.answer(mock.PRODUCER_ID, *[mock.NOT_ALLOWED] * 9)
        source = f'[inbound.messages.shop]\nbroker = "main"\nkafka_topics = ["{topic}"]\n'
        settings = f'[brokers.main]\nkind = "kafka"\nservers = ["{server}"]\n{source}'
        (line,) = check(settings)
        assert line["found"] == f"kafka at {server}: source 'shop' can read {topic}"
        assert line["verdict"] == "ok"
        kafka.missing(topic, mock.NOT_ALLOWED)
        (line,) = check(settings)
    assert line["verdict"] == "fail"
    assert f"the Kafka topic {topic!r} may not be read: grant the user READ" in line["found"]


@pytest.mark.parametrize("user", [RELAY, SHOP, RELAY + SHOP])
@pytest.mark.parametrize(
    ("module", "told"),
    [
        (
            "pamqp",
            "rabbitmq needs pamqp, which is not installed: pip install 'inboxd[rabbitmq]'.",
        ),
        ("inboxd.brokers.rabbitmq", "rabbitmq cannot be used with the pamqp that is installed"),
    ],
)
def test_missing_or_wrong_library_is_named(
    check: Check, user: str, module: str, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    (line,) = check(f'[brokers.main]\nkind = "rabbitmq"\nservers = ["127.0.0.1:1"]\n{user}')
    assert line["verdict"] == "fail"
    assert told in line["found"]


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ('user = "a"\npassword = "hunter2"', True),
        ('user = "a"\npassword = "hunter2"\ntls = true', False),
        ("", False),
    ],
)
def test_password_over_an_unencrypted_connection_is_a_warning(
    check: Check, lines: str, *, told: bool
) -> None:
    far = '[brokers.main]\nkind = "rabbitmq"\nservers = ["192.0.2.1:1"]\nconnect_timeout = "1ms"\n'
    found = sorted((each["verdict"] for each in check(f"{far}{lines}\n{SHOP}")), reverse=True)
    assert found == (["warn", "fail"] if told else ["fail"])
