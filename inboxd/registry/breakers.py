"""Breakers of the settings, laid over the breakers that plugins declare.

No fallback leads back to its own breaker: the command would wait or fall back for ever.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType

from inboxd.errors import UsageError
from inboxd.registry.problems import noted
from inboxd.registry.registry import Registry
from inboxd.resilience.rules import BreakerRules, with_options
from inboxd.settings import BreakerOverride, Queue

_OPTIONAL = ("failure_ratio", "consecutive_failures")


def with_breakers(
    registry: Registry,
    changes: Mapping[str, BreakerOverride],
    queues: Mapping[str, Queue],
    problems: list[str],
) -> Registry:
    """queues: the queues that have settings, which may name a breaker."""
    rules = dict(registry.breakers)
    for name, change in changes.items():
        with noted(problems, f"[breakers.{name}]"):
            options = change.model_dump(exclude_unset=True)
            # TOML has no null; 0 turns the rule off.
            options |= {key: None for key in _OPTIONAL if key in options and not options[key]}
            rules[name] = with_options(rules.get(name, BreakerRules()), options)
    registry = replace(registry, breakers=MappingProxyType(rules))
    for name in rules:
        with noted(problems, f"[breakers.{name}]"):
            _check_fallback(registry, queues, name)
    return registry


def _check_fallback(registry: Registry, queues: Mapping[str, Queue], name: str) -> None:
    """Follow the fallbacks from this breaker, as far as their handlers are known here."""
    ahead, seen = [name], set[str]()
    while ahead:
        for type_, needed in _fallbacks(registry, queues, ahead.pop()):
            if needed == name:
                raise UsageError(
                    f"fallback: the command {type_!r} needs the breaker {name!r} itself: name a "
                    'command that needs another breaker or none, or "wait".'
                )
            if needed not in seen:
                seen.add(needed)
                ahead.append(needed)


def _fallbacks(
    registry: Registry, queues: Mapping[str, Queue], name: str
) -> Iterator[tuple[str, str]]:
    """The type that is sent while a breaker is open, with each breaker that it needs itself."""
    rules = registry.breakers.get(name)
    handler = None if rules is None else registry.commands.get(rules.fallback)
    if handler is None:
        return
    if handler.breaker is not None:
        yield handler.type, handler.breaker
    queue = queues.get(handler.queue)
    if queue is not None and queue.breaker is not None:
        yield handler.type, queue.breaker
