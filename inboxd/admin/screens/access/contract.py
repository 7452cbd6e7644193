"""What the screens ask of whoever knows the visitors.

Known limit: `Everybody` is for tests and for programs that guard the screens themselves.
"""

from collections.abc import Awaitable, Callable, Sequence
from http import HTTPStatus
from typing import NamedTuple, Protocol

from starlette.requests import Request
from starlette.responses import Response

from inboxd.admin.screens.roles import Role, Visitor
from inboxd.admin.screens.screen import ScreenPage

# A page for somebody who is not known yet.
Show = Callable[[Request, ScreenPage, HTTPStatus], Response]


class Entrance(NamedTuple):
    """A path by which people come in or leave. answer may raise InboxdError.

    again: where to try it again, if its own address counts once and is nobody else's business.
    """

    path: str
    method: str
    answer: Callable[[Request], Awaitable[Response]]
    again: str | None = None


class Doorkeeper(Protocol):
    """A way to know who visits."""

    async def visitor(self, request: Request) -> Visitor | Response:
        """Who visits; or the answer to who may not. Raises RequestRefused."""
        ...

    def entrances(self, show: Show) -> Sequence[Entrance]:  # noqa: ARG002 - of those that have some
        """The paths by which people sign in and out."""
        return ()

    def origin(self, request: Request) -> str:
        """Where a browser believes to be: scheme and host, as `Origin` has it.

        Raises RequestRefused if that is not ours.
        """
        return f"{request.scope['scheme']}://{request.headers.get('host', '')}"

    def renew(self, request: Request, response: Response) -> None:
        """Let a page that is answered prolong the visit, where visits end."""
        del request, response


class Everybody(Doorkeeper):
    """Nobody signs in."""

    async def visitor(self, request: Request) -> Visitor | Response:  # noqa: ARG002 - all the same
        """The one visitor that there is."""
        return Visitor(None, Role.ADMIN, "screens")
