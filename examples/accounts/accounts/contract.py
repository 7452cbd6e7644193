"""The contract of idempotency between a caller and its target: the caller's side.

A request that changes something carries an `Idempotency-Key`. The target executes each key once and
answers every repetition with the first answer. It answers 422 to a known key with another body, and
400 to a request without a key. It keeps keys for longer than any caller retries.
Owns how a target is called, and what its answers mean. Promises: a call ends within its time limit,
however slowly the answer arrives; every attempt sends the key that the caller gave.
"""

from typing import Any
from uuid import UUID

import anyio
import httpx

# httpx raises these besides its own errors when a target resets a connection that it has just
# accepted, for example because it is killed: httpx then reads the address of a closed socket.
_RESET = (AttributeError, OSError)

# Besides 5xx: these statuses invite a later attempt (RFC 9110, RFC 8470, RFC 6585).
_TEMPORARY = frozenset({408, 425, 429})


class UnavailableError(Exception):
    """The target gave no answer, or asks for a later attempt: in `after` seconds, if it says so."""

    def __init__(self, reason: str, after: float | None = None) -> None:
        super().__init__(reason)
        self.after = after


class RefusedError(Exception):
    """The target refused the request, and would refuse it again."""


def key_of(operation: str, user_id: UUID) -> str:
    """The idempotency key: the same in the request and in every attempt of the command."""
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
    """Post the body; returns when the target confirms. Raises UnavailableError or RefusedError."""
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
    """In seconds; None for a date, because the caller's own backoff applies then."""
    text = answer.headers.get("Retry-After", "")
    return float(text) if text.isdecimal() and len(text) < 6 else None
