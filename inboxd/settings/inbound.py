"""Webhooks that come in: `[inbound.http]`, `[inbound.webhooks.NAME]`.

Owns how a source of webhooks is described. Promises that no representation holds a secret, and that
headers with credentials are never kept. Known limit: contradictions are refused by
`inboxd.settings.load` (`inboxd/settings/inbound_contradictions.py`).
"""

from pathlib import Path
from typing import Any, Literal

from pydantic import Field, SecretStr

from inboxd.settings.base import Section, seconds
from inboxd.settings.brokers import MessageSource
from inboxd.settings.references import (
    Addresses,
    Answer,
    DedupKey,
    HeaderName,
    HeaderNames,
    Pointer,
    Reference,
    SourceName,
    TypeReference,
    When,
)
from inboxd.settings.values import Duration, Names, RateLimit, Size

# Built-in schemes. A plugin's scheme checks its needs itself.
NEEDS_KEYS = ("standard_webhooks", "svix", "stripe", "github", "hmac", "bearer")
SCHEMES = (*NEEDS_KEYS, "client_certificate")
# Settings that name the place of a value in a request.
REFERENCES = ("dedup_key", "ordering_key", "tenant", "entity_id", "type_from")
PUBLIC_KEYS = ("standard_webhooks", "svix")


class InboundHttp(Section):
    """The listener that receives webhooks, `POST /in/{source}`."""

    enabled: bool = Field(
        default=False,
        description="Whether `inboxd run` receives webhooks, too; `inboxd receive` always does. "
        "Set it to true if one process is enough.",
    )
    host: str = Field(
        "127.0.0.1",
        min_length=1,
        description="Address to listen on. Change it when the machine has no proxy of its own; "
        "see `allow_remote`.",
    )
    port: int = Field(
        8798,
        ge=0,
        le=65535,
        description="TCP port; 0: any free port. Change it when another program uses it.",
    )
    allow_remote: bool = Field(
        default=False,
        description="Whether `host` may be reachable from other machines without `certificate`: "
        "bodies and bearer keys then travel unencrypted. Set it to true behind a proxy that "
        "terminates TLS, as in a container.",
    )
    certificate: Path | None = Field(
        None,
        description="PEM file of the listener's certificate and its chain, for TLS without a "
        "proxy; needs `private_key`.",
    )
    private_key: Path | None = Field(
        None, description="PEM file of that certificate's private key."
    )
    trusted_proxies: Addresses = Field(
        (),
        description="Address ranges of proxies that are trusted: their X-Forwarded-For and "
        "Forwarded headers, and the client certificates that they report. Set it when every "
        "request seems to come from the proxy.",
    )
    max_connections: int = Field(
        4096,
        ge=1,
        le=1_000_000,
        description="Maximum connections at a time; a further connection waits until one ends. "
        "Raise it, and the limit of open files, when senders wait for a connection.",
    )
    max_requests: int = Field(
        1000,
        ge=1,
        le=1_000_000,
        description="Maximum requests in flight; a further one is answered 503. Raise it when "
        "bursts of senders that do not retry are refused; lower it when memory is short.",
    )
    max_bytes: Size = Field(
        64 * 1024**2,
        description="Maximum bytes of bodies in flight; a request beyond it is answered 503. "
        "Raise it when large bodies are refused in bursts; lower it when memory is short.",
    )
    header_timeout: Duration = Field(
        seconds(10),
        description="Time limit for receiving all headers of a request. Lower it when slow "
        "connections pile up; raise it for senders behind slow networks.",
    )
    body_timeout: Duration = Field(
        seconds(20),
        description="Time limit for receiving a body; after it the request is answered 408. Lower "
        "it when slow requests pile up; raise it for large bodies from slow networks.",
    )
    keep_alive: Duration = Field(
        seconds(75),
        description="Time that a connection without a request stays open. It must be longer than "
        "the proxy's own limit. Raise it when the proxy reports connections that were reset.",
    )
    answer_within: Duration = Field(
        seconds(5),
        description="Time limit for the commit of a request; after it the request is answered 503. "
        "It must be shorter than your senders' own limit (the shortest known is 10s). Raise it "
        "when webhooks are refused because the database is slow, although their senders would wait "
        "longer.",
    )
    connections: int = Field(
        2,
        ge=1,
        le=64,
        description="Database connections, each of which commits a page of requests. Raise it "
        "when requests wait long for their commits and the database has capacity.",
    )
    rate_per_address: RateLimit | None = Field(
        None,
        description='Maximum rate of requests from one address, such as "50/s"; further requests '
        "are answered 429, unread. Unset: no limit. Set it against floods; a request that its "
        "sender does not repeat is then lost.",
    )
    burst_per_address: int | None = Field(
        None,
        ge=1,
        le=1_000_000,
        description="Maximum requests from one address at once; unset: the number that "
        "`rate_per_address` allows in one second. Raise it when senders send in bursts.",
    )


class InboundSpool(Section):
    """The folder on this host's disk where webhooks wait while the database cannot be reached."""

    path: Path | None = Field(
        None,
        description="Folder on a local disk that outlives the process and its container; unset: no "
        "spool, and webhooks are answered 503 while the database is down. Set it if senders do not "
        "retry.",
    )
    quota: Size = Field(
        1024**3,
        description="Maximum bytes that each process of the receiver keeps there, at least twice "
        "`segment_size`; beyond it webhooks are answered 503. Raise it for longer outages, up to "
        "the free disk space.",
    )
    segment_size: Size = Field(
        64 * 1024**2,
        description="Size at which a new file is begun; a file is deleted when all of it is in "
        "the database. Lower it when drained files occupy the disk for too long.",
    )
    after: Duration = Field(
        seconds(2),
        description="Time that the database has to store a webhook before it is spooled; less "
        "than inbound.http.answer_within. Lower it when senders give up while the database is "
        "slow; raise it when webhooks are spooled at every short delay.",
    )


class WebhookKey(Section):
    """One key of a source."""

    id: str = Field(
        "1",
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$",
        description="Name of the key in receipts and logs, so that you see when the old key is "
        "out of use.",
    )
    secret: SecretStr | None = Field(
        None,
        min_length=1,
        description="Secret that sender and receiver share, in the form that the sender shows. "
        "Prefer `secret_file`.",
    )
    secret_file: Path | None = Field(None, description="File that holds only the secret.")
    public_key: str | None = Field(
        None, description="The sender's public key (`whpk_…`), in place of a secret."
    )
    not_before: When | None = Field(
        None,
        description="Time from which the key is valid, such as 2026-12-01T00:00:00Z; unset: "
        "no start.",
    )
    not_after: When | None = Field(
        None,
        description="Time until which the key is valid; unset: no end. For the old key of a "
        "rotation.",
    )


class SenderKey(WebhookKey):
    """One key of a source of webhooks."""

    tenant: str | None = Field(
        None,
        min_length=1,
        max_length=255,
        description="Tenant of every request that is signed with this key, regardless of its body. "
        "Set it if several tenants send to one source.",
    )


class HmacScheme(Section):
    """The signature of a sender that follows no known scheme: `scheme = "hmac"`."""

    header: HeaderName = Field(description="Header that holds the signature.")
    algorithm: Literal["sha256", "sha512", "sha1"] = Field(
        "sha256", description="Hash function; sha1 only for old senders."
    )
    encoding: Literal["hex", "base64", "base64url"] = Field(
        "hex", description="Encoding of the signature."
    )
    prefix: str = Field("", description="Text before the signature, such as `sha256=`.")
    template: str = Field(
        "{body}",
        description="Text that is signed, with the placeholders `{body}`, `{timestamp}` and "
        "`{id}`, such as `{timestamp}.{body}`.",
    )
    timestamp_header: HeaderName | None = Field(
        None,
        description="Header that holds `{timestamp}`, in seconds since 1970; it must lie within "
        "`tolerance`.",
    )
    id_header: HeaderName | None = Field(
        None,
        description="Header that holds `{id}`, which is the dedup key unless `dedup_key` is set.",
    )
    secret_encoding: Literal["text", "base64", "hex"] = Field(
        "text", description="Encoding of the secret; text: the secret's characters themselves."
    )


class CertificateScheme(Section):
    """Access by client certificate: `scheme = "client_certificate"`."""

    header: HeaderName = Field(
        "x-client-subject",
        description="Header in which the proxy passes the subject of a verified certificate.",
    )
    subjects: tuple[str, ...] = Field(
        (), description="Accepted subjects, as the proxy writes them."
    )


class WebhookSource(Section):
    """One sender of webhooks; its name is the last part of the address that it sends to."""

    scheme: str = Field(
        "standard_webhooks",
        pattern=r"^[a-z][a-z0-9_]*$",
        description="How requests are authenticated: standard_webhooks, svix, stripe, github, "
        "hmac, bearer, client_certificate, or a plugin's own scheme. Change it to the scheme of "
        "the sender.",
    )
    keys: tuple[SenderKey, ...] = Field(
        (),
        description="The keys, each with id and secret, secret_file or public_key, and optionally "
        "not_before, not_after and tenant; a request may match any key that is valid now. Add the "
        "new key before the sender rotates, or its requests are answered 401.",
    )
    tolerance: Duration = Field(
        seconds(300),
        description="Maximum difference between the time of a signature and now, in either "
        "direction. Raise it when good requests are refused as stale and the clocks cannot be "
        "corrected.",
    )
    hmac: HmacScheme | None = Field(
        None,
        description="How the sender signs, with scheme hmac: the header, and each option that "
        "differs from its default.",
    )
    certificate: CertificateScheme | None = Field(
        None,
        description="Accepted clients, with scheme client_certificate: the header that the proxy "
        "sets, and the subjects.",
    )
    options: dict[str, Any] = Field(
        default_factory=dict,
        description="Options of a scheme without a table of its own, such as a plugin's. They are "
        "shown; a secret belongs in `keys`.",
    )
    topics: Names = Field(
        (),
        description="Topics of the events; empty: the topics that subscribe to the type. Set it "
        "when events must go elsewhere, or arrive before anything is declared.",
    )
    type: str | None = Field(
        None, min_length=1, description="The type of the events; set this or `type_from`."
    )
    type_from: TypeReference | None = Field(
        None,
        description='Where the type is found: "header:x-github-event" or "pointer:/type". For '
        "senders of several types.",
    )
    type_prefix: str = Field(
        "",
        max_length=100,
        description="Prefix of the types from `type_from`, such as `stripe.`, so that the types "
        "of two sources differ.",
    )
    dedup_key: DedupKey | None = Field(
        None,
        description='Where the dedup key is found: "header:…", "pointer:/…", or "body" for the '
        'body\'s hash; "" for none; unset: the dedup key of the scheme. Set it when repeated '
        "requests of a sender become events, or when a sender gives different results the same id.",
    )
    dedup_scope: Literal["source", "key"] = Field(
        "source",
        description="Requests among which a dedup key is unique. source: all requests of the "
        "source; key: requests that are signed with the same key. Set it to key if the keys belong "
        "to senders that do not trust each other; a sender that changes its key may then deliver "
        "an event twice.",
    )
    ordering_key: Reference | None = Field(
        None,
        description='Where the ordering key is found: "header:…", "pointer:/…" or "text:…". Set '
        "it when the events must be handled in order.",
    )
    tenant: Reference | None = Field(
        None, description="Where the tenant is found, in the form of `ordering_key`."
    )
    entity_type: str | None = Field(
        None,
        min_length=1,
        description="Kind of the entities that the events are about, such as `match`.",
    )
    entity_id: Reference | None = Field(
        None, description="Where the entity's id is found, in the same form as the ordering key."
    )
    items: Pointer | None = Field(
        None,
        description="JSON pointer to an array whose elements become one event each, all or none; "
        '"": the body is the array. The other pointers then begin at the element. Set it when a '
        "sender packs many results into one request.",
    )
    max_items: int = Field(
        1_000,
        ge=1,
        le=1_000_000,
        description="Maximum elements of that array; a request with more becomes one dead letter. "
        "Raise it when a sender packs more, as long as the database can write as many events "
        "within inbound.http.answer_within.",
    )
    body: Literal["json", "form", "text"] = Field(
        "json",
        description="Format of a body: JSON, a form (converted to an object), or text. Change it "
        "when good bodies become dead letters because they are not JSON.",
    )
    headers: HeaderNames = Field(
        (),
        description="Headers that are kept in the receipt and in the event's headers, besides the "
        "signature's headers. Set it when handlers need them; headers that hold credentials are "
        "refused.",
    )
    max_body: Size = Field(
        1024**2,
        description="Maximum bytes of a body; a larger one is answered 413, unread. Raise it when "
        "a sender's large bodies are refused; lower it if no body should be large.",
    )
    answer: Answer = Field(
        202,
        description="HTTP status of a success: 200, 201, 202 or 204. Change it when the sender "
        "treats this status as a failure.",
    )
    addresses: Addresses = Field(
        (),
        description="Address ranges that may send; empty: all. Set it if the sender publishes its "
        "ranges; requests from a new range are answered 403 until you add it here.",
    )
    rate: RateLimit | None = Field(
        None,
        description='Maximum rate of authentic requests, such as "100/s"; further requests are '
        "answered 429. A request without a valid key does not count. Unset: no limit. Set it when "
        "one sender crowds out others; a request that the sender does not repeat is then lost.",
    )
    burst: int | None = Field(
        None,
        ge=1,
        le=1_000_000,
        description="Maximum requests at once; unset: the number that `rate` allows in one "
        "second. Raise it when a sender sends in bursts.",
    )
    paused: Literal["no", "hold", "refuse"] = Field(
        "no",
        description="hold: requests are received and stored, and become events later; refuse: "
        "they are answered 503, and lost if the sender does not retry. Set it when the events "
        "would do harm until a handler is fixed.",
    )

    def of_scheme(self) -> dict[str, Any]:
        """The scheme's own options, besides keys and tolerance."""
        own = {"hmac": self.hmac, "client_certificate": self.certificate}.get(self.scheme)
        return own.model_dump() if own is not None else dict(self.options)


class Inbound(Section):
    """Settings of webhooks and messages that are received."""

    http: InboundHttp = Field(
        default_factory=InboundHttp,
        description="The listener that webhooks are sent to, `POST /in/{source}`.",
    )
    spool: InboundSpool = Field(
        default_factory=InboundSpool,
        description="Where webhooks wait on this host's disk while the database cannot be reached.",
    )
    webhooks: dict[SourceName, WebhookSource] = Field(
        default_factory=dict, description="The sources of webhooks, by name."
    )
    messages: dict[SourceName, MessageSource] = Field(
        default_factory=dict, description="The sources of messages, by name."
    )
