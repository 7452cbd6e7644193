"""The connection to the database: valid URLs, schemas and password files."""

from pathlib import Path
from typing import Any

import pytest

from inboxd.settings import describe, load, reloadable
from inboxd.store.connections import dsn_of_each_host
from tests.unit.settings.loaded import problems


@pytest.mark.parametrize("name", ["user", "order", "table", "all", "current_user", "in", "with"])
def test_reserved_word_of_sql_is_not_a_schema_name(name: str) -> None:
    """SQL files do not quote the schema: `migrate` would stop in its first file."""
    (problem,) = problems(None, {"INBOXD_DATABASE__SCHEMA": name})
    assert "[database] schema: is a reserved word of SQL" in problem


@pytest.mark.parametrize("name", ["pg_inbox", "information_schema"])
def test_reserved_name_of_postgresql_is_not_a_schema_name(name: str) -> None:
    (problem,) = problems(None, {"INBOXD_DATABASE__SCHEMA": name})
    assert "[database] schema: is reserved by PostgreSQL" in problem


@pytest.mark.parametrize("name", ["public", "users", "between", "text", "_order"])
def test_other_names_are_valid_schema_names(name: str) -> None:
    assert load(None, {"INBOXD_DATABASE__SCHEMA": name}).database.schema_name == name


@pytest.mark.parametrize(
    ("dsn", "told"),
    [
        ("postgresql+asyncpg://u@h/db", "leave out +asyncpg"),
        ("jdbc:postgresql://h/db", "leave out jdbc:"),
        ("host=h dbname=db user=u", "rewrite it as one"),
        ("mysql://h/db", "a DSN starts with postgresql://"),
    ],
)
def test_url_of_another_program_is_refused_with_a_remedy(dsn: str, told: str) -> None:
    (problem,) = problems(None, {"INBOXD_DATABASE__DSN": dsn})
    assert told in problem


@pytest.mark.parametrize(
    ("dsn", "kept"),
    [
        ("postgresql://h/db?sslmode=require&channel_binding=require", "h/db?sslmode=require"),
        ("postgresql://h/db?connect_timeout=10&keepalives=1", "h/db"),
        ("postgresql:///db?host=/tmp&keepalives_idle=3", "/db?host=/tmp"),
        ("postgresql://h/db?options=-cgeqo%3Doff", "h/db?options=-cgeqo%3Doff"),
        ("postgresql://h/db", "h/db"),
    ],
)
def test_parameters_only_for_libpq_are_left_out(dsn: str, kept: str) -> None:
    """Providers' URLs contain such parameters."""
    assert dsn_of_each_host(dsn) == [f"postgresql://{kept}"]


def test_parameters_are_left_out_for_each_host() -> None:
    dsn = "postgresql://u@a:1,b/db?connect_timeout=3&sslmode=require"
    hosts = ["u@a:1/db?sslmode=require", "u@b/db?sslmode=require"]
    assert dsn_of_each_host(dsn) == [f"postgresql://{each}" for each in hosts]


def test_password_file_is_read_for_each_connection(written: Any, tmp_path: Path) -> None:
    """Each new connection reads a rotated secret, without restart or reload."""
    file = tmp_path / "password"
    file.write_text("old\n")
    path = written(f'[database]\npassword_file = "{file}"\n')
    settings = load(path, {})
    assert settings.database.current_password() == "old"
    file.write_text("new\n")
    assert settings.database.current_password() == "new"
    changes = reloadable(settings, load(path, {}))
    assert (changes.live, changes.restart) == ((), ()), (
        "a rotated password is no change of settings"
    )
    file.unlink()
    assert settings.database.current_password() == "old", "the file is being replaced"


def test_password_of_a_platforms_secret_is_read_anew(tmp_path: Path) -> None:
    file = tmp_path / "database_password"
    file.write_text("old")
    environ = {"CREDENTIALS_DIRECTORY": str(tmp_path)}
    settings = load(None, environ)
    file.write_text("new")
    assert settings.database.current_password() == "new"
    assert "new" not in str(describe(settings))
    stronger = load(None, {**environ, "INBOXD_DATABASE__PASSWORD": "given"})
    assert stronger.database.current_password() == "given"


def test_a_password_from_elsewhere_stays(written: Any, tmp_path: Path) -> None:
    (tmp_path / "password").write_text("of the file")
    path = written(f'[database]\npassword_file = "{tmp_path}/password"\n')
    settings = load(path, {"INBOXD_DATABASE__PASSWORD": "given"})
    assert settings.database.current_password() == "given"
    assert load(None, {}).database.current_password() is None


def test_files_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    (tmp_path / "password").write_bytes(b"\xef\xbb\xbfhush\r\n")
    file = tmp_path / "inboxd.toml"
    file.write_bytes(
        b'\xef\xbb\xbf[database]\npassword_file = "' + bytes(tmp_path / "password") + b'"\n'
    )
    assert load(file, {}).database.current_password() == "hush"


@pytest.mark.parametrize(
    ("variable", "right"),
    [
        ("INBOXD_DATABASE_DSN", "INBOXD_DATABASE__DSN"),
        ("inboxd_log_level", "INBOXD_LOG__LEVEL"),
        ("INBOXD_DATABASE_SCHEMA", "INBOXD_DATABASE__SCHEMA"),
        ("INBOXD_INBOUND_HTTP_PORT", "INBOXD_INBOUND__HTTP__PORT"),
    ],
)
def test_variable_with_one_underscore_is_a_problem(variable: str, right: str) -> None:
    (problem,) = problems(None, {variable: "x"})
    assert problem.startswith(f"environment: {variable}: a section is followed by two")
    assert problem.endswith(f"write {right}")


def test_variables_of_other_programs_are_ignored() -> None:
    load(None, {"INBOXD_CONFIG": "x", "INBOXD_TEST_DSN": "y", "INBOXD_DATABASE_BACKUP": "z"})
