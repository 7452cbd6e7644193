"""What the installed plugins say: for `check`, and for the retry rules that `show` names.

Known limit: it speaks of the plugins installed here, which need not be those of the workers.
"""

from dataclasses import dataclass, fields
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from inboxd.errors import PluginError, SettingsError

if TYPE_CHECKING:
    from inboxd.model.backoff import Policy
    from inboxd.settings import Settings


@dataclass(frozen=True, slots=True)
class Rule:
    """Which retry rule one handler's rows follow; handler None: nobody here declares the type."""

    handler: str | None
    policy: str
    attempts: int


def rules(settings: "Settings", place: str, row: dict[str, Any]) -> list[Rule]:
    """The retry rules for an event (one for each handler) or a command."""
    from inboxd.model.backoff import override
    from inboxd.runtime.plugins import default_policy, load_registry

    default = default_policy(settings)
    try:
        registry = load_registry(settings)
    except (PluginError, SettingsError):
        handlers: list[Any] = []
    else:
        one = registry.commands.get(row["type"])
        commands = [one] if one else []
        handlers = [*registry.events.get(row["type"], ())] if place == "events" else commands
    named = [(each.name, each.retry or default) for each in handlers] or [(None, default)]
    if row.get("max_attempts") is not None:
        named = [(name, override(p, {"attempts": row["max_attempts"]})) for name, p in named]
    return [Rule(name, describe(policy), policy.attempts) for name, policy in named]


def describe(policy: "Policy") -> str:
    """A policy in one line: its kind, then what it is made of."""
    values = ((field.name, getattr(policy, field.name)) for field in fields(policy))
    shown = (f"{name} {_show(value)}" for name, value in values if value not in (None, ()))
    return ", ".join([type(policy).__name__.lower(), *shown])


def _show(value: object) -> str:
    from inboxd.model import duration

    match value:
        case timedelta():
            return duration.write(value)
        case tuple():
            return " ".join(map(_show, value))
        case type():
            return value.__name__
        case _:
            return str(value)
