"""The rate of hosts in URLs: it holds for each host, with bounded memory."""

import pytest

from inboxd.outbound import requests
from inboxd.outbound.requests import HostRate


def test_each_host_has_its_own_rate() -> None:
    rate = HostRate(2, 1.0)
    assert [rate.wait("a", 100.0) for _ in range(3)] == [0.0, 0.0, 0.5]
    assert rate.wait("b", 100.0) == 0.0
    assert rate.wait("a", 100.5) == 0.0


def test_hosts_beyond_the_remembered_ones_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "_MOST_HOSTS", 3)
    rate = HostRate(1, 10.0)
    assert [rate.wait(host, 100.0) for host in "abc"] == [0.0] * 3
    assert rate.wait("d", 100.0) == 0.0, "old hosts are removed once per period"
    assert rate.wait("e", 101.0) == 9.0
    assert rate.wait("e", 111.0) == 0.0
    assert len(rate._full) <= 3 + 1
