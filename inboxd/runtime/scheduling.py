"""The schedules of this worker: those of its plugins, with the settings laid over them.

Owns that overlay. Promises: all that is wrong is one SettingsError, which names each schedule.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING

from inboxd.api.schedules import Schedule, ScheduleDeclaration
from inboxd.errors import InboxdError, SettingsError, UsageError
from inboxd.settings import Schedule as Section

if TYPE_CHECKING:
    from inboxd.runtime.registry import Registry

_SETTINGS = "settings"


def scheduled(registry: Registry, settings: Mapping[str, Section]) -> list[Schedule]:
    """What is to be sent, sorted by name. Raises SettingsError."""
    declared = {each.name: each for each in registry.schedules}
    found, problems = {}, []
    for name, each in declared.items():
        if name not in settings:
            found[name] = registry.schedule(each)  # it was checked with its plugin
    for name, section in settings.items():
        try:
            found[name] = registry.schedule(_laid_over(registry, declared.get(name), name, section))
        except InboxdError as error:
            problems.append(f'[schedules."{name}"]: {error}')
    if problems:
        raise SettingsError("\n".join(problems))
    return [found[name] for name in sorted(found)]


def _laid_over(
    registry: Registry, declared: ScheduleDeclaration | None, name: str, section: Section
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
