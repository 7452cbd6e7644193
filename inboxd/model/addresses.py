"""The client's address, also behind proxies, and the ranges that may send.

`X-Forwarded-For` and `Forwarded` are read from the right, only as far as each hop is a trusted
proxy, so no client can claim an address. Known limit: a proxy that writes one of the two must
remove the other: if they name different clients, both are ignored.
"""

import socket
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import TypeAlias

Network: TypeAlias = "IPv4Network | IPv6Network"

# No chain of proxies is longer.
_MOST_HOPS = 32
_CACHED_ADDRESSES = 4096
# One subscriber owns a whole IPv6 network of this prefix length.
_IPV6_SUBSCRIBER = 64


class Networks:
    def __init__(self, ranges: Iterable[object]) -> None:
        """`ranges`: in CIDR notation, or as networks."""
        self._networks = tuple(_plain(ip_network(str(each), strict=False)) for each in ranges)
        self._has = lru_cache(_CACHED_ADDRESSES)(self._look)

    def __bool__(self) -> bool:
        return bool(self._networks)

    def __contains__(self, address: object) -> bool:
        return self._has(address)

    def _look(self, address: object) -> bool:
        try:
            found = ip_address(str(address))
        except ValueError:
            return False
        return any(found in network for network in self._networks)


def client_address(peer: str | None, headers: Mapping[str, str], proxies: Networks) -> str | None:
    """None: unknown, as on a Unix socket. headers: by lower-case names."""
    if peer is None:
        return None
    address = normal(peer)
    if not proxies or address is None or address not in proxies:
        return address
    x_forwarded, forwarded = headers.get("x-forwarded-for"), headers.get("forwarded")
    if x_forwarded is None and forwarded is None:
        return address
    claims = {
        _from_the_right(address, hops, proxies)
        for hops in (
            None if x_forwarded is None else x_forwarded.rsplit(",", _MOST_HOPS),
            None if forwarded is None else _for_of(forwarded),
        )
        if hops is not None
    }
    return claims.pop() if len(claims) == 1 else address


def normal_peer(client: Sequence[object] | None) -> str | None:
    """The other end of a connection, as ASGI gives it (host and port); None: a Unix socket."""
    return normal(str(client[0])) if client else None


def subscriber(address: str) -> str:
    """The unit that shares one rate limit: an IPv4 address, or the network of an IPv6 address."""
    return _subscriber(address) if ":" in address else address


@lru_cache(_CACHED_ADDRESSES)
def normal(text: str) -> str | None:
    """One spelling of an address, without port and zone; None: the text is not an address."""
    text = text.strip().strip('"')
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return str(mapped or address)


def plain_ipv4(host: str) -> str | None:
    """The IPv4 address of a host in another notation, such as 127.1; None: it has none."""
    try:
        plain = socket.inet_ntoa(socket.inet_aton(host))
    except (OSError, ValueError):
        return None
    return None if plain == host else plain


@lru_cache(_CACHED_ADDRESSES)
def _subscriber(address: str) -> str:
    return str(ip_network(f"{address}/{_IPV6_SUBSCRIBER}", strict=False))


def _from_the_right(peer: str, hops: list[str], proxies: Networks) -> str:
    """The first hop that is not a trusted proxy; if a hop is not an address, the hop before it."""
    address = peer
    for hop in reversed(hops[-_MOST_HOPS:]):
        found = normal(hop)
        if found is None:
            return address
        address = found
        if address not in proxies:
            break
    return address


def _for_of(forwarded: str) -> list[str]:
    """The `for` of each element of `Forwarded` (RFC 7239); "" where an element has none."""
    return [_for_of_element(each) for each in forwarded.rsplit(",", _MOST_HOPS)]


def _for_of_element(element: str) -> str:
    for pair in element.split(";"):
        name, _, value = pair.partition("=")
        if name.strip().lower() == "for":
            return value.strip()
    return ""


def _plain(network: Network) -> Network:
    mapped = network.network_address.ipv4_mapped if network.version == 6 else None  # noqa: PLR2004
    return network if mapped is None else ip_network(f"{mapped}/{max(0, network.prefixlen - 96)}")
