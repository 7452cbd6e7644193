"""Checks of a URL's text before a request."""

import pytest

from inboxd.errors import TargetRefused
from inboxd.outbound.urls import checked_url


@pytest.mark.parametrize(
    "host",
    [
        *("127.1", "127.0.1", "2130706433", "0x7f000001", "0177.0.0.1", "0x7f.1", "017700000001"),
        "127.0.0.01",
    ],
)
def test_an_ipv4_address_in_another_notation_is_refused(host: str) -> None:
    with pytest.raises(TargetRefused, match=rf"{host} is 127\.0\.0\.1 in another notation.*write"):
        checked_url(f"http://{host}:8080/secret")


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "8.8.8.8", "[::1]", "a.example", "1e100.net", "3com.com", "localhost"]
)
def test_other_hosts_are_used_as_they_are_written(host: str) -> None:
    assert str(checked_url(f"http://{host}/x")) == f"http://{host}/x"
