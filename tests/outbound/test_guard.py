"""No connection is made to an address that is neither public nor allowed."""

import errno
import socket
from collections.abc import AsyncIterator, Iterator
from ipaddress import ip_address, ip_network
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inboxd.errors import TargetRefused, TargetUnreachable
from inboxd.outbound import addresses
from inboxd.outbound.addresses import Allowed, is_own
from inboxd.outbound.client import TargetClient
from tests.outbound.asking import LOOPBACK, an_ask
from tests.support.http_target import Target

NOTHING = Allowed()

REFUSED = [
    *("127.0.0.1", "127.255.255.254", "0.0.0.1", "10.0.0.1", "172.16.0.1", "172.31.255.255"),
    *("192.168.1.1", "169.254.169.254", "100.64.0.1", "100.100.100.200", "168.63.129.16"),
    *("192.0.0.192", "192.0.2.1", "198.18.0.1", "198.51.100.1", "203.0.113.1", "192.88.99.1"),
    *("224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255"),
    *("::", "::1", "fe80::1", "fe80::1%eth0", "fec0::1", "fc00::1", "fd00:ec2::254", "ff02::1"),
    *("::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:a9fe:a9fe", "::ffff:0:127.0.0.1"),
    *("::127.0.0.1", "::7f00:1", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::a00:1"),
    *("2002:7f00:1::", "2002:a9fe:a9fe::1", "2002:c0a8:101::1", "2001:0:7f00:1::"),
    *("2001:db8::1", "3fff::1", "100::1", "5f00::1", "4000::1", "e000::1", "1::1"),
    *("", "localhost", "1.2.3", "0x7f.1", "2130706433"),
]
PUBLIC = [
    *("1.1.1.1", "8.8.8.8", "172.15.255.255", "172.32.0.0", "100.63.255.255", "100.128.0.0"),
    *("169.253.255.255", "169.255.0.0", "192.0.1.1", "223.255.255.255", "11.0.0.0"),
    *("2606:4700::1111", "2001:200::1", "2a00:1450::1", "::ffff:8.8.8.8", "64:ff9b::808:808"),
    "2002:808:808::1",
]


@pytest.mark.parametrize("address", REFUSED)
def test_an_address_that_is_not_public_is_refused(address: str) -> None:
    assert not NOTHING.permits(address)


@pytest.mark.parametrize("address", PUBLIC)
def test_a_public_address_is_permitted(address: str) -> None:
    assert NOTHING.permits(address)


def test_a_public_address_of_this_machine_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The host's other services, such as metrics, may listen on its public interface."""
    monkeypatch.setattr(
        addresses, "_NOT_PUBLIC", ()
    )  # so that loopback counts as a public address of this machine
    monkeypatch.setattr(addresses, "_GIVEN_OUT", ip_network("::/0"))
    with socket.socket(socket.AF_INET6) as probe:
        has_ipv6 = probe.connect_ex(("::1", 1)) not in (errno.EADDRNOTAVAIL, errno.ENETUNREACH)
    for own in ("127.0.0.1", "::ffff:127.0.0.1", *(["::1"] if has_ipv6 else [])):
        assert not NOTHING.permits(own)
        assert Allowed([own if own == "::1" else "127.0.0.1"]).permits(own)
    assert NOTHING.permits("192.0.2.77")


def test_an_address_of_another_machine_is_not_an_own_one() -> None:
    assert not any(is_own(ip_address(each.partition("%")[0])) for each in PUBLIC)


@given(st.ip_addresses())
def test_a_permitted_address_is_global_for_python_too(address: Any) -> None:
    if NOTHING.permits(str(address)) and not getattr(address, "sixtofour", None):
        assert address.is_global


@given(st.ip_addresses(v=4))
def test_each_ipv6_form_of_an_ipv4_address_is_judged_like_it(address: Any) -> None:
    number = int(address)
    for written in (f"::ffff:{address}", f"64:ff9b::{address}"):
        assert NOTHING.permits(written) == NOTHING.permits(str(address))
    to = f"2002:{number >> 16:x}:{number & 0xFFFF:x}::1"
    assert NOTHING.permits(to) == NOTHING.permits(str(address))


def test_only_allowed_ranges_are_permitted() -> None:
    allowed = Allowed(["10.1.0.0/16", "fd00::/8"])
    permitted = ["10.1.2.3", "::ffff:10.1.2.3", "fd12::1", "8.8.8.8"]
    assert [each for each in [*permitted, "10.2.0.1", "fe80::1"] if allowed.permits(each)] == (
        permitted
    )
    assert Allowed(["10.1.0.0/16", "fd00::/8"]) == allowed
    assert hash(Allowed(["10.1.0.0/16"])) == hash(Allowed(["10.1.0.0/16"]))


# ------------------------------------------------------------------------- with connections


@pytest.fixture
async def target() -> AsyncIterator[Target]:
    async with Target() as target:
        yield target


@pytest.fixture
async def client() -> AsyncIterator[TargetClient]:
    async with TargetClient(connect_timeout=1) as client:
        yield client


@pytest.mark.anyio
@pytest.mark.parametrize(
    "host",
    [
        *("127.0.0.1", "127.1", "2130706433", "0x7f000001", "0177.0.0.1", "0x7f.1", "017700000001"),
        *("localhost", "LOCALHOST", "localhost.", "127.0.0.1.", "0"),
        *("[::1]", "[::ffff:127.0.0.1]", "[0:0:0:0:0:0:0:1]", "[::ffff:7f00:1]", "[::]"),
        *("[fe80::1%25lo]", "[64:ff9b::7f00:1]", "①②⑦.0.0.1", "ⓛocalhost", "127。0。0。1"),
    ],
)
async def test_requests_to_this_machine_are_refused(
    target: Target, client: TargetClient, host: str
) -> None:
    with pytest.raises((TargetRefused, TargetUnreachable)) as caught:
        await client.ask(an_ask(target.url(host=host), allowed=NOTHING))
    assert target.connections == 0
    if host in {"127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]"}:
        assert isinstance(caught.value, TargetRefused)


@pytest.mark.anyio
async def test_a_refusal_names_the_address_and_the_setting(
    target: Target, client: TargetClient
) -> None:
    for host in ("127.0.0.1", "localhost"):
        with pytest.raises(TargetRefused, match=r"127\.0\.0\.1.*`allow`.*http\]"):
            await client.ask(an_ask(target.url(host=host), allowed=NOTHING))


class _Names:
    """Resolves names to changing addresses."""

    def __init__(self) -> None:
        self.addresses: list[str] = []

    def look_up(self, host: str, port: int, *_: object) -> list[tuple[Any, ...]]:
        assert host.endswith(".example")
        kinds = [socket.AF_INET6 if ":" in each else socket.AF_INET for each in self.addresses]
        return [
            (kind, socket.SOCK_STREAM, 0, "", (each, port))
            for kind, each in zip(kinds, self.addresses, strict=True)
        ]


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Iterator[_Names]:
    names = _Names()
    monkeypatch.setattr(socket, "getaddrinfo", names.look_up)
    monkeypatch.setattr("inboxd.outbound.client._DNS_SECONDS", 0)
    return iter([names])


@pytest.mark.anyio
async def test_a_name_with_a_new_forbidden_address_is_refused(
    target: Target, client: TargetClient, names: Iterator[_Names]
) -> None:
    (found,) = names
    url = target.url(host="rebinding.example")
    # First an allowed address, then another address of this machine.
    allowed = Allowed(["127.0.0.1/32"])
    found.addresses = ["127.0.0.1"]
    target.plan.append("/status/200?connection=close")
    assert (await client.ask(an_ask(url, allowed=allowed))).status == 200
    found.addresses = ["127.0.0.2"]
    with pytest.raises(TargetRefused, match=r"127\.0\.0\.2"):
        await client.ask(an_ask(url, allowed=allowed))


@pytest.mark.anyio
async def test_only_allowed_addresses_of_a_name_are_tried(
    target: Target, client: TargetClient, names: Iterator[_Names]
) -> None:
    (found,) = names
    found.addresses = ["169.254.169.254", "::1", "127.0.0.1"]
    url = target.url(host="mixed.example")
    allowed = Allowed(["127.0.0.1/32"])
    assert (await client.ask(an_ask(url, allowed=allowed))).status == 200
    with pytest.raises(TargetRefused, match=r"169\.254\.169\.254, ::1, 127\.0\.0\.1"):
        await client.ask(an_ask(url, allowed=NOTHING))


@pytest.mark.anyio
async def test_a_connection_is_not_reused_without_its_allowed_range(
    target: Target, client: TargetClient
) -> None:
    await client.ask(an_ask(target.url(), allowed=LOOPBACK))
    with pytest.raises(TargetRefused):
        await client.ask(an_ask(target.url(), allowed=NOTHING))
    assert len(target.seen) == 1
