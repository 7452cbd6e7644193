"""The interface by which the screens identify visitors."""

from collections.abc import Awaitable, Callable, Sequence
from http import HTTPStatus
from typing import NamedTuple, Protocol

from starlette.requests import Request
from starlette.responses import Response

from inboxd.admin.screens.roles import Role, Visitor
from inboxd.admin.screens.screen import ScreenPage

# Draws a page for a visitor who is not known yet.
Show = Callable[[Request, ScreenPage, HTTPStatus], Response]


class Entrance(NamedTuple):
    """answer may raise InboxdError. again: of "Try again", if the address is valid once."""

    path: str
    method: str
    answer: Callable[[Request], Awaitable[Response]]
    again: str | None = None


class Doorkeeper(Protocol):
    async def visitor(self, request: Request) -> Visitor | Response:
        """The answer may be a redirect to the sign-in. Raises RequestRefused."""
        ...

    def entrances(self, show: Show) -> Sequence[Entrance]:  # noqa: ARG002 - overridden
        return ()

    def origin(self, request: Request) -> str:
        """It has the form of the header `Origin`. Raises RequestRefused for another host."""
        return f"{request.scope['scheme']}://{request.headers.get('host', '')}"

    def renew(self, request: Request, response: Response) -> None:
        """A page was opened: prolong the sign-in, if there is one."""
        del request, response


class Everybody(Doorkeeper):
    """Everybody is an admin: for tests, and for programs that guard the screens themselves."""

    async def visitor(self, request: Request) -> Visitor | Response:  # noqa: ARG002 - overrides
        return Visitor(None, Role.ADMIN, "screens")
