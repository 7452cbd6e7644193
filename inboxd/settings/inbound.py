"""Webhooks that come in: `[inbound.http]`, `[inbound.webhooks.NAME]`.

Owns how a source of webhooks is described. Promises that a secret is in no representation, and
that the headers which log somebody in are never kept. Known limit: what contradicts each other is
refused by `inboxd.settings.load` (`inboxd/settings/inbound_contradictions.py`).
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

# What is built in. A plugin's own scheme knows by itself what it needs.
NEEDS_KEYS = ("standard_webhooks", "svix", "stripe", "github", "hmac", "bearer")
SCHEMES = (*NEEDS_KEYS, "client_certificate")
# Those that say where a value of a request stands.
REFERENCES = ("dedup_key", "ordering_key", "tenant", "entity_id", "type_from")
PUBLIC_KEYS = ("standard_webhooks", "svix")


class InboundHttp(Section):
    """The listener that webhooks are sent to, `POST /in/{source}`."""

    enabled: bool = Field(
        default=False,
        description="Whether `inboxd run` receives, too; `inboxd receive` does in any case. True "
        "where one process is enough.",
    )
    host: str = Field(
        "127.0.0.1",
        min_length=1,
        description="Address to listen on. Change it when no proxy on the same machine stands in "
        "front; see `allow_remote`.",
    )
    port: int = Field(
        8798,
        ge=0,
        le=65535,
        description="TCP port; 0: any free one. Change it when another program has it.",
    )
    allow_remote: bool = Field(
        default=False,
        description="Whether `host` may be reachable from elsewhere without `certificate`: bodies "
        "and bearer keys are then readable on the way. True behind a proxy that ends TLS, as in a "
        "container.",
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
        description="Address ranges of proxies whose X-Forwarded-For and Forwarded are believed, "
        "and whose client certificates. Set it when each request seems to come from the proxy.",
    )
    max_connections: int = Field(
        4096,
        ge=1,
        le=1_000_000,
        description="Most connections at the same time; a further one waits until one ends. Raise "
        "it, and the limit of open files, when senders wait for that.",
    )
    max_requests: int = Field(
        1000,
        ge=1,
        le=1_000_000,
        description="Most requests in flight; a further one is answered 503. Raise it when "
        "senders that never send again are refused in bursts; lower it when memory is short.",
    )
    max_bytes: Size = Field(
        64 * 1024**2,
        description="Most bytes of bodies in flight; what goes beyond is answered 503. Raise it "
        "when large bodies are refused in bursts; lower it when memory is short.",
    )
    header_timeout: Duration = Field(
        seconds(10),
        description="What a sender gets to send all headers of a request. Lower it when slow "
        "connections pile up; raise it on very slow ways.",
    )
    body_timeout: Duration = Field(
        seconds(20),
        description="What a sender gets to send the body, answered 408 after it. Lower it when "
        "slow requests pile up; raise it when large bodies come over slow ways.",
    )
    keep_alive: Duration = Field(
        seconds(75),
        description="How long a connection without a request stays open: longer than the proxy's "
        "own time for it. Raise it when the proxy reports connections that were reset.",
    )
    answer_within: Duration = Field(
        seconds(5),
        description="How long a request may wait for its commit before it is answered 503; below "
        "what senders wait, of which 10s is the shortest known. Raise it when a slow database "
        "costs webhooks that their senders would have waited for.",
    )
    connections: int = Field(
        2,
        ge=1,
        le=64,
        description="Connections to the database, each with a page of requests to commit. Raise "
        "it when requests wait long for their commits and the database has room.",
    )
    rate_per_address: RateLimit | None = Field(
        None,
        description='Most requests of one address, such as "50/s"; more are answered 429, unread. '
        "Unset: no limit. Set it against floods; what a sender does not send again is lost by it.",
    )
    burst_per_address: int | None = Field(
        None,
        ge=1,
        le=1_000_000,
        description="Most requests of one address at once; unset: what `rate_per_address` gives. "
        "Raise it when senders come in waves.",
    )


class InboundSpool(Section):
    """Where webhooks wait on this host's disk while the database cannot be reached."""

    path: Path | None = Field(
        None,
        description="Folder on a local disk that outlives the process and its container; unset: "
        "no spool, webhooks are answered 503 while the database is away. Set it where senders do "
        "not send again.",
    )
    quota: Size = Field(
        1024**3,
        description="Most bytes that each process of the receiver keeps there, at least twice "
        "`segment_size`; beyond it webhooks are answered 503. Raise it to bear longer outages, as "
        "far as the disk goes.",
    )
    segment_size: Size = Field(
        64 * 1024**2,
        description="Size from which on a new file is begun; a file goes once all of it is in the "
        "database. Lower it when drained files hold the disk for too long.",
    )
    after: Duration = Field(
        seconds(2),
        description="What the database gets to take a webhook before it is spooled; less than "
        "inbound.http.answer_within. Lower it when senders give up while the database is slow; "
        "raise it when short delays send webhooks through the spool.",
    )


class WebhookKey(Section):
    """One key of a source."""

    id: str = Field(
        "1",
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$",
        description="Its name in receipts and logs, so that you see when the old one is out of "
        "use.",
    )
    secret: SecretStr | None = Field(
        None,
        min_length=1,
        description="What sender and receiver share, as the sender shows it. A file is better.",
    )
    secret_file: Path | None = Field(None, description="File that holds only the secret.")
    public_key: str | None = Field(
        None, description="The sender's public key (`whpk_…`), in place of a secret."
    )
    not_before: When | None = Field(
        None, description="From when on it counts, such as 2026-12-01T00:00:00Z; unset: always."
    )
    not_after: When | None = Field(
        None, description="Until when it counts; unset: for ever. For the old key of a rotation."
    )


class SenderKey(WebhookKey):
    """One key of a source of webhooks."""

    tenant: str | None = Field(
        None,
        min_length=1,
        max_length=255,
        description="The tenant of all that is signed with it, whatever a body says. Set it where "
        "several tenants send to one source.",
    )


class HmacScheme(Section):
    """How a sender that follows no known scheme signs: `scheme = "hmac"`."""

    header: HeaderName = Field(description="The header with the signature.")
    algorithm: Literal["sha256", "sha512", "sha1"] = Field(
        "sha256", description="The hash; sha1 for old senders only."
    )
    encoding: Literal["hex", "base64", "base64url"] = Field(
        "hex", description="How the signature is written."
    )
    prefix: str = Field("", description="What stands before it, such as `sha256=`.")
    template: str = Field(
        "{body}",
        description="What is signed, with `{body}`, `{timestamp}` and `{id}` in it, such as "
        "`{timestamp}.{body}`.",
    )
    timestamp_header: HeaderName | None = Field(
        None,
        description="The header with `{timestamp}`, in seconds since 1970; `tolerance` is held "
        "against it.",
    )
    id_header: HeaderName | None = Field(
        None, description="The header with `{id}`, which is the dedup key unless you name another."
    )
    secret_encoding: Literal["text", "base64", "hex"] = Field(
        "text", description="How the secret is written: text is used as it stands there."
    )


class CertificateScheme(Section):
    """Who is let in by a client certificate: `scheme = "client_certificate"`."""

    header: HeaderName = Field(
        "x-client-subject",
        description="The header in which the proxy gives the subject of a verified certificate.",
    )
    subjects: tuple[str, ...] = Field(
        (), description="The subjects that are let in, as the proxy writes them."
    )


class WebhookSource(Section):
    """One sender of webhooks; its name is the last part of the address that it sends to."""

    scheme: str = Field(
        "standard_webhooks",
        pattern=r"^[a-z][a-z0-9_]*$",
        description="How requests are authenticated: standard_webhooks, svix, stripe, github, "
        "hmac, bearer, client_certificate, or a plugin's own. Change it to what the sender does.",
    )
    keys: tuple[SenderKey, ...] = Field(
        (),
        description="The keys, each with id and secret, secret_file or public_key, and if need be "
        "not_before, not_after and tenant; any that counts now may match. Add the new one before "
        "the sender rotates, or what it sends is answered 401.",
    )
    tolerance: Duration = Field(
        seconds(300),
        description="How far the time of a signature may be from now, either way. Raise it when "
        "good requests are refused as stale and the clocks cannot be mended.",
    )
    hmac: HmacScheme | None = Field(
        None,
        description="How the sender signs, with scheme hmac: its header, and what differs from "
        "the hash of the body in hexadecimal digits.",
    )
    certificate: CertificateScheme | None = Field(
        None,
        description="Who is let in, with scheme client_certificate: the header that the proxy "
        "fills, and the subjects.",
    )
    options: dict[str, Any] = Field(
        default_factory=dict,
        description="What a scheme without a table of its own needs to know, such as a plugin's. "
        "It is shown; a secret belongs in `keys`.",
    )
    topics: Names = Field(
        (),
        description="Topics of its events; empty: those that the type is subscribed to. Set it "
        "when they must go elsewhere, or come before anything is declared.",
    )
    type: str | None = Field(
        None, min_length=1, description="The type of its events; this or `type_from`."
    )
    type_from: TypeReference | None = Field(
        None,
        description='Where the type stands: "header:x-github-event" or "pointer:/type". For '
        "senders of several types.",
    )
    type_prefix: str = Field(
        "",
        max_length=100,
        description="What is put before that type, such as `stripe.`, so that the types of two "
        "sources differ.",
    )
    dedup_key: DedupKey | None = Field(
        None,
        description='Where the dedup key stands: "header:…", "pointer:/…", or "body" for the '
        "body's hash; \"\" for none; unset: what the scheme has. Set it when a sender's "
        "repetitions become events, or when it gives different results one id.",
    )
    dedup_scope: Literal["source", "key"] = Field(
        "source",
        description="Whose dedup keys may be the same: source: nobody's; key: those of what is "
        "signed with different keys. Set it to key where the keys are of senders that do not "
        "trust each other; one that changes its key may then bring an event twice.",
    )
    ordering_key: Reference | None = Field(
        None,
        description='Where the ordering key stands: "header:…", "pointer:/…" or "text:…". Set it '
        "when its events must be handled in order.",
    )
    tenant: Reference | None = Field(None, description="Where the tenant stands, in the same way.")
    entity_type: str | None = Field(
        None, min_length=1, description="What its events are about, such as `match`."
    )
    entity_id: Reference | None = Field(
        None, description="Where the entity's id stands, in the same way as the ordering key."
    )
    items: Pointer | None = Field(
        None,
        description='JSON pointer to an array that becomes one event each, all or none; "": the '
        "body is the array. The other pointers then begin at the item. Set it when a sender packs "
        "many results into one request.",
    )
    max_items: int = Field(
        1_000,
        ge=1,
        le=1_000_000,
        description="Most elements of that array; one with more is a dead letter, as a whole. "
        "Raise it when a sender packs more, as far as the database writes so many events within "
        "inbound.http.answer_within.",
    )
    body: Literal["json", "form", "text"] = Field(
        "json",
        description="What a body is: JSON, a form of which an object is made, or text. Change it "
        "when good bodies become dead letters as not JSON.",
    )
    headers: HeaderNames = Field(
        (),
        description="Headers that are kept with the receipt and in the event's headers, beside "
        "those of the signature. Set it when handlers need them; those that log somebody in are "
        "refused.",
    )
    max_body: Size = Field(
        1024**2,
        description="Most bytes of a body; a larger one is answered 413, unread. Raise it when a "
        "sender's large ones are refused; lower it where none should be large.",
    )
    answer: Answer = Field(
        202,
        description="The status of a success: 200, 201, 202 or 204. Change it when the sender "
        "takes this one for a failure.",
    )
    addresses: Addresses = Field(
        (),
        description="Address ranges that may send; empty: all. Set it where the sender publishes "
        "its own; when that list grows, what comes from the new ones is answered 403.",
    )
    rate: RateLimit | None = Field(
        None,
        description='Most authentic requests, such as "100/s"; more are answered 429. Who has no '
        "key spends none of it. Unset: no limit. Set it when one sender crowds out others; what it "
        "does not send again is lost.",
    )
    burst: int | None = Field(
        None,
        ge=1,
        le=1_000_000,
        description="Most requests at once; unset: what `rate` gives. Raise it when a sender comes "
        "in waves.",
    )
    paused: Literal["no", "hold", "refuse"] = Field(
        "no",
        description="hold: requests are received and stored, and become events later; refuse: "
        "they are answered 503, and lost if the sender does not send again. Set it when its "
        "events do harm until a handler is mended.",
    )

    def of_scheme(self) -> dict[str, Any]:
        """What the scheme is told beside keys and tolerance."""
        own = {"hmac": self.hmac, "client_certificate": self.certificate}.get(self.scheme)
        return own.model_dump() if own is not None else dict(self.options)


class Inbound(Section):
    """What comes in over HTTP, and from brokers."""

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
