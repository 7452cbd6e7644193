"""Schedules of plugins and settings: their targets, overrides, and refused declarations."""

from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
import pytest
from pydantic import BaseModel

from inboxd import CommandContext, Event, EventContext, Handlers
from inboxd.api.schedules import Schedule, payload_at
from inboxd.errors import PluginError, SettingsError
from inboxd.registry.plugins import build_registry
from inboxd.registry.problems import refuse
from inboxd.registry.schedules import with_schedules
from inboxd.settings import ScheduleOverride


class Report(BaseModel):
    kind: str = "daily"


class Stray(BaseModel):
    """No command has this class as its payload."""


def plugin() -> Handlers:
    handlers = Handlers("school")

    @handlers.command("school.report", queue="reports", priority=3, schema_version=2)
    async def report(command: Report, ctx: CommandContext) -> None: ...

    @handlers.event("school.day_began")
    async def day_began(event: Event[dict[str, Any]], ctx: EventContext) -> None: ...

    return handlers


def found(handlers: Handlers, **settings: dict[str, Any]) -> dict[str, Schedule]:
    registry = build_registry([("school 1.0", handlers)])
    sections = {name: ScheduleOverride.model_validate(given) for name, given in settings.items()}
    problems: list[str] = []
    registry = with_schedules(registry, sections, problems)
    refuse(problems)
    return {each.name: each for each in registry.to_send}


def test_payload_class_decides_the_command() -> None:
    handlers = plugin()
    handlers.schedule("nightly", "0 3 * * *", Report(kind="nightly"), zone="Europe/Berlin")
    one = found(handlers)["school.nightly"]
    assert (one.kind, one.type, one.schema_version) == ("command", "school.report", 2)
    assert (one.lane, one.priority, one.missed) == (None, 3, "once")
    assert (one.payload, one.source) == ('{"kind":"nightly"}', "plugin school")
    assert (one.cron, one.zone) == ("0 3 * * *", "Europe/Berlin")


def test_command_of_a_plugins_schedule_expires_as_the_settings_say() -> None:
    handlers = plugin()
    handlers.schedule("nightly", "0 3 * * *", Report(), expires_after="10m")
    assert found(handlers)["school.nightly"].expires_after == timedelta(minutes=10)
    sections = {"school.nightly": {"expires_after": "1h"}}
    assert found(handlers, **sections)["school.nightly"].expires_after == timedelta(hours=1)


def test_types_by_name_and_every_option() -> None:
    handlers = plugin()
    handlers.schedule("a", "0 0 * * *", event="school.day_began", topic="days", missed="all")
    handlers.schedule(
        *("b", "0 0 * * *", {"kind": "x"}),
        command="school.report",
        queue="slow",
        priority=-1,
        tenant="acme",
        time_field="at",
    )
    one, other = found(handlers)["school.a"], found(handlers)["school.b"]
    assert (one.kind, one.type, one.lane, one.payload) == (
        "event",
        "school.day_began",
        "days",
        "{}",
    )
    assert (one.missed, other.missed) == ("all", "once")
    assert (other.lane, other.priority, other.tenant) == ("slow", -1, "acme")
    time = datetime(2026, 1, 2, 3, 4, tzinfo=UTC)
    written = payload_at(other.payload, other.time_field, time)
    assert orjson.loads(written) == {"kind": "x", "at": "2026-01-02T03:04:00+00:00"}
    assert payload_at(one.payload, one.time_field, time) == "{}"


def test_settings_declare_and_change_schedules() -> None:
    handlers = plugin()
    handlers.schedule("nightly", "0 3 * * *", Report(), zone="Europe/Berlin", missed="all")
    changed = {"cron": "0 4 * * *", "payload": {"kind": "late"}}
    own = {"cron": "5 5 * * *", "event": "school.day_began", "payload": {"x": 1}}
    schedules = found(handlers, **{"school.nightly": changed, "mine": own})
    nightly, mine = schedules["school.nightly"], schedules["mine"]
    assert (nightly.cron, nightly.zone, nightly.missed) == ("0 4 * * *", "Europe/Berlin", "all")
    assert (nightly.type, nightly.payload) == ("school.report", '{"kind":"late"}')
    assert nightly.source == "plugin school, settings"
    assert (mine.source, mine.payload, mine.zone) == ("settings", '{"x":1}', "UTC")


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({}, "cron is missing"),
        ({"cron": "61 * * * *", "event": "school.day_began"}, "Bad minute"),
        ({"cron": "* * * * *", "zone": "Mars", "event": "school.day_began"}, "zone 'Mars'"),
        ({"cron": "* * * * *"}, "it sends nothing"),
        ({"cron": "* * * * *", "event": "a", "command": "b"}, "not both"),
        ({"cron": "* * * * *", "event": "school.dawn"}, "event type 'school.dawn'"),
        ({"cron": "* * * * *", "command": "school.x"}, "command type 'school.x'"),
        ({"cron": "* * * * *", "event": "school.day_began", "queue": "x"}, "an event has a topic"),
        ({"cron": "* * * * *", "command": "school.report", "topic": "x"}, "a command has a queue"),
        ({"cron": "* * * * *", "command": "school.report", "priority": 99999}, "priority=99999"),
        (
            {"cron": "* * * * *", "command": "school.report", "queue": "a b"},
            "'a b' must be without spaces",
        ),
        (
            {"cron": "* * * * *", "event": "school.day_began", "payload": {"a": "\0"}},
            "NUL",
        ),
    ],
)
def test_wrong_schedule_of_the_settings_is_named(given: dict[str, Any], problem: str) -> None:
    with pytest.raises(SettingsError, match=problem) as raised:
        found(plugin(), **{"odd.one": given})
    assert str(raised.value).startswith('[schedules."odd.one"]: ')


@pytest.mark.parametrize(
    ("name", "given", "meant"),
    [
        ("school.nightli", {"cron": "0 4 * * *"}, "school.nightly"),
        ("school.nightli", {"payload": {"kind": "late"}}, "school.nightly"),
        ("mine", {"cron": "* * * * *", "event": "school.day_begun"}, "school.day_began"),
        ("mine", {"cron": "* * * * *", "command": "school.reprt"}, "school.report"),
    ],
)
def test_similar_name_is_proposed(name: str, given: dict[str, Any], meant: str) -> None:
    handlers = plugin()
    handlers.schedule("nightly", "0 3 * * *", Report())
    with pytest.raises(SettingsError, match=rf"did you mean '{meant}'\?"):
        found(handlers, **{name: given})


def test_wrong_schedules_of_a_plugin_are_listed_at_once() -> None:
    handlers = plugin()
    handlers.schedule("a", "never", Report())
    handlers.schedule("b", "* * * * *", Stray())
    handlers.schedule("c", "* * * * *", [1], event="school.day_began", time_field="at")
    handlers.schedule("d", "* * * * *", Report(), missed="maybe")  # type: ignore[arg-type]
    handlers.schedule("e", "* * * * *", Report())
    handlers.schedule("e", "* * * * *", Report())
    with pytest.raises(PluginError) as raised:
        found(handlers)
    said = str(raised.value)
    for problem in (
        "school 1.0: schedule 'school.a': cron 'never' is wrong",
        "schedule 'school.b': No command handler takes Stray",
        "schedule 'school.c': time_field needs a payload that is an object",
        "schedule 'school.d': missed='maybe' is wrong: give one of skip, once, all",
        "schedule 'school.e': it is declared twice",
    ):
        assert problem in said
