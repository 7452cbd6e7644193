"""Saved views: filters of lists that a visitor keeps under names, in a cookie.

Promises: a browser keeps at most `_MOST` views, of bounded size; a view leads to one of `LISTS` and
nowhere else, whatever the cookie contains. The cookie is not signed: nothing is decided by it, and
the secret of a process would not outlast the process.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable
from dataclasses import astuple, dataclass
from http import HTTPStatus
from typing import Final
from urllib.parse import urlencode

import orjson
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from inboxd.admin.answers import RequestRefused
from inboxd.admin.screens.access.cookies import cookie_of, prefix_of, set_cookie
from inboxd.admin.screens.forms import read_form
from inboxd.admin.screens.screen import ScreenPage

PATH: Final = "/views"
# Lists whose filters may be kept.
LISTS: Final = ("/events", "/commands", "/batches", "/workflows")
_COOKIE: Final = "inboxd_views"
_YEAR_SECONDS: Final = 31_536_000
_MOST: Final = 20
_LONGEST_NAME: Final = 40
_LONGEST_QUERY: Final = 1_000
# Browsers keep cookies of at most 4 kB, with their name and attributes.
_MOST_BYTES: Final = 3_800
_MOST_BODY, _MOST_FIELDS = 16_384, 4
# The place in a list and what was chosen there are no part of a filter.
_NOT_KEPT: Final = frozenset({"above", "below", "chosen", "sql"})


@dataclass(frozen=True, slots=True)
class SavedView:
    """path: of the list, without the prefix. query: without a `?`."""

    name: str
    path: str
    query: str

    @property
    def is_valid(self) -> bool:
        """A changed cookie must do no harm."""
        named = self.name.isprintable() and self.name == self.name.strip()
        return (
            named
            and 0 < len(self.name) <= _LONGEST_NAME
            and self.path in LISTS
            and 0 < len(self.query) <= _LONGEST_QUERY
            and self.query == query_of(QueryParams(self.query))
        )


def query_of(query: QueryParams) -> str:
    return urlencode([(k, v) for k, v in query.multi_items() if v and k not in _NOT_KEPT])


def views_of(request: Request, path: str | None = None) -> list[SavedView]:
    """Saved views in the order of names. path: only the views of this list."""
    found = [each for each in _read(cookie_of(request, _COOKIE) or "") if each.is_valid]
    chosen = [each for each in found[:_MOST] if path in (None, each.path)]
    return sorted(chosen, key=lambda each: (each.path, each.name.casefold()))


def page(request: Request) -> ScreenPage:
    """With `to`, the address of a list, the page offers to save the list's filter."""
    path, query = _list_of(request.query_params.get("to", ""))
    shown = {
        "all_views": views_of(request),
        "list": path,
        "filter": query,
        "most": _MOST,
        "longest": _LONGEST_NAME,
    }
    return ScreenPage("views.html", {}, shown)


async def change(request: Request) -> Response:
    fields = await read_form(request, _MOST_BODY, _MOST_FIELDS)
    path, query = _list_of(fields.get("to", ""))
    name, removed = fields.get("name", "").strip(), fields.get("remove")
    kept = [each for each in views_of(request) if (each.path, each.name) != (path, removed or name)]
    to = PATH
    if removed is None:
        new = SavedView(name, path, query)
        if not new.is_valid:
            detail = (
                f"a view has a name of at most {_LONGEST_NAME} printable characters, and a filter "
                "of events, commands, batches or workflows"
            )
            raise RequestRefused(HTTPStatus.BAD_REQUEST, detail)
        kept.append(new)
        to = f"{path}?{query}"
    text = _written(kept)
    if len(kept) > _MOST or len(text) > _MOST_BYTES:
        detail = f"a browser keeps at most {_MOST} views, or fewer long ones: remove one first"
        raise RequestRefused(HTTPStatus.CONFLICT, detail)
    response = RedirectResponse(prefix_of(request) + to, HTTPStatus.SEE_OTHER)
    set_cookie(request, response, _COOKIE, text, _YEAR_SECONDS if kept else 0)
    return response


def _list_of(address: str) -> tuple[str, str]:
    path, _, query = address.partition("?")
    return (path, query_of(QueryParams(query))) if path in LISTS else ("", "")


def _written(views: Iterable[SavedView]) -> str:
    told = orjson.dumps([astuple(each) for each in views])
    return urlsafe_b64encode(told).rstrip(b"=").decode()


def _read(text: str) -> list[SavedView]:
    """The cookie may contain anything."""
    try:
        found = orjson.loads(urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    except ValueError:
        return []
    if not isinstance(found, list):
        return []
    return [
        SavedView(*each)
        for each in found
        if isinstance(each, list) and [type(part) for part in each] == [str] * 3
    ]
