"""The breaker of a request, and parts of a target that a payload cannot change."""

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


def test_breakers_are_named_by_target_or_host() -> None:
    assert breaker(HttpRequest(target="Bank", path="/x")) == "http.Bank"
    assert breaker(HttpRequest(url="https://Mail.example:8443/x")) == "http.mail.example"


def test_a_url_never_uses_the_breaker_of_a_target() -> None:
    """Otherwise a failing host with a target's name would stop the target's queue."""
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
def test_dots_elsewhere_in_a_path_are_accepted(path: str) -> None:
    url = Targets(SETTINGS).prepare(HttpRequest(target="Bank", path=path), {}, "key").request.url
    assert url == f"https://bank.example{path}"


@pytest.mark.parametrize("name", ["authorization", "Authorization", "X-Key", "x-KEY"])
def test_a_payload_cannot_replace_the_target_s_credentials(name: str) -> None:
    """The sender of a command must not choose the identity that is used at the target."""
    target = {"url": "https://x", "authorization": "Bearer ours", "headers": {"X-key": "ours"}}
    targets = Targets(Settings.model_validate({"targets": {"bank": target}}))
    with pytest.raises(Reject, match=f"headers: {name.lower()} is set by the target's settings"):
        targets.prepare(HttpRequest(target="bank", headers={name: "theirs"}), {}, "key")
    sent = targets.prepare(HttpRequest(target="bank", headers={"a": "b"}), {}, "key").request
    assert [sent.headers[n] for n in ("authorization", "x-key", "a")] == [
        "Bearer ours",
        "ours",
        "b",
    ]


def test_a_payload_may_have_credentials_if_the_target_has_none() -> None:
    request = HttpRequest(target="Bank", headers={"Authorization": "Bearer mine"})
    assert Targets(SETTINGS).prepare(request, {}, "key").request.headers["authorization"] == (
        "Bearer mine"
    )
