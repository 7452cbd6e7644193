"""Brokers: `[brokers.NAME]`, `[relays.NAME]`, `[inbound.messages.NAME]`.

Owns how a broker is reached, what is published to it, and what is consumed from it. Promises that a
password is in no representation. Known limit: what contradicts each other is refused by
`inboxd.settings.load` (`inboxd/settings/broker_contradictions.py`).
"""

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, SecretStr
from pydantic import WithJsonSchema as Schema

from inboxd.settings.base import Section, seconds
from inboxd.settings.references import (
    DedupKey,
    DestinationTemplate,
    HeaderNames,
    Reference,
    TypeReference,
    name_of,
)
from inboxd.settings.secrets import read_secret
from inboxd.settings.values import Duration, Names, Size

BUILT_IN = ("kafka", "nats", "rabbitmq")

# Without a pattern in the schema: editors know names of tables by `additionalProperties`.
BrokerName = Annotated[str, AfterValidator(name_of("broker")), Schema({"type": "string"})]
RelayName = Annotated[str, AfterValidator(name_of("relay")), Schema({"type": "string"})]


class Broker(Section):
    """One broker; relays publish to it, sources of messages consume from it."""

    kind: str = Field(
        "",
        pattern=r"^([a-z][a-z0-9_]*)?$",
        max_length=100,
        description="What it is: kafka, nats, rabbitmq, or the name of a plugin's publisher.",
    )
    servers: Names = Field(
        (),
        description='Where it is: one or more of "host:port". Name several of a cluster: one that '
        "can be reached is enough.",
    )
    user: str | None = Field(
        None,
        min_length=1,
        description="The name to log in with. Set it where the broker refuses who has none.",
    )
    password: SecretStr | None = Field(
        None,
        min_length=1,
        description="The user's password, or without a user a NATS token. A file is better.",
    )
    password_file: Path | None = Field(
        None,
        description="File that holds only the password. It is read at each connection, so a new "
        "password needs no restart.",
    )
    mechanism: Literal["plain", "scram-sha-256", "scram-sha-512"] = Field(
        "scram-sha-512",
        description="How a Kafka user logs in (SASL). Change it to what the Kafka brokers ask for; "
        "plain needs tls.",
    )
    tls: bool = Field(
        default=False,
        description="Whether connections are encrypted, and the server's certificate verified. "
        "True wherever others share the network.",
    )
    tls_ca: Path | None = Field(
        None,
        description="PEM file of the authorities that may vouch for the server; unset: those of "
        "the system. Set it where the authority is your own.",
    )
    tls_cert: Path | None = Field(
        None,
        description="PEM file of the daemon's own certificate, for brokers that ask for one; needs "
        "`tls_key`.",
    )
    tls_key: Path | None = Field(None, description="PEM file of that certificate's private key.")
    virtual_host: str = Field(
        "/",
        min_length=1,
        description="The RabbitMQ virtual host. Change it to the one that has your queues.",
    )
    connect_timeout: Duration = Field(
        seconds(5),
        description="What a connection gets to be there. Raise it for brokers that are far away.",
    )
    options: dict[str, Any] = Field(
        default_factory=dict,
        description="What a plugin's publisher needs to know. It is shown; a secret belongs in "
        "`password`.",
    )

    def secret(self) -> str | None:
        """The password, of its file where there is one; a file that changed is read anew.

        Raises SettingsError. It reads a file: call it in a thread.
        """
        if self.password_file is not None:
            return read_secret(self.password_file)
        return None if self.password is None else self.password.get_secret_value()


class Relay(Section):
    """Events that are published to a broker; the relay's name is that of its topic."""

    broker: str = Field(
        "", max_length=100, description="The name of the broker, one of `[brokers]`."
    )
    types: Names = Field(
        (),
        max_length=200,
        description="The types of events that are published. An event that is emitted without a "
        "topic goes to the relay's, and to those of its handlers.",
    )
    to: DestinationTemplate = Field(
        "{type}.v{version}",
        description="The Kafka topic, the NATS subject or the RabbitMQ routing key. {type}, "
        "{version} (of the payload's schema), {tenant}, {entity_type} and {entity_id} stand for "
        "what the event has; one that lacks it is a dead letter. Change it to the names that "
        "consumers know.",
    )
    exchange: str = Field(
        "",
        max_length=255,
        description='The RabbitMQ exchange; "": the default one, whose routing keys are names of '
        "queues. Set it where consumers bind their queues to one.",
    )
    source: str = Field(
        "inboxd",
        min_length=1,
        max_length=255,
        description="The source that its CloudEvents name, a URI such as /bets, where an event has "
        "none of its own. Change it so that consumers see whose events they are.",
    )
    timeout: Duration = Field(
        seconds(10),
        description="What the broker gets to confirm what was sent at once. Raise it for brokers "
        "that are slow and work; what hangs holds the keys of its page for so long.",
    )
    page_rows: int = Field(
        1000,
        ge=1,
        le=10_000,
        description="Most events of a page. Lower it when a broker does not confirm a page in "
        "time, or so that fewer are published twice after a crash.",
    )
    concurrency: int = Field(
        2,
        ge=1,
        le=16,
        description="Most pages of one worker at a time, of different keys: one is settled while "
        "another is published. Raise it when a broker far away leaves events waiting.",
    )
    pipelined: bool = Field(
        default=False,
        description="Whether several messages of one key are under way at once. True for hot keys "
        "that fall behind: quicker, but where the broker refuses one, later ones of its key may "
        "have gone before it; they are published again behind it. Not for NATS, which drops what "
        "is published again.",
    )
    on_failure: Literal["skip", "block"] = Field(
        "skip",
        description="What a dead letter does to its ordering key. skip: the next one goes on; "
        "block: the key waits until it is replayed or dismissed. Choose block where a gap is worse "
        "than a delay.",
    )


class MessageSource(Section):
    """Messages of a broker that become events; its name is the `source` of its events."""

    broker: str = Field(
        "", max_length=100, description="The name of the broker, one of `[brokers]`."
    )
    kafka_topics: Names = Field(
        (), max_length=1000, description="The Kafka topics that are consumed."
    )
    kafka_group: str = Field(
        "inboxd",
        min_length=1,
        max_length=200,
        description="The Kafka consumer group that the workers are members of. Change it where "
        "several inboxes consume one Kafka topic, or each gets only a part of it.",
    )
    nats_stream: str | None = Field(
        None, min_length=1, description="The NATS JetStream stream that is consumed."
    )
    nats_subjects: Names = Field(
        (),
        description="The subjects of the stream that are consumed; empty: all. Set it when the "
        "others would become events that nobody handles.",
    )
    nats_durable: str = Field(
        "inboxd",
        pattern=r"^[A-Za-z0-9_-]{1,32}$",
        description="How the name of the consumer in NATS begins; that of the source is put behind "
        "it. Change it where several inboxes consume from one stream.",
    )
    rabbitmq_queue: str | None = Field(
        None, min_length=1, max_length=255, description="The RabbitMQ queue that is consumed."
    )
    rabbitmq_stream: str | None = Field(
        None,
        min_length=1,
        max_length=255,
        description="The RabbitMQ queue of the type `stream` that is consumed, from a stored "
        "position on. Set it in place of `rabbitmq_queue`.",
    )
    begin: Literal["oldest", "newest"] = Field(
        "oldest",
        description="Where streams are begun of which nothing was stored: with the oldest message "
        "that the broker has, or with what comes from then on. Choose newest where "
        "old messages would do harm.",
    )
    prefetch: int = Field(
        2000,
        ge=1,
        le=100_000,
        description="Most messages that are held in memory, not stored yet. Lower it when large "
        "messages take too much memory.",
    )
    page_rows: int = Field(
        1000,
        ge=1,
        le=10_000,
        description="Most messages that are stored in one transaction; at most `prefetch`. Raise "
        "it when many small ones wait; lower it when their transactions take long.",
    )
    page_bytes: Size = Field(
        16 * 1024**2,
        description="Most bytes of bodies that are stored in one transaction, a last one more. "
        "Lower it when memory is short.",
    )
    max_body: Size = Field(
        1024**2,
        description="Most bytes of a message; a larger one is a dead letter without its body. "
        "Raise it when large ones are meant.",
    )
    topics: Names = Field(
        (),
        description="Topics of its events; empty: those that the type is subscribed to. Set it "
        "when they must go elsewhere, or come before anything is declared.",
    )
    type: str | None = Field(
        None,
        min_length=1,
        description="The type of its events; unset: `type_from`, or that of the CloudEvent.",
    )
    type_from: TypeReference | None = Field(
        None,
        description='Where the type stands: "header:…" or "pointer:/type". For messages that are '
        "no CloudEvents.",
    )
    type_prefix: str = Field(
        "",
        max_length=100,
        description="What is put before the type of `type_from` or of the CloudEvent, such as "
        "`shop.`, so that the types of two sources differ.",
    )
    dedup_key: DedupKey | None = Field(
        None,
        description='Where the dedup key stands: "header:…", "pointer:/…", or "body" for the '
        "body's hash; \"\" for none; unset: for RabbitMQ the message id or the CloudEvent's id, "
        "for Kafka and NATS none, since positions are enough there. Set it when what a sender "
        "publishes twice becomes two events.",
    )
    ordering_key: Reference | None = Field(
        None,
        description='Where the ordering key stands: "header:…", "pointer:/…" or "text:…"; unset: '
        "the Kafka key, or else the partition; the NATS subject; the RabbitMQ queue. Set it when "
        "too many events wait for each other, or too few.",
    )
    tenant: Reference | None = Field(None, description="Where the tenant stands, in the same way.")
    entity_type: str | None = Field(
        None, min_length=1, description="What its events are about, such as `match`."
    )
    entity_id: Reference | None = Field(
        None, description="Where the entity's id stands, in the same way as the ordering key."
    )
    body: Literal["json", "text"] = Field(
        "json",
        description="What a body is: JSON, or text. Change it when good messages become dead "
        "letters as not JSON.",
    )
    headers: HeaderNames = Field(
        (),
        description="Headers that are kept in the event's headers, beside those of CloudEvents. "
        "Set it when handlers need them; those that log somebody in are refused.",
    )

    def durable(self, name: str) -> str:
        """How the consumer of the source of this name is called in NATS: a dot would end that."""
        return f"{self.nats_durable}-{name}".replace(".", "~")
