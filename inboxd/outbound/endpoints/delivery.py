"""The handler of `webhook.deliver`: sends one message to one endpoint, by Standard Webhooks.

Promises: each attempt sends the same body under the same `webhook-id`, signed by each current
secret with the attempt's time; any answer except 2xx is retried, also a redirect, which is not
followed; 410 disables the endpoint. Known limits: a delivery is repeated if its answer was lost; a
number with a fraction is sent as a float. *See:* `book`.
"""

import json
from dataclasses import dataclass
from typing import Any

from inboxd.api.context import CommandContext
from inboxd.api.handlers import Handlers
from inboxd.errors import (
    Defer,
    Reject,
    Retry,
    SettingsError,
    TargetRefused,
    TargetUnreachable,
    UsageError,
)
from inboxd.model.backoff import Explicit
from inboxd.model.endpoints import message_id_problem
from inboxd.outbound.addresses import Allowed
from inboxd.outbound.client import TargetAnswer, TargetClient, TargetRequest
from inboxd.outbound.endpoints.book import DELIVER, EndpointBook, book
from inboxd.outbound.endpoints.endpoint import ServedEndpoint
from inboxd.outbound.record import Recorder
from inboxd.outbound.verdict import Expected, retry_after

# Suggested by the specification: short waits first, then over days.
RETRY = Explicit(delays=("5s", "5m", "30m", "2h", "5h", "10h", "14h", "20h", "24h"), jitter="half")
_DONE, _GONE = Expected(), 410
# Seconds beyond the request's timeout for all other work; and until a delivery is tried again if
# its endpoint could not be read.
_GRACE_SECONDS, _DEFER_SECONDS = 15.0, 5.0
# Characters of an answer's body in the error of a failed attempt.
_MOST_SHOWN = 300


@dataclass(frozen=True, slots=True)
class DueDelivery:
    """The payload of `webhook.deliver`, written by `send_webhook`. id: the message's id."""

    endpoint: str
    id: str
    type: str
    timestamp: str
    data: Any

    def body(self) -> bytes:
        content = {"type": self.type, "timestamp": self.timestamp, "data": self.data}
        return json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()


@dataclass(frozen=True, slots=True)
class DeliveryRules:
    """timeout: seconds. most_answer: bytes to read; keep_answer: characters to keep."""

    timeout: float
    most_answer: int
    keep_answer: int
    allowed: Allowed
    user_agent: str
    require_https: bool = False


def declare(handlers: Handlers, how: DeliveryRules) -> None:
    @handlers.command(DELIVER, timeout=f"{how.timeout + _GRACE_SECONDS:g}s", retry=RETRY)
    async def deliver_webhook(
        delivery: DueDelivery, ctx: CommandContext, client: TargetClient
    ) -> dict[str, Any]:
        """Make one attempt; returns the endpoint's answer."""
        known = book.get(None)
        if known is None:
            raise UsageError("only a running worker delivers webhooks; a rehearsal does not.")
        endpoint = await _find(known, delivery.endpoint)
        try:
            answer = await client.ask(_request(endpoint, delivery, ctx, how))
        except (TargetRefused, TargetUnreachable, SettingsError) as error:
            # The endpoint's owner or an operator can correct each of these errors, so retry.
            known.failed(endpoint, None, str(error))
            raise Retry(reason=str(error)) from error
        return _judged(known, endpoint, answer, ctx, how)


async def _find(known: EndpointBook, name: str) -> ServedEndpoint:
    try:
        endpoint = await known.find(name)
    except TimeoutError:
        raise Defer(after=_DEFER_SECONDS) from None
    if endpoint is None:
        raise Reject(f"the endpoint {name!r} does not exist any more: see `inboxd endpoints list`.")
    return endpoint


def _request(
    endpoint: ServedEndpoint, delivery: DueDelivery, ctx: CommandContext, how: DeliveryRules
) -> TargetRequest:
    """Raises SettingsError (no secret can sign), TargetRefused (not https), Reject (invalid id)."""
    if problem := message_id_problem(delivery.id):
        raise Reject(f"the message id {delivery.id!r:.60} {problem}")
    body = delivery.body()
    headers = endpoint.sign(body, delivery.id, ctx.now().timestamp())
    headers |= {"content-type": "application/json", "user-agent": how.user_agent}
    url = endpoint.written.url
    if how.require_https and not url.lower().startswith("https:"):
        raise TargetRefused(
            f"The URL of the endpoint {endpoint.written.name!r} is not https, which "
            "outbound.webhooks.require_https requires."
        )
    return TargetRequest("POST", url, headers, body, how.timeout, how.most_answer, how.allowed)


def _judged(
    known: EndpointBook,
    endpoint: ServedEndpoint,
    answer: TargetAnswer,
    ctx: CommandContext,
    how: DeliveryRules,
) -> dict[str, Any]:
    """Raises Retry for any answer except a success."""
    secrets = endpoint.written.secrets
    recorder = Recorder([*secrets, *(_bare(each) for each in secrets)], how.keep_answer)
    if answer.status in _DONE:
        known.succeeded(endpoint, answer.status)
        return {**recorder.record(answer), "attempts": ctx.attempt}
    reason = f"the endpoint {endpoint.written.name!r} answered {answer.status}"
    if answer.body:
        reason = f"{reason}: {recorder.text(answer.body)[:_MOST_SHOWN]}"
    if answer.status == _GONE:
        known.is_gone(endpoint, answer.status, reason)
    else:
        known.failed(endpoint, answer.status, reason)
    after = retry_after(answer.headers.get("retry-after", ""), ctx.now())
    raise Retry(after, reason, at_least=True)


def _bare(secret: str) -> str:
    return secret.removeprefix("whsec_")
