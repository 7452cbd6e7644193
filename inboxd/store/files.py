"""Locates the project's SQL files, in a checkout and in a wheel.

Owns the paths of two folders: `sql/` beside this module, and `migrations/`, which lies beside the
package in a checkout and inside it in a wheel (pyproject.toml puts it there).
Known limit: the package has to be installed as files; it does not run from a zip archive.
"""

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parents[1]


def sql_folder() -> Path:
    """The folder of the statements: one file each, in a folder per subject."""
    return _PACKAGE / "store" / "sql"


def migrations_folder() -> Path:
    """The folder of the numbered migrations, which contains the folder `functions`."""
    installed = _PACKAGE / "migrations"
    return installed if installed.is_dir() else _PACKAGE.parent / "migrations"
