"""What leaves over HTTP: `[outbound.http]`, `[outbound.webhooks]`, `[targets.NAME]`.

Promises that no secret is shown: values of headers count as such. Known limit: what contradicts
each other is refused by `inboxd.settings.load` (`inboxd/settings/outbound_contradictions.py`).
"""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, SecretStr

from inboxd.settings.base import Section, seconds
from inboxd.settings.inbound import HmacScheme, WebhookKey
from inboxd.settings.overrides import Queue
from inboxd.settings.references import Addresses, HeaderName, target_name
from inboxd.settings.values import Duration, RateLimit, Size

_LIMITS = ("concurrency", "total_concurrency", "rate")


class OutboundHttp(Section):
    """How targets are asked, by the command `http.request`."""

    enabled: bool = Field(
        default=False,
        description="Whether `http.request` may ask any URL. True where requests name no target; "
        "targets are asked in any case.",
    )
    timeout: Duration = Field(
        seconds(30),
        description="What a target gets for its whole answer, unless a request or its target says "
        "otherwise. Raise it for targets that are slow and work.",
    )
    connect_timeout: Duration = Field(
        seconds(5),
        description="What a connection to a target gets to be there. Raise it for targets that "
        "are far away.",
    )
    max_answer: Size = Field(
        64 * 1024,
        description="Most bytes of an answer's body that are read; the rest is left. Raise it if "
        "more of the answers is to be kept.",
    )
    keep_answer: Size = Field(
        4 * 1024,
        description="Most characters of an answer's body that become the command's result. Raise "
        "it if whoever waits for the result needs more.",
    )
    host_rate: RateLimit | None = Field(
        None,
        description='Most requests of one worker to one host, such as "10/s", of those that are '
        "in no queue of a target; unset: no limit. Set it where anybody may name a URL.",
    )
    allow: Addresses = Field(
        (),
        description="Address ranges that a request by URL may reach though they are not of the "
        "public internet. Set it for services of your own network.",
    )


class OutboundWebhooks(Section):
    """How webhooks are delivered to endpoints, by the command `webhook.deliver`."""

    enabled: bool = Field(
        default=False,
        description="Whether this worker delivers webhooks. True where endpoints are rows; a "
        "worker that has endpoints in its settings delivers in any case.",
    )
    concurrency: int | None = Field(
        None,
        ge=1,
        le=10_000,
        description="Most deliveries at once in one worker process, to all endpoints together, of "
        "which one endpoint has half at most; unset: half of commands.concurrency, so that slow "
        "endpoints do not hold up other commands. Raise it in workers that do little else.",
    )
    timeout: Duration = Field(
        seconds(20),
        description="What an endpoint gets for its whole answer. Raise it for customers that are "
        "slow; what hangs holds its endpoint's places for so long.",
    )
    allow: Addresses = Field(
        (),
        description="Address ranges that endpoints may be at though they are not of the public "
        "internet. Set it for endpoints of your own network, and for tests.",
    )
    require_https: bool = Field(
        default=False,
        description="Whether only https is delivered to: by http whoever is on the way reads it. "
        "True where endpoints are customers'.",
    )


class Outbound(Section):
    """What leaves over HTTP."""

    http: OutboundHttp = Field(
        default_factory=OutboundHttp,
        description="How targets are asked, by the command `http.request`.",
    )
    webhooks: OutboundWebhooks = Field(
        default_factory=OutboundWebhooks,
        description="How webhooks are delivered, by the command `webhook.deliver`.",
    )


class Target(Section):
    """One HTTP service that commands ask; its queue and its breaker are called `http.NAME`."""

    url: str = Field(
        "https://",
        max_length=2000,
        description="Where it is; the path of a request is put behind it.",
    )
    headers: dict[HeaderName, SecretStr] = Field(
        default_factory=dict,
        description="Headers of each request; their values are never shown.",
    )
    authorization: SecretStr | None = Field(
        None,
        min_length=1,
        description="The header Authorization, such as `Bearer …`. A file is better.",
    )
    authorization_file: Path | None = Field(
        None, description="File that holds only the value of that header."
    )
    signature: Literal["none", "standard_webhooks", "hmac"] = Field(
        "none",
        description="How requests are signed, so that the target knows who asks. Set it to what "
        "the target verifies.",
    )
    keys: tuple[WebhookKey, ...] = Field(
        (),
        description="The keys that sign, each with id and secret or secret_file. standard_webhooks "
        "signs with all that count now, so that the target may change to the new one; hmac with "
        "the first.",
    )
    hmac: HmacScheme | None = Field(
        None, description="How it is signed with signature hmac: its header, and what differs."
    )
    rate: RateLimit | None = Field(
        None,
        description='Most requests to it by all workers, such as "10/s": the rate of its queue. '
        "Set it when the target counts requests.",
    )
    concurrency: int | None = Field(
        None,
        ge=1,
        le=10_000,
        description="Most requests to it at a time in one worker process. Set it when a slow "
        "target takes the room of others.",
    )
    total_concurrency: int | None = Field(
        None,
        ge=1,
        le=10_000,
        description="Most requests to it at a time in all workers together. Set it when the "
        "target bears only so many.",
    )
    timeout: Duration | None = Field(
        None,
        description="What it gets for its whole answer; unset: outbound.http.timeout. Raise it if "
        "it is slow and works.",
    )
    allow: Addresses = Field(
        (),
        description="Address ranges that it may be at though they are not of the public internet. "
        "Set it for a service of your own network.",
    )

    def of_queue(self, name: str) -> Queue:
        """The settings of its queue."""
        limits = {key: getattr(self, key) for key in _LIMITS if getattr(self, key) is not None}
        return Queue(breaker=name, **limits)


# Without a pattern in the schema: editors know names of tables by `additionalProperties`.
TargetName = Annotated[str, AfterValidator(target_name)]
