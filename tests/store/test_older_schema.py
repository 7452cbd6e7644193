"""The older code's migrations are unchanged, and its functions change only with a new migration."""

import re
from pathlib import Path

import pytest

from inboxd.store.files import migrations_folder
from tests.support.older import OLDER, unpack


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Unpack the older code; returns its folder."""
    return unpack(tmp_path_factory.mktemp("older"))


def test_migrations_of_the_older_code_are_unchanged(older: Path) -> None:
    changed = changes(older / "migrations", migrations_folder(), "0*.sql")
    assert changed == [], f"they ran as in {OLDER}: add a migration instead"


def test_a_function_changes_with_a_migration(older: Path) -> None:
    """The older code knows by the migration's number that the schema is newer, and goes on."""
    if number(migrations_folder()) == number(older / "migrations"):
        changed = changes(older / "migrations", migrations_folder(), "functions/*.sql")
        assert changed == [], f"changed since {OLDER}: add a migration, a header is enough"


def test_changed_and_missing_files_are_found(tmp_path: Path) -> None:
    for folder, files in (
        ("old", {"a": "1", "b": "1", "gone": "1"}),
        ("new", {"a": "1", "b": "2"}),
    ):
        (tmp_path / folder / "functions").mkdir(parents=True)
        for name, text in files.items():
            (tmp_path / folder / "functions" / f"{name}.sql").write_text(text)
    (tmp_path / "new" / "functions" / "added.sql").write_text("1")
    old, new = tmp_path / "old", tmp_path / "new"
    assert changes(old, new, "functions/*.sql") == ["b", "gone"]
    assert number(migrations_folder()) >= 3


def changes(old: Path, new: Path, pattern: str) -> list[str]:
    """The names of old files that are missing or have another text in the new folder."""
    files = [file.relative_to(old) for file in sorted(old.glob(pattern))]
    return [
        file.stem
        for file in files
        if not (new / file).exists() or (new / file).read_text() != (old / file).read_text()
    ]


def number(folder: Path) -> int:
    """The number of the newest migration."""
    return max(int(re.match(r"\d+", file.name)[0]) for file in folder.glob("0*.sql"))  # type: ignore[index]
