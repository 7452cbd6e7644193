"""A NATS server that cannot be reached: one clear line, without the secret."""

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from inboxd.brokers.nats import open_publisher
from inboxd.errors import BrokerUnavailable
from inboxd.settings import Broker
from tests.brokers.nats.conftest import broker_at
from tests.brokers.nats.publishing import publisher_at
from tests.support.certificates import write_certificate
from tests.support.nats import NatsServer, nats_server
from tests.support.ports import held_port

pytestmark = pytest.mark.anyio

_SECRET = "hunter2"


@pytest.fixture(scope="module")
def guarded() -> Iterator[NatsServer]:
    """A server with a login for one user."""
    with nats_server(f'authorization {{ user: relay, password: "{_SECRET}" }}') as running:
        yield running


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Files with a certificate for localhost, and its key."""
    return write_certificate(tmp_path_factory.mktemp("tls"), "localhost")


@pytest.fixture(scope="module")
def encrypted(files: dict[str, Any]) -> Iterator[NatsServer]:
    """A server that requires TLS, with a login for one user."""
    tls = f'tls {{ cert_file: "{files["certificate"]}", key_file: "{files["private_key"]}" }}'
    users = f'authorization {{ user: relay, password: "{_SECRET}" }}'
    with nats_server(f"{tls}\n{users}") as running:
        yield running


async def told_by(broker: Broker) -> str:
    """The error of an opening that fails."""
    with pytest.raises(BrokerUnavailable) as told:
        await open_publisher("main", broker)
    assert _SECRET not in str(told.value)
    assert "\n" not in str(told.value)
    return str(told.value)


async def test_a_user_logs_in_with_the_right_password(guarded: NatsServer, tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text(f"{_SECRET}\n")
    async with publisher_at(broker_at(guarded.address, user="relay", password_file=file)):
        pass


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"user": "relay"},
        {"user": "relay", "password": f"{_SECRET}s"},
        {"password": f"{_SECRET}s"},
    ],
)
async def test_a_refused_login_is_one_clear_line(guarded: NatsServer, more: dict[str, str]) -> None:
    assert await told_by(broker_at(guarded.address, **more)) == (
        f"broker 'main' (nats at {guarded.address}): login failed (Authorization "
        "Violation): correct user and password of [brokers.main]."
    )


async def test_a_password_alone_is_a_token() -> None:
    with nats_server(f'authorization {{ token: "{_SECRET}" }}') as server:
        async with publisher_at(broker_at(server.address, password=_SECRET)):
            pass


async def test_a_password_file_that_is_missing_is_named(
    guarded: NatsServer, tmp_path: Path
) -> None:
    told = await told_by(
        broker_at(guarded.address, user="relay", password_file=tmp_path / "missing")
    )
    assert told.startswith(f"broker 'main': {tmp_path}/missing: cannot read the secret")


async def test_a_refused_connection_is_one_clear_line() -> None:
    with held_port() as held:
        address = f"127.0.0.1:{held.getsockname()[1]}"
        assert await told_by(broker_at(address)) == (
            f"broker 'main' (nats at {address}): it cannot be reached (Connection refused): start "
            "it, or correct servers of [brokers.main]."
        )


async def test_an_unknown_host_name_is_one_clear_line() -> None:
    told = await told_by(broker_at("nobody.invalid:4222"))
    assert told.startswith("broker 'main' (nats at nobody.invalid:4222): it cannot be reached (")
    assert told.endswith("start it, or correct servers of [brokers.main].")


async def test_a_server_without_a_greeting_is_one_clear_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        assert await told_by(broker_at(address, connect_timeout="200ms")) == (
            f"broker 'main' (nats at {address}): it cannot be reached (no answer within 0.2 s): "
            "start it, or correct servers of [brokers.main]."
        )


async def test_one_server_that_can_be_reached_is_enough(server: NatsServer) -> None:
    with held_port() as held:
        away = f"127.0.0.1:{held.getsockname()[1]}"
        async with publisher_at(broker_at(away, server.address)):
            pass
        told = await told_by(broker_at(away, away))
        assert told.count("Connection refused") == 2


async def test_a_connection_over_tls_works(encrypted: NatsServer, files: dict[str, Any]) -> None:
    address = f"localhost:{encrypted.port}"
    broker = broker_at(
        address, tls=True, tls_ca=files["certificate"], user="relay", password=_SECRET
    )
    async with publisher_at(broker):
        pass


async def test_a_certificate_without_a_known_authority_is_one_clear_line(
    encrypted: NatsServer, tmp_path: Path
) -> None:
    other = write_certificate(tmp_path, "localhost")
    address = f"localhost:{encrypted.port}"
    broker = broker_at(
        address, tls=True, tls_ca=other["certificate"], user="relay", password=_SECRET
    )
    told = await told_by(broker)
    assert told.startswith(f"broker 'main' (nats at {address}): its certificate is not accepted: ")
    assert told.endswith(": correct tls, tls_ca or tls_cert of [brokers.main].")


async def test_a_server_without_the_tls_that_is_asked_for_gets_no_password(
    guarded: NatsServer, files: dict[str, Any]
) -> None:
    broker = broker_at(
        guarded.address, tls=True, tls_ca=files["certificate"], user="relay", password=_SECRET
    )
    assert await told_by(broker) == (
        f"broker 'main' (nats at {guarded.address}): the server does not ask for TLS: correct tls, "
        "tls_ca or tls_cert of [brokers.main]."
    )


async def test_a_server_that_requires_tls_without_settings_for_it_is_one_clear_line(
    encrypted: NatsServer,
) -> None:
    broker = broker_at(encrypted.address, user="relay", password=_SECRET)
    assert await told_by(broker) == (
        f"broker 'main' (nats at {encrypted.address}): the server asks for TLS: correct tls, "
        "tls_ca or tls_cert of [brokers.main]."
    )
