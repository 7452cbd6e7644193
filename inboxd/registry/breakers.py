"""Breakers of the settings, laid over those that plugins declare.

Promises that no fallback leads back to its own breaker: a command whose fallback waits, or falls
back again, for the same target would do so for ever.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType

from inboxd.errors import UsageError
from inboxd.registry.problems import noted
from inboxd.registry.registry import Registry
from inboxd.resilience.rules import WAIT, BreakerRules, with_options
from inboxd.settings import BreakerOverride

_OPTIONAL = ("failure_ratio", "consecutive_failures")


def with_breakers(
    registry: Registry, changes: Mapping[str, BreakerOverride], problems: list[str]
) -> Registry:
    """The registry with `[breakers]` laid over it; what is wrong is added to `problems`."""
    rules = dict(registry.breakers)
    for name, change in changes.items():
        with noted(problems, f"[breakers.{name}]"):
            options = change.model_dump(exclude_unset=True)
            # TOML has no null: nothing of it is judged.
            options |= {key: None for key in _OPTIONAL if key in options and not options[key]}
            rules[name] = with_options(rules.get(name, BreakerRules()), options)
    registry = replace(registry, breakers=MappingProxyType(rules))
    for name in rules:
        with noted(problems, f"[breakers.{name}]"):
            _check_fallback(registry, name)
    return registry


def _check_fallback(registry: Registry, name: str) -> None:
    """Follow the fallbacks from this breaker on, as far as they are handled here."""
    seen = [name]
    for type_, breaker in _fallbacks(registry, name):
        if breaker in seen:
            raise UsageError(
                f"fallback: the command {type_!r} needs the breaker {breaker!r} itself: name one "
                'that needs another, or none, or "wait".'
            )
        seen.append(breaker)


def _fallbacks(registry: Registry, name: str) -> Iterator[tuple[str, str]]:
    """The types that are sent in turn, each with its own breaker, while that is open as well."""
    while (rules := registry.breakers.get(name)) is not None and rules.fallback != WAIT:
        handler = registry.commands.get(rules.fallback)
        if handler is None or handler.breaker is None:
            return
        name = handler.breaker
        yield handler.type, name
