"""The schedules of this worker: its plugins' schedules, with the settings laid over them."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping

from inboxd.api.schedules import ScheduleDeclaration
from inboxd.errors import UsageError
from inboxd.model.spelling import meant
from inboxd.registry.problems import noted
from inboxd.registry.registry import Registry
from inboxd.settings import ScheduleOverride

_SETTINGS = "settings"


def with_schedules(
    registry: Registry, settings: Mapping[str, ScheduleOverride], problems: list[str]
) -> Registry:
    declared = {each.name: each for each in registry.schedules}
    # Unchanged schedules were checked with their plugin.
    kept = [each for name, each in declared.items() if name not in settings]
    found = [registry.schedule(each) for each in kept]
    for name, section in settings.items():
        with noted(problems, f'[schedules."{name}"]', _other_name(name, declared)):
            laid = _laid_over(registry, declared.get(name), name, section)
            found.append(registry.schedule(laid))
    return dataclasses.replace(registry, to_send=tuple(sorted(found, key=lambda each: each.name)))


def _other_name(name: str, declared: Collection[str]) -> str:
    near = None if name in declared else meant(name, declared)
    if near is None:
        return ""
    return f" No plugin declares a schedule of this name; did you mean {near!r}?"


def _laid_over(
    registry: Registry, declared: ScheduleDeclaration | None, name: str, section: ScheduleOverride
) -> ScheduleDeclaration:
    """A plugin's schedule with changes, or a schedule of the settings alone."""
    given = {key: value for key, value in section if value is not None}
    if declared is not None:
        if declared.event is None:  # so that a changed payload keeps the type
            declared = dataclasses.replace(declared, command=registry.schedule(declared).type)
        return dataclasses.replace(declared, source=f"{declared.source}, {_SETTINGS}", **given)
    if section.cron is None:
        raise UsageError("cron is missing: no plugin declares a schedule of this name.")
    return ScheduleDeclaration(name=name, source=_SETTINGS, **given)
