"""Where a visitor wants to go, over a sign-in.

Promises that the way there leads to no other site.
"""

from typing import Final
from urllib.parse import quote

from starlette.requests import Request

from inboxd.admin.screens.access.cookies import prefix_of

FORM: Final = "/sign-in"
# Where a provider sends people back to is below it.
PROVIDER: Final = "/sign-in/oidc"
_LONGEST = 2000


def wanted(request: Request) -> str:
    """The path that was asked for, without the prefix."""
    path = request.url.path.removeprefix(prefix_of(request))
    return f"{path}?{request.url.query}" if request.url.query else path


def by_way_of(request: Request, path: str, to: str) -> str:
    """The address of a path that leads on to another."""
    asked = f"?to={quote(to, safe='/')}" if to != "/" else ""
    return f"{prefix_of(request)}{path}{asked}"


def safe(to: str) -> str:
    """The path, if it is one of ours; else the first page."""
    ours = to.startswith("/") and to[1:2] not in ("/", "\\") and to.isprintable()
    return to if ours and len(to) <= _LONGEST else "/"
