"""The relays of the settings, as topics whose events are published.

Each relay has a sequential topic of its name; each broker has a breaker, `broker.NAME`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any, NoReturn

from pydantic import TypeAdapter

from inboxd.api.records import EventHandler
from inboxd.api.resources import NO_NEEDS
from inboxd.api.topics import TopicDeclaration, checked
from inboxd.brokers import kinds
from inboxd.errors import UsageError
from inboxd.registry.problems import noted
from inboxd.registry.registry import Registry
from inboxd.resilience.rules import BreakerRules
from inboxd.settings import Relay, Settings

_ANYTHING: TypeAdapter[Any] = TypeAdapter(Any)
# A call is a whole page, and an unreachable broker says nothing about single messages.
_RULES = BreakerRules(
    failure_ratio=None,
    consecutive_failures=3,
    first_break=timedelta(seconds=1),
    longest_break=timedelta(seconds=30),
    probes=1,
)


def breaker_of(broker: str) -> str:
    return f"broker.{broker}"


def with_relays(registry: Registry, settings: Settings, problems: list[str]) -> Registry:
    relays = {n: each for n, each in settings.relays.items() if settings.knows("relays", n)}
    if not relays:
        return registry
    topics, declared = [*registry.topics.values()], [*registry.declared_topics]
    events = dict(registry.events)
    breakers = dict(registry.breakers)
    for name, relay in relays.items():
        with noted(problems, f"[relays.{name}]"):
            _check(registry, name)
            if relay.broker in settings.brokers and settings.knows("brokers", relay.broker):
                kinds.publisher_of(settings.brokers[relay.broker].kind)
            topic = _topic(name, relay)
            topics.append(checked(topic))
            declared.append(topic)
            breakers.setdefault(breaker_of(relay.broker), _RULES)
            for handler in _handlers(name, relay):
                events[handler.type] = (*events.get(handler.type, ()), handler)
    with_topics = replace(registry, declared_topics=tuple(declared), breakers=breakers)
    return with_topics.changed(events, registry.commands, topics)


def _check(registry: Registry, name: str) -> None:
    if name in registry.topics:
        source = registry.topics[name].source
        raise UsageError(f"{source} declares a topic of this name: give the relay another one.")
    for topic, type_ in registry.in_topics:
        if topic == name:
            handler = registry.in_topics[topic, type_][0].name
            raise UsageError(
                f"{handler} handles events of a topic of this name: give the relay another one."
            )


def _topic(name: str, relay: Relay) -> TopicDeclaration:
    said: Mapping[str, Any] = {"mode": "sequential", "on_failure": relay.on_failure}
    return TopicDeclaration(name, f"relay {name}", said, relay=True)


def _handlers(name: str, relay: Relay) -> Iterator[EventHandler]:
    for type_ in relay.types:
        yield EventHandler(
            plugin="inboxd",
            type=type_,
            name=f"relay {name}",
            func=_publish,
            adapter=_ANYTHING,
            schema_version=1,
            timeout=None,
            retry=None,
            executor="loop",
            upcasters={},
            middleware=(),
            needs=NO_NEEDS,
            breaker=breaker_of(relay.broker),
            topic=name,
            relay=True,
        )


async def _publish(*_: object) -> NoReturn:
    """Stands for the handler of a relay, whose events are published page by page instead."""
    raise UsageError("events of a relay are published, not handled one by one.")
