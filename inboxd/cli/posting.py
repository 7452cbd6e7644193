"""One POST request, as a sender of webhooks makes it: it follows no redirects, and times out.

Known limit: certificates are verified by the machine's authorities, or by SSL_CERT_FILE.
"""

import http.client
import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from urllib.parse import SplitResult, urlsplit

from inboxd.errors import Unreachable, UsageError
from inboxd.model.masking import redact

_ANSWER_BYTES = 64 * 1024  # maximum that is read of a body


@dataclass(frozen=True, slots=True)
class Posted:
    """An answer. headers: by lower-case names. body: its first bytes."""

    url: str
    status: int
    reason: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def is_success(self) -> bool:
        return HTTPStatus.OK <= self.status < HTTPStatus.MULTIPLE_CHOICES


def post(url: str, body: bytes, headers: Mapping[str, str], seconds: float) -> Posted:
    """Send a request. seconds: time limit of each step. Raises UsageError or Unreachable."""
    parts = parts_of(url)
    connection = _connection(parts, seconds)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    try:
        connection.request("POST", target, body, dict(headers))
        answer = connection.getresponse()
        read = answer.read(_ANSWER_BYTES)
        found = {name.lower(): value for name, value in answer.getheaders()}
        return Posted(url, answer.status, answer.reason, found, read)
    except (OSError, http.client.HTTPException) as error:
        raise Unreachable(f"{url}: {_cause(error, seconds)}") from error
    except ValueError as error:  # a header that HTTP cannot carry
        raise UsageError(f"the request cannot be sent: {error}.") from None
    finally:
        connection.close()


def parts_of(url: str) -> SplitResult:
    """Split the URL of a receiver. Raises UsageError for an invalid one."""
    try:
        parts = urlsplit(url)
        reachable = parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0
        if reachable and parts.username is None:
            return parts
    except ValueError:
        pass
    raise UsageError(
        f"{redact(url)!r} is not a valid URL of a receiver: write http://HOST:PORT/PATH or "
        "https://…, without a user name."
    )


def _connection(parts: SplitResult, seconds: float) -> http.client.HTTPConnection:
    host = parts.hostname or ""
    if parts.scheme == "https":
        context = ssl.create_default_context()
        return http.client.HTTPSConnection(host, parts.port, timeout=seconds, context=context)
    return http.client.HTTPConnection(host, parts.port, timeout=seconds)


def _cause(error: Exception, seconds: float) -> str:
    match error:
        case ConnectionRefusedError():
            return "nothing listens there; start `inboxd receive`, or give its URL with --url"
        case socket.gaierror():
            return "the host name is unknown; correct the URL"
        case ssl.SSLCertVerificationError():
            why = error.verify_message
            return f"its certificate cannot be trusted ({why}); name its authority in SSL_CERT_FILE"
        case ssl.SSLError():
            return f"TLS failed ({error.reason}); use http:// if the receiver has no certificate"
    return f"{_no_answer(error, seconds)}; the request may have been received"


def _no_answer(error: Exception, seconds: float) -> str:
    match error:
        case TimeoutError():
            return f"no answer within {seconds:g}s"
        case http.client.BadStatusLine() | ConnectionResetError() | BrokenPipeError():
            return "the connection was closed without an answer"
    return f"the request failed ({error})"
