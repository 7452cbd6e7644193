"""Connecting to RabbitMQ: each trouble is one clear line, without the secret."""

import re
from pathlib import Path

import pytest
from aio_pika.abc import AbstractQueue

from inboxd.brokers.rabbitmq import open_publisher
from inboxd.errors import BrokerUnavailable
from inboxd.settings import Broker
from tests.brokers.rabbitmq.published import Told, a_message, broker_at, publisher_at
from tests.support.certificates import write_certificate
from tests.support.ports import held_port
from tests.support.rabbitmq import PASSWORD, RabbitMQServer
from tests.support.tcp_proxy import tcp_proxy

pytestmark = pytest.mark.anyio


async def _why_not(broker: Broker) -> str:
    """The error of an opening that fails."""
    with pytest.raises(BrokerUnavailable) as told:
        await open_publisher("main", broker)
    found = str(told.value)
    for secret in (PASSWORD, "wrong-secret"):
        assert secret not in f"{found} {told.value!r} {told.value.__cause__}"
    assert "\n" not in found
    return found


async def _works(broker: Broker, queue: AbstractQueue) -> None:
    async with publisher_at(broker) as publisher:
        await publisher.publish([a_message(queue.name)], told := Told())
    assert told.confirmed == [0]


async def test_a_wrong_password_is_one_clear_line(server: RabbitMQServer) -> None:
    assert await _why_not(broker_at(server.address, password="wrong-secret")) == (
        f"broker 'main' at {server.address} closed the connection (ACCESS_REFUSED - Login was "
        "refused using authentication mechanism PLAIN. For details see the broker logfile.): "
        "correct user ('inbox') or password of [brokers.main]."
    )


async def test_a_password_file_is_read_at_each_connection(
    server: RabbitMQServer, queue: AbstractQueue, tmp_path: Path
) -> None:
    file = tmp_path / "password"
    broker = broker_at(server.address, password=None, password_file=file)
    assert f"{file}: cannot read the secret" in await _why_not(broker)
    file.write_text("wrong-secret")
    assert "correct user" in await _why_not(broker)
    file.write_text(f"{PASSWORD}\n")
    await _works(broker, queue)


async def test_a_missing_virtual_host_is_one_clear_line(server: RabbitMQServer) -> None:
    assert await _why_not(broker_at(server.address, virtual_host="nowhere")) == (
        f"broker 'main' at {server.address} closed the connection (NOT_ALLOWED - vhost nowhere not "
        "found): allow 'inbox' to use the virtual host, or correct virtual_host of [brokers.main]."
    )
    told = await _why_not(broker_at(server.address, virtual_host="x" * 128))
    assert "Max length exceeded for virtual_host" in told


async def test_a_refused_connection_is_one_clear_line(server: RabbitMQServer) -> None:
    with held_port() as held:
        nobody = f"127.0.0.1:{held.getsockname()[1]}"
        assert await _why_not(broker_at(nobody)) == (
            f"broker 'main' at {nobody} cannot be reached (Connection refused): start it, or "
            "correct servers of [brokers.main]."
        )
    assert "cannot be " in await _why_not(broker_at("127.0.0.1:99999"))
    told = await _why_not(broker_at("nowhere.invalid:5672"))
    assert told.startswith("broker 'main' at nowhere.invalid:5672 cannot be reached (")


async def test_servers_are_tried_in_turn(server: RabbitMQServer, queue: AbstractQueue) -> None:
    with held_port() as held:
        nobody = f"127.0.0.1:{held.getsockname()[1]}"
        await _works(broker_at(nobody, server.address), queue)
        told = await _why_not(broker_at(nobody, server.address, password="wrong-secret"))
    assert re.fullmatch(
        rf"broker 'main' at {nobody} cannot .* broker 'main' at {server.address} closed .*", told
    )


async def test_a_server_without_an_answer_is_one_clear_line(server: RabbitMQServer) -> None:
    with tcp_proxy(server.host, server.port) as proxy, proxy.hold():
        assert await _why_not(broker_at(proxy.address, connect_timeout="100ms")) == (
            f"broker 'main' at {proxy.address} did not answer in time: start it, or correct "
            "servers or connect_timeout of [brokers.main]."
        )


async def test_a_port_of_another_protocol_is_one_clear_line(server: RabbitMQServer) -> None:
    hint = "Check that this is the port of AMQP, and tls, tls_cert and tls_key."
    assert (await _why_not(broker_at(server.tls_address))).endswith(hint)
    told = await _why_not(broker_at(server.address, tls=True))
    assert told == (
        f"broker 'main' at {server.address} fails at TLS (WRONG_VERSION_NUMBER): "
        "correct servers or tls of [brokers.main]."
    )


def _with_tls(server: RabbitMQServer, **more: object) -> Broker:
    files = {
        "tls_ca": server.tls_files["certificate"],
        "tls_cert": server.client_files["certificate"],
        "tls_key": server.client_files["private_key"],
    }
    return broker_at(server.tls_address, tls=True, **files | more)


async def test_both_sides_verify_certificates(server: RabbitMQServer, queue: AbstractQueue) -> None:
    await _works(_with_tls(server), queue)


async def test_a_certificate_without_a_known_authority_is_one_clear_line(
    server: RabbitMQServer, tmp_path: Path
) -> None:
    other = write_certificate(tmp_path, "localhost")
    told = await _why_not(_with_tls(server, tls_ca=other["certificate"]))
    assert told == (
        f"broker 'main' at {server.tls_address} has a certificate that is not trusted (self-signed "
        "certificate): correct servers or tls_ca of [brokers.main]."
    )


async def test_a_certificate_of_another_name_is_one_clear_line(server: RabbitMQServer) -> None:
    told = await _why_not(_with_tls(server, servers=[f"127.0.0.1:{server.tls_port}"]))
    assert "not trusted (IP address mismatch, certificate is not valid for '127.0.0.1'.)" in told


@pytest.mark.parametrize("own", ["none", "another"])
async def test_a_client_that_the_server_does_not_trust_is_one_clear_line(
    server: RabbitMQServer, tmp_path: Path, own: str
) -> None:
    other = write_certificate(tmp_path, "localhost")
    files = {"tls_cert": other["certificate"], "tls_key": other["private_key"]}
    without = {"tls_cert": None, "tls_key": None}
    told = await _why_not(_with_tls(server, **(files if own == "another" else without)))
    assert told.endswith("Check that this is the port of AMQP, and tls, tls_cert and tls_key.")
