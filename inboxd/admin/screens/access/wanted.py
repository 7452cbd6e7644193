"""The page that a visitor opens after a sign-in.

Promises that it is never on another site.
"""

from typing import Final
from urllib.parse import quote

from starlette.requests import Request

from inboxd.admin.screens.access.cookies import prefix_of

FORM: Final = "/sign-in"
# The provider redirects back to a path below this one.
PROVIDER: Final = "/sign-in/oidc"
_LONGEST = 2000


def wanted(request: Request) -> str:
    """The requested path with its query, without the prefix."""
    path = request.url.path.removeprefix(prefix_of(request))
    return f"{path}?{request.url.query}" if request.url.query else path


def by_way_of(request: Request, path: str, to: str) -> str:
    """The address of a path, with the page to open after it."""
    asked = f"?to={quote(to, safe='/')}" if to != "/" else ""
    return f"{prefix_of(request)}{path}{asked}"


def safe(to: str) -> str:
    """The path, if it is on this site; else the first page."""
    ours = to.startswith("/") and to[1:2] not in ("/", "\\") and to.isprintable()
    return to if ours and len(to) <= _LONGEST else "/"
