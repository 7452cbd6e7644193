"""The contract of idempotency that a target offers, from the side of its caller.

A request that changes something carries an `Idempotency-Key`. The target does what was asked once
for each key, and answers every repetition with the first answer; the same key with another body is
refused with 422, a request without a key with 400. It keeps keys for longer than anybody retries.
Owns how a target is asked, and what its answers mean. Promises: an ask ends within its time,
however slowly the answer comes; the key is the caller's, and no attempt changes it.
"""

from typing import Any
from uuid import UUID

import anyio
import httpx

# What httpx raises beside its own errors, when a target resets a connection that it has just taken,
# as one that is killed does: httpx reads the address of a socket that is no longer there.
_RESET = (AttributeError, OSError)

# Beside 5xx: the target says that another time may be better (RFC 9110, RFC 8470, RFC 6585).
_TEMPORARY = frozenset({408, 425, 429})


class UnavailableError(Exception):
    """The target did not answer, or asks for another time; `after`: in how many seconds."""

    def __init__(self, reason: str, after: float | None = None) -> None:
        super().__init__(reason)
        self.after = after


class RefusedError(Exception):
    """The target refuses what was asked; asking again changes nothing."""


def key_of(operation: str, user_id: UUID) -> str:
    """The same in the request and in each attempt of the command."""
    return f"{operation}:{user_id}"


async def ask(
    http: httpx.AsyncClient,
    path: str,
    body: dict[str, Any],
    *,
    key: str,
    correlation_id: str,
    within: float,
) -> None:
    """Have it done. Raises UnavailableError or RefusedError."""
    headers = {"Idempotency-Key": key, "X-Correlation-Id": correlation_id}
    try:
        with anyio.fail_after(within):
            answer = await http.post(path, json=body, headers=headers)
    except TimeoutError:
        raise UnavailableError(f"no answer within {within:g} s") from None
    except (httpx.TransportError, *_RESET) as error:
        raise UnavailableError(f"{type(error).__name__}: {error}") from error
    if answer.is_success:
        return
    reason = f"answered {answer.status_code}: {answer.text:.200}"
    if answer.is_server_error or answer.status_code in _TEMPORARY:
        raise UnavailableError(reason, _retry_after(answer))
    raise RefusedError(reason)


def _retry_after(answer: httpx.Response) -> float | None:
    """In seconds; a date is left to the caller's own backoff."""
    text = answer.headers.get("Retry-After", "")
    return float(text) if text.isdecimal() and len(text) < 6 else None
