"""Which breaker a request needs."""

import pytest

from inboxd.outbound import targets as targets_module
from inboxd.outbound.request import HttpRequest
from inboxd.outbound.targets import Targets
from inboxd.settings import Settings

SETTINGS = Settings.model_validate(
    {
        "outbound": {"http": {"enabled": True}},
        "targets": {"Bank": {"url": "https://bank.example"}, "shop.example": {"url": "https://x"}},
    }
)


def breaker(request: HttpRequest) -> str:
    return Targets(SETTINGS).prepare(request, {}, "key").breaker


def test_a_target_has_a_breaker_by_its_name_and_a_url_by_its_host() -> None:
    assert breaker(HttpRequest(target="Bank", path="/x")) == "http.Bank"
    assert breaker(HttpRequest(url="https://Mail.example:8443/x")) == "http.mail.example"


def test_who_writes_a_url_opens_no_breaker_of_a_target() -> None:
    """Else a URL whose host is called as a target, and is down, would stop the target's queue."""
    assert breaker(HttpRequest(url="http://bank/")) == "http.url.bank"
    assert breaker(HttpRequest(url="http://SHOP.example:1/")) == "http.url.shop.example"


def test_hosts_beyond_a_bound_have_no_breaker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(targets_module, "_MOST_HOSTS", 2)
    targets = Targets(SETTINGS)
    asked = [HttpRequest(url=f"https://{host}.example/") for host in ("a", "b", "c", "a")]
    breakers = [targets.prepare(each, {}, "key").breaker for each in asked]
    assert breakers == ["http.a.example", "http.b.example", "", "http.a.example"]
