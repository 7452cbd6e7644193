"""The visitor's choices of language, theme, density, times and keys, in five cookies.

Promises that none affects what a visitor may see: a plain link or form can set them.
"""

from dataclasses import dataclass, fields
from typing import Final

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from inboxd.admin.screens.rendering import LANGUAGES

PATH: Final = "/preferences"
_CHOICES: Final = {
    "language": LANGUAGES,
    "theme": ("system", "light", "dark"),
    "density": ("comfortable", "compact"),
    "times": ("utc", "local", "relative"),
    "keys": ("on", "off"),
}
_YEAR_SECONDS: Final = 31_536_000


@dataclass(frozen=True, slots=True)
class Preferences:
    """The default is the first value of each. Without a script, times are in UTC."""

    language: str
    theme: str
    density: str
    times: str
    keys: str


def preferences_of(request: Request) -> Preferences:
    """Without a cookie for the language, use the browser's preferred one."""
    chosen = {name: request.cookies.get(f"inboxd_{name}") for name in _CHOICES}
    if chosen["language"] not in LANGUAGES:
        chosen["language"] = _asked_for(request.headers.get("accept-language", ""))
    return Preferences(
        **{
            name: value if value in choices else choices[0]
            for (name, choices), value in zip(_CHOICES.items(), chosen.values(), strict=True)
        }
    )


async def keep(request: Request) -> Response:
    """Redirect to the page that the visitor came from."""
    prefix = str(request.scope.get("root_path", "")).rstrip("/")
    answer = RedirectResponse(
        f"{prefix}{_local(request.query_params.get('back', '/'))}",
        303,
        {"cache-control": "no-store"},
    )
    for field in fields(Preferences):
        value = request.query_params.get(field.name)
        if value in _CHOICES[field.name]:
            answer.set_cookie(
                f"inboxd_{field.name}",
                value,
                max_age=_YEAR_SECONDS,
                path=f"{prefix}/",
                secure=request.url.scheme == "https",
                samesite="lax",
            )
    return answer


def _local(path: str) -> str:
    """The path must be on this host and valid in a header; else the first page."""
    if not path.startswith("/") or path.startswith(("//", "/\\")) or not path.isprintable():
        return "/"
    return path


def _asked_for(accepted: str) -> str:
    for part in accepted.split(","):
        asked = part.partition(";")[0].strip().lower()
        for language in LANGUAGES:
            if asked.partition("-")[0] == language.lower().partition("-")[0]:
                return language
    return LANGUAGES[0]
