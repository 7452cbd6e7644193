"""The client behind proxies: a request cannot claim another address."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inboxd.model.addresses import Networks, client_address, normal, normal_peer, subscriber
from tests.inbound.calls import PROVIDER, call, receiving

_PROXIES = Networks(["10.0.0.0/8", "::1", "2001:db8::/32"])


@pytest.mark.parametrize(
    ("peer", "headers", "client"),
    [
        ("192.0.2.1", {}, "192.0.2.1"),
        # Headers count only if the peer is a trusted proxy.
        ("192.0.2.1", {"x-forwarded-for": "198.51.100.1"}, "192.0.2.1"),
        ("192.0.2.1", {"forwarded": "for=198.51.100.1"}, "192.0.2.1"),
        # Read from the right up to the first untrusted hop: clients can forge all hops left of it.
        ("10.0.0.1", {"x-forwarded-for": "198.51.100.1"}, "198.51.100.1"),
        ("10.0.0.1", {"x-forwarded-for": "203.0.113.9, 198.51.100.1"}, "198.51.100.1"),
        ("10.0.0.1", {"x-forwarded-for": "198.51.100.1, 10.0.0.2, 10.9.9.9"}, "198.51.100.1"),
        ("10.0.0.1", {"x-forwarded-for": "10.0.0.3, 10.0.0.2"}, "10.0.0.3"),
        # An invalid hop ends the search: the hop that reported it is the client.
        ("10.0.0.1", {"x-forwarded-for": "198.51.100.1, nobody"}, "10.0.0.1"),
        ("10.0.0.1", {"x-forwarded-for": "198.51.100.1, , 10.0.0.2"}, "10.0.0.2"),
        ("10.0.0.1", {"x-forwarded-for": ""}, "10.0.0.1"),
        ("10.0.0.1", {"x-forwarded-for": "unknown"}, "10.0.0.1"),
        # Ports, brackets, IPv4 as IPv6.
        ("10.0.0.1", {"x-forwarded-for": "198.51.100.1:443"}, "198.51.100.1"),
        ("::ffff:10.0.0.1", {"x-forwarded-for": "::ffff:198.51.100.1"}, "198.51.100.1"),
        ("::1", {"x-forwarded-for": "[2001:db9::1]:443"}, "2001:db9::1"),
        ("10.0.0.1", {"forwarded": 'for="[2001:db9::1]:443";proto=https'}, "2001:db9::1"),
        ("10.0.0.1", {"forwarded": "For=198.51.100.1, for=10.0.0.2;by=x"}, "198.51.100.1"),
        ("10.0.0.1", {"forwarded": "proto=https"}, "10.0.0.1"),
        ("10.0.0.1", {"forwarded": "for=_hidden"}, "10.0.0.1"),
        # Two headers that disagree: one of them came from the client.
        ("10.0.0.1", {"x-forwarded-for": "192.0.2.7", "forwarded": "for=192.0.2.8"}, "10.0.0.1"),
        ("10.0.0.1", {"x-forwarded-for": "192.0.2.7", "forwarded": "for=192.0.2.7"}, "192.0.2.7"),
        (None, {"x-forwarded-for": "192.0.2.7"}, None),
    ],
)
def test_client_behind_proxies(
    peer: str | None, headers: Mapping[str, str], client: str | None
) -> None:
    assert client_address(peer, headers, _PROXIES) == client


@given(st.text(max_size=200), st.text(max_size=200))
def test_any_forwarded_header_gives_an_address(forwarded: str, before: str) -> None:
    headers = {"x-forwarded-for": before, "forwarded": forwarded}
    found = client_address("10.0.0.1", headers, _PROXIES)
    assert found is not None
    assert normal(found) == found


@given(st.text(max_size=100))
def test_forged_first_hop_changes_nothing(claimed: str) -> None:
    headers = {"x-forwarded-for": f"{claimed}, 198.51.100.1, 10.0.0.2"}
    assert client_address("10.0.0.1", headers, _PROXIES) == "198.51.100.1"


def test_a_long_row_of_hops_is_cut() -> None:
    hops = ", ".join(["198.51.100.1", *["10.0.0.2"] * 5000])
    assert client_address("10.0.0.1", {"x-forwarded-for": hops}, _PROXIES) == "10.0.0.2"


def test_ranges() -> None:
    networks = Networks(["192.0.2.0/24", "::ffff:198.51.100.0/120"])
    assert "192.0.2.255" in networks
    assert "198.51.100.7" in networks
    assert "192.0.3.0" not in networks
    assert "nonsense" not in networks
    assert Networks([]).__bool__() is False


def test_a_network_of_ipv6_shares_an_allowance() -> None:
    assert subscriber("2001:db8::1") == subscriber("2001:db8:0:0:ffff::2")
    assert subscriber("2001:db8::1") != subscriber("2001:db8:0:1::1")
    assert subscriber("192.0.2.1") != subscriber("192.0.2.2")


def test_peer_is_a_host_or_unknown() -> None:
    assert normal_peer(("::ffff:192.0.2.1", 7)) == "192.0.2.1"
    assert normal_peer(("fe80::1%eth0", 7)) == "fe80::1"
    assert normal_peer(None) is None
    assert normal_peer(("", 0)) is None


@pytest.mark.anyio
async def test_allowed_range_applies_to_the_client_behind_the_proxy() -> None:
    source = {**PROVIDER, "addresses": ["198.51.100.0/24"]}
    http = {"trusted_proxies": ["10.0.0.0/8"]}
    async with receiving({"provider": source}, http, knock=True) as received:

        async def status(peer: str, forwarded: str) -> int:
            headers = {"x-knock": "yes", "x-forwarded-for": forwarded}
            answered = await call(
                received.app, "/in/provider", b"{}", headers=headers, client=(peer, 1)
            )
            return answered.status

        assert await status("10.0.0.1", "198.51.100.1") == 202
        assert received.written.receipts[-1].address == "198.51.100.1"
        assert await status("10.0.0.1", "198.51.100.1, 192.0.2.1") == 403
        assert await status("192.0.2.1", "198.51.100.1") == 403
        assert await status("10.0.0.1", "") == 403
