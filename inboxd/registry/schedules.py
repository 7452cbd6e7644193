"""The schedules of this worker: those of its plugins, with the settings laid over them.

Owns that overlay. Promises: all that is wrong is one SettingsError, which names each schedule.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from inboxd.api.schedules import Schedule, ScheduleDeclaration
from inboxd.errors import InboxdError, UsageError
from inboxd.model.spelling import meant
from inboxd.registry.problems import report
from inboxd.settings import ScheduleOverride

if TYPE_CHECKING:
    from inboxd.registry.registry import Registry

_SETTINGS = "settings"


def scheduled(
    registry: Registry, settings: Mapping[str, ScheduleOverride], problems: list[str] | None = None
) -> list[Schedule]:
    """What is to be sent, sorted by name.

    What is wrong is added to `problems`, or raised as one SettingsError where none is given.
    """
    declared = {each.name: each for each in registry.schedules}
    found, wrong = {}, []
    for name, each in declared.items():
        if name not in settings:
            found[name] = registry.schedule(each)  # it was checked with its plugin
    for name, section in settings.items():
        try:
            found[name] = registry.schedule(_laid_over(registry, declared.get(name), name, section))
        except InboxdError as error:
            wrong.append(f'[schedules."{name}"]: {error}{_other_name(name, declared)}')
    report(wrong, problems)
    return [found[name] for name in sorted(found)]


def _other_name(name: str, declared: Collection[str]) -> str:
    """The schedule of a plugin that was meant, where this name is none's."""
    near = None if name in declared else meant(name, declared)
    if near is None:
        return ""
    return f" No plugin declares a schedule of this name; did you mean {near!r}?"


def _laid_over(
    registry: Registry, declared: ScheduleDeclaration | None, name: str, section: ScheduleOverride
) -> ScheduleDeclaration:
    """What a plugin declares, changed; or what the settings declare by themselves."""
    given = {key: value for key, value in section if value is not None}
    if declared is not None:
        if declared.event is None:  # so that another payload need not say what it is
            declared = dataclasses.replace(declared, command=registry.schedule(declared).type)
        return dataclasses.replace(declared, source=f"{declared.source}, {_SETTINGS}", **given)
    if section.cron is None:
        raise UsageError("cron is missing: no plugin declares a schedule of this name.")
    return ScheduleDeclaration(name=name, source=_SETTINGS, **given)
