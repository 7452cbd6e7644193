"""The form of an answer: the ending of an address (`.json`, `.md`) decides, or else `Accept`."""

from collections.abc import Iterator, Mapping
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from inboxd.admin.screens.screen import Screen, ScreenPage

_JSON: Final = "application/json"
_MEDIA_TYPES: Final[Mapping[str, str]] = {"md": "text/markdown", "mmd": "text/vnd.mermaid"}


def paths_of(screen: Screen) -> Iterator[str]:
    """Its own path comes last, since it matches every ending."""
    own = screen.path.rstrip("/") or "/index"
    yield from (f"{own}.{ending}" for ending in ("json", *screen.texts))
    yield screen.path


def wants_json(request: Request) -> bool:
    return request.url.path.endswith(".json") or _accepts(request, _JSON)


def text_wanted(request: Request, screen: Screen) -> str | None:
    for ending in screen.texts:
        if request.url.path.endswith(f".{ending}") or _accepts(request, _MEDIA_TYPES[ending]):
            return ending
    return None


def as_text(page: ScreenPage, ending: str, headers: Mapping[str, str]) -> Response:
    # The browser shows the text rather than saving it as a file.
    return Response(page.texts[ending](), headers=headers, media_type=_MEDIA_TYPES[ending])


def _accepts(request: Request, media_type: str) -> bool:
    accepted = request.headers.get("accept", "")
    return media_type in accepted and "text/html" not in accepted
