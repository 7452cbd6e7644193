"""nginx before the screens, as docs/screens-security.md prints it: prefixes and sign-ins.

The test takes servers and settings from the page and changes their ports. A stub stands in for
oauth2-proxy, since nginx decides whose headers the screens believe.
"""

import base64
import re
import tomllib
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from inboxd.embedded import Server
from tests.browser import school
from tests.screens.crawling import crawled
from tests.screens.visiting import PASSWORD, hashed
from tests.support import Database, ExternalServer, Worker, create, drop
from tests.support.nginx import nginx
from tests.support.ports import held_port

pytestmark = pytest.mark.anyio

_PAGE = Path(__file__).parents[2] / "docs" / "screens-security.md"
_LOGIN = {"authorization": f"Basic {base64.b64encode(b'zoe:secret').decode()}"}
_FORGED = {"x-auth-request-user": "mallory", "x-auth-request-groups": "oncall"}
# Answers as oauth2-proxy does, for a known visitor and for an unknown one.
_PROVIDER = """
server {{
    listen 127.0.0.1:{port};
    location = /oauth2/auth {{
        if ($cookie_visitor = "") {{ return 401; }}
        add_header X-Auth-Request-User $cookie_visitor always;
        add_header X-Auth-Request-Groups $cookie_groups always;
        return 202;
    }}
    location = /oauth2/sign_in {{ return 200 "the sign-in of the provider"; }}
}}
"""


def _block(language: str, mark: str) -> str:
    """The block of the page in `language` that contains `mark`."""
    blocks = re.findall(rf"^```{language}\n(.*?)^```$", _PAGE.read_text(), re.DOTALL | re.MULTILINE)
    [found] = [each for each in blocks if mark in each]
    return str(found)


@dataclass(frozen=True)
class _Proxies:
    """Port of each server of nginx, by its name."""

    ports: dict[str, int]

    def client(self, which: str, host: str = "inbox.example.com") -> httpx.AsyncClient:
        """A browser that has opened this host at the server `which`."""
        headers = {"host": host, "accept": "text/html"}
        url = f"http://127.0.0.1:{self.ports[which]}"
        return httpx.AsyncClient(base_url=url, headers=headers, trust_env=False)


@pytest.fixture(scope="module")
async def proxies(
    anyio_backend: object,
    server: Server | ExternalServer,
    template: Database,
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[_Proxies]:
    """Sign-in by users of the settings, by a password of nginx, and by a provider."""
    folder = tmp_path_factory.mktemp("proxied")
    (folder / "passwords").write_text("zoe:{PLAIN}secret\n")
    users = tomllib.loads(_block("toml", 'path = "/ops"'))["admin"]
    users["users"][0]["password_hash"] = hashed(PASSWORD)
    named = tomllib.loads(_block("toml", "[admin.proxy]"))["admin"]
    settings: dict[str, dict[str, Any]] = {
        "users": users,
        "passwords": {**named, "path": "/ops"},
        "provider": named,
    }
    database = create(server, template.name)
    await school.fill(database)
    async with AsyncExitStack() as stack:
        stack.callback(drop, server, database)

        def port() -> int:
            return int(stack.enter_context(held_port()).getsockname()[1])

        behind = {name: port() for name in settings}
        for name, admin in settings.items():
            config = {"admin": {**admin, "port": behind[name]}}
            process = Worker(folder, database.dsn, config, command=["admin"])
            stack.callback(process.kill)
            await process.ready()
        oauth2 = port()
        ports = {name: port() for name in ("users", "keeps", "strips", "provider")}
        keeps = _block("nginx", "auth_basic").replace(
            "/etc/nginx/inboxd.passwords", str(folder / "passwords")
        )
        passed = "proxy_pass http://127.0.0.1:8799"
        written = {
            "users": (_block("nginx", "removes /ops"), behind["users"]),
            "keeps": (keeps, behind["passwords"]),
            "strips": (keeps.replace(f"{passed};", f"{passed}/;"), behind["passwords"]),
        }
        servers = [_PROVIDER.format(port=oauth2)]
        for name, (location, to) in written.items():
            listen = f"listen 127.0.0.1:{ports[name]};"
            servers.append(f"server {{ {listen}\n{location.replace('8799', str(to))} }}\n")
        asks = _block("nginx", "auth_request").replace("4180", str(oauth2))
        asks = asks.replace("8799", str(behind["provider"]))
        servers.append(asks.replace("{", f"{{ listen 127.0.0.1:{ports['provider']};", 1))
        stack.enter_context(nginx("".join(servers), oauth2))
        yield _Proxies(ports)


@pytest.mark.parametrize("which", ["keeps", "strips"])
async def test_no_link_leaves_the_prefix_behind_nginx(proxies: _Proxies, which: str) -> None:
    async with proxies.client(which) as browser:
        assert (await browser.get("/ops/")).status_code == 401
        browser.headers.update(_LOGIN)
        moved = await browser.get("/ops")
        assert moved.headers["location"].endswith("/ops/")
        seen = await crawled(browser, "/ops/", "http://inbox.example.com")
    assert len({each.partition("?")[0] for each in seen}) > 30
    assert any(each.endswith(".css") for each in seen)
    assert any(each.endswith(".js") for each in seen)


@pytest.mark.parametrize("which", ["keeps", "strips"])
async def test_a_user_of_nginx_cannot_forge_another_name(proxies: _Proxies, which: str) -> None:
    async with proxies.client(which) as browser:
        assert (await browser.get("/ops/events", headers=_FORGED)).status_code == 401
        browser.headers.update(_LOGIN)
        page = await browser.get("/ops/events", headers=_FORGED)
        assert ("zoe" in page.text, "mallory" in page.text) == (True, False)
        refused = await browser.get("/ops/events/1?payload=1", headers=_FORGED)
        assert (refused.status_code, "reader" in refused.text) == (403, True)


async def test_a_user_of_a_provider_cannot_forge_another_name(proxies: _Proxies) -> None:
    async with proxies.client("provider") as browser:
        asked = await browser.get("/events", headers=_FORGED)
        assert asked.text == "the sign-in of the provider"
        browser.cookies.set("visitor", "zoe")
        page = await browser.get("/events", headers=_FORGED)
        assert ("zoe" in page.text, "mallory" in page.text) == (True, False)
        contents = "/events/1?payload=1"
        assert (await browser.get(contents, headers=_FORGED)).status_code == 403
        browser.cookies.set("groups", "support")
        assert (await browser.get(contents, headers=_FORGED)).status_code == 200


async def test_users_sign_in_behind_nginx(proxies: _Proxies) -> None:
    async with proxies.client("users", "www.example.com") as browser:
        asked = await browser.get("/ops/events")
        assert asked.headers["location"] == "/ops/sign-in?to=/events"
        form = {"name": "ada", "password": PASSWORD, "to": "/events"}
        origin = {"origin": "http://www.example.com"}
        done = await browser.post("/ops/sign-in", data=form, headers=origin)
        assert (done.status_code, done.headers["location"]) == (303, "/ops/events")
        assert "path=/ops" in done.headers["set-cookie"].lower()
        cookie = {"cookie": done.headers["set-cookie"].partition(";")[0]}
        assert (await browser.get("/ops/events", headers=cookie)).status_code == 200
