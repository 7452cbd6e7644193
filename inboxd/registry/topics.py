"""The topics of this worker: its plugins' topics, with the settings laid over them.

The first retry policy that exists wins: `[types]` of the settings, `[topics]`, the handler's own
policy, its topic's policy, `[retry]`. Workers with different settings process topics differently.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

from inboxd.api.records import EventHandler
from inboxd.api.topics import Topic, TopicDeclaration, checked, laid_over
from inboxd.errors import InboxdError
from inboxd.model.backoff import Policy, override
from inboxd.registry.problems import noted
from inboxd.registry.registry import Registry
from inboxd.settings import TopicOverride

_SETTINGS = "settings"


def check_topics(
    declared: Iterable[tuple[str, TopicDeclaration]],
) -> tuple[list[Topic], list[str]]:
    found: dict[str, Topic] = {}
    problems = []
    for source, each in declared:
        try:
            topic = checked(each)
        except InboxdError as error:
            problems.append(f"{source}: topic {each.name!r}: {error}")
            continue
        if topic.name in found:
            owner = found[topic.name].source
            problems.append(f"{source}: topic {topic.name!r} is declared by {owner} too: keep one.")
        found[topic.name] = topic
    return list(found.values()), problems


def with_topics(
    registry: Registry,
    settings: Mapping[str, TopicOverride],
    default: Policy,
    problems: list[str],
) -> Registry:
    """A topic with invalid settings stays as its plugin declares it."""
    topics = dict(registry.topics)
    declared = {each.name: each for each in registry.declared_topics}
    overrides: dict[str, Mapping[str, object]] = {}
    for name, section in settings.items():
        before = declared.get(name, TopicDeclaration(name, _SETTINGS, {}))
        changes = {key: getattr(section, key) for key in section.model_fields_set}
        with noted(problems, f'[topics."{name}"]'):
            if section.retry is not None:
                changes["retry"] = override(before.said.get("retry") or default, section.retry)
            source = f"{before.source}, {_SETTINGS}" if name in declared else _SETTINGS
            topics[name] = laid_over(before, changes, source)
            if section.retry is not None:
                overrides[name] = section.retry
    events = {
        type_: tuple(_lend_retry(each, topics, overrides) for each in handlers)
        for type_, handlers in registry.events.items()
    }
    return registry.changed(events, registry.commands, topics.values())


def _lend_retry(
    handler: EventHandler,
    topics: Mapping[str, Topic],
    overrides: Mapping[str, Mapping[str, object]],
) -> EventHandler:
    topic = topics.get(handler.topic or "")
    if topic is None or topic.retry is None:
        return handler
    retry = handler.retry or topic.retry
    if handler.retry is not None and topic.name in overrides:
        retry = override(handler.retry, overrides[topic.name])
    return dataclasses.replace(handler, retry=retry)
