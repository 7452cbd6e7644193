"""Decides to which addresses this machine may connect.

Authors of URLs must not reach services that only this machine can reach. So these are refused:
addresses of this machine, also public ones of its interfaces, of private networks, of a cloud's
metadata service, and each IPv6 form of them, unless the settings allow the range. Known limit: an
address that a router translates to this machine's is not recognized. *See:* `client`.
"""

import socket
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

_Address = IPv4Address | IPv6Address

# IPv6 ranges whose addresses contain an IPv4 address: its offset in bits from the right.
_WITHIN = ((IPv6Network("64:ff9b::/96"), 0), (IPv6Network("2002::/16"), 80))
# From the registries of special-purpose addresses, and a cloud's metadata service. A list, since
# `is_global` of the standard library differs between versions.
_NOT_PUBLIC = tuple(
    ip_network(each)
    for each in (
        *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "168.63.129.16/32"),
        *("169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24"),
        *("192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24"),
        *("224.0.0.0/4", "240.0.0.0/4", "2001::/23", "2001:db8::/32", "3fff::/20"),
    )
)
_ANY_PORT = 9
# The IPv6 range for public use.
_GIVEN_OUT = IPv6Network("2000::/3")


class Allowed:
    def __init__(self, ranges: Iterable[object] = ()) -> None:
        """`ranges`: in CIDR notation, or as networks."""
        self.ranges: tuple[IPv4Network | IPv6Network, ...] = tuple(
            ip_network(str(each), strict=False) for each in ranges
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Allowed) and other.ranges == self.ranges

    def __hash__(self) -> int:
        return hash(self.ranges)

    def __repr__(self) -> str:
        return f"Allowed({[str(each) for each in self.ranges]})"

    def permits(self, text: str) -> bool:
        try:
            address = _plain(ip_address(text))
        except ValueError:
            return False
        if any(address in each for each in self.ranges):
            return True
        return _is_public(address) and not is_own(address)


def is_own(address: _Address) -> bool:
    """Whether an interface of this machine has the address: other services may listen there."""
    family = socket.AF_INET if isinstance(address, IPv4Address) else socket.AF_INET6
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as way:
            way.connect((str(address), _ANY_PORT))  # sends nothing: the system only chooses a route
            return str(way.getsockname()[0]) == str(address)
    except OSError:  # there is no route
        return False


def _plain(address: _Address) -> _Address:
    if isinstance(address, IPv4Address):
        return address
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    for network, place in _WITHIN:
        if address in network:
            return IPv4Address((int(address) >> place) & 0xFFFFFFFF)
    return IPv6Address(int(address))


def _is_public(address: _Address) -> bool:
    if isinstance(address, IPv6Address) and address not in _GIVEN_OUT:
        return False
    return not any(address in each for each in _NOT_PUBLIC)
