"""Brokers: `[brokers.NAME]`, `[relays.NAME]`, `[inbound.messages.NAME]`.

Owns the connections to brokers, the events that are published to them, and the messages consumed
from them. Promises that no representation holds a password. Known limit: contradictions are refused
by `inboxd.settings.load` (`inboxd/settings/broker_contradictions.py`).
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

# No pattern in the schema: editors complete table names by `additionalProperties`.
BrokerName = Annotated[str, AfterValidator(name_of("broker")), Schema({"type": "string"})]
RelayName = Annotated[str, AfterValidator(name_of("relay")), Schema({"type": "string"})]


class Broker(Section):
    """A broker: relays publish to it, sources of messages consume from it."""

    kind: str = Field(
        "",
        pattern=r"^([a-z][a-z0-9_]*)?$",
        max_length=100,
        description="Kind of the broker: kafka, nats, rabbitmq, or the name of a plugin's "
        "publisher.",
    )
    servers: Names = Field(
        (),
        description='Addresses of the servers, each "host:port". Name several servers of a '
        "cluster: it is enough if one of them can be reached.",
    )
    user: str | None = Field(
        None,
        min_length=1,
        description="Login name. Set it if the broker refuses anonymous connections.",
    )
    password: SecretStr | None = Field(
        None,
        min_length=1,
        description="The user's password, or without a user a NATS token. Prefer `password_file`.",
    )
    password_file: Path | None = Field(
        None,
        description="File that holds only the password. It is read at each connection, so a new "
        "password needs no restart.",
    )
    mechanism: Literal["plain", "scram-sha-256", "scram-sha-512"] = Field(
        "scram-sha-512",
        description="SASL mechanism of a Kafka user. Change it to the mechanism that the Kafka "
        "brokers require; plain needs tls.",
    )
    tls: bool = Field(
        default=False,
        description="Whether connections are encrypted, and the server's certificate verified. Set "
        "it to true if others share the network.",
    )
    tls_ca: Path | None = Field(
        None,
        description="PEM file of the certificate authorities that are trusted for the server; "
        "unset: the system's authorities. Set it if the authority is your own.",
    )
    tls_cert: Path | None = Field(
        None,
        description="PEM file of the daemon's own certificate, for brokers that require one; "
        "needs `tls_key`.",
    )
    tls_key: Path | None = Field(None, description="PEM file of that certificate's private key.")
    virtual_host: str = Field(
        "/",
        min_length=1,
        description="The RabbitMQ virtual host. Change it to the host that has your queues.",
    )
    connect_timeout: Duration = Field(
        seconds(5),
        description="Time limit for opening a connection. Raise it for brokers that are far away.",
    )
    options: dict[str, Any] = Field(
        default_factory=dict,
        description="Options of a plugin's publisher. They are shown; a secret belongs in "
        "`password`.",
    )

    def secret(self) -> str | None:
        """The password; a password file is read anew at each call.

        Raises SettingsError. Reading a file blocks: call it in a thread.
        """
        if self.password_file is not None:
            return read_secret(self.password_file)
        return None if self.password is None else self.password.get_secret_value()


class Relay(Section):
    """Events that are published to a broker; the relay has the name of its topic."""

    broker: str = Field(
        "", max_length=100, description="The name of the broker, one of `[brokers]`."
    )
    types: Names = Field(
        (),
        max_length=200,
        description="The types of events that are published. An event that is emitted without a "
        "topic goes to the relay's topic, and to the topics of its handlers.",
    )
    to: DestinationTemplate = Field(
        "{type}.v{version}",
        description="The Kafka topic, the NATS subject or the RabbitMQ routing key. {type}, "
        "{version} (of the payload's schema), {tenant}, {entity_type} and {entity_id} are "
        "replaced by the event's values; an event that lacks one becomes a dead letter. Change it "
        "to the names that consumers know.",
    )
    exchange: str = Field(
        "",
        max_length=255,
        description='The RabbitMQ exchange; "": the default exchange, whose routing keys are names '
        "of queues. Set it if consumers bind their queues to an exchange.",
    )
    source: str = Field(
        "inboxd",
        min_length=1,
        max_length=255,
        description="Source in the CloudEvents, a URI such as /bets, for events that have no "
        "source of their own. Change it so that consumers see which service the events come from.",
    )
    timeout: Duration = Field(
        seconds(10),
        description="Time limit for the broker to confirm the messages that were sent together. "
        "Raise it for brokers that are slow but work; a broker that hangs holds the keys of its "
        "page for this long.",
    )
    page_rows: int = Field(
        1000,
        ge=1,
        le=10_000,
        description="Maximum events in one page. Lower it when a broker does not confirm a page "
        "in time, or so that fewer events are published twice after a crash.",
    )
    concurrency: int = Field(
        2,
        ge=1,
        le=16,
        description="Maximum pages of one worker at a time, of different keys: one is settled "
        "while another is published. Raise it when events wait because the broker is far away.",
    )
    pipelined: bool = Field(
        default=False,
        description="Whether several messages of one key may be in flight at once. Set it to "
        "true for hot keys that fall behind: it is faster, but if the broker refuses a message, "
        "later messages of its key may already be published; they are published again after it. "
        "Not for NATS, which drops messages that are published again.",
    )
    on_failure: Literal["skip", "block"] = Field(
        "skip",
        description="Effect of a dead letter on its ordering key. skip: the next event continues; "
        "block: the key waits until the dead letter is replayed or dismissed. Choose block if a "
        "gap is worse than a delay.",
    )


class MessageSource(Section):
    """Messages of a broker that become events; its name is the `source` of these events."""

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
        description="The Kafka consumer group of the workers. Change it if several inboxes consume "
        "one Kafka topic: in one group, each gets only a part.",
    )
    nats_stream: str | None = Field(
        None, min_length=1, description="The NATS JetStream stream that is consumed."
    )
    nats_subjects: Names = Field(
        (),
        description="The subjects of the stream that are consumed; empty: all. Set it when the "
        "other subjects would become events without a handler.",
    )
    nats_durable: str = Field(
        "inboxd",
        pattern=r"^[A-Za-z0-9_-]{1,32}$",
        description="Prefix of the consumer's name in NATS, followed by the name of the source. "
        "Change it if several inboxes consume from one stream.",
    )
    rabbitmq_queue: str | None = Field(
        None, min_length=1, max_length=255, description="The RabbitMQ queue that is consumed."
    )
    rabbitmq_stream: str | None = Field(
        None,
        min_length=1,
        max_length=255,
        description="The RabbitMQ queue of the type `stream` that is consumed, beginning at the "
        "stored position. Set it in place of `rabbitmq_queue`.",
    )
    begin: Literal["oldest", "newest"] = Field(
        "oldest",
        description="Where consumption begins in a stream without a stored position. oldest: at "
        "the oldest message that the broker has; newest: at the messages that arrive from then on. "
        "Choose newest if old messages would do harm.",
    )
    prefetch: int = Field(
        2000,
        ge=1,
        le=100_000,
        description="Maximum messages that are held in memory before they are stored; for Kafka, "
        "256 bytes times this number, but at least 64 KiB of each partition. Lower it when large "
        "messages take too much memory.",
    )
    page_rows: int = Field(
        1000,
        ge=1,
        le=10_000,
        description="Maximum messages that are stored in one transaction; at most `prefetch`. "
        "Raise it when many small messages wait; lower it when the transactions take long.",
    )
    page_bytes: Size = Field(
        16 * 1024**2,
        description="Maximum bytes of bodies that are stored in one transaction; the last message "
        "may exceed it. Lower it when memory is short.",
    )
    max_body: Size = Field(
        1024**2,
        description="Maximum bytes of a message; a larger one becomes a dead letter without its "
        "body. Raise it when large messages are expected.",
    )
    topics: Names = Field(
        (),
        description="Topics of the events; empty: the topics that subscribe to the type. Set it "
        "when events must go elsewhere, or arrive before anything is declared.",
    )
    type: str | None = Field(
        None,
        min_length=1,
        description="The type of the events; unset: `type_from`, or the type of the CloudEvent.",
    )
    type_from: TypeReference | None = Field(
        None,
        description='Where the type is found: "header:…" or "pointer:/type". For messages that '
        "are not CloudEvents.",
    )
    type_prefix: str = Field(
        "",
        max_length=100,
        description="Prefix of the types from `type_from` or from the CloudEvent, such as "
        "`shop.`, so that the types of two sources differ.",
    )
    dedup_key: DedupKey | None = Field(
        None,
        description='Where the dedup key is found: "header:…", "pointer:/…", or "body" for the '
        "body's hash; \"\" for none; unset: for RabbitMQ the message id or the CloudEvent's id, "
        "for Kafka and NATS none, since stored positions are enough. Set it when a message that a "
        "sender publishes twice becomes two events.",
    )
    ordering_key: Reference | None = Field(
        None,
        description='Where the ordering key is found: "header:…", "pointer:/…" or "text:…"; unset: '
        "for Kafka the message's key, or without a key the partition; for NATS the subject; for "
        "RabbitMQ the queue. Set it when too many events wait for each other, or too few.",
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
    body: Literal["json", "text"] = Field(
        "json",
        description="Format of a body: JSON, or text. Change it when good messages become dead "
        "letters because they are not JSON.",
    )
    headers: HeaderNames = Field(
        (),
        description="Headers that are kept in the event's headers, besides the CloudEvents "
        "headers. Set it when handlers need them; headers that hold credentials are refused.",
    )

    def durable(self, name: str) -> str:
        """The NATS consumer of the source `name`; it may have no dots, so `~` replaces them."""
        return f"{self.nats_durable}-{name}".replace(".", "~")
