"""Screens mounted in another application: its visitors, its prefix, its lifespan."""

import re
from typing import Any

import anyio
import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Mount

from inboxd.admin.screens.mounted import MountedScreens, Role, Visitor
from inboxd.settings import Settings
from tests.support import Database, eventually
from tests.support.rows import send, settings_of

pytestmark = pytest.mark.anyio

_SESSIONS = "select count(*) from pg_stat_activity where application_name like '%screens'"


async def _authenticate(request: Request) -> Visitor | Response | None:
    name = request.headers.get("x-name")
    if name is None:
        return RedirectResponse("/login")
    role = {"eve": Role.VIEWER, "ada": Role.READER}.get(name)
    return Visitor(name, role, f"shop {name}") if role else None


def _client(app: Any) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(app)
    return httpx.AsyncClient(transport=transport, base_url="http://shop.example")


async def test_the_applications_visitors_see_pages_below_its_prefix(database: Database) -> None:
    await send(database, 1)
    settings = Settings.merged({"admin": {"audit_payloads": True}}, {})
    settings = settings.model_copy(update={"database": settings_of(database)})
    async with MountedScreens(settings, _authenticate) as screens:
        inner = Starlette(routes=[Mount("/in/box", screens)])
        async with _client(Starlette(routes=[Mount("/outer", inner)])) as client:

            async def asked(path: str, name: str | None = "ada") -> httpx.Response:
                headers = {"accept": "text/html"} | ({"x-name": name} if name else {})
                return await client.get(f"/outer/in/box{path}", headers=headers)

            page = await asked("/commands")
            assert page.status_code == 200
            assert page.headers["content-security-policy"].startswith("default-src 'none'")
            links = re.findall(r'(?:href|src|action)="([^"#][^"]*)"', page.text)
            assert "/outer/in/box/commands/1" in links
            assert [each for each in links if not each.startswith("/outer/in/box/")] == []
            assert (await asked("/commands", None)).headers["location"] == "/login"
            refused = await asked("/commands", "mallory")
            assert (refused.status_code, "may not see" in refused.text) == (403, True)
            assert (await asked("/commands/1?payload=1", "eve")).status_code == 403
            assert (await asked("/commands/1?payload=1")).status_code == 200
            assert (await asked("/sign-in")).status_code == 404
        assert await database.fetchval(_SESSIONS) > 0
    entries = await database.fetch("select actor, action, target from inboxd.audit")
    assert [tuple(each) for each in entries] == [("shop ada", "view", "commands 1")]
    await _closed(database)


async def _closed(database: Database) -> None:
    async def none() -> bool:
        return bool(await database.fetchval(_SESSIONS) == 0)

    await eventually(none)


async def test_mounted_screens_follow_a_lifespan(database: Database) -> None:
    screens = MountedScreens(Settings(database=settings_of(database)), _authenticate)
    to, answered = anyio.create_memory_object_stream[dict[str, str]](2), []

    async def tell(message: Any) -> None:
        answered.append(message["type"])

    async with anyio.create_task_group() as group, _client(screens) as client:
        group.start_soon(screens, {"type": "lifespan"}, to[1].receive, tell)
        await to[0].send({"type": "lifespan.startup"})
        assert (await client.get("/", headers={"x-name": "ada"})).status_code == 200
        await to[0].send({"type": "lifespan.shutdown"})
    assert answered == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
    await _closed(database)
    to[0].close()
    to[1].close()
