"""TLS and SASL to Kafka, through a proxy before the mock; and the log, which has no secrets."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from inboxd.brokers.kafka import open_publisher
from inboxd.errors import BrokerUnavailable
from inboxd.telemetry import logs
from tests.support.kafka import MockKafka, mock_kafka
from tests.support.kafka_door import Door, door
from tests.support.kafka_published import outgoing, published, publisher_to
from tests.support.kafka_stored import Inbox, consumer_of, store_all
from tests.support.waiting import bounded

pytestmark = pytest.mark.anyio
LOGIN = {"user": "inboxd", "password": "hunter2", "mechanism": "plain"}
SCRAM = ["scram-sha-256", "scram-sha-512"]


@pytest.fixture(scope="module")
def alone(one_kafka: None) -> Iterator[MockKafka]:
    """A cluster of one broker: all its connections lead through the proxy."""
    with mock_kafka(brokers=1) as running:
        yield running


async def go_through(kafka: MockKafka, opened: Door, **settings: Any) -> None:
    topic, inbox = kafka.topic(1), Inbox()
    settings |= {"servers": [opened.address]}
    async with publisher_to(kafka, **settings) as publisher:
        assert not await published(publisher, [outgoing(topic, "0")])
    async with consumer_of(kafka, inbox, topic, broker=kafka.broker(**settings)) as consumer:
        await store_all(consumer, inbox, 1)


async def why_not(kafka: MockKafka, opened: Door, **settings: Any) -> str:
    """The error of a connection that fails, without the broker's name."""
    settings |= {"servers": [opened.address], "connect_timeout": "5s"}
    with bounded(), pytest.raises(BrokerUnavailable) as told:
        await open_publisher("main", kafka.broker(**settings))
    return str(told.value).removeprefix(f"broker 'main' (kafka at {opened.address}): ")


async def test_tls_is_verified_by_the_authority_of_the_settings(
    alone: MockKafka, tmp_path: Path
) -> None:
    async with door(alone, tmp_path) as opened:
        await go_through(alone, opened, tls=True, tls_ca=opened.authority)
        assert await why_not(alone, opened, tls=True) == (
            "TLS failed (unable to get local issuer certificate): correct tls and tls_ca of "
            "[brokers.main]."
        )
        assert (await why_not(alone, opened)).endswith(
            "closed): start it, or correct servers, tls or user of [brokers.main]."
        )


async def test_a_user_logs_in_by_the_password(alone: MockKafka, tmp_path: Path) -> None:
    async with door(alone, tmp_path, mechanism="PLAIN") as opened:
        login = {**LOGIN, "tls": True, "tls_ca": opened.authority}
        await go_through(alone, opened, **login)
        assert len(opened.users) > 2
        assert await why_not(alone, opened, **login | {"password": "hunter3"}) == (
            "login of user 'inboxd' by PLAIN failed ([Error 58] SaslAuthenticationFailed: Invalid "
            "username or password): correct user, password or mechanism of [brokers.main]."
        )
        other = await why_not(alone, opened, **login | {"mechanism": "scram-sha-512"})
        assert other.startswith("login of user 'inboxd' by SCRAM-SHA-512 failed (")


@pytest.mark.parametrize("mechanism", SCRAM)
async def test_a_user_logs_in_by_scram(alone: MockKafka, tmp_path: Path, mechanism: str) -> None:
    async with door(alone, tmp_path, mechanism=mechanism.upper()) as opened:
        login = {**LOGIN, "mechanism": mechanism, "tls": True, "tls_ca": opened.authority}
        await go_through(alone, opened, **login)
        assert len(opened.users) > 2
        for wrong in ({"password": "hunter3"}, {"user": "stranger"}):
            user = wrong.get("user", "inboxd")
            assert await why_not(alone, opened, **login | wrong) == (
                f"login of user {user!r} by {mechanism.upper()} failed ([Error 58] "
                "SaslAuthenticationFailed: Invalid username or password): correct user, password "
                "or mechanism of [brokers.main]."
            )
        (another,) = {*SCRAM} - {mechanism}
        other = await why_not(alone, opened, **login | {"mechanism": another})
        assert other.startswith(f"login of user 'inboxd' by {another.upper()} failed (")


@pytest.mark.parametrize("mechanism", SCRAM)
async def test_a_broker_that_does_not_know_the_password_gets_no_message(
    alone: MockKafka, mechanism: str
) -> None:
    """With SCRAM both sides prove that they know the password."""
    async with door(alone, mechanism=mechanism.upper(), impostor=True) as opened:
        why = await why_not(alone, opened, **LOGIN | {"mechanism": mechanism})
    assert why.startswith("it cannot be reached (")
    assert "signature" in why


@pytest.mark.parametrize("mechanism", ["plain", *SCRAM])
async def test_the_log_has_no_password_no_payload_and_no_traceback(
    alone: MockKafka, mechanism: str
) -> None:
    """The library would log all of them, at "debug" and with its errors."""
    login = LOGIN | {"mechanism": mechanism}
    with logs.collected("debug") as lines:
        async with door(alone, mechanism=mechanism.upper()) as opened:
            await go_through(alone, opened, **login)
            await why_not(alone, opened, **login | {"password": "hunter3"})
        await why_not(alone, opened, **login)
    assert [line for line in lines if "aiokafka" in str(line)] == []
    assert "hunter" not in str(lines)
