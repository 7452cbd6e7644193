"""HTTP requests that go out: `[outbound.http]`, `[outbound.webhooks]`, `[targets.NAME]`.

Promises that no secret is shown; values of headers count as secrets. Known limit: contradictions
are refused by `inboxd.settings.load` (`inboxd/settings/outbound_contradictions.py`).
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
    """How targets are called, by the command `http.request`."""

    enabled: bool = Field(
        default=False,
        description="Whether `http.request` may call any URL. Set it to true if requests have a "
        "URL of their own; requests to targets are always made.",
    )
    timeout: Duration = Field(
        seconds(30),
        description="Time limit for a target's whole answer, unless the request or its target "
        "sets another. Raise it for targets that are slow but work.",
    )
    connect_timeout: Duration = Field(
        seconds(5),
        description="Time limit for opening a connection to a target. Raise it for targets that "
        "are far away.",
    )
    max_answer: Size = Field(
        64 * 1024,
        description="Maximum bytes of an answer's body that are read; further bytes are dropped. "
        "Raise it if more of the answers must be kept.",
    )
    keep_answer: Size = Field(
        4 * 1024,
        description="Maximum characters of an answer's body that become the command's result. "
        "Raise it if the code that reads the result needs more.",
    )
    host_rate: RateLimit | None = Field(
        None,
        description='Maximum rate of requests from one worker to one host, such as "10/s", not '
        "counting requests to targets; unset: no limit. Set it if others may choose the URLs.",
    )
    allow: Addresses = Field(
        (),
        description="Address ranges outside the public internet that a request by URL may reach. "
        "Set it for services of your own network.",
    )


class OutboundWebhooks(Section):
    """How webhooks are delivered to endpoints, by the command `webhook.deliver`."""

    enabled: bool = Field(
        default=False,
        description="Whether this worker delivers webhooks. Set it to true if endpoints are rows "
        "of the database; a worker that has endpoints in its settings always delivers.",
    )
    concurrency: int | None = Field(
        None,
        ge=1,
        le=10_000,
        description="Maximum deliveries at once in one worker process, to all endpoints together; "
        "one endpoint gets at most half of it. Unset: half of commands.concurrency, so that slow "
        "endpoints do not hold up other commands. Raise it in workers that do little else.",
    )
    timeout: Duration = Field(
        seconds(20),
        description="Time limit for an endpoint's whole answer. Raise it for customers that are "
        "slow; an endpoint that hangs occupies its places for this long.",
    )
    allow: Addresses = Field(
        (),
        description="Address ranges outside the public internet where endpoints may be. Set it "
        "for endpoints of your own network, and for tests.",
    )
    require_https: bool = Field(
        default=False,
        description="Whether only endpoints with https are allowed: others on the network can read "
        "http. Set it to true if endpoints belong to customers.",
    )


class Outbound(Section):
    """HTTP requests that go out."""

    http: OutboundHttp = Field(
        default_factory=OutboundHttp,
        description="How targets are called, by the command `http.request`.",
    )
    webhooks: OutboundWebhooks = Field(
        default_factory=OutboundWebhooks,
        description="How webhooks are delivered, by the command `webhook.deliver`.",
    )


class Target(Section):
    """One HTTP service that commands call; its queue and its breaker are named `http.NAME`."""

    url: str = Field(
        "https://",
        max_length=2000,
        description="Base URL of the target; the path of a request is appended to it.",
    )
    headers: dict[HeaderName, SecretStr] = Field(
        default_factory=dict,
        description="Headers of each request; their values are never shown.",
    )
    authorization: SecretStr | None = Field(
        None,
        min_length=1,
        description="Value of the header Authorization, such as `Bearer …`. Prefer "
        "`authorization_file`.",
    )
    authorization_file: Path | None = Field(
        None, description="File that holds only the value of that header."
    )
    signature: Literal["none", "standard_webhooks", "hmac"] = Field(
        "none",
        description="How requests are signed, so that the target can verify the sender. Set it to "
        "the scheme that the target verifies.",
    )
    keys: tuple[WebhookKey, ...] = Field(
        (),
        description="The signing keys, each with id and secret or secret_file. standard_webhooks "
        "signs with all keys that are valid now, so that the target can change to the new one; "
        "hmac signs with the first.",
    )
    hmac: HmacScheme | None = Field(
        None,
        description="How requests are signed with signature hmac: the header, and each option that "
        "differs from its default.",
    )
    rate: RateLimit | None = Field(
        None,
        description='Maximum rate of requests of all workers, such as "10/s": the rate of the '
        "target's queue. Set it when the target limits the rate of its callers.",
    )
    concurrency: int | None = Field(
        None,
        ge=1,
        le=10_000,
        description="Maximum requests at a time in one worker process. Set it when a slow target "
        "takes the capacity of others.",
    )
    total_concurrency: int | None = Field(
        None,
        ge=1,
        le=10_000,
        description="Maximum requests at a time in all workers together. Set it when the target "
        "cannot serve more.",
    )
    timeout: Duration | None = Field(
        None,
        description="Time limit for the whole answer; unset: outbound.http.timeout. Raise it if "
        "the target is slow but works.",
    )
    allow: Addresses = Field(
        (),
        description="Address ranges outside the public internet where the target may be. Set it "
        "for a service of your own network.",
    )

    def of_queue(self, name: str) -> Queue:
        """The settings of the target's queue."""
        limits = {key: getattr(self, key) for key in _LIMITS if getattr(self, key) is not None}
        return Queue(breaker=name, **limits)


# No pattern in the schema: editors complete table names by `additionalProperties`.
TargetName = Annotated[str, AfterValidator(target_name)]
