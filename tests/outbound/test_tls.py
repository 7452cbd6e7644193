"""Certificates are verified: their names, and their authorities."""

import shutil
import ssl
import subprocess
from pathlib import Path

import pytest

from inboxd.errors import TargetUnreachable
from inboxd.outbound.client import TargetClient
from tests.outbound.asking import an_ask
from tests.support.http_target import Target

pytestmark = pytest.mark.anyio

_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


def _openssl(*arguments: str, folder: Path) -> None:
    program = shutil.which("openssl") or "openssl"
    subprocess.run([program, *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a certificate authority, and its certificates `good`, `other` and `old`."""
    folder = tmp_path_factory.mktemp("authority")
    own = ("-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=Authority of tests")
    _openssl("req", "-x509", *_KEY, *own, "-days", "2", folder=folder)
    for name, host, days in (
        ("good", "localhost", 1),
        ("other", "e.org", 1),
        ("old", "localhost", 0),
    ):
        request = ("-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={host}")
        _openssl("req", "-new", *_KEY, *request, folder=folder)
        (folder / "names").write_text(f"subjectAltName=DNS:{host}\n")
        _openssl(
            *("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key"),
            *("-CAcreateserial", "-extfile", "names", "-days", str(days), "-out", f"{name}.pem"),
            folder=folder,
        )
    return folder


def _serving(folder: Path, name: str) -> Target:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(folder / f"{name}.pem", folder / f"{name}.key")
    return Target(context)


async def test_a_certificate_of_a_trusted_authority_is_accepted(authority: Path) -> None:
    trusting = ssl.create_default_context(cafile=authority / "ca.pem")
    async with _serving(authority, "good") as target, TargetClient(context=trusting) as client:
        for _ in range(2):
            answer = await client.ask(an_ask(target.url(host="localhost")))
            assert (answer.status, answer.body) == (200, b"ok")
        assert target.connections == 1


@pytest.mark.parametrize(
    ("name", "host", "trusts", "reason"),
    [
        ("good", "localhost", False, "unable to get local issuer certificate|self-signed"),
        ("other", "localhost", True, "[Hh]ostname mismatch"),
        ("good", "127.0.0.1", True, "IP address mismatch"),
        ("old", "localhost", True, "certificate has expired"),
    ],
)
async def test_a_wrong_certificate_is_a_temporary_failure_with_its_cause(
    authority: Path, name: str, host: str, trusts: bool, reason: str
) -> None:
    context = ssl.create_default_context(cafile=authority / "ca.pem") if trusts else None
    async with _serving(authority, name) as target, TargetClient(context=context) as client:
        with pytest.raises(
            TargetUnreachable, match=f"its certificate is not trusted: .*({reason})"
        ):
            await client.ask(an_ask(target.url(host=host)))
        assert target.seen == []


async def test_a_target_without_tls_fails_at_the_connect_timeout() -> None:
    async with Target() as target, TargetClient(connect_timeout=0.2) as client:
        url = target.url(host="localhost").replace("http:", "https:")
        with pytest.raises(TargetUnreachable, match="accepted no connection"):
            await client.ask(an_ask(url))
