"""Screens of a test's database on a socket, and a crawl of their pages.

Example:
    async with serving(database) as site:
        found = await crawl(site)
    assert found.dead == []
"""

import re
import socket
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urljoin, urlsplit

import anyio
import httpx
import uvicorn
from starlette.routing import compile_path
from starlette.types import ASGIApp

from inboxd.admin.screens.access import Everybody
from inboxd.admin.screens.application import Screens
from inboxd.admin.screens.host_spool import HostSpool
from inboxd.admin.screens.navigation import GROUPS
from inboxd.admin.screens.pages import SCREENS
from inboxd.embedded import Server
from inboxd.settings import Settings
from inboxd.store.operator_sessions import open_looks
from tests.screens.test_acting_forms import ActionCase
from tests.screens.test_acting_kinds import SETTING
from tests.support import Database, ExternalServer
from tests.support.rows import settings_of
from tests.support.spooled import host_spool
from tests.support.waiting import patient

# A crawl opens at most two addresses of each page without a query, and two with one.
_MOST = 2
# Not pages: the form of preferences leads back; test_acting.py and test_views.py test the others.
_NO_PAGES = ("/preferences", "/act/", "/views")
_NO_HTML = (".json", ".md", ".mmd")
_PATTERNS = {screen.path: compile_path(screen.path)[0] for screen in SCREENS}
# Pages that the navigation names and no module has yet.
_PLANNED = tuple(
    each.path
    for _, group in GROUPS
    for each in group
    if each.path != "/" and each.path not in _PATTERNS
)


@dataclass(frozen=True)
class Site:
    """The address of the screens, and their database."""

    url: str
    database: Database


@asynccontextmanager
async def serving(
    database: Database, port: int = 0, spool: HostSpool | None = None
) -> AsyncIterator[Site]:
    """Serve the screens in this event loop. port: 0 takes a free one; spool: of this host."""
    settings = Settings(database=settings_of(database))
    async with open_looks(settings.database, "screens", 3, timedelta(seconds=30)) as looks:
        application = Screens(settings, looks, Everybody(), SCREENS, spool).application()
        async with listening(application, port) as url:
            yield Site(url, database)


@asynccontextmanager
async def serving_action(database: Database, case: ActionCase, spool: Path) -> AsyncIterator[Site]:
    """Serve the screens with the rows, and the spool, on which the action of a case is done."""
    await database.execute(SETTING)
    if case.before:
        await database.execute(case.before)
    async with serving(database, spool=host_spool(spool)) as site:
        yield site


@asynccontextmanager
async def listening(application: ASGIApp, port: int = 0) -> AsyncIterator[str]:
    """Serve an application in this event loop; yield its URL."""
    config = uvicorn.Config(application, log_config=None, timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    with socket.socket() as bound:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(("127.0.0.1", port))
        bound.listen()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_serve, server, bound)
            host, taken = bound.getsockname()
            yield f"http://{host}:{taken}"
            server.should_exit = True


@asynccontextmanager
async def away(server: Server | ExternalServer, database: Database) -> AsyncIterator[None]:
    """The database refuses connections, and those that were open are ended."""
    name = database.name
    async with Database("postgres", server.dsn()).connect() as connection:
        try:
            await connection.execute(f'alter database "{name}" allow_connections false')
            await connection.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity"
                " where datname = $1 and pid <> pg_backend_pid()",
                name,
            )
            yield
        finally:
            await connection.execute(f'alter database "{name}" allow_connections true')


async def _serve(server: uvicorn.Server, listening: socket.socket) -> None:
    """Serve without signal handlers: signals belong to the test runner."""
    config = server.config
    config.load()
    server.lifespan = config.lifespan_class(config)
    await server.startup(sockets=[listening])
    await server.main_loop()
    await server.shutdown(sockets=[listening])


class _Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        leads = dict(attrs).get({"a": "href", "form": "action"}.get(tag, ""))
        if leads:
            self.found.append(leads)


@dataclass
class Crawl:
    """Opened addresses by the path of their page's route, and links that lead to no page."""

    addresses: dict[str, list[str]]
    dead: list[str]


async def crawl(site: Site) -> Crawl:
    """Follow links from the first page; open a few addresses of each page."""
    found, dead = defaultdict[str, list[str]](list), list[str]()
    left, known = ["/"], {_key("/")}
    async with httpx.AsyncClient(
        base_url=site.url, follow_redirects=True, timeout=patient()
    ) as client:
        while left:
            address = left.pop(0)
            page = _page_of(address)
            if page is None:
                if not address.startswith((*_PLANNED, *_NO_PAGES)):
                    dead.append(address)
                continue
            alike = [each for each in found[page] if ("?" in each) == ("?" in address)]
            if len(alike) >= _MOST:
                continue
            answer = await client.get(address)
            if answer.status_code != httpx.codes.OK:
                dead.append(f"{address} answers {answer.status_code}")
                continue
            found[page].append(address)
            links = _Links()
            links.feed(answer.text)
            for href in links.found:
                there = urlsplit(urljoin(site.url + address, href))
                asked = there.path + (f"?{there.query}" if there.query else "")
                ours = there.netloc == urlsplit(site.url).netloc
                if ours and not there.path.endswith(_NO_HTML) and _key(asked) not in known:
                    known.add(_key(asked))
                    left.append(asked)
    return Crawl(dict(found), dead)


def _key(address: str) -> str:
    """The address without the values of its query."""
    parts = urlsplit(address)
    return f"{parts.path}?{re.sub(r'=[^&]*', '=', parts.query)}"


def _page_of(address: str) -> str | None:
    path = urlsplit(address).path
    return next((page for page, pattern in _PATTERNS.items() if pattern.match(path)), None)
