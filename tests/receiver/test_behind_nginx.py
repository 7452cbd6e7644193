"""nginx before the receiver, as the docs show it: TLS, senders' addresses, client certificates.

The blocks of the pages are used, with other ports and files; an invalid block fails here.
"""

import re
import ssl
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest

from tests.support import Database
from tests.support.certificates import write_signed_certificate
from tests.support.nginx import nginx
from tests.support.ports import held_port
from tests.support.receiver import Receiver, StartReceiver
from tests.support.sender import standard_webhooks
from tests.support.verdicts import safety

# Servers of others: their blocks on a page rarely change.
pytestmark = [pytest.mark.anyio, pytest.mark.long]

DOCS = Path(__file__).parents[2] / "docs"
BELIEVED = {"trusted_proxies": ["127.0.0.1"]}
CERTIFIED = {
    "scheme": "client_certificate",
    "keys": [],
    "certificate": {"header": "x-client-subject", "subjects": ["CN=sender.example"]},
}
# An address of this machine that nginx does not use.
SENDER = "127.0.0.2"


def block(page: str) -> str:
    """The only nginx block of a page."""
    text = (DOCS / page).read_text()
    [found] = re.findall(r"^```nginx\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return str(found)


def changed(text: str, changes: Mapping[str, str]) -> str:
    """A block with other ports and files; each must be in the page's block."""
    for was, now in changes.items():
        assert was in text, f"the page's block no longer has {was!r}"
        text = text.replace(was, now)
    return text


class Site:
    """nginx before one receiver, and the certificates of two parties."""

    def __init__(self, folder: Path, receiver: Receiver, port: int) -> None:
        self.port = port
        self.server = self._certificate(folder, "hooks.example.com")
        self.sender = self._certificate(folder, "sender.example")
        self.other = self._certificate(folder, "other.example")
        self.files = {
            "/etc/ssl/hooks.pem": self.server["certificate"],
            "/etc/ssl/hooks.key": self.server["private_key"],
        }
        self.behind = {"127.0.0.1:8798": f"127.0.0.1:{receiver.port}"}

    def client(self, party: Mapping[str, str] | None = None) -> httpx.AsyncClient:
        """A sender, with the certificate of a party or without one."""
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        if party is not None:
            context.load_cert_chain(party["certificate"], party["private_key"])
        transport = httpx.AsyncHTTPTransport(verify=context, local_address=SENDER)
        return httpx.AsyncClient(
            base_url=f"https://127.0.0.1:{self.port}", transport=transport, trust_env=False
        )

    @staticmethod
    def _certificate(folder: Path, name: str) -> dict[str, str]:
        own = folder / name
        own.mkdir()
        return write_signed_certificate(own, name)


@contextmanager
def served(receiver: Receiver, folder: Path, page: str) -> Iterator[Site]:
    """Run the page's nginx before a receiver."""
    with ExitStack() as stack:
        port = int(stack.enter_context(held_port()).getsockname()[1])
        site = Site(folder, receiver, port)
        authorities = {"/etc/ssl/senders.pem": site.sender["authority"]}
        if page == "webhooks.md":
            listens = {"listen 443 ssl": f"listen 127.0.0.1:{port} ssl"}
            servers = changed(block(page), listens | site.files | site.behind | authorities)
        else:
            authorities = {"/etc/nginx/senders-ca.pem": site.sender["authority"]}
            [(_, behind)] = site.behind.items()
            servers = (
                f"server {{ listen 127.0.0.1:{port} ssl;\n"
                f"ssl_certificate {site.server['certificate']};\n"
                f"ssl_certificate_key {site.server['private_key']};\n"
                f"{changed(block(page), authorities)}"
                f"location /in/ {{ proxy_http_version 1.1; proxy_pass http://{behind}; }} }}"
            )
        stack.enter_context(nginx(servers, port))
        yield site


def signed(number: int, **more: str) -> dict[str, Any]:
    """A signed webhook of the tests' provider."""
    body = orjson.dumps({"match": "7", "number": number})
    headers = {"content-type": "application/json", **standard_webhooks()(body, f"msg_{number}")}
    return {"content": body, "headers": headers | more}


async def test_a_signed_webhook_is_stored_with_its_sender_s_address(
    inbox: Database, start_receiver: StartReceiver, tmp_path: Path
) -> None:
    receiver = await start_receiver(http=BELIEVED)
    forged = {"x-forwarded-for": "203.0.113.9", "forwarded": "for=203.0.113.9"}
    with served(receiver, tmp_path, "webhooks.md") as site:
        async with site.client() as sender:
            for number in range(3):
                answer = await sender.post("/in/bets", **signed(number, **forged))
                assert answer.status_code == 202, answer.text
            assert (await sender.post("/in/bets", content=b"{}")).status_code == 400
            assert (await sender.post("/elsewhere", content=b"{}")).status_code in (404, 405)
            large = await sender.post("/in/bets", content=b" " * (2 * 1024**2))
            assert large.status_code == 413
    stored = await inbox.fetch("select address, outcome from inboxd.receipts")
    with safety():
        assert [tuple(row) for row in stored] == [(SENDER, "stored")] * 3


async def test_a_forged_certificate_header_is_refused(
    inbox: Database, start_receiver: StartReceiver, tmp_path: Path
) -> None:
    receiver = await start_receiver(http=BELIEVED, source=CERTIFIED)
    forged = {"x-client-subject": "CN=sender.example", "content-type": "application/json"}
    with served(receiver, tmp_path, "webhooks.md") as site:
        async with site.client() as stranger:
            refused = await stranger.post("/in/bets", content=b'{"match": "7"}', headers=forged)
            assert refused.status_code == 401
        async with site.client(site.other) as other:  # its authority is unknown to nginx
            refused = await other.post("/in/bets", content=b'{"match": "7"}', headers=forged)
            assert refused.status_code in (400, 401)
        async with site.client(site.sender) as sender:
            answer = await sender.post("/in/bets", content=b'{"match": "7"}')
            assert answer.status_code == 202, answer.text
    with safety():
        assert await inbox.fetchval("select count(*) from inboxd.receipts") == 1


async def test_the_block_of_the_schemes_page_accepts_a_certificate(
    inbox: Database, start_receiver: StartReceiver, tmp_path: Path
) -> None:
    receiver = await start_receiver(http=BELIEVED, source=CERTIFIED)
    with served(receiver, tmp_path, "webhook-schemes.md") as site:
        async with site.client() as stranger:
            headers = {"x-client-subject": "CN=sender.example"}
            refused = await stranger.post("/in/bets", content=b'{"match": "7"}', headers=headers)
            assert refused.status_code == 400, "nginx requires a certificate"
        async with site.client(site.sender) as sender:
            answer = await sender.post("/in/bets", content=b'{"match": "7"}', headers=headers)
            assert answer.status_code == 202, answer.text
    with safety():
        assert await inbox.fetchval("select count(*) from inboxd.receipts") == 1
