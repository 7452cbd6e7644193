"""Breakers of plugins and settings: overrides, refused declarations, and their users."""

from typing import Any

import pytest

from inboxd import CommandContext, Event, EventContext, Handlers
from inboxd.errors import PluginError, SettingsError, UsageError
from inboxd.registry.breakers import with_breakers
from inboxd.registry.plugins import build_registry
from inboxd.registry.problems import refuse
from inboxd.registry.registry import Registry
from inboxd.resilience.rules import BreakerRules
from inboxd.settings import BreakerOverride, Queue


def plugin() -> Handlers:
    handlers = Handlers("mails")
    handlers.breaker("brevo", probes=1, first_break="1m")

    @handlers.command("mail.send", breaker="brevo")
    async def send(command: dict[str, Any], ctx: CommandContext) -> None: ...

    @handlers.command("mail.print", breaker="printer")
    async def print_(command: dict[str, Any], ctx: CommandContext) -> None: ...

    @handlers.event("user.created", topic="mails", breaker="brevo")
    async def created(event: Event[dict[str, Any]], ctx: EventContext) -> None: ...

    @handlers.event("user.deleted", as_command=True, breaker="brevo")
    async def deleted(event: Event[dict[str, Any]], ctx: CommandContext) -> None: ...

    return handlers


def configured(*, of_queue: str | None = None, **settings: dict[str, Any]) -> Registry:
    registry = build_registry([("mails 1.0", plugin())])
    problems: list[str] = []
    given = {name: BreakerOverride.model_validate(each) for name, each in settings.items()}
    queues = {"default": Queue(breaker=of_queue)}
    registry = with_breakers(registry, given, queues, problems)
    refuse(problems)
    return registry


def test_uses_of_breakers_are_known() -> None:
    assert configured().breaker_uses == [
        ("brevo", None),
        ("brevo", "command mail.send"),
        ("brevo", "command mails.deleted"),
        ("brevo", "event user.created"),
        ("brevo", "topic mails"),
        ("printer", "command mail.print"),
    ]


def test_settings_override_a_plugins_breaker() -> None:
    rules = configured(brevo={"probes": 7, "failure_ratio": 0}, bank={"probes": 2}).breakers
    assert rules == {
        "brevo": BreakerRules(probes=7, first_break="1m", failure_ratio=None),
        "bank": BreakerRules(probes=2),
    }


@pytest.mark.parametrize(
    "settings",
    [
        {"brevo": {"fallback": "mail.send"}},
        {"brevo": {"fallback": "mail.print"}, "printer": {"fallback": "mail.send"}},
        {"brevo": {"longest_break": "1s"}},
    ],
)
def test_circular_or_invalid_breaker_is_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match=r"\[breakers\."):
        configured(**settings)


def test_a_fallback_in_a_queue_that_needs_the_breaker_leads_back() -> None:
    back = {"brevo": {"fallback": "mail.print"}}
    assert configured(of_queue="bank", **back).breakers["brevo"].fallback == "mail.print"
    with pytest.raises(SettingsError, match=r"'mail.print' needs the breaker 'brevo' itself"):
        configured(of_queue="brevo", **back)


def test_a_breaker_is_declared_once() -> None:
    handlers = plugin()
    with pytest.raises(UsageError, match="declared twice"):
        handlers.breaker("brevo")
    other = Handlers("other")
    other.breaker("brevo")
    with pytest.raises(PluginError, match="another plugin declares the breaker 'brevo'"):
        build_registry([("mails 1.0", plugin()), ("other 1.0", other)])
    with pytest.raises(TypeError, match="probe"):
        handlers.breaker("bank", probe=1)  # type: ignore[call-arg] # an unknown option
