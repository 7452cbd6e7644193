"""The handler of `http.request`: sends one request to a target, and judges the answer.

Promises: no transaction is open during the request; each attempt sends the same request under one
Idempotency-Key; no result or error contains a secret. A temporary failure is a Retry, which obeys
Retry-After; any other failure is a Reject. Known limit: `host_rate` holds per worker. *See:*
`targets`.
"""

import re
import string
import time
from datetime import UTC, datetime, timedelta
from math import inf
from typing import Any
from urllib.parse import quote

from inboxd.api.context import CommandContext
from inboxd.api.handlers import Handlers
from inboxd.errors import Defer, Reject, Retry, TargetRefused, TargetUnreachable
from inboxd.outbound.client import TargetClient
from inboxd.outbound.request import HttpRequest
from inboxd.outbound.targets import LONGEST, PreparedRequest, Targets
from inboxd.outbound.verdict import judged
from inboxd.settings import Settings

# Characters of an answer's body in an error.
_SHOWN = 300
_MOST_HOSTS = 10_000
_TRACEPARENT = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}(-[!-~]{0,200})?")
_PRINTABLE = string.punctuation + " "


class HostRate:
    def __init__(self, rows: int, seconds: float) -> None:
        """At most `rows` requests to one host in `seconds`."""
        self._seconds = seconds
        self._interval = seconds / rows
        self._full: dict[str, float] = {}
        self._cleared = -inf

    def wait(self, host: str, now: float) -> float:
        """Take a turn and return 0; else return the seconds until the next try."""
        full = max(self._full.get(host, now), now) + self._interval
        if full - now > self._seconds:
            return full - now - self._seconds
        if len(self._full) >= _MOST_HOSTS and host not in self._full:
            if now < self._cleared + self._seconds:
                return self._cleared + self._seconds - now
            self._cleared = now
            self._full = {each: at for each, at in self._full.items() if at > now}
        self._full[host] = full
        return 0.0


def add_to(handlers: Handlers, settings: Settings) -> None:
    http = settings.outbound.http
    targets = Targets(settings)
    rate = None if http.host_rate is None else HostRate(http.host_rate.rows, http.host_rate.seconds)

    @handlers.command("http.request", queue="http", timeout=timedelta(seconds=LONGEST + 30))
    async def request(
        command: HttpRequest, ctx: CommandContext, client: TargetClient
    ) -> dict[str, Any]:
        key = command.idempotency_key or ctx.idempotency_key
        prepared = targets.prepare(command, _headers(ctx, key), key)
        if ctx.queue == prepared.breaker:  # the target's queue applies its breaker and rate
            return await _ask(prepared, client, ctx)
        async with ctx.breaker(prepared.breaker):
            wait = 0.0 if rate is None else rate.wait(prepared.host, time.monotonic())
            if wait:
                raise Defer(after=wait)
            return await _ask(prepared, client, ctx)


def _headers(ctx: CommandContext, key: str) -> dict[str, str]:
    headers = {"idempotency-key": key, "x-correlation-id": _in_a_header(ctx.correlation_id)}
    # An invalid traceparent is left out (W3C): producers may write any text.
    if ctx.traceparent is not None and _TRACEPARENT.fullmatch(ctx.traceparent):
        headers["traceparent"] = ctx.traceparent
    return headers


def _in_a_header(text: str) -> str:
    return quote(text, safe=_PRINTABLE)


async def _ask(
    prepared: PreparedRequest, client: TargetClient, ctx: CommandContext
) -> dict[str, Any]:
    try:
        answer = await client.ask(prepared.request)
    except TargetUnreachable as error:
        raise Retry(reason=prepared.recorder.redacted(str(error))) from None
    except TargetRefused as error:
        raise Reject(prepared.recorder.redacted(str(error))) from None
    verdict = judged(answer, prepared.expected, datetime.now(UTC))
    if verdict.done:
        return prepared.recorder.record(answer) | {"attempts": ctx.attempt}
    body = prepared.recorder.text(answer.body)[:_SHOWN]
    reason = f"{verdict.reason}: {body}" if body else verdict.reason
    if verdict.permanent:
        raise Reject(reason)
    # With Retry-After: 0, all attempts must not be spent at once.
    raise Retry(after=verdict.after, reason=reason, at_least=True)
