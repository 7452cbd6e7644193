"""What a browser keeps for the screens, and under which name.

Promises: a cookie is for this host and prefix alone, no script reads it, no other site's form sends
it, and where the page is encrypted it goes no other way.
"""

from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from inboxd.admin.screens.access.sessions import Sessions, SignedIn

_SESSION: Final = "inboxd_session"


def prefix_of(request: Request) -> str:
    """What stands before every path, without a slash at its end."""
    return str(request.scope.get("root_path", "")).rstrip("/")


def cookie_of(request: Request, name: str) -> str | None:
    """What a browser has kept under a name."""
    return request.cookies.get(_name(request, name))


def set_cookie(request: Request, response: Response, name: str, text: str, age: int) -> None:
    """Have a browser keep a text for so many seconds; 0: no longer."""
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
    """The sign-in that a browser keeps; None: none, or it has ended."""
    text = cookie_of(request, _SESSION)
    return sessions.read(text) if text else None


def keep_session(
    request: Request, response: Response, sessions: Sessions, signed_in: SignedIn
) -> None:
    """Have a browser keep a sign-in."""
    text = sessions.written(signed_in)
    set_cookie(request, response, _SESSION, text, int(sessions.lifetime))


def end_session(request: Request, response: Response) -> None:
    """Have a browser forget the sign-in."""
    set_cookie(request, response, _SESSION, "", 0)


def _name(request: Request, name: str) -> str:
    """By which a browser takes it only from this very host, where it is encrypted.

    `__Host-` is for cookies of all paths alone; below a prefix `__Secure-` is the most.
    """
    if request.scope["scheme"] != "https":
        return name
    return f"__Secure-{name}" if prefix_of(request) else f"__Host-{name}"
