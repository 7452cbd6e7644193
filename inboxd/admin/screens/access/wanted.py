"""The page that a visitor opens after a sign-in; it is never on another site."""

from typing import Final
from urllib.parse import quote

from starlette.requests import Request

from inboxd.admin.screens.access.cookies import prefix_of

FORM: Final = "/sign-in"
# The provider redirects back to a path below this one.
PROVIDER: Final = "/sign-in/oidc"
_LONGEST = 2000


def wanted(request: Request) -> str:
    path = request.url.path.removeprefix(prefix_of(request))
    return f"{path}?{request.url.query}" if request.url.query else path


def by_way_of(request: Request, path: str, to: str) -> str:
    asked = f"?to={quote(to, safe='/')}" if to != "/" else ""
    return f"{prefix_of(request)}{path}{asked}"


def safe(to: str) -> str:
    """Return the first page for a path of another site."""
    ours = to.startswith("/") and to[1:2] not in ("/", "\\") and to.isprintable()
    return to if ours and len(to) <= _LONGEST else "/"
