"""Contradictions within the settings of brokers, relays and sources of messages.

Owns the rules of `[brokers.NAME]`, `[relays.NAME]` and `[inbound.messages.NAME]`. Promises that a
rule is applied only if its own table and its broker's table are valid by themselves. Known limits:
`inboxd check` finds out whether an extra is installed and whether a plugin provides a publisher;
`[topics]` of a relay's topic is checked when the plugins are loaded. *See:*
`inboxd/settings/contradictions.py`, which calls this.
"""

from collections.abc import Iterator
from itertools import combinations

from inboxd.model.spelling import did_you_mean
from inboxd.settings.base import Section
from inboxd.settings.brokers import BUILT_IN, Broker, MessageSource, Relay
from inboxd.settings.inbound_contradictions import points_into_text
from inboxd.settings.sections import Settings

# The settings that name the streams or queues of a source, by the kind of its broker: exactly one
# is set.
_CONSUMED = {
    "kafka": ("kafka_topics",),
    "nats": ("nats_stream",),
    "rabbitmq": ("rabbitmq_queue", "rabbitmq_stream"),
}
_KINDS = ", ".join(BUILT_IN)
# NATS takes a password without a user as a token.
_NEED_A_USER = ("kafka", "rabbitmq")
# Settings of a broker that only one kind has.
_OF_ONE_KIND = {"mechanism": "kafka", "virtual_host": "rabbitmq"}

# A table's name, its settings, and one contradiction in them.
_Found = Iterator[tuple[str, Section, str]]


def in_brokers(settings: Settings) -> Iterator[str]:
    """Yield every contradiction, with the places of the values of its table."""
    for table, section, found in (*_brokers(settings), *_relays(settings), *_sources(settings)):
        place = settings.places_of(table, section)
        yield f"{place}: [{table}]: {found}" if place else f"[{table}]: {found}"


def in_broker(name: str, broker: Broker) -> Iterator[str]:
    """Yield the contradictions of one broker whose settings are valid by themselves."""
    yield from _reached(broker)
    yield from _login(name, broker)
    yield from _tls(broker)


def _brokers(settings: Settings) -> _Found:
    for name, broker in settings.brokers.items():
        if settings.knows("brokers", name):
            for found in in_broker(name, broker):
                yield f"brokers.{name}", broker, found


def _relays(settings: Settings) -> _Found:
    for name, relay in settings.relays.items():
        if settings.knows("relays", name):
            for found in (*_broker(settings, relay.broker), *_relay(settings, relay)):
                yield f"relays.{name}", relay, found


def _sources(settings: Settings) -> _Found:
    known = {
        name: source
        for name, source in settings.inbound.messages.items()
        if settings.knows("inbound", "messages", name)
    }
    for name, source in known.items():
        rules = (
            _broker(settings, source.broker),
            in_streams(settings, source),
            _pages(source),
            _reads(source),
            _is_no_webhook_source(settings, name),
        )
        for rule in rules:
            for found in rule:
                yield f"inbound.messages.{name}", source, found
    for one, other in combinations(known, 2):
        for found in _both(settings, (one, known[one]), (other, known[other])):
            yield f"inbound.messages.{other}", known[other], found


# ------------------------------------------------------------------------------------- brokers


def _reached(broker: Broker) -> Iterator[str]:
    if not broker.kind:
        yield f"kind is missing; set it to one of {_KINDS}, or to the name of a plugin's publisher"
    if broker.kind not in BUILT_IN:
        return
    if not broker.servers:
        yield 'servers is empty; set servers = ["host:port"]'
    for server in broker.servers:
        host, _, port = server.rpartition(":")
        if "@" in server:
            yield "servers must not hold a login, since they are shown; set user and password_file"
        elif not (host and port.isdecimal() and "/" not in server):
            yield f'{server!r} in servers is not "host:port"; write it without a scheme'
    for setting, kind in _OF_ONE_KIND.items():
        if broker.kind != kind and _is_set(broker, setting):
            yield f"{setting} is for {kind}, and this broker is {broker.kind}; leave it out"
    if broker.options:
        yield f"options is for publishers of plugins, and this one is {broker.kind}; leave it out"


def _login(name: str, broker: Broker) -> Iterator[str]:
    if broker.password is not None and broker.password_file is not None:
        yield "password and password_file are both set; leave one out"
    password = broker.password is not None or broker.password_file is not None
    if broker.kind in BUILT_IN and broker.user is not None and not password:
        yield (
            f"user has no password; set password_file, or give the file broker_{name}_password "
            "(docs/configuration.md, secret files)"
        )
    if broker.kind in _NEED_A_USER and broker.user is None and password:
        yield "a password needs a user; set user"
    plain = broker.kind == "kafka" and broker.mechanism == "plain"
    if plain and broker.user is not None and not broker.tls:
        yield 'mechanism = "plain" needs tls = true, or others can read the password on the way'


def _tls(broker: Broker) -> Iterator[str]:
    if (broker.tls_cert is None) != (broker.tls_key is None):
        yield "tls_cert and tls_key belong together: set both or neither"
    for setting in ("tls_ca", "tls_cert", "tls_key"):
        if getattr(broker, setting) is not None and not broker.tls:
            yield f"{setting} needs tls = true: without it nothing is encrypted"


# ---------------------------------------------------------------------------- relays and sources


def _broker(settings: Settings, name: str) -> Iterator[str]:
    """Check that the broker exists."""
    if not name:
        yield "broker is missing; set it to the name of one of [brokers]"
    elif name not in settings.brokers and settings.knows("brokers", name):
        yield f"there is no [brokers.{name}]{did_you_mean(name, settings.brokers) or '; add it'}"


def _kind(settings: Settings, name: str) -> str:
    """The kind of a broker; empty: the broker is missing or invalid."""
    known = name in settings.brokers and settings.knows("brokers", name)
    return settings.brokers[name].kind if known else ""


def _relay(settings: Settings, relay: Relay) -> Iterator[str]:
    if not relay.types:
        yield 'types is empty, so nothing is published; set types = ["…"]'
    kind = _kind(settings, relay.broker)
    if relay.exchange and kind and kind != "rabbitmq":
        yield f"exchange is for rabbitmq, and broker {relay.broker!r} is {kind}; leave it out"
    if relay.pipelined and kind == "nats":
        yield (
            f"pipelined is not for nats, the kind of broker {relay.broker!r}: a stream drops "
            "messages that are published again, so a key would lose its order; leave it out"
        )


def in_streams(settings: Settings, source: MessageSource) -> Iterator[str]:
    """Yield the contradictions between the streams of a source and the kind of its broker."""
    kind = _kind(settings, source.broker)
    if not kind:
        return
    if kind not in _CONSUMED:
        yield (
            f"broker {source.broker!r} is {kind}, which has no consumer; messages are consumed "
            f"only from {_KINDS}"
        )
        return
    named = [each for each in _CONSUMED[kind] if getattr(source, each)]
    if not named:
        wanted = " or ".join(_CONSUMED[kind])
        yield f"{wanted} is missing: broker {source.broker!r} is {kind}, so set it"
    elif len(named) > 1:
        yield f"{' and '.join(named)} are both set; leave one out"
    for setting in sorted(source.model_fields_set):
        other = setting.partition("_")[0]
        if other in BUILT_IN and other != kind and _is_set(source, setting):
            yield f"{setting} is for {other}, and broker {source.broker!r} is {kind}; leave it out"
    if source.rabbitmq_queue and kind == "rabbitmq" and _is_set(source, "begin"):
        yield "begin is for streams, not for a RabbitMQ queue; leave it out"


def _pages(source: MessageSource) -> Iterator[str]:
    if source.page_rows > source.prefetch:
        yield (
            f"page_rows ({source.page_rows}) is more than prefetch ({source.prefetch}), so no page "
            "is ever full; lower page_rows, or raise prefetch"
        )


def _reads(source: MessageSource) -> Iterator[str]:
    if source.type is not None and source.type_from is not None:
        yield "type and type_from are both set; leave one out"
    if source.type is not None and source.type_prefix:
        yield "type_prefix is not for type: write the prefix into type"
    yield from points_into_text(source)


def _is_no_webhook_source(settings: Settings, name: str) -> Iterator[str]:
    if name in settings.inbound.webhooks:
        yield (
            f"[inbound.webhooks.{name}] has the same name, which events carry as their source; "
            "rename one of them"
        )


def _both(
    settings: Settings, one: tuple[str, MessageSource], other: tuple[str, MessageSource]
) -> Iterator[str]:
    """Yield the streams, groups and consumers that two sources of messages wrongly share."""
    (name, first), (second_name, second) = one, other
    if first.broker != second.broker:
        return
    also = f"[inbound.messages.{name}]"
    match _kind(settings, first.broker):
        case "kafka" if first.kafka_group == second.kafka_group:
            for topic in sorted({*first.kafka_topics} & {*second.kafka_topics}):
                yield (
                    f"{also} consumes the Kafka topic {topic!r} in the same group, so each would "
                    "get only a part of it; give one of them another kafka_group"
                )
        case "nats" if first.nats_stream == second.nats_stream:
            if first.durable(name) == second.durable(second_name):
                yield (
                    f"{also} has the same consumer in NATS, {first.durable(name)!r}, so each would "
                    "get only a part of the stream; give one of them another nats_durable"
                )
        case "rabbitmq" if first.rabbitmq_queue == second.rabbitmq_queue is not None:
            yield (
                f"{also} consumes the queue {first.rabbitmq_queue!r} as well, so each would get "
                "only a part of it; give each source its own queue"
            )


def _is_set(section: Section, setting: str) -> bool:
    """Whether the value differs from the default."""
    field = type(section).model_fields[setting]
    return bool(getattr(section, setting) != field.default)
