"""Schemas of any name, and releases with other files, for tests of migrations.

    ship(tmp_path, monkeypatch, MORE, {"bucket_of": None})
    await migrations.migrate(named(database, "billing"))
    await check(database, "billing")

Roles belong to the whole server: `drop_roles` removes those of a test's own schema.
"""

import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from inboxd.settings import Database as Settings
from inboxd.store import migrations
from inboxd.store.files import migrations_folder
from inboxd.store.session import connect
from tests.support import Database

MORE = "-- More.\n-- oldest code: 1\n"  # a migration that changes nothing


def named(database: Database, schema: str) -> Settings:
    return Settings.model_validate({"dsn": database.dsn, "schema": schema})


async def check(database: Database, schema: str = "inboxd") -> None:
    session = await connect(named(database, schema), "test")
    try:
        await migrations.check(session)
    finally:
        session.connection.terminate()


def ship(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    text: str = "",
    functions: Mapping[str, str | None] | None = None,
) -> None:
    """Change the release: one more migration, and other functions; None removes a function."""
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
    """Drop the roles of a test's schemas: roles belong to the whole server."""
    for schema in schemas:
        roles = await database.fetch(
            "select rolname from pg_roles where rolname like $1", f"{schema}%"
        )
        for role in roles:
            await database.execute(f"drop owned by {role[0]}; drop role {role[0]}")
