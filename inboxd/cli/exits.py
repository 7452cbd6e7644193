"""Exit codes, by which scripts and systemd tell kinds of errors apart; sysexits.h has most."""

from enum import IntEnum

from inboxd.errors import (
    Conflict,
    DatabaseError,
    ExportError,
    LifespanFailed,
    NoHandler,
    NotFound,
    PartitionBusy,
    PayloadError,
    PluginError,
    SchemaError,
    SettingsError,
    UnknownName,
    Unreachable,
    UsageError,
)


class Exit(IntEnum):
    OK = 0
    PROBLEMS = 1
    USAGE = 2
    DATA = 65
    UNKNOWN_NAME = 66
    UNAVAILABLE = 69
    INTERNAL = 70
    OUTPUT = 74
    TEMPORARY = 75
    CONFIG = 78


# Added to a signal's number, as shells do: the exit code of a process that it ended.
BY_SIGNAL = 128

# SQLSTATEs of errors that a retry may cure: a cut connection (class 08), serialization and deadlock
# (40), lack of resources (53), a lock or time limit, a server that starts or stops (57P).
_TEMPORARY = ("08", "40", "53", "55P03", "57014", "57P")


# The first match counts, so subclasses stand before their bases.
_CODES: tuple[tuple[type[BaseException], Exit], ...] = (
    (SettingsError, Exit.CONFIG),
    (PluginError, Exit.CONFIG),
    (SchemaError, Exit.CONFIG),
    (UsageError, Exit.USAGE),
    (PayloadError, Exit.DATA),
    (UnknownName, Exit.UNKNOWN_NAME),
    (NotFound, Exit.PROBLEMS),
    (Unreachable, Exit.UNAVAILABLE),
    (NoHandler, Exit.PROBLEMS),
    (Conflict, Exit.PROBLEMS),
    (ExportError, Exit.PROBLEMS),
    (PartitionBusy, Exit.TEMPORARY),
    (LifespanFailed, Exit.TEMPORARY),
)


def exit_code(error: BaseException) -> Exit:
    if isinstance(error, DatabaseError):
        sqlstate = getattr(error.__cause__, "sqlstate", None) or ""
        return Exit.TEMPORARY if sqlstate.startswith(_TEMPORARY) else Exit.UNAVAILABLE
    return next((code for kind, code in _CODES if isinstance(error, kind)), Exit.INTERNAL)
