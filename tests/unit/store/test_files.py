"""The SQL files are found where a checkout and a wheel keep them."""

from pathlib import Path

import pytest

from inboxd.store import files


def test_finds_the_checkouts_files() -> None:
    assert (files.migrations_folder() / "0001_tables.sql").is_file()
    assert any(files.sql_folder().rglob("*.sql"))


def test_prefers_the_wheels_migrations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_PACKAGE", tmp_path)
    assert files.migrations_folder() == tmp_path.parent / "migrations"
    (tmp_path / "migrations").mkdir()
    assert files.migrations_folder() == tmp_path / "migrations"
