"""What the plugins can be held against, of settings of which some are not known.

Owns which sections rest on a setting that has a mistake of its own: they are left out, so that
nobody is told of a mistake that only follows from another. Known limit: what is wrong with a
section that is left out is told once the other mistake is corrected.
"""

from inboxd.settings import (
    ANY,
    BreakerOverride,
    ScheduleOverride,
    Settings,
    TopicOverride,
    TypeOverride,
)

# Without one of these it cannot be told what a schedule sends, and when.
_SENT = ("cron", "zone", "event", "command", "payload", "time_field")


def judgeable(settings: Settings) -> Settings:
    """The settings without what cannot be judged; all of them, if all are known."""
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
    """Whether a type is declared can be told whatever is said of it, unless it is `unhandled`."""
    # What its retry is laid over may be a topic's.
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
        if all(settings.knows("schedules", name, key) for key in _SENT)
    }
