"""Which breaker a request needs; what a payload cannot change of its target."""

import pytest

from inboxd.errors import Reject
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


def test_every_host_has_a_breaker() -> None:
    targets = Targets(SETTINGS)
    asked = [HttpRequest(url=f"https://{n}.example/") for n in range(2_000)]
    breakers = {targets.prepare(each, {}, "key").breaker for each in asked}
    assert breakers == {f"http.{n}.example" for n in range(2_000)}


@pytest.mark.parametrize(
    "path",
    [
        *("/..", "/../admin", "/a/../../admin", "/./a", "/%2e%2e/admin", "/.%2E/admin"),
        *("/..%2fadmin", "/a%2F..", "/..\\admin", "/..%5cadmin", "/..;/admin", "/..?a=b", "/..#a"),
        *("/%252e%252e/admin", "/a%252f..", "/..%255cadmin"),
    ],
)
def test_a_path_does_not_lead_out_of_its_target(path: str) -> None:
    with pytest.raises(Reject, match=r"path: .* out of the target's URL"):
        breaker(HttpRequest(target="Bank", path=path))


@pytest.mark.parametrize(
    "path", ["/a..b/...", "/.well-known/x", "/a?b=../c", "?b=/../c", "/a#/../"]
)
def test_dots_elsewhere_are_nothing_to_refuse(path: str) -> None:
    url = Targets(SETTINGS).prepare(HttpRequest(target="Bank", path=path), {}, "key").request.url
    assert url == f"https://bank.example{path}"


@pytest.mark.parametrize("name", ["authorization", "Authorization", "X-Key", "x-KEY"])
def test_no_payload_takes_the_place_of_what_the_target_is_known_by(name: str) -> None:
    """Who may send a command must not choose as whom the target is asked."""
    target = {"url": "https://x", "authorization": "Bearer ours", "headers": {"X-key": "ours"}}
    targets = Targets(Settings.model_validate({"targets": {"bank": target}}))
    with pytest.raises(Reject, match=f"headers: {name.lower()} is of the target's settings"):
        targets.prepare(HttpRequest(target="bank", headers={name: "theirs"}), {}, "key")
    sent = targets.prepare(HttpRequest(target="bank", headers={"a": "b"}), {}, "key").request
    assert [sent.headers[n] for n in ("authorization", "x-key", "a")] == [
        "Bearer ours",
        "ours",
        "b",
    ]


def test_without_one_of_the_targets_a_payload_may_have_its_own() -> None:
    request = HttpRequest(target="Bank", headers={"Authorization": "Bearer mine"})
    assert Targets(SETTINGS).prepare(request, {}, "key").request.headers["authorization"] == (
        "Bearer mine"
    )
