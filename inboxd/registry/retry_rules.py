"""The retry rule of each declared type, in words, and its source.

Known limit: if workers differ, the worker that joined last counts.
"""

from dataclasses import asdict, dataclass, fields, replace
from datetime import timedelta
from typing import Any

from inboxd.api.records import Handler
from inboxd.model import duration
from inboxd.model.backoff import Policy
from inboxd.registry.plugins import default_policy
from inboxd.registry.registry import Registry
from inboxd.settings import Settings


@dataclass(frozen=True, slots=True)
class RetryRule:
    """One handler's rule; `attempts` in all; `topic`: the topic that the handler names."""

    handler: str | None
    policy: str
    source: str
    attempts: int
    topic: str | None = None


def declared_rules(
    settings: Settings, registry: Registry
) -> dict[tuple[str, str], list[dict[str, Any]]]:
    """The rules of all types, by kind and type, as JSON values."""
    default = default_rule(settings)

    def rule(handler: Handler) -> dict[str, Any]:
        return asdict(_rule(settings, handler, default))

    return {
        **{("event", t): [rule(each) for each in found] for t, found in registry.events.items()},
        **{("command", t): [rule(found)] for t, found in registry.commands.items()},
    }


def rules_in(topic: str, rules: list[dict[str, Any]], *, chunks: bool) -> list[dict[str, Any]]:
    """Like `Registry.handlers_of`; older releases' declarations name no topic: all rules apply."""
    if any("topic" not in rule for rule in rules):
        return rules
    own = [rule for rule in rules if rule["topic"] == topic]
    return own or [rule for rule in rules if rule["topic"] is None and not chunks]


def default_rule(settings: Settings) -> RetryRule:
    policy = default_policy(settings)
    source = "[retry] of the settings" if settings.retry.model_fields_set else "default"
    return RetryRule(None, describe(policy), source, policy.attempts)


def describe(policy: Policy) -> str:
    """A policy in one line: its kind, then its values."""
    values = ((field.name, getattr(policy, field.name)) for field in fields(policy))
    shown = (f"{name} {_show(value)}" for name, value in values if value not in (None, ()))
    return ", ".join([type(policy).__name__.lower(), *shown])


def _rule(settings: Settings, handler: Handler, default: RetryRule) -> RetryRule:
    topic = getattr(handler, "topic", None)
    if handler.retry is None:
        return replace(default, handler=handler.name, topic=topic)
    source = _source(settings, handler)
    return RetryRule(handler.name, describe(handler.retry), source, handler.retry.attempts, topic)


def _source(settings: Settings, handler: Handler) -> str:
    changes = settings.types.get(handler.type)
    if changes is not None and changes.retry is not None:
        return f'[types."{handler.type}"] of the settings'
    topic = getattr(handler, "topic", None)
    if topic in settings.topics and settings.topics[topic].retry is not None:
        return f'[topics."{topic}"] of the settings'
    return f"plugin {handler.plugin}"


def _show(value: object) -> str:
    match value:
        case timedelta():
            return duration.write(value)
        case tuple():
            return " ".join(map(_show, value))
        case type():
            return value.__name__
        case _:
            return str(value)
