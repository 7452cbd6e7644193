"""The screens as a part of another ASGI application, such as FastAPI or Django.

Promises: the application identifies the visitor of each request; the prefix is the path at which it
mounts the screens; connections are opened when they are first needed, at most three to read and one
for each action, and closed at the end of an `async with` or of a lifespan. Known limit: an instance
belongs to the event loop of its first request.
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
from inboxd.store.operator_sessions import open_looks

__all__ = ["Authenticate", "MountedScreens", "Role", "Visitor"]

# Returns the visitor; None: access is refused; or an answer, such as a redirect to a sign-in.
Authenticate = Callable[[Request], Awaitable[Visitor | Response | None]]


class MountedScreens:
    """The screens, as an ASGI application to mount."""

    def __init__(self, settings: Settings, authenticate: Authenticate) -> None:
        """authenticate: identifies visitors. settings: from `inboxd.settings.load`."""
        self._settings = settings
        self._access = _OfTheApplication(authenticate)
        self._resources = AsyncExitStack()
        self._screens: ASGIApp | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
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
        """Close the connections; a later request opens new ones."""
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
    def __init__(self, authenticate: Authenticate) -> None:
        self._authenticate = authenticate

    async def visitor(self, request: Request) -> Visitor | Response:
        found = await self._authenticate(request)
        if found is None:
            detail = "you are not signed in, or you may not see these pages"
            raise RequestRefused(HTTPStatus.FORBIDDEN, detail)
        return found
