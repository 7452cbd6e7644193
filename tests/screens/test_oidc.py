"""Sign-in at an OpenID provider: redirect and callback, name, role, sign-out."""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from joserfc.jwk import ECKey, OctKey

from inboxd.admin.screens.access.gate import Gate
from inboxd.admin.screens.application import Screens
from inboxd.admin.screens.pages import SCREENS
from inboxd.admin.tokens import Tokens
from inboxd.errors import SettingsError
from inboxd.settings import Settings
from tests.screens.visiting import SAME, Visited, sign_in, user, visiting
from tests.support import Database
from tests.support.oidc_provider import CLIENT, KEYS, SECRET, Provider, providing
from tests.support.rows import send

pytestmark = pytest.mark.anyio

ROLES = {"staff": "viewer", "ops": "operator"}
CALLBACK = "/sign-in/oidc/callback"


@asynccontextmanager
async def signing_in(
    database: Database, folder: Path, oidc: dict[str, Any] | None = None, **admin: Any
) -> AsyncIterator[tuple[Provider, Visited]]:
    """A provider, and a site that lets visitors sign in there."""
    file = folder / "client.secret"
    file.write_text(f"{SECRET}\n")
    async with providing() as provider:
        settings = {
            "issuer": provider.issuer,
            "client_id": CLIENT,
            "client_secret_file": str(file),
            "groups_claim": "groups",
            "roles": ROLES,
            **(oidc or {}),
        }
        async with visiting(database, oidc=settings, **admin) as site:
            yield provider, site


async def to_provider(client: httpx.AsyncClient, path: str = "/events?type=a.b") -> str:
    """Open a page and start the sign-in; return the address of the provider."""
    asked = await client.get(path)
    assert asked.status_code == 303, asked.text
    begun = await client.get(asked.headers["location"])
    assert begun.status_code == 303, begun.text
    return str(begun.headers["location"])


async def at_provider(address: str) -> str:
    """Sign in at the provider; return path and query of the callback."""
    async with httpx.AsyncClient(trust_env=False) as browser:
        answer = await browser.get(address)
        assert answer.status_code == 303, answer.text
    parts = urlsplit(answer.headers["location"])
    return f"{parts.path}?{parts.query}"


async def there_and_back(client: httpx.AsyncClient, path: str = "/events?type=a.b") -> Any:
    """Open a page, sign in at the provider, and return the answer to the callback."""
    return await client.get(await at_provider(await to_provider(client, path)))


async def test_a_visitor_signs_in_at_the_provider_looks_and_signs_out(
    database: Database, tmp_path: Path
) -> None:
    await send(database, 1)
    async with signing_in(database, tmp_path) as (provider, site), site.client() as client:
        asked = await client.get("/events?type=a.b")
        assert asked.headers["location"] == "/sign-in/oidc?to=/events%3Ftype%3Da.b"
        address = await to_provider(client)
        assert address.startswith(f"{provider.issuer}/authorize?tenant=1&")
        query = {name: each[0] for name, each in parse_qs(urlsplit(address).query).items()}
        assert query["redirect_uri"] == f"http://localhost:8799{CALLBACK}"
        assert (query["scope"], query["client_id"]) == ("openid profile", CLIENT)
        done = await client.get(await at_provider(address))
        assert done.status_code == 303, done.text
        assert done.headers["location"] == "/events?type=a.b"
        cookies = {each.partition("=")[0]: each for each in done.headers.get_list("set-cookie")}
        session = cookies.pop("inboxd_session")
        assert {"HttpOnly", "Path=/", "SameSite=lax"} <= set(session.split("; "))
        [flow] = cookies.values()
        assert "Max-Age=0" in flow
        page = await client.get("/commands/1?payload=1")
        assert (page.status_code, "ada" in page.text, "Sign out" in page.text) == (200, True, True)
        kept = client.cookies["inboxd_session"]
        out = await client.post("/sign-out", headers=SAME)
        assert (out.status_code, out.headers["location"]) == (303, "/sign-in")
        button = await client.get("/sign-in")
        host = urlsplit(provider.issuer).netloc
        assert f'href="/sign-in/oidc">Sign in at {host}</a>' in button.text
        assert "password" not in button.text
        again = await client.get("/events", headers={"cookie": f"inboxd_session={kept}"})
        assert again.status_code == 303, "a sign-out ends the session of the cookie"


async def test_the_callback_has_the_prefix_and_the_scheme_of_the_browser(
    database: Database, tmp_path: Path
) -> None:
    proxy: dict[str, Any] = {
        "trusted_proxies": ["10.0.0.1"],
        "hosts": ["inbox.example"],
        "path": "/ops",
    }
    async with signing_in(database, tmp_path, **proxy) as (_, site):
        told = {"x_forwarded_proto": "https", "peer": "10.0.0.1"}
        async with site.client("http://inbox.example", **told) as client:
            begun = await client.get("/ops/sign-in/oidc?to=/events")
            address = begun.headers["location"]
            [redirect] = parse_qs(urlsplit(address).query)["redirect_uri"]
            assert redirect == f"https://inbox.example/ops{CALLBACK}"
            [cookie] = begun.headers.get_list("set-cookie")
            assert cookie.startswith("__Secure-inboxd_oidc_")
            assert {"Secure", "HttpOnly", "Path=/ops"} <= set(cookie.split("; "))
            sent = {"cookie": cookie.partition(";")[0]}
            done = await client.get(await at_provider(address), headers=sent)
            assert (done.status_code, done.headers["location"]) == (303, "/ops/events")
        forged = {"x_forwarded_host": "evil.example", "peer": "10.0.0.1"}
        for headers in (forged, {"host": "evil.example"}):
            async with site.client("http://inbox.example", **headers) as client:
                assert (await client.get("/ops/sign-in/oidc")).status_code == 403
        async with site.client(x_forwarded_prefix="/evil", x_forwarded_proto="https") as client:
            begun = await client.get("/sign-in/oidc")  # an untrusted proxy sends these headers
            [redirect] = parse_qs(urlsplit(begun.headers["location"]).query)["redirect_uri"]
            assert redirect == f"http://localhost:8799/ops{CALLBACK}"


@pytest.mark.parametrize(
    ("groups", "acts", "reads"),
    [
        (["staff", "ops"], True, True),
        (["staff"], False, True),
        ("ops", True, True),
        (["*", "nobody's", 7, None], False, False),
        ({"ops": True}, False, False),
        (None, False, False),
    ],
)
async def test_the_highest_role_of_the_groups_counts(
    database: Database, tmp_path: Path, groups: Any, acts: bool, reads: bool
) -> None:
    await send(database, 1)
    async with signing_in(database, tmp_path) as (provider, site), site.client() as client:
        provider.claims["groups"] = groups
        done = await there_and_back(client)
        assert done.status_code == (303 if reads else 403)
        assert reads or "None of your groups at" in done.text
        assert (await client.get("/commands/1")).status_code == (200 if reads else 303)
        shown = await client.get("/commands/1?payload=1")
        assert shown.status_code == ((200 if acts else 403) if reads else 303)


async def test_all_users_of_a_provider_may_have_a_role(database: Database, tmp_path: Path) -> None:
    anybody = {"roles": {"*": "reader"}, "groups_claim": None, "user_claim": "email"}
    async with signing_in(database, tmp_path, anybody) as (provider, site), site.client() as client:
        provider.claims = {"email": "ada@example.com"}
        assert (await there_and_back(client)).status_code == 303
        assert "ada@example.com" in (await client.get("/events?payload=1")).text
        client.cookies.clear()
        provider.claims["email_verified"] = False
        refused = await there_and_back(client)
        assert (refused.status_code, "sends no user name" in refused.text) == (403, True)


@pytest.mark.parametrize("name", [None, "", 7, "a\nb", "x" * 201])
async def test_a_user_without_a_valid_name_is_not_signed_in(
    database: Database, tmp_path: Path, name: Any
) -> None:
    async with signing_in(database, tmp_path) as (provider, site), site.client() as client:
        provider.claims["preferred_username"] = name
        refused = await there_and_back(client)
        assert (refused.status_code, "sends no user name" in refused.text) == (403, True)
        assert "inboxd_session" not in client.cookies


async def test_a_name_of_any_letters_is_kept(database: Database, tmp_path: Path) -> None:
    async with signing_in(database, tmp_path) as (provider, site), site.client() as client:
        provider.claims["preferred_username"] = "阿" * 200
        assert (await there_and_back(client)).status_code == 303
        assert "阿" * 200 in (await client.get("/events")).text


async def test_claims_missing_in_the_id_token_come_from_userinfo(
    database: Database, tmp_path: Path
) -> None:
    async with signing_in(database, tmp_path) as (provider, site), site.client() as client:
        provider.claims = {}
        provider.metadata["userinfo_endpoint"] = f"{provider.issuer}/userinfo"
        provider.userinfo = {"sub": "7", "preferred_username": "bob", "groups": ["staff"]}
        assert (await there_and_back(client)).status_code == 303
        assert "bob" in (await client.get("/events")).text
        client.cookies.clear()
        provider.userinfo["sub"] = "8"
        refused = await there_and_back(client)
        assert (refused.status_code, "is not valid, so you" in refused.text) == (502, True)


async def test_several_pages_that_open_at_once_all_come_back(
    database: Database, tmp_path: Path
) -> None:
    async with signing_in(database, tmp_path) as (_, site), site.client() as client:
        addresses = [await to_provider(client, f"/events/{number}") for number in range(5)]
        for number, address in reversed([*enumerate(addresses)]):
            done = await client.get(await at_provider(address))
            assert done.headers["location"] == f"/events/{number}"
        for _ in range(30):
            await client.get("/sign-in/oidc")
        assert len(client.cookies) <= 10, "abandoned sign-ins do not pile up"


@pytest.mark.parametrize("to", ["//evil.example", "/\\evil.example", "https://evil.example", ""])
async def test_a_sign_in_never_leads_to_another_site(
    database: Database, tmp_path: Path, to: str
) -> None:
    async with signing_in(database, tmp_path) as (_, site), site.client() as client:
        begun = await client.get("/sign-in/oidc", params={"to": to})
        done = await client.get(await at_provider(begun.headers["location"]))
        assert (done.status_code, done.headers["location"]) == (303, "/")


async def test_a_path_that_no_cookie_could_hold_leads_to_the_first_page(
    database: Database, tmp_path: Path
) -> None:
    async with signing_in(database, tmp_path) as (_, site), site.client() as client:
        done = await there_and_back(client, f"/events?find={'é' * 1000}")
        assert (done.status_code, done.headers["location"]) == (303, "/")


async def test_users_and_a_provider_are_side_by_side(database: Database, tmp_path: Path) -> None:
    async with (
        signing_in(database, tmp_path, users=[user("ada")]) as (_, site),
        site.client() as one,
        site.client() as other,
    ):
        form = await one.get((await one.get("/events")).headers["location"])
        assert 'href="/sign-in/oidc?to=%2Fevents"' in form.text
        assert 'type="password"' in form.text
        assert (await sign_in(one, "ada")).status_code == 303
        begun = await other.get("/sign-in/oidc?to=/events")
        await other.get(await at_provider(begun.headers["location"]))
        site.reload({})
        assert (await one.get("/events")).status_code == 303, "the reload removed the user ada"
        assert (await other.get("/events")).status_code == 200, "the reload kept the provider's ada"


async def test_other_settings_of_the_provider_end_its_sign_ins(
    database: Database, tmp_path: Path
) -> None:
    file = tmp_path / "session.secret"
    file.write_text("of-32-characters-or-some-more-of-them")
    kept: dict[str, Any] = {"session_secret_file": str(file)}
    async with signing_in(database, tmp_path, **kept) as (_, site), site.client() as client:
        await there_and_back(client)
        cookie = {"cookie": f"inboxd_session={client.cookies['inboxd_session']}"}
        oidc = site.settings.admin.oidc
        assert oidc is not None
        same = oidc.model_dump(mode="json")
        for settings, status in (
            ({"oidc": same}, 200),
            ({"oidc": {**same, "roles": {"staff": "viewer"}}}, 303),
            ({"oidc": {**same, "client_id": "another"}}, 303),
            ({"users": [user("ada")]}, 303),
        ):
            async with visiting(database, **kept, **settings) as again, again.client() as browser:
                assert (await browser.get("/events", headers=cookie)).status_code == status


async def test_keys_for_other_uses_are_skipped(database: Database, tmp_path: Path) -> None:
    """A provider publishes keys of many kinds, and may sign with an EC key."""
    elliptic = ECKey.generate_key("P-256", {"kid": "ec"})
    async with signing_in(database, tmp_path) as (provider, site), site.client() as client:
        provider.published = [
            OctKey.generate_key(256, {"kid": "ec"}).as_dict(private=True),
            {"kty": "RSA", "n": "!", "e": "AQAB", "kid": "ec"},
            {**KEYS[0].as_dict(private=False), "use": "enc", "kid": "ec"},
            {"kty": "AKP", "kid": "ec"},
            elliptic.as_dict(private=False),
        ]
        provider.key, provider.algorithm = elliptic, "ES256"
        assert (await there_and_back(client)).status_code == 303


async def test_a_client_without_a_secret_has_pkce_alone(database: Database, tmp_path: Path) -> None:
    public = {"client_secret_file": None}
    async with signing_in(database, tmp_path, public) as (provider, site), site.client() as client:
        provider.secret = None
        assert (await there_and_back(client)).status_code == 303


async def test_the_secret_is_sent_as_the_provider_wants_it(
    database: Database, tmp_path: Path
) -> None:
    async with signing_in(database, tmp_path) as (provider, site), site.client() as client:
        provider.metadata["token_endpoint_auth_methods_supported"] = ["client_secret_post"]
        assert (await there_and_back(client)).status_code == 303


async def test_a_script_gets_401_and_no_redirect(database: Database, tmp_path: Path) -> None:
    async with signing_in(database, tmp_path) as (_, site), site.client() as client:
        for path, headers in (
            ("/events.json", {}),
            ("/events", {"accept": "application/json"}),
            ("/events", {"x-revision": "0"}),
        ):
            assert (await client.get(path, headers=headers)).status_code == 401


def _gate(**oidc: Any) -> Gate:
    given = {"issuer": "https://login.example", "client_id": "x", "roles": {"*": "viewer"}, **oidc}
    settings = Settings.merged({"admin": {"oidc": given}}, {})
    return Gate(settings.admin, Tokens(()))


def test_the_paths_of_a_provider_are_served_only_if_one_is_set() -> None:
    looks: Any = None

    def paths(gate: Gate) -> set[str]:
        routes = Screens(Settings(), looks, gate, SCREENS).application().routes
        return {getattr(each, "path", "") for each in routes}

    without = Gate(Settings().admin, Tokens(()))
    assert paths(_gate()) - paths(without) == {"/sign-in/oidc", CALLBACK}


@pytest.mark.parametrize("missing", ["joserfc", "aiohttp"])
def test_without_the_extra_an_error_names_the_package_to_install(
    monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(SettingsError) as refused:
        _gate()
    assert f"needs {missing}" in str(refused.value)
    assert "pip install 'inboxd[oidc]'" in str(refused.value)


def test_a_secret_that_cannot_be_read_or_is_empty_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="cannot read the secret"):
        _gate(client_secret_file=str(tmp_path / "none"))
    (tmp_path / "empty").write_text("\n")
    with pytest.raises(SettingsError, match="is empty"):
        _gate(client_secret_file=str(tmp_path / "empty"))
