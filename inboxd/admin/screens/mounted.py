"""The screens as a part of another application: FastAPI, Django, anything that speaks ASGI.

Promises: who visits is the application's own business, asked at each request; the prefix is where
it mounts them; connections are made when they are first needed, three at most to read, and closed
at the end of an `async with` or of a lifespan; each action has one of its own.
Known limit: it belongs to the event loop in which it was first asked.
"""

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from http import HTTPStatus
from typing import Self

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from inboxd.admin.answers import RequestRefused
from inboxd.admin.screens.access import Doorkeeper
from inboxd.admin.screens.application import SESSIONS, STATEMENT_TIMEOUT, Screens
from inboxd.admin.screens.pages import SCREENS
from inboxd.admin.screens.roles import Role, Visitor
from inboxd.settings import Settings
from inboxd.store.session import open_looks

__all__ = ["Authenticate", "MountedScreens", "Role", "Visitor"]

# Who visits; None: nobody who may; or an answer, such as the way to the application's own sign-in.
Authenticate = Callable[[Request], Awaitable[Visitor | Response | None]]


class MountedScreens:
    """The screens, as an ASGI application to mount."""

    def __init__(self, settings: Settings, authenticate: Authenticate) -> None:
        """Let in whom `authenticate` names; `settings` are those of `inboxd.settings.load`."""
        self._settings = settings
        self._access = _OfTheApplication(authenticate)
        self._resources = AsyncExitStack()
        self._screens: ASGIApp | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or follow a lifespan."""
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "http":
            await (await self._opened())(scope, receive, send)
        else:
            await send({"type": "websocket.close"})

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections; the next request would make new ones."""
        self._screens = None
        await self._resources.aclose()

    async def _opened(self) -> ASGIApp:
        if self._screens is None:
            looks = open_looks(self._settings.database, "screens", SESSIONS, STATEMENT_TIMEOUT)
            opened = await self._resources.enter_async_context(looks)
            screens = Screens(self._settings, opened, self._access, SCREENS)
            self._screens = screens.application()
        return self._screens

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self.close()
        await send({"type": "lifespan.shutdown.complete"})


class _OfTheApplication(Doorkeeper):
    """The visitors whom the application knows."""

    def __init__(self, authenticate: Authenticate) -> None:
        self._authenticate = authenticate

    async def visitor(self, request: Request) -> Visitor | Response:
        found = await self._authenticate(request)
        if found is None:
            detail = "you are not signed in, or may not see these pages"
            raise RequestRefused(HTTPStatus.FORBIDDEN, detail)
        return found
