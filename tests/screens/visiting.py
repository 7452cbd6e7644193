"""The site of a process (screens and API), built as `HostedAdmin` does, without a socket.

Example:
    async with visiting(database, users=[user("ada", "admin")]) as site, site.client() as client:
        await sign_in(client, "ada")
        page = await client.get("/events")

A client connects from `peer` and follows no redirect.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import cache
from typing import Any

import httpx

from inboxd.admin.api import AdminApi
from inboxd.admin.screens.access.gate import Gate
from inboxd.admin.screens.application import SESSIONS, STATEMENT_TIMEOUT, Screens
from inboxd.admin.screens.pages import SCREENS
from inboxd.admin.site import AdminSite
from inboxd.admin.tokens import Tokens
from inboxd.model.passwords import hash_password
from inboxd.settings import Settings
from inboxd.store.operator_sessions import open_looks
from tests.support import Database
from tests.support.rows import settings_of

ADA = "a-token-of-ada-with-full-access"
EVE = "a-token-of-eve-who-may-look"
TOKENS = [
    {"name": "ada", "token": ADA, "access": "full"},
    {"name": "eve", "token": EVE},
]
PASSWORD = "correct horse battery"
SAME = {"sec-fetch-site": "same-origin"}


@cache
def hashed(password: str) -> str:
    """A hash with a low cost, so that tests stay fast."""
    return str(hash_password(password, exponent=14, rounds=1))


def user(name: str, role: str = "viewer", password: str = PASSWORD) -> dict[str, str]:
    """A user for `[admin]` of the settings."""
    return {"name": name, "password_hash": hashed(password), "role": role}


class Visited:
    """A site with its settings, and clients of it."""

    def __init__(self, settings: Settings, site: AdminSite, gate: Gate) -> None:
        self.settings, self.site, self.gate = settings, site, gate

    def client(
        self,
        url: str = "http://localhost:8799",
        peer: str = "127.0.0.1",
        app: Any = None,
        **headers: str,
    ) -> httpx.AsyncClient:
        """A browser; in names of headers `_` stands for `-`."""
        transport = httpx.ASGITransport(app or self.site, client=(peer, 50_000))
        named = {"accept": "text/html"} | {k.replace("_", "-"): v for k, v in headers.items()}
        return httpx.AsyncClient(transport=transport, base_url=url, headers=named)

    def reload(self, admin: Mapping[str, Any]) -> None:
        """Apply the settings of `[admin]` as a reload does."""
        new = Settings.merged({"admin": admin}, {}).admin
        self.gate.reload(new, Tokens(new.tokens), self.gate.prepare(new))


@asynccontextmanager
async def visiting(
    database: Database,
    screens: Any = SCREENS,
    sections: Any = None,
    spool: Any = None,
    **admin: Any,
) -> AsyncIterator[Visited]:
    """Serve the screens. admin: settings of `[admin]`; sections: others; spool: of their host."""
    merged = Settings.merged({**(sections or {}), "admin": admin}, {})
    settings = merged.model_copy(update={"database": settings_of(database)})
    tokens = Tokens(settings.admin.tokens)
    gate = Gate(settings.admin, tokens)
    async with open_looks(settings.database, "screens", SESSIONS, STATEMENT_TIMEOUT) as looks:
        pages = Screens(settings, looks, gate, screens, spool).application()
        site = AdminSite(settings.admin, AdminApi(settings, tokens).application(), pages)
        yield Visited(settings, site, gate)


async def sign_in(client: httpx.AsyncClient, name: str, password: str = PASSWORD) -> httpx.Response:
    """Send the sign-in form as a browser does."""
    fields = {"name": name, "password": password, "to": "/events?type=a.b"}
    return await client.post("/sign-in", data=fields, headers=SAME)
