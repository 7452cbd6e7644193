"""Answers of the admin API: JSON as the command line prints it, and problems (RFC 9457).

Owns which error becomes which status, and the headers of every answer. Promises: a problem's detail
is the text that the command line prints, with passwords masked; what nobody expected tells nothing.
"""

import json
from collections.abc import Mapping
from datetime import timedelta
from http import HTTPStatus

import orjson
from starlette.responses import Response

from inboxd.errors import (
    Conflict,
    DatabaseError,
    InboxdError,
    Malformed,
    NotFound,
    SchemaError,
    Unauthentic,
    UsageError,
)
from inboxd.model.masking import redact

# Seconds after which a request may be sent again.
_LATER = "5"
# Nothing of an answer is for a page, a cache, or another site.
_HEADERS = {
    "cache-control": "no-store",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}
_MORE: Mapping[HTTPStatus, Mapping[str, str]] = {
    HTTPStatus.UNAUTHORIZED: {"www-authenticate": "Bearer"},
    HTTPStatus.TOO_MANY_REQUESTS: {"retry-after": _LATER},
    HTTPStatus.SERVICE_UNAVAILABLE: {"retry-after": _LATER},
}
# The first that fits counts.
_STATUSES: tuple[tuple[type[BaseException], HTTPStatus], ...] = (
    (NotFound, HTTPStatus.NOT_FOUND),
    (Conflict, HTTPStatus.CONFLICT),
    (UsageError, HTTPStatus.BAD_REQUEST),
    (Unauthentic, HTTPStatus.UNAUTHORIZED),
    (Malformed, HTTPStatus.UNAUTHORIZED),
    (DatabaseError, HTTPStatus.SERVICE_UNAVAILABLE),
    (SchemaError, HTTPStatus.SERVICE_UNAVAILABLE),
)


class RequestRefused(InboxdError):
    """The request is refused, with a status of its own."""

    def __init__(self, status: HTTPStatus, detail: str) -> None:
        """`detail` says what to do."""
        super().__init__(status, detail)
        self.status = status
        self.detail = detail

    def __str__(self) -> str:
        return self.detail


def found(document: object) -> Response:
    """A success."""
    return Response(json_of(document), headers=_HEADERS, media_type="application/json")


def json_of(value: object, *, indent: bool = False) -> bytes:
    """As JSON; what is nested deeper than orjson goes is never indented.

    Raises RequestRefused for what is nested deeper still.
    """
    try:
        return orjson.dumps(value, default=_plain, option=orjson.OPT_INDENT_2 if indent else 0)
    except orjson.JSONEncodeError:
        try:
            return json.dumps(value, default=_plain, ensure_ascii=False).encode()
        except RecursionError:
            detail = "its JSON is nested too deep to be shown: select it with psql"
            raise RequestRefused(HTTPStatus.UNPROCESSABLE_ENTITY, detail) from None


def problem(status: HTTPStatus, detail: str, headers: Mapping[str, str] | None = None) -> Response:
    """A failure; its detail is for whoever sent the request."""
    told = {"type": "about:blank", "title": status.phrase, "status": status, "detail": detail}
    return Response(
        orjson.dumps(told),
        status,
        {**_HEADERS, **headers_of(status), **(headers or {})},
        media_type="application/problem+json",
    )


def of_error(error: InboxdError) -> Response:
    """What an error of inboxd's own is answered."""
    return problem(status_of(error), detail_of(error))


def detail_of(error: InboxdError) -> str:
    """What is told of an error of inboxd's own to whoever sent the request."""
    status = status_of(error)
    if isinstance(error, RequestRefused):
        return error.detail
    if status is HTTPStatus.INTERNAL_SERVER_ERROR:
        return "see the log of the daemon"
    if status is HTTPStatus.UNAUTHORIZED:  # what was wrong with it is for the log alone
        return "send a valid token: `Authorization: Bearer TOKEN`"
    return redact(str(error))


def headers_of(status: HTTPStatus) -> Mapping[str, str]:
    """What an answer of this status tells besides."""
    return _MORE.get(status, {})


def status_of(error: InboxdError) -> HTTPStatus:
    """Which status an error of inboxd's own has."""
    if isinstance(error, RequestRefused):
        return error.status
    found = next((each for kind, each in _STATUSES if isinstance(error, kind)), None)
    return HTTPStatus.INTERNAL_SERVER_ERROR if found is None else found


def _plain(value: object) -> object:
    """What orjson does not know by itself, as the command line writes it."""
    return value.total_seconds() if isinstance(value, timedelta) else str(value)
