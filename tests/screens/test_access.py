"""Access to the screens: by loopback, token, proxy or sign-in; and the role of each page."""

import re
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Route

from inboxd.admin.screens.access.gate import Gate
from inboxd.admin.screens.actions import ACTIONS
from inboxd.admin.screens.application import Screens
from inboxd.admin.screens.pages import SCREENS
from inboxd.admin.screens.roles import Role
from inboxd.admin.screens.screen import PageVisit, Screen, ScreenPage
from inboxd.admin.tokens import Tokens
from inboxd.errors import SettingsError
from inboxd.settings import Settings
from tests.screens.visiting import ADA, EVE, SAME, TOKENS, sign_in, user, visiting
from tests.support import Database
from tests.support.rows import send

pytestmark = pytest.mark.anyio

# The role of each page that asks for another role than viewer.
ROLES: dict[str, Role] = {}
# These paths ask for no role: their content is the same for all and tells nothing of an inbox.
OF_ALL = {"/static/{digest}/{name}", "/preferences"}
# The page of saved views, which any visitor opens; test_views.py tests it.
OF_VISITORS = {"/views"}
# This page has two more forms, `.md` and `.mmd`, for export.
TAKEN_AWAY = "/story/{kind}/{id}"
ENTRANCES = {("GET", "/sign-in"), ("POST", "/sign-in"), ("POST", "/sign-out")}
PROXY = {
    "proxy": {
        "user_header": "x-user",
        "groups_header": "x-groups",
        "roles": {"ops": "operator", "staff": "viewer"},
    },
    "trusted_proxies": ["10.0.0.0/24"],
    "hosts": ["inbox.example"],
}


def _router() -> Starlette:
    settings = Settings.merged({"admin": {"users": [user("ada")]}}, {})
    gate = Gate(settings.admin, Tokens(()))
    looks: Any = None
    return Screens(settings, looks, gate, SCREENS).application()


def _filled(path: str) -> str:
    return re.sub(r"\{[^}]+\}", "1", path)


async def test_each_page_of_the_router_asks_for_its_role(database: Database) -> None:
    """A new path that is neither a screen nor an entrance fails this test."""
    await send(database, 1)
    served = {
        (method, route.path)
        for route in _router().routes
        if isinstance(route, Route)
        for method in (route.methods or ())
        if method != "HEAD"
    }
    acts = {(method, each.path) for each in ACTIONS for method in ("GET", "POST")}
    assert acts <= served
    served -= acts  # test_acting_rights.py tests their roles
    pages = {path for method, path in served - ENTRANCES if method == "GET"}
    assert {(m, p) for m, p in served - ENTRANCES if p not in pages} == set()
    known = {each.path: each.role for each in SCREENS}
    json = {f"{path.rstrip('/') or '/index'}.json": role for path, role in known.items()}
    json |= {f"{TAKEN_AWAY}.{form}": known[TAKEN_AWAY] for form in ("md", "mmd")}
    assert pages == {*known, *json, *OF_ALL, *OF_VISITORS}
    pages -= OF_ALL | OF_VISITORS
    for path, role in known.items():
        assert role == ROLES.get(path, Role.VIEWER), f"{path}: add its role to ROLES if meant"
    names = [each.name.lower() for each in Role]
    async with visiting(database, users=[user(name, name) for name in names]) as site:
        async with site.client(accept="application/json") as stranger:
            for path in sorted(pages):
                asked = _filled(path)
                assert (await stranger.get(asked)).status_code == 401, path
        for role in Role:
            async with site.client() as client:
                assert (await sign_in(client, role.name.lower())).status_code == 303
                for path in sorted(pages):
                    wanted = (known | json)[path]
                    asked = _filled(path)
                    plain = (await client.get(asked)).status_code
                    assert (plain == 403) == (role < wanted), (path, role)
                    assert plain < 500, (path, role)
                    for query in ("?payload=1", "?payload=0", "?raw=true", "?payload=&payload=1"):
                        told = (await client.get(f"{asked}{query}")).status_code
                        assert (told == 403) == (role < max(wanted, Role.READER)), (path, query)
                    # An empty form field does not ask for the payload.
                    empty = (await client.get(f"{asked}?x=1&payload=")).status_code
                    assert (empty == 403) == (role < wanted), (path, role)


async def test_a_role_has_the_rights_of_lower_roles_and_no_higher_ones(database: Database) -> None:
    async def read(visit: PageVisit) -> ScreenPage:
        return ScreenPage("overview.html", {"lanes": [], "role": visit.visitor.role.name})

    pages = [Screen(f"/of-{each.name.lower()}", read, each) for each in Role]
    names = [each.name.lower() for each in Role]
    users = [user(name, name) for name in names]
    async with visiting(database, pages, users=users) as site:
        for role in Role:
            async with site.client(accept="application/json") as client:
                await sign_in(client, role.name.lower())
                for page in pages:
                    for path in (page.path, f"{page.path}.json"):
                        answer = await client.get(path)
                        assert answer.status_code == (200 if role >= page.role else 403)
                        assert (role.name in answer.text) == (role >= page.role)


async def test_without_settings_this_machine_sees_pages_without_payloads(
    database: Database,
) -> None:
    await send(database, 1)
    async with visiting(database) as site:
        async with site.client() as client:
            assert (await client.get("/")).status_code == 200
            refused = await client.get("/commands/1?payload=1")
            assert (refused.status_code, "the role reader" in refused.text) == (403, True)
        for peer in ("192.0.2.7", "::ffff:192.0.2.7"):
            async with site.client(peer=peer) as client:
                answer = await client.get("/")
                assert (answer.status_code, "for this machine alone" in answer.text) == (403, True)
        for name in ("x-forwarded-for", "forwarded", "x-real-ip", "via"):
            async with site.client() as client:
                answer = await client.get("/", headers={name: "192.0.2.7"})
                assert (answer.status_code, "came through a proxy" in answer.text) == (403, True)
    async with visiting(database, local_role="reader") as site, site.client() as client:
        assert (await client.get("/commands/1?payload=1")).status_code == 200


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("LOCALHOST:8799", 200),
        ("127.0.0.1:1", 200),
        ("[::1]:8799", 200),
        ("inbox.example", 200),
        ("evil.example", 403),
        ("localhost.evil.example", 403),
        ("localhost:8799@evil.example", 403),
        ("127.0.0.1.evil.example", 403),
        ("10.0.0.5", 403),
        ("[::2]", 403),
        ("", 403),
        ("<script>", 403),
    ],
)
async def test_an_unknown_host_name_is_refused(database: Database, host: str, status: int) -> None:
    async with visiting(database, hosts=["inbox.example"]) as site, site.client() as client:
        answer = await client.get("/", headers={"host": host})
        assert answer.status_code == status
        if status == 403:
            assert "add the name to hosts in [admin]" in answer.text
            assert "<script>" not in answer.text


async def test_a_rebound_name_does_not_get_at_the_sign_in_or_a_proxys_headers(
    database: Database,
) -> None:
    """A script of a rebound page can set any of these headers but not Host."""
    users = {**PROXY, "trusted_proxies": ["127.0.0.1"], "users": [user("ada")]}
    async with visiting(database, **users) as site, site.client("http://evil.example") as client:
        forged = {"x-user": "root", "x-groups": "ops", "x-forwarded-host": "localhost"}
        assert (await client.get("/", headers=forged)).status_code == 403
        assert (await client.get("/sign-in")).status_code == 403
        assert (await sign_in(client, "ada")).status_code == 403
        sent = {"host": "inbox.example", "x-forwarded-host": "evil.example"}
        assert (await client.get("/", headers={**forged, **sent})).status_code == 403


async def test_a_proxy_names_the_visitor(database: Database) -> None:
    async with visiting(database, **PROXY) as site:

        async def asked(peer: str, *headers: tuple[str, str]) -> httpx.Response:
            async with site.client("http://inbox.example", peer) as client:
                sent = [("accept", "text/html"), *headers]
                return await client.get("/commands?payload=a=1", headers=sent)

        ops = await asked("10.0.0.9", ("x-user", "Ada L."), ("x-groups", "all, ops"))
        assert (ops.status_code, "Ada L." in ops.text, "Sign out" in ops.text) == (200, True, False)
        viewer = await asked("10.0.0.9", ("x-user", "bob"), ("x-groups", "staff,*"))
        assert viewer.status_code == 403
        none = await asked("10.0.0.9", ("x-user", "eve"), ("x-groups", "all"))
        assert (none.status_code, "None of your groups" in none.text) == (403, True)
        for wrong in (
            [("x-user", "a"), ("x-user", "b")],
            [("x-user", " ")],
            [("x-user", "a" * 201)],
        ):
            assert (await asked("10.0.0.9", *wrong, ("x-groups", "ops"))).status_code == 403
        for peer in ("10.0.1.9", "127.0.0.1", "192.0.2.1"):
            spoofed = await asked(peer, ("x-user", "root"), ("x-groups", "ops"))
            assert (spoofed.status_code, "root" in spoofed.text) == (401, False)
        assert (await asked("10.0.0.9")).status_code == 401


async def test_all_users_of_a_proxy_may_have_a_role(database: Database) -> None:
    anybody = {**PROXY, "proxy": {"user_header": "X-User", "roles": {"*": "reader"}}}
    async with (
        visiting(database, **anybody) as site,
        site.client("http://inbox.example", "10.0.0.1", x_user="ada") as client,
    ):
        assert (await client.get("/commands?payload=a=1")).status_code == 200


async def test_a_token_is_a_role_for_pages_and_api_alike(database: Database) -> None:
    await send(database, 1)
    async with visiting(database, tokens=TOKENS) as site:
        async with site.client() as client:
            answer = await client.get("/")
            assert answer.status_code == 401
            assert "A token is required" in answer.text
            wrong = await client.get("/", headers={"authorization": "Bearer not-a-token-at-all"})
            assert (wrong.status_code, "Send a valid token" in wrong.text) == (401, True)
        for token, acts in ((ADA, True), (EVE, False)):
            told = {"authorization": f"Bearer {token}"}
            async with site.client("http://any.example", "192.0.2.7", **told) as client:
                assert (await client.get("/commands/1?payload=1")).status_code == 200
                assert (await client.get("/commands.json")).json()["commands"][0]["id"] == 1
                assert (await client.get("/api/commands/1?payload=1")).status_code == 200
                done = await client.post("/api/commands/1/cancel")
                assert (done.status_code == 403) != acts


async def test_guesses_of_tokens_are_throttled(database: Database) -> None:
    async with (
        visiting(database, tokens=TOKENS) as site,
        site.client(authorization="Bearer a-guess-of-a-token") as client,
    ):
        found = [401]
        # 1,000 is for a slow machine, whose allowance is refilled meanwhile.
        while found[-1] == 401 and len(found) < 1000:
            found.append((await client.get("/")).status_code)
        assert (found[1], found[-1]) == (401, 429)


async def test_tokens_and_a_local_role_work_side_by_side(
    database: Database,
) -> None:
    async with (
        visiting(database, tokens=TOKENS, local_role="viewer") as site,
        site.client() as client,
    ):
        assert (await client.get("/")).status_code == 200
        assert (await client.get("/api/commands/1")).status_code == 401
        assert (await client.post("/sign-in", headers=SAME)).status_code == 404


def test_a_secret_that_could_be_guessed_is_refused(tmp_path: Any) -> None:
    file = tmp_path / "secret"
    file.write_text("canary-short\n")
    settings = Settings.merged({"admin": {"session_secret_file": str(file)}}, {})
    with pytest.raises(SettingsError, match="session_secret_file") as refused:
        Gate(settings.admin, Tokens(()))
    assert "canary" not in str(refused.value)
