"""SQL files are found in a checkout and in a wheel."""

from pathlib import Path

import pytest

from inboxd.store import files


def test_files_of_the_checkout_are_found() -> None:
    assert (files.migrations_folder() / "0001_tables.sql").is_file()
    assert {"settle_events", "drop_schema"} <= {file.stem for file in files.sql_files()}


def test_migrations_of_the_wheel_are_preferred(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "_PACKAGE", tmp_path)
    assert files.migrations_folder() == tmp_path.parent / "migrations"
    (tmp_path / "migrations").mkdir()
    assert files.migrations_folder() == tmp_path / "migrations"
