"""The cookies of the screens, and their names.

Promises: a cookie is for this host and prefix alone; scripts cannot read it; forms of other sites
do not send it; a cookie of an encrypted page is only sent encrypted.
"""

from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from inboxd.admin.screens.access.sessions import Sessions, SignedIn

_SESSION: Final = "inboxd_session"


def prefix_of(request: Request) -> str:
    return str(request.scope.get("root_path", "")).rstrip("/")


def cookie_of(request: Request, name: str) -> str | None:
    return request.cookies.get(_name(request, name))


def set_cookie(request: Request, response: Response, name: str, text: str, age: int) -> None:
    """age: in seconds; 0 deletes the cookie."""
    response.set_cookie(
        _name(request, name),
        text,
        max_age=age,
        path=prefix_of(request) or "/",
        secure=request.scope["scheme"] == "https",
        httponly=True,
        samesite="lax",
    )


def session_of(request: Request, sessions: Sessions) -> SignedIn | None:
    text = cookie_of(request, _SESSION)
    return sessions.read(text) if text else None


def keep_session(
    request: Request, response: Response, sessions: Sessions, signed_in: SignedIn
) -> None:
    text = sessions.written(signed_in)
    set_cookie(request, response, _SESSION, text, int(sessions.lifetime))


def end_session(request: Request, response: Response) -> None:
    set_cookie(request, response, _SESSION, "", 0)


def _name(request: Request, name: str) -> str:
    """`__Host-` is for the path `/` alone; below a prefix, `__Secure-` is the strictest."""
    if request.scope["scheme"] != "https":
        return name
    return f"__Secure-{name}" if prefix_of(request) else f"__Host-{name}"
