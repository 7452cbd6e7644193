"""Answers of the admin API: JSON as the command line prints it, and problems (RFC 9457).

Promises: passwords in a problem's detail are masked; an unexpected error reveals nothing.
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

_RETRY_AFTER_SECONDS = "5"
# No page, cache or other site may use an answer.
_HEADERS = {
    "cache-control": "no-store",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}
_MORE_HEADERS: Mapping[HTTPStatus, Mapping[str, str]] = {
    HTTPStatus.UNAUTHORIZED: {"www-authenticate": "Bearer"},
    HTTPStatus.TOO_MANY_REQUESTS: {"retry-after": _RETRY_AFTER_SECONDS},
    HTTPStatus.SERVICE_UNAVAILABLE: {"retry-after": _RETRY_AFTER_SECONDS},
}
# The first class that matches counts.
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
    """The request is refused, with an HTTP status."""

    def __init__(self, status: HTTPStatus, detail: str) -> None:
        """detail: the caller reads it, so it says what to do."""
        super().__init__(status, detail)
        self.status = status
        self.detail = detail

    def __str__(self) -> str:
        return self.detail


def found(document: object) -> Response:
    return Response(json_of(document), headers=_HEADERS, media_type="application/json")


def json_of(value: object, *, indent: bool = False) -> bytes:
    """A value that is nested too deep for orjson is never indented. Raises RequestRefused."""
    try:
        return orjson.dumps(value, default=_plain, option=orjson.OPT_INDENT_2 if indent else 0)
    except orjson.JSONEncodeError:
        try:
            return json.dumps(value, default=_plain, ensure_ascii=False).encode()
        except RecursionError:
            detail = "the JSON is nested too deep to be shown: select it with psql"
            raise RequestRefused(HTTPStatus.UNPROCESSABLE_ENTITY, detail) from None


def problem(status: HTTPStatus, detail: str, headers: Mapping[str, str] | None = None) -> Response:
    told = {"type": "about:blank", "title": status.phrase, "status": status, "detail": detail}
    return Response(
        orjson.dumps(told),
        status,
        {**_HEADERS, **headers_of(status), **(headers or {})},
        media_type="application/problem+json",
    )


def of_error(error: InboxdError) -> Response:
    return problem(status_of(error), detail_of(error))


def detail_of(error: InboxdError) -> str:
    status = status_of(error)
    if isinstance(error, RequestRefused):
        return error.detail
    if status is HTTPStatus.INTERNAL_SERVER_ERROR:
        return "see the log of the daemon"
    if status is HTTPStatus.UNAUTHORIZED:  # only the log has the cause
        return "send a valid token: `Authorization: Bearer TOKEN`"
    return redact(str(error))


def headers_of(status: HTTPStatus) -> Mapping[str, str]:
    return _MORE_HEADERS.get(status, {})


def status_of(error: InboxdError) -> HTTPStatus:
    if isinstance(error, RequestRefused):
        return error.status
    found = next((each for kind, each in _STATUSES if isinstance(error, kind)), None)
    return HTTPStatus.INTERNAL_SERVER_ERROR if found is None else found


def _plain(value: object) -> object:
    """Encode values that orjson does not know, as the command line does."""
    return value.total_seconds() if isinstance(value, timedelta) else str(value)
