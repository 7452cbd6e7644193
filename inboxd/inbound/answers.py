"""The receiver's answers; a refusal has only its status, not the check that failed (RFC 9457)."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from http import HTTPStatus
from math import ceil
from typing import Any, NamedTuple
from uuid import UUID

import orjson

_PROBLEM = b"application/problem+json"
_LONGEST_WAIT_SECONDS = 3600


class Answer(NamedTuple):
    start: Mapping[str, Any]
    body: Mapping[str, Any]


class Refusal(Exception):
    """Raised for a request that is refused: the answer, and the reason to count and log."""

    def __init__(self, answer: Answer, reason: str, detail: str = "") -> None:
        """`detail` is only for the log."""
        super().__init__(reason)
        self.answer = answer
        self.reason = reason
        self.detail = detail


def _refusal(status: HTTPStatus, *headers: tuple[bytes, bytes]) -> Answer:
    body = orjson.dumps({"type": "about:blank", "title": status.phrase, "status": status.value})
    fields = [(b"content-type", _PROBLEM), (b"content-length", b"%d" % len(body)), *headers]
    return _answer(status, fields, body)


def _answer(status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> Answer:
    return Answer(
        {"type": "http.response.start", "status": status, "headers": headers},
        {"type": "http.response.body", "body": body},
    )


BAD_REQUEST = _refusal(HTTPStatus.BAD_REQUEST)
UNAUTHORIZED = _refusal(HTTPStatus.UNAUTHORIZED, (b"www-authenticate", b"Signature"))
FORBIDDEN = _refusal(HTTPStatus.FORBIDDEN)
NOT_FOUND = _refusal(HTTPStatus.NOT_FOUND)
METHOD_NOT_ALLOWED = _refusal(HTTPStatus.METHOD_NOT_ALLOWED, (b"allow", b"POST"))
# No `Connection: close` here: the connection adds it, for example before the end of a body.
TOO_LARGE = _refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
UNSUPPORTED = _refusal(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, (b"accept-encoding", b"identity"))
ERROR = _refusal(HTTPStatus.INTERNAL_SERVER_ERROR)


@lru_cache(_LONGEST_WAIT_SECONDS)
def _with_wait(status: HTTPStatus, seconds: int) -> Answer:
    return _refusal(status, (b"retry-after", b"%d" % seconds))


def too_many(seconds: float) -> Answer:
    return _with_wait(
        HTTPStatus.TOO_MANY_REQUESTS, min(_LONGEST_WAIT_SECONDS, max(1, ceil(seconds)))
    )


def unavailable(seconds: int) -> Answer:
    return _with_wait(HTTPStatus.SERVICE_UNAVAILABLE, seconds)


_JSON = (b"content-type", b"application/json")
_NOTHING = _answer(HTTPStatus.NO_CONTENT, [], b"")


def accepted(status: int, receipt: UUID, events: Sequence[UUID]) -> Answer:
    if status == HTTPStatus.NO_CONTENT:
        return _NOTHING
    body = orjson.dumps({"receipt": receipt, "events": events}, default=str)
    return _answer(status, [_JSON, (b"content-length", b"%d" % len(body))], body)
