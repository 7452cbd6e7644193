"""Locates the project's SQL files, in a checkout and in a wheel; not in a zip archive."""

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parents[1]


def sql_files() -> list[Path]:
    """The statements of the core, a folder for each subject, and those of each feature."""
    return [*_PACKAGE.glob("store/sql/*/*.sql"), *_PACKAGE.glob("features/*/sql/*.sql")]


def migrations_folder() -> Path:
    installed = _PACKAGE / "migrations"
    return installed if installed.is_dir() else _PACKAGE.parent / "migrations"
