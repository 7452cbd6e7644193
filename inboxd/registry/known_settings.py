"""The part of the settings that can be checked against the plugins, if some settings are invalid.

Sections that rest on an invalid setting are left out: their problems may only follow from it.
"""

from inboxd.settings import (
    ANY,
    BreakerOverride,
    ScheduleOverride,
    Settings,
    TopicOverride,
    TypeOverride,
)

# If one of these is invalid, the row that the schedule sends, or its time, is unknown.
_NEEDED = ("cron", "zone", "event", "command", "payload", "time_field")


def judgeable(settings: Settings) -> Settings:
    return settings.model_copy(
        update={
            "topics": _topics(settings),
            "types": _types(settings),
            "schedules": _schedules(settings),
            "breakers": _breakers(settings),
        }
    )


def _topics(settings: Settings) -> dict[str, TopicOverride]:
    return {name: each for name, each in settings.topics.items() if settings.knows("topics", name)}


def _types(settings: Settings) -> dict[str, TypeOverride]:
    """Types are checked by name, unless the only setting, `unhandled`, is invalid."""
    # A type's retry may be laid over a topic's.
    policies = settings.knows("topics", ANY, "retry")
    return {
        name: each if policies or each.retry is None else each.model_copy(update={"retry": None})
        for name, each in settings.types.items()
        if each.model_fields_set or settings.knows("types", name, "unhandled")
    }


def _breakers(settings: Settings) -> dict[str, BreakerOverride]:
    known = settings.knows
    return {name: each for name, each in settings.breakers.items() if known("breakers", name)}


def _schedules(settings: Settings) -> dict[str, ScheduleOverride]:
    return {
        name: each
        for name, each in settings.schedules.items()
        if all(settings.knows("schedules", name, key) for key in _NEEDED)
    }
