"""Warnings about undeclared names in the settings, which may be right.

Suspicious are queues, which producers name freely and later plugins may declare; a topic or a type
of the settings alone, if a declared name is similar; and the topics and types of sources without a
subscription. Known limit: queues of producers alone cause a warning at each start.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from inboxd.api.topics import DEFAULT
from inboxd.model.spelling import did_you_mean
from inboxd.registry.registry import Registry
from inboxd.settings import ANY, MessageSource, Settings, WebhookSource
from inboxd.store.names import Names

_NONE: frozenset[str] = frozenset()


class Doubt(NamedTuple):
    setting: str
    found: str


def doubts(settings: Settings, registry: Registry, declared: Names) -> list[Doubt]:
    """The settings that may be mistakes; declared: names that the fleet declares, by kind."""
    return [
        *_queues(settings, registry, declared),
        *_topics(settings, registry, declared),
        *_types(settings, registry, declared),
        *_sources(settings, registry, declared),
    ]


def _queues(settings: Settings, registry: Registry, declared: Names) -> Iterator[Doubt]:
    if not (settings.knows("types", ANY, "queue") and settings.knows("schedules", ANY, "queue")):
        return  # it is unknown which queues they name
    scheduled = {each.queue for each in registry.schedules if each.queue}
    scheduled |= {each.queue for each in settings.schedules.values() if each.queue}
    # The queue of a type is known even if the type is refused.
    changed = {each.queue for each in settings.types.values() if each.queue}
    targets = {f"http.{name}" for name in settings.targets}
    own = {DEFAULT, *registry.queues, *scheduled, *changed, *targets}
    for name in settings.worker.queues:
        if name not in own:
            hint = did_you_mean(name, own) or "."
            found = f"no command of this worker's plugins goes to the queue {name!r}{hint}"
            yield Doubt("worker.queues", found)
    known = own | declared.get("queue", _NONE)
    for name in settings.queues:
        if name not in known:
            hint = did_you_mean(name, known) or "."
            found = f"no declared command goes to the queue {name!r}{hint}"
            yield Doubt(f"[queues.{name}]", found)


def _sources(settings: Settings, registry: Registry, declared: Names) -> Iterator[Doubt]:
    types = {*registry.events, *declared.get("event type", _NONE)}
    topics = {DEFAULT, *settings.topics, *_known_topics(registry, declared)}
    tables: Mapping[str, Mapping[str, WebhookSource | MessageSource]] = {
        "webhooks": settings.inbound.webhooks,
        "messages": settings.inbound.messages,
    }
    for table, sources in tables.items():
        for name, source in sources.items():
            if settings.knows("inbound", table, name):
                for found in _of_source(source, types, topics):
                    yield Doubt(f"[inbound.{table}.{name}]", found)


def _of_source(
    source: WebhookSource | MessageSource, types: set[str], topics: set[str]
) -> Iterator[str]:
    for topic in source.topics:
        if topic not in topics:
            hint = did_you_mean(topic, topics) or "."
            yield f"its topic {topic!r} is not declared, so its events wait{hint}"
    if source.type is not None and not source.topics and source.type not in types:
        hint = did_you_mean(source.type, types) or "."
        yield f"no handler subscribes to its type {source.type!r}, so its events wait{hint}"


def _topics(settings: Settings, registry: Registry, declared: Names) -> Iterator[Doubt]:
    known = _known_topics(registry, declared)
    for name in settings.topics:
        if name not in known and (hint := did_you_mean(name, known)):
            yield Doubt(f"[topics.{name}]", f"no plugin names the topic {name!r}{hint}")


def _known_topics(registry: Registry, declared: Names) -> set[str]:
    return {
        *(each.name for each in registry.declared_topics),
        *(topic for topic, _ in registry.in_topics),
        *declared.get("topic", _NONE),
    }


def _types(settings: Settings, registry: Registry, declared: Names) -> Iterator[Doubt]:
    known = {*registry.events, *declared.get("event type", _NONE)}
    for name, own in settings.types.items():
        if own.unhandled and name not in known and (hint := did_you_mean(name, known)):
            yield Doubt(f'[types."{name}"]', f"no plugin declares the type {name!r}{hint}")
