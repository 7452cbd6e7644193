"""The interface by which the screens identify visitors.

Known limit: `Everybody` is for tests and for programs that guard the screens themselves.
"""

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
    """A path for signing in or out. answer may raise InboxdError.

    again: the path of "Try again", if the address itself is secret and valid once.
    """

    path: str
    method: str
    answer: Callable[[Request], Awaitable[Response]]
    again: str | None = None


class Doorkeeper(Protocol):
    async def visitor(self, request: Request) -> Visitor | Response:
        """The visitor, or an answer such as a redirect to the sign-in. Raises RequestRefused."""
        ...

    def entrances(self, show: Show) -> Sequence[Entrance]:  # noqa: ARG002 - overridden
        """The paths for signing in and out."""
        return ()

    def origin(self, request: Request) -> str:
        """The scheme and host that the browser uses, in the form of the header `Origin`.

        Raises RequestRefused if the host is not one of the screens'.
        """
        return f"{request.scope['scheme']}://{request.headers.get('host', '')}"

    def renew(self, request: Request, response: Response) -> None:
        """Prolong the sign-in, where there is one, since a page was opened."""
        del request, response


class Everybody(Doorkeeper):
    """Everybody is let in as an admin, without a sign-in."""

    async def visitor(self, request: Request) -> Visitor | Response:  # noqa: ARG002 - overrides
        return Visitor(None, Role.ADMIN, "screens")
