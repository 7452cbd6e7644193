"""Requests of tests to targets on this machine.

answer = await client.ask(an_ask(target.url("/status/200")))
assert answer.status == 200
"""

from collections.abc import Mapping

from inboxd.outbound.addresses import Allowed
from inboxd.outbound.client import TargetRequest

LOOPBACK = Allowed(["127.0.0.0/8", "::1"])


def an_ask(
    url: str,
    *,
    method: str = "POST",
    headers: Mapping[str, str] | None = None,
    body: bytes = b"{}",
    timeout: float = 10,
    most_answer: int = 1_000_000,
    allowed: Allowed = LOOPBACK,
) -> TargetRequest:
    """A request that is allowed to reach this machine."""
    return TargetRequest(method, url, headers or {}, body, timeout, most_answer, allowed)
