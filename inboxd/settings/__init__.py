"""Settings: TOML and environment become frozen models, a section for each room.

`load` reads them, `describe` shows them without secrets, `reloadable` says what SIGHUP may change.
"""

from inboxd.settings.describe import Changes, describe, reloadable
from inboxd.settings.loading import load
from inboxd.settings.secrets import redact
from inboxd.settings.sections import (
    Commands,
    Database,
    Events,
    History,
    Http,
    Log,
    Queue,
    RetryDefaults,
    Schedule,
    Settings,
    TypeOverride,
    Upkeep,
    Wakeups,
    Worker,
)

__all__ = [
    "Changes",
    "Commands",
    "Database",
    "Events",
    "History",
    "Http",
    "Log",
    "Queue",
    "RetryDefaults",
    "Schedule",
    "Settings",
    "TypeOverride",
    "Upkeep",
    "Wakeups",
    "Worker",
    "describe",
    "load",
    "redact",
    "reloadable",
]
