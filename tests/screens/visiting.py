"""The site of a process, as `HostedAdmin` puts it together, asked without a socket.

Promises: a client comes from `peer`, as a listener would say, and follows no redirect by itself.
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
from inboxd.store.session import open_looks
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
    """A hash that is compared quickly."""
    return str(hash_password(password, exponent=14, rounds=1))


def user(name: str, role: str = "viewer", password: str = PASSWORD) -> dict[str, str]:
    """A user of the settings."""
    return {"name": name, "password_hash": hashed(password), "role": role}


class Visited:
    """A site, and clients of it."""

    def __init__(self, settings: Settings, site: AdminSite, gate: Gate) -> None:
        """Of this site."""
        self.settings, self.site, self.gate = settings, site, gate

    def client(
        self,
        url: str = "http://localhost:8799",
        peer: str = "127.0.0.1",
        app: Any = None,
        **headers: str,
    ) -> httpx.AsyncClient:
        """Somebody at a browser; a header's name has _ for -."""
        transport = httpx.ASGITransport(app or self.site, client=(peer, 50_000))
        named = {"accept": "text/html"} | {k.replace("_", "-"): v for k, v in headers.items()}
        return httpx.AsyncClient(transport=transport, base_url=url, headers=named)

    def reload(self, admin: Mapping[str, Any]) -> None:
        """Take over what a reload does."""
        new = Settings.merged({"admin": admin}, {}).admin
        self.gate.take_over(new, Tokens(new.tokens), self.gate.prepare(new))


@asynccontextmanager
async def visiting(
    database: Database,
    screens: Any = SCREENS,
    sections: Any = None,
    spool: Any = None,
    **admin: Any,
) -> AsyncIterator[Visited]:
    """The site of these settings of `[admin]`, and of other sections; spool: of its host."""
    merged = Settings.merged({**(sections or {}), "admin": admin}, {})
    settings = merged.model_copy(update={"database": settings_of(database)})
    tokens = Tokens(settings.admin.tokens)
    gate = Gate(settings.admin, tokens)
    async with open_looks(settings.database, "screens", SESSIONS, STATEMENT_TIMEOUT) as looks:
        pages = Screens(settings, looks, gate, screens, spool).application()
        site = AdminSite(settings.admin, AdminApi(settings, tokens).application(), pages)
        yield Visited(settings, site, gate)


async def sign_in(client: httpx.AsyncClient, name: str, password: str = PASSWORD) -> httpx.Response:
    """Send the form, as a browser does."""
    fields = {"name": name, "password": password, "to": "/events?type=a.b"}
    return await client.post("/sign-in", data=fields, headers=SAME)
