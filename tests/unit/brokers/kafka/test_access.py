"""How Kafka clusters are reached: the arguments for aiokafka, and the errors.

The mock of a cluster has neither SASL nor TLS, so only the arguments are tested.
"""

import importlib
import logging
import ssl
from pathlib import Path
from typing import Any

import pytest
from aiokafka import errors

from inboxd.brokers import kafka
from inboxd.brokers.kafka import access, member
from inboxd.brokers.kafka.access import Access, access_to, connect, why_not_reached
from inboxd.errors import BrokerUnavailable
from inboxd.settings import Broker, MessageSource
from tests.support.certificates import write_certificate

pytestmark = pytest.mark.anyio


def broker(**settings: Any) -> Broker:
    return Broker.model_validate({"kind": "kafka", "servers": ["a:1", "b:2"], **settings})


@pytest.fixture
def handed(monkeypatch: pytest.MonkeyPatch) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
    """The arguments of connections and consumers."""
    calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = []

    async def create_conn(*places: Any, **arguments: Any) -> None:
        calls.append((places, arguments))

    def consumer(**arguments: Any) -> None:
        calls.append(((), arguments))

    monkeypatch.setattr(access, "create_conn", create_conn)
    monkeypatch.setattr(member, "AIOKafkaConsumer", consumer)
    return calls


@pytest.mark.parametrize("mechanism", ["plain", "scram-sha-256", "scram-sha-512"])
@pytest.mark.parametrize("tls", [False, True])
async def test_a_user_logs_in_by_sasl(
    handed: list[tuple[tuple[Any, ...], dict[str, Any]]], mechanism: str, tls: bool, tmp_path: Path
) -> None:
    files = write_certificate(tmp_path, "localhost")
    found = await access_to(
        "main",
        broker(
            user="inboxd",
            password="hunter2",
            mechanism=mechanism,
            tls=tls,
            tls_ca=files["certificate"] if tls else None,
        ),
    )
    await connect(found, "a", 1)
    member.member(found, MessageSource.model_validate({"kafka_topics": ["t"]}), 1)
    for _, arguments in handed:
        assert arguments["security_protocol"] == ("SASL_SSL" if tls else "SASL_PLAINTEXT")
        assert arguments["sasl_mechanism"] == mechanism.upper()
        assert arguments["sasl_plain_username"] == "inboxd"
        assert arguments["sasl_plain_password"] == "hunter2"
        context = arguments["ssl_context"]
        assert isinstance(context, ssl.SSLContext) if tls else context is None
    assert handed[0][0] == ("a", 1)
    assert handed[1][1]["bootstrap_servers"] == ["a:1", "b:2"]
    assert "hunter2" not in repr(found)


async def test_without_a_user_there_is_no_sasl(
    handed: list[tuple[tuple[Any, ...], dict[str, Any]]],
) -> None:
    await connect(await access_to("main", broker()), "a", 1)
    await connect(await access_to("main", broker(tls=True)), "a", 1)
    plain, secured = (arguments for _, arguments in handed)
    assert plain["security_protocol"] == "PLAINTEXT"
    assert secured["security_protocol"] == "SSL"
    assert secured["ssl_context"].check_hostname
    assert not any(name.startswith("sasl") for name in plain)


async def test_the_password_is_that_of_its_file(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("of the file\n")
    found = await access_to("main", broker(user="inboxd", password_file=file))
    assert found.arguments["sasl_plain_password"] == "of the file"


async def test_a_fetch_is_bounded_by_bytes(
    handed: list[tuple[tuple[Any, ...], dict[str, Any]]],
) -> None:
    """`prefetch` small messages and a page's bytes, shared by the partitions."""
    found = await access_to("main", broker())
    for settings, partitions in (
        ({}, 1),
        ({}, 4),
        ({"prefetch": 100_000}, 10),
        ({"prefetch": 1}, 3),
        ({"page_bytes": 100_000}, 1),
    ):
        member.member(
            found, MessageSource.model_validate({"kafka_topics": ["t"], **settings}), partitions
        )
    assert [(each["fetch_max_bytes"], each["max_partition_fetch_bytes"]) for _, each in handed] == [
        (512_000, 512_000),
        (512_000, 128_000),
        (16_777_216, 1_677_721),
        (65_536, 65_536),
        (100_000, 100_000),
    ]
    for _, each in handed:
        assert each["enable_auto_commit"] is False
        assert each["auto_offset_reset"] == "none"
        assert each["isolation_level"] == "read_committed"


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (
            errors.SaslAuthenticationFailed("invalid credentials"),
            "login of user 'inboxd' by SCRAM-SHA-512 failed (",
        ),
        (
            errors.UnsupportedSaslMechanismError("not enabled"),
            "login of user 'inboxd' by SCRAM-SHA-512 failed (",
        ),
        (TimeoutError(), "no answer within 5 s: start it, or correct servers of [brokers.main];"),
        (OSError(111, "Connection refused"), "it cannot be reached (Connection refused): start"),
        (errors.KafkaConnectionError(), "it cannot be reached (KafkaConnectionError): start it"),
    ],
)
async def test_an_unreachable_cluster_is_one_clear_line(error: Exception, told: str) -> None:
    found = await access_to("main", broker(user="inboxd", password="hunter2"))
    why = why_not_reached(found, error)
    assert why.startswith(told)
    assert "[brokers.main]" in why
    assert "\n" not in why
    assert "hunter2" not in why
    assert str(found.unavailable(why)) == f"broker 'main' (kafka at a:1, b:2): {why}"


async def test_a_server_with_an_invalid_port_is_refused() -> None:
    with pytest.raises(BrokerUnavailable, match="servers are not valid: correct them in"):
        access.first_places(Access("main", ("a:b",), 1.0, {}))


def test_aiokafka_logs_nothing_in_a_program_that_logs_everything(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It would log the password at "debug"; a worker inside a program shares the program's logs."""
    logging.getLogger("aiokafka").setLevel(logging.NOTSET)
    with caplog.at_level(logging.DEBUG):
        importlib.reload(kafka)
        for name in ("aiokafka", "aiokafka.conn"):
            logging.getLogger(name).debug("SaslHandShakeRequest hunter2")
            logging.getLogger(name).error("the same")
    assert caplog.records == []
