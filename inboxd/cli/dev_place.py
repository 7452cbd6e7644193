"""How the other commands in a folder find the database of its `inboxd dev`: `.inboxd/dev.json`.

A command uses dev's database only while that dev runs (the kernel releases its lock of the file
when it ends), only if the environment and the secret files name no database, and only with dev's
settings or with settings that name none. A settings file finds the dev of its own folder, and the
dev of the current folder only if the file lies below that folder or that dev was started with it. A
file of another user is ignored. While their dev is stopped, a command whose settings name no
database fails, rather than use another one. Of two devs, the one started with the command's
settings counts. Known limit: folders above are not searched.
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
    """The content of dev.json. lives: whether the `inboxd dev` that wrote it still runs."""

    folder: Path
    dsn: str
    config: str | None
    lives: bool


@contextmanager
def announced(dsn: str, config: Path | None) -> Iterator[None]:
    descriptor = os.open(HOME / _FILE, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    with os.fdopen(descriptor, "r+", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        told = {"dsn": dsn, "config": None if config is None else str(config.resolve())}
        file.truncate()
        file.write(json.dumps(told) + "\n")
        file.flush()
        # The file stays: later commands learn from it that dev ran here and has ended.
        yield


def surroundings(config: Path | None, environ: Mapping[str, str] = os.environ) -> Mapping[str, str]:
    """Return the environment, with the database of these settings' dev if that runs."""
    told = _dev_of(config)
    if told is None or not told.lives or _names_database(environ):
        return environ
    return {**environ, VARIABLE: told.dsn}


def join(config: Path | None) -> None:
    os.environ.update(surroundings(config))


def running() -> str:
    """Return the DSN of the dev that runs in this folder. Raises DatabaseError if none does."""
    told = _read(Path())
    if told is None or not told.lives:
        raise DatabaseError(f"`inboxd dev` does not run in {Path.cwd()}: start it there")
    return told.dsn


def require(settings: "Settings", config: Path | None) -> None:
    """Else the command would use any PostgreSQL. Raises DatabaseError if their dev has ended."""
    if settings.source_of("database.dsn") != "default":
        return
    if (told := _dev_of(config)) is not None:
        raise DatabaseError(
            "the settings name no database, and `inboxd dev` does not run in "
            f"{told.folder.resolve()}: start it there, or set database.dsn or the variable "
            f"{VARIABLE}"
        )


def _names_database(environ: Mapping[str, str]) -> bool:
    from inboxd.settings import read

    given = read(None, environ).settings
    return given.source_of("database.dsn") != "default" or not given.knows("database", "dsn")


def _dev_of(config: Path | None) -> _DevDatabase | None:
    folders = [Path()] if config is None else [config.parent, Path()]
    found = [told for folder in folders if (told := _read(folder)) and _belongs(config, told)]
    own = None if config is None else str(config.resolve())
    return max(found, key=lambda told: (told.config == own, told.lives), default=None)


def _belongs(config: Path | None, told: _DevDatabase) -> bool:
    if config is None or str(config.resolve()) == told.config:
        return True
    # The file's own folder counts, not that of a file that it links to.
    if not config.parent.resolve().is_relative_to(told.folder.resolve()):
        return False  # the file of another project, or one of the system
    with suppress(OSError, ValueError):  # reported when the settings are read
        database = tomllib.loads(config.read_text(encoding="utf-8-sig")).get("database")
        return not (isinstance(database, dict) and "dsn" in database)
    return False


def _read(folder: Path) -> _DevDatabase | None:
    """Read dev.json; None if it is missing, invalid, or not owned by this user or root."""
    try:
        descriptor = os.open(
            folder / HOME / _FILE,
            os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK,
        )
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
            return _DevDatabase(folder, str(told["dsn"]), told["config"], lives)
        except (OSError, ValueError, LookupError, TypeError):
            return None
