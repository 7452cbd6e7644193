"""Locates the project's SQL files, in a checkout and in a wheel; not in a zip archive."""

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parents[1]


def sql_folder() -> Path:
    return _PACKAGE / "store" / "sql"


def migrations_folder() -> Path:
    installed = _PACKAGE / "migrations"
    return installed if installed.is_dir() else _PACKAGE.parent / "migrations"
