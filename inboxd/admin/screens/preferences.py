"""How a visitor wants the screens: language, theme, times, keys.

Owns four cookies. Promises that none of them decides what may be seen, so that they are set by a
plain link or form, without a script; and that what they hold is one of a few words, whatever a
browser sends.
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
    "times": ("utc", "local", "relative"),
    "keys": ("on", "off"),
}
_YEAR: Final = 31_536_000


@dataclass(frozen=True, slots=True)
class Preferences:
    """What was chosen, or else the first of each.

    times: how a script shows them; without one they are UTC. keys: whether single keys do things.
    """

    language: str
    theme: str
    times: str
    keys: str


def preferences_of(request: Request) -> Preferences:
    """Those of the cookies; of languages, else the first that the browser asks for and we have."""
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
    """Keep what the query says in cookies, and lead back to where it was asked."""
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
                max_age=_YEAR,
                path=f"{prefix}/",
                secure=request.url.scheme == "https",
                samesite="lax",
            )
    return answer


def _local(path: str) -> str:
    """A path of ours: nothing that leads to another host, or that a header may not hold."""
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
