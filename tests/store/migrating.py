"""What tests of migrations share: schemas of any name, and releases with other files."""

import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from inboxd.settings import Database as Settings
from inboxd.store import migrations
from inboxd.store.connections import connect
from inboxd.store.files import migrations_folder
from inboxd.store.statements import Statements
from tests.support import Database

MORE = "-- More.\n-- oldest code: 1\n"  # a migration that changes nothing


def named(database: Database, schema: str) -> Settings:
    return Settings.model_validate({"dsn": database.dsn, "schema": schema})


async def check(database: Database, schema: str = "inboxd") -> None:
    connection = await connect(named(database, schema), "test")
    try:
        await migrations.check(connection, Statements(schema))
    finally:
        connection.terminate()


def ship(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    text: str = "",
    functions: Mapping[str, str | None] | None = None,
) -> None:
    """Let the release have a migration more, and other functions; None: one less."""
    version = migrations.code_version() + 1
    there = migrations_folder()
    shutil.copytree(there, folder, dirs_exist_ok=True)
    if text:
        (folder / f"{version:04d}_more.sql").write_text(text)
    for name, body in (functions or {}).items():
        file = folder / "functions" / f"{name}.sql"
        file.unlink(missing_ok=True)
        if body is not None:
            file.write_text(body)
    monkeypatch.setattr(migrations, "migrations_folder", lambda: folder)


async def may_call(database: Database, function: str, role: str) -> bool:
    may: bool = await database.fetchval(
        "select has_function_privilege($1, $2, 'execute')", role, f"inboxd.{function}"
    )
    return may


async def drop_roles(database: Database, *schemas: str) -> None:
    """Those of schemas of a test's own: roles belong to the whole server."""
    for schema in schemas:
        roles = await database.fetch(
            "select rolname from pg_roles where rolname like $1", f"{schema}%"
        )
        for role in roles:
            await database.execute(f"drop owned by {role[0]}; drop role {role[0]}")
