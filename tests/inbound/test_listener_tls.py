"""TLS of the listener: its certificate, a reload of it, and refused connections."""

import ssl
from pathlib import Path

import anyio
import pytest
from anyio.streams.tls import TLSAttribute, TLSStream
from cryptography import x509

from inboxd.errors import SettingsError
from inboxd.inbound.certificate import tls
from tests.inbound.listening import (
    Echo,
    Listening,
    listening,
    one_answer,
    post,
    rest,
    status,
)
from tests.support.certificates import write_certificate

pytestmark = pytest.mark.anyio


async def connect(on: Listening, context: ssl.SSLContext | None = None) -> TLSStream:
    context = context or ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    raw = await on.connect()
    try:
        return await TLSStream.wrap(
            raw, server_side=False, ssl_context=context, standard_compatible=False
        )
    except BaseException:
        await raw.aclose()
        raise


def presented(client: TLSStream) -> str:
    der = client.extra_attributes[TLSAttribute.peer_certificate_binary]()
    return x509.load_der_x509_certificate(der).subject.rfc4514_string()


async def test_requests_over_tls(tmp_path: Path) -> None:
    async with listening(**write_certificate(tmp_path, "one")) as on, await connect(on) as client:
        for body in (b"a", b"b" * 300_000):
            await client.send(post(body))
            assert status(await one_answer(client)) == 202
        await client.send(post(b"c", b"Connection: close"))
        assert status(await rest(client)) == 202
        assert len(on.bodies) == 3


async def test_a_reloaded_certificate_is_used_for_new_connections(tmp_path: Path) -> None:
    async with listening(**write_certificate(tmp_path, "one")) as on, await connect(on) as old:
        assert presented(old) == "CN=one"
        write_certificate(tmp_path, "two")
        on.listener.reload_certificate()
        async with await connect(on) as new:
            assert presented(new) == "CN=two"
        await old.send(post())
        assert status(await one_answer(old)) == 202


async def test_a_failed_reload_keeps_the_old_certificate(tmp_path: Path) -> None:
    async with listening(**write_certificate(tmp_path, "one")) as on:
        (tmp_path / "receiver.key").write_text("nothing")
        with pytest.raises(SettingsError, match=r"receiver\.key"):
            on.listener.reload_certificate()
        async with await connect(on) as client:
            assert presented(client) == "CN=one"


@pytest.mark.parametrize("trouble", ["missing", "no PEM", "another's", "passphrase"])
def test_unusable_files_are_reported_in_one_line(tmp_path: Path, trouble: str) -> None:
    files = write_certificate(tmp_path, "one", b"secret" if trouble == "passphrase" else None)
    certificate, key = Path(files["certificate"]), Path(files["private_key"])
    if trouble == "missing":
        key.unlink()
    elif trouble == "no PEM":
        key.write_text("x")
    elif trouble == "another's":
        (tmp_path / "other").mkdir()
        key.write_bytes(
            Path(write_certificate(tmp_path / "other", "two")["private_key"]).read_bytes()
        )
    with pytest.raises(SettingsError, match=r"^inbound\.http\.certificate .+$") as raised:
        tls(certificate, key)
    assert str(key) in str(raised.value)


async def test_plain_http_is_refused(tmp_path: Path) -> None:
    async with listening(**write_certificate(tmp_path, "one")) as on:
        assert not (await on.ask(post())).startswith(b"HTTP")
        assert on.refused == ["tls_handshake"]
        async with await connect(on) as client:
            await client.send(post())
            assert status(await one_answer(client)) == 202


async def test_old_tls_is_refused(tmp_path: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    context.set_ciphers("DEFAULT:@SECLEVEL=0")  # else the client itself refuses old TLS
    async with listening(**write_certificate(tmp_path, "one")) as on:
        with pytest.raises((ssl.SSLError, anyio.EndOfStream)):
            await connect(on, context)
        assert on.refused == ["tls_handshake"]


async def test_a_handshake_has_the_timeout_of_a_head(tmp_path: Path) -> None:
    files = write_certificate(tmp_path, "one")
    async with listening(**files, header_timeout="100ms") as on, await on.connect() as client:
        assert await rest(client) == b""
        assert on.refused == ["tls_handshake"]
        assert on.listener.connections == 0


async def test_an_early_answer_arrives_over_tls(tmp_path: Path) -> None:
    files = write_certificate(tmp_path, "one")
    async with listening(Echo(early=413), **files) as on, await connect(on) as client:
        head, body = post(b"x" * 1_000_000).split(b"\r\n\r\n")
        await client.send(head + b"\r\n\r\n")
        assert status(await one_answer(client)) == 413
        await client.send(body)


async def test_a_drain_closes_tls_connections(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("inboxd.inbound.listener._IDLE_SECONDS", 0.05)
    async with listening(**write_certificate(tmp_path, "one")) as on:
        busy, idle = await connect(on), await connect(on)
        async with anyio.create_task_group() as group:
            group.start_soon(on.listener.drain, 5.0)
            await anyio.lowlevel.checkpoint()
            async with busy:
                await busy.send(post())
                answer = await rest(busy)
            assert status(answer) == 202
            assert b"connection: close" in answer
            async with idle:
                assert await rest(idle) == b""
        assert on.listener.connections == 0
