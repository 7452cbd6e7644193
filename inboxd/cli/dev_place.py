"""Where the database of `inboxd dev` is, for the other commands in its folder.

Owns `.inboxd/dev.json`: what dev writes there, and who believes it. Promises that a command goes to
a database of dev's only while that dev lives (the kernel ends its lock of the file with it), only
if nothing in the environment names another, and only with the settings that dev has, or with some
that name none; that a file which somebody else wrote is not believed; and that a command whose
settings name no database does not go to any other while the dev of its folder is stopped.
Known limit: only the current folder and that of the settings are looked at, none above.
"""

import fcntl
import json
import os
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from inboxd.errors import DatabaseError

if TYPE_CHECKING:
    from inboxd.settings import Settings

HOME = Path(".inboxd")
VARIABLE = "INBOXD_DATABASE__DSN"

_FILE = "dev.json"


@dataclass(frozen=True, slots=True)
class _DevDatabase:
    """What a dev wrote; lives: whether it still runs."""

    dsn: str
    config: str | None
    lives: bool


@contextmanager
def announced(dsn: str, config: Path | None) -> Iterator[None]:
    """Tell the commands of this folder of a database, for the block."""
    descriptor = os.open(HOME / _FILE, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    with os.fdopen(descriptor, "r+", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        told = {"dsn": dsn, "config": None if config is None else str(config.resolve())}
        file.truncate()
        file.write(json.dumps(told) + "\n")
        file.flush()
        # It stays: who comes later learns that a dev was here, and that it has ended.
        yield


def surroundings(config: Path | None, environ: Mapping[str, str] = os.environ) -> Mapping[str, str]:
    """The environment, with the database of the dev that these settings belong to, if it lives."""
    if any(name.upper().startswith(VARIABLE) for name in environ):
        return environ
    for folder in _folders(config):
        told = _read(folder / HOME / _FILE)
        if told is not None and told.lives and _belongs(config, told):
            return {**environ, VARIABLE: told.dsn}
    return environ


def join(config: Path | None) -> None:
    """The same in the environment of this process, which reads its settings again later."""
    os.environ.update(surroundings(config))


def running() -> str:
    """The database of the dev that runs in this folder. Raises DatabaseError if none does."""
    told = _read(HOME / _FILE)
    if told is None or not told.lives:
        raise DatabaseError(f"`inboxd dev` does not run in {Path.cwd()}: start it there")
    return told.dsn


def require(settings: "Settings") -> None:
    """Raise DatabaseError if these settings name no database, and the dev of this folder has ended.

    Without it the command would go to whichever PostgreSQL this machine has.
    """
    if settings.source_of("database.dsn") != "default":
        return
    if _read(HOME / _FILE) is not None:
        raise DatabaseError(
            f"the settings name no database, and `inboxd dev` does not run in {Path.cwd()}: start "
            f"it, or name the database (database.dsn, or {VARIABLE} in the environment)"
        )


def _folders(config: Path | None) -> Iterator[Path]:
    yield Path()
    if config is not None:
        yield config.parent


def _belongs(config: Path | None, told: _DevDatabase) -> bool:
    """Whether a command with these settings means the database of that dev."""
    if config is None or str(config.resolve()) == told.config:
        return True
    with suppress(OSError, ValueError):  # whoever reads the settings says what is wrong with them
        database = tomllib.loads(config.read_text(encoding="utf-8-sig")).get("database")
        return not (isinstance(database, dict) and "dsn" in database)
    return False


def _read(path: Path) -> _DevDatabase | None:
    """What is written there by this user, or by root."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return None
    with os.fdopen(descriptor, encoding="utf-8") as file:
        if os.fstat(descriptor).st_uid not in (0, os.geteuid()):
            return None
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            lives = False
        except OSError:
            lives = True
        try:
            told = json.load(file)
            return _DevDatabase(str(told["dsn"]), told["config"], lives)
        except (OSError, ValueError, LookupError, TypeError):
            return None
