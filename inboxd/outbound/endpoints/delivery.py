"""The handler of `webhook.deliver`: one message to one endpoint, as Standard Webhooks has it.

Owns what is sent, and what follows from the answer. Promises that every attempt sends the same body
under the same `webhook-id`, signed for its own time by each current secret; that anything but a 2xx
is a failure that is tried again, a redirect too, which is not followed; and that 410 disables the
endpoint. Known limits: a delivery is made at least once: after an answer that was lost it is made
again. A number with a fraction is sent as the float that it is read as.
*See:* `book`; `inboxd.outbound.client`, which asks.
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

# As the specification suggests: quickly at first, then over days.
RETRY = Explicit(delays=("5s", "5m", "30m", "2h", "5h", "10h", "14h", "20h", "24h"), jitter="half")
_DONE, _GONE = Expected(), 410
# Seconds beyond an endpoint's own for what is done beside asking it; and until a delivery comes
# again whose endpoint could not be read.
_GRACE, _SOON = 15.0, 5.0
# Characters of an answer's body in the error of a failed attempt.
_MOST_TOLD = 300


@dataclass(frozen=True, slots=True)
class DueDelivery:
    """The payload of `webhook.deliver`, as `send_webhook` writes it; id: the message's."""

    endpoint: str
    id: str
    type: str
    timestamp: str
    data: Any

    def body(self) -> bytes:
        """What is sent, and signed: the same bytes each time."""
        told = {"type": self.type, "timestamp": self.timestamp, "data": self.data}
        return json.dumps(told, ensure_ascii=False, separators=(",", ":")).encode()


@dataclass(frozen=True, slots=True)
class DeliveryRules:
    """How endpoints are asked, as the settings have it.

    timeout: seconds. most_answer: bytes of an answer that are read; keep_answer: characters of it
    that are kept.
    """

    timeout: float
    most_answer: int
    keep_answer: int
    allowed: Allowed
    user_agent: str
    require_https: bool = False


def declare(handlers: Handlers, how: DeliveryRules) -> None:
    """Declare the handler of deliveries."""

    @handlers.command(DELIVER, timeout=f"{how.timeout + _GRACE:g}s", retry=RETRY)
    async def deliver_webhook(
        delivery: DueDelivery, ctx: CommandContext, client: TargetClient
    ) -> dict[str, Any]:
        """Make one attempt; the result is what the endpoint answered."""
        known = book.get(None)
        if known is None:
            raise UsageError("webhooks are delivered by a running worker, and by no rehearsal.")
        endpoint = await _find(known, delivery.endpoint)
        try:
            answer = await client.ask(_request(endpoint, delivery, ctx, how))
        except (TargetRefused, TargetUnreachable, SettingsError) as error:
            # Whatever it is, its owner or an operator can mend it.
            known.failed(endpoint, None, str(error))
            raise Retry(reason=str(error)) from error
        return _judged(known, endpoint, answer, ctx, how)


async def _find(known: EndpointBook, name: str) -> ServedEndpoint:
    try:
        endpoint = await known.find(name)
    except TimeoutError:
        raise Defer(after=_SOON) from None
    if endpoint is None:
        raise Reject(f"there is no endpoint {name!r} any more: `inboxd endpoints list` has them.")
    return endpoint


def _request(
    endpoint: ServedEndpoint, delivery: DueDelivery, ctx: CommandContext, how: DeliveryRules
) -> TargetRequest:
    """What is sent.

    Raises SettingsError, if no secret can sign it, TargetRefused for http where it may not be, and
    Reject for a wrong id.
    """
    if problem := message_id_problem(delivery.id):
        raise Reject(f"the message id {delivery.id!r:.60} {problem}")
    body = delivery.body()
    headers = endpoint.sign(body, delivery.id, ctx.now().timestamp())
    headers |= {"content-type": "application/json", "user-agent": how.user_agent}
    url = endpoint.written.url
    if how.require_https and not url.lower().startswith("https:"):
        raise TargetRefused(
            f"The URL of the endpoint {endpoint.written.name!r} is not https, which "
            "outbound.webhooks.require_https asks for."
        )
    return TargetRequest("POST", url, headers, body, how.timeout, how.most_answer, how.allowed)


def _judged(
    known: EndpointBook,
    endpoint: ServedEndpoint,
    answer: TargetAnswer,
    ctx: CommandContext,
    how: DeliveryRules,
) -> dict[str, Any]:
    """What is kept of a success. Raises Retry for anything else."""
    secrets = endpoint.written.secrets
    recorder = Recorder([*secrets, *(_bare(each) for each in secrets)], how.keep_answer)
    if answer.status in _DONE:
        known.succeeded(endpoint, answer.status)
        return {**recorder.record(answer), "attempts": ctx.attempt}
    told = f"the endpoint {endpoint.written.name!r} answered {answer.status}"
    if answer.body:
        told = f"{told}: {recorder.text(answer.body)[:_MOST_TOLD]}"
    if answer.status == _GONE:
        known.is_gone(endpoint, answer.status, told)
    else:
        known.failed(endpoint, answer.status, told)
    after = retry_after(answer.headers.get("retry-after", ""), ctx.now())
    raise Retry(after, told, at_least=True)


def _bare(secret: str) -> str:
    return secret.removeprefix("whsec_")
