"""Prefixes that a proxy's header tells, with proxies that remove the prefix and that keep it.

*See:* `test_nginx.py`, for prefixes of the settings.
"""

import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from inboxd.admin.forwarded import Forwarded
from inboxd.model.addresses import Networks
from tests.screens.crawling import crawled
from tests.screens.visiting import Visited, sign_in, user, visiting
from tests.support import Database
from tests.support.rows import emit, send

pytestmark = pytest.mark.anyio

_PUBLIC = "https://inbox.example"
_HOP_BY_HOP = {"connection", "content-length", "transfer-encoding", "content-encoding"}


def _proxy(backend: httpx.AsyncClient, path: Callable[[str], str], **told: str) -> Starlette:
    """A small reverse proxy that serves only the screens, below /ops."""

    async def forward(request: Request) -> Response:
        sent = {k: v for k, v in request.headers.items() if k not in _HOP_BY_HOP}
        sent |= {name.replace("_", "-"): value for name, value in told.items()}
        answer = await backend.request(
            request.method,
            path(request.url.path),
            params=str(request.url.query) or None,
            content=await request.body(),
            headers=sent,
        )
        response = Response(answer.content, answer.status_code)
        response.raw_headers[:] = [
            (k.lower(), v) for k, v in answer.headers.raw if k.decode().lower() not in _HOP_BY_HOP
        ]
        return response

    methods = ["GET", "POST"]
    return Starlette(
        routes=[
            Route("/ops", forward, methods=methods),
            Route("/ops/{_:path}", forward, methods=methods),
        ]
    )


def _strips(path: str) -> str:
    return path.removeprefix("/ops") or "/"


def _keeps(path: str) -> str:
    return path


@asynccontextmanager
async def _browser(
    site: Visited, path: Callable[[str], str], **told: str
) -> AsyncIterator[httpx.AsyncClient]:
    async with (
        site.client("http://backend.internal", "10.0.0.1") as backend,
        site.client(_PUBLIC, app=_proxy(backend, path, **told)) as browser,
    ):
        yield browser


@pytest.mark.parametrize("path", [_strips, _keeps], ids=["strips", "keeps"])
async def test_every_link_and_asset_is_below_the_prefix(
    database: Database, path: Callable[[str], str]
) -> None:
    await emit(database, 2)
    await send(database, 2)
    told = {
        "x_forwarded_proto": "https",
        "x_forwarded_host": "inbox.example",
        "x_forwarded_prefix": "/ops",
        "host": "inbox.example",
    }
    admin = {
        "trusted_proxies": ["10.0.0.1"],
        "hosts": ["inbox.example"],
        "users": [user("ada", "reader")],
    }
    async with visiting(database, **admin) as site, _browser(site, path, **told) as browser:
        asked = await browser.get("/ops/events")
        assert asked.headers["location"] == "/ops/sign-in?to=/events"
        done = await browser.post(
            "/ops/sign-in",
            data={"name": "ada", "password": "correct horse battery", "to": "/events"},
            headers={"origin": _PUBLIC},
        )
        assert (done.status_code, done.headers["location"]) == (303, "/ops/events")
        seen = await crawled(browser, "/ops/", _PUBLIC)
        paths = {each.partition("?")[0] for each in seen}
        assert {"/ops/", "/ops/events", "/ops/commands/2"} <= paths
        assert any(re.fullmatch(r"/ops/static/[^/]+/screens\.css", each) for each in paths)
        assert (await browser.get("/ops")).status_code == 200
        slash = await browser.get("/ops/events/")
        assert (slash.status_code, "location" in slash.headers) == (404, False)
        moved = await browser.get("/ops/api/openapi.json")
        assert moved.status_code == 401, "the API is below the prefix as well"


async def test_headers_of_an_untrusted_proxy_are_ignored(database: Database) -> None:
    forged = {
        "x_forwarded_proto": "https",
        "x_forwarded_prefix": "/evil",
        "x_forwarded_host": "evil.example",
    }
    async with (
        visiting(database, trusted_proxies=["10.0.0.1"]) as site,
        site.client(**forged) as client,
    ):
        answer = await client.get("/")
        assert answer.status_code == 200
        assert "evil" not in answer.text
    users = {"users": [user("ada")], "hosts": ["inbox.example"], "trusted_proxies": ["10.0.0.1"]}
    async with visiting(database, **users) as site, site.client(**forged) as client:
        cookie = (await sign_in(client, "ada")).headers["set-cookie"]
        assert cookie.startswith("inboxd_session=")


@pytest.mark.parametrize(
    ("said", "prefix"),
    [
        ("/ops", "/ops"),
        ("/ops/", "/ops"),
        ("/a/b-c_d.e~f", "/a/b-c_d.e~f"),
        ("/", ""),
        ("", ""),
        ("//evil.example", "/own"),
        ("/\\evil.example", "/own"),
        ("https://evil.example", "/own"),
        ('/"><script>', "/own"),
        ("/a/../b", "/own"),
        ("/" + "a" * 300, "/own"),
    ],
)
async def test_a_prefix_is_a_plain_path(said: str, prefix: str) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        del receive, send
        seen.append(scope)

    seen: list[Scope] = []
    forwarded = Forwarded(app, "/own", Networks(["10.0.0.1"]))
    scope = {
        "type": "http",
        "scheme": "http",
        "path": "/events",
        "client": ("10.0.0.1", 1),
        "headers": [(b"x-forwarded-prefix", said.encode()), (b"x-forwarded-proto", b"x, https")],
    }

    unused: Any = None
    await forwarded(scope, unused, unused)
    [found] = seen
    assert (found["root_path"], found["path"], found["scheme"]) == (
        prefix,
        f"{prefix}/events",
        "https",
    )
