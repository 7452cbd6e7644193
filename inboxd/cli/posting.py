"""One POST request, as a sender of webhooks makes it, and its answer.

Promises: no redirect is followed, since a sender of webhooks follows none; a server that says
nothing, or never ends, is given up. Known limit: certificates are held against the machine's own
authorities, or those that SSL_CERT_FILE names.
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

_LONGEST = 64 * 1024  # bytes of an answer that are read


@dataclass(frozen=True, slots=True)
class Posted:
    """An answer: its status, headers by lower-case names, and the beginning of its body."""

    url: str
    status: int
    reason: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def is_success(self) -> bool:
        """Whether a sender would take it for one."""
        return HTTPStatus.OK <= self.status < HTTPStatus.MULTIPLE_CHOICES


def post(url: str, body: bytes, headers: Mapping[str, str], seconds: float) -> Posted:
    """Send it; each step of the way may take that long. Raises UsageError or Unreachable."""
    parts = parts_of(url)
    connection = _connection(parts, seconds)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    try:
        connection.request("POST", target, body, dict(headers))
        answer = connection.getresponse()
        read = answer.read(_LONGEST)
        found = {name.lower(): value for name, value in answer.getheaders()}
        return Posted(url, answer.status, answer.reason, found, read)
    except (OSError, http.client.HTTPException) as error:
        raise Unreachable(f"{url}: {_cause(error, seconds)}") from error
    except ValueError as error:  # a header that HTTP cannot carry
        raise UsageError(f"it cannot be sent: {error}.") from None
    finally:
        connection.close()


def parts_of(url: str) -> SplitResult:
    """The parts of an address that can be sent to. Raises UsageError."""
    try:
        parts = urlsplit(url)
        reachable = parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0
        if reachable and parts.username is None:
            return parts
    except ValueError:
        pass
    raise UsageError(
        f"{redact(url)!r} is not the address of a receiver: write http://HOST:PORT/PATH or "
        "https://…, without a user."
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
            return "nothing listens there; start `inboxd receive`, or name its address with --url"
        case socket.gaierror():
            return "there is no such host; correct the address"
        case ssl.SSLCertVerificationError():
            why = error.verify_message
            return f"its certificate cannot be trusted ({why}); name its authority in SSL_CERT_FILE"
        case ssl.SSLError():
            return f"TLS failed ({error.reason}); use http:// where the receiver has no certificate"
    return f"{_silence(error, seconds)}; whether it was received is not known"


def _silence(error: Exception, seconds: float) -> str:
    match error:
        case TimeoutError():
            return f"no answer within {seconds:g}s"
        case http.client.BadStatusLine() | ConnectionResetError() | BrokenPipeError():
            return "the connection was closed without an answer"
    return f"it failed ({error})"
