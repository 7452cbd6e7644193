"""State that all connections of one listener share, and the reasons for refusals."""

from collections.abc import Callable
from http import HTTPStatus
from typing import Any, NamedTuple

import orjson
import uvicorn
from uvicorn.server import ServerState

from inboxd.inbound.fast_path import Take


class Refused(NamedTuple):
    """The reason for a refusal, and the status of its answer; None: no answer."""

    reason: str
    status: int | None = None


BAD = Refused("bad_request", 400)
HEAD_TOO_LARGE = Refused("head_too_large", 431)
HEAD_TOO_LATE = Refused("head_timeout", 408)
BODY_TOO_LATE = Refused("body_timeout", 408)
SILENT = Refused("silent")
NOT_READ = Refused("answer_not_read")
TOO_MUCH = Refused("pipelined")


class Shared:
    def __init__(
        self,
        app: Any,
        *,
        header_timeout: float,
        body_timeout: float,
        keep_alive: float,
        on_refused: Callable[[str], None],
        on_lost: Callable[[], None],
    ) -> None:
        self.config = uvicorn.Config(
            app,
            interface="asgi3",
            http="httptools",
            ws="none",
            lifespan="off",
            access_log=False,
            log_config=None,  # uvicorn's lines go to inboxd's own logging
            server_header=False,
            proxy_headers=False,
        )
        self.config.load()
        self.take: Take | None = getattr(app, "take", None)
        self.state = ServerState()
        self.closing_headers = [(b"connection", b"close")]
        self.header_timeout, self.body_timeout = header_timeout, body_timeout
        self.keep_alive = keep_alive
        self.on_refused, self.on_lost = on_refused, on_lost
        self.draining = False
        # Seconds, advanced by the sweeps.
        self.now = 0.0

    def date(self, value: bytes) -> None:
        self.state.default_headers = [(b"date", value)]
        self.closing_headers = [(b"date", value), (b"connection", b"close")]


def problem(status: int, headers: list[tuple[bytes, bytes]]) -> bytes:
    """A whole answer, as problem+json, that contains only its status."""
    title = HTTPStatus(status).phrase
    body = orjson.dumps({"type": "about:blank", "title": title, "status": status})
    lines = b"".join(b"%b: %b\r\n" % header for header in headers)
    return (
        b"HTTP/1.1 %d %b\r\n%bcontent-type: application/problem+json\r\ncontent-length: %d\r\n\r\n"
        % (status, title.encode(), lines, len(body))
    ) + body
