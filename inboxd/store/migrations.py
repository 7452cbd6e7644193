"""The schema's versions: plain SQL files, forward only, checksummed, one transaction each.

Owns the table `schema_migrations` and the rule of who fits whom. Each file states in its header the
oldest code that can work with the schema that it leaves (`-- oldest code: N`), so expanding
migrations run while the previous release still works, and a rolling deploy never stops: code fits a
schema that has all of the code's migrations and none that the code is too old for. Promises that
two migrators never run together, and that a file that was changed after it ran is noticed.
Known limit: there is no way back; a mistake is mended by the next migration.
"""

import hashlib
import re
from dataclasses import dataclass

import asyncpg

from inboxd.errors import SchemaError, UsageError
from inboxd.settings import Database
from inboxd.store.connections import Connection, connect, explain
from inboxd.store.files import migrations_folder
from inboxd.store.statements import Statements, render

_NAME = re.compile(r"(?P<version>\d{4})_(?P<name>[a-z0-9_]+)\.sql")
_OLDEST = re.compile(r"^-- oldest code: (\d+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Migration:
    """One file: its version, and the oldest code that works with what it leaves."""

    version: int
    name: str
    oldest_code: int
    text: str

    @property
    def checksum(self) -> str:
        """SHA-256 of the file as it is shipped, whatever the schema is called."""
        return hashlib.sha256(self.text.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Applied:
    """What `schema_migrations` says of a migration that ran."""

    version: int
    name: str
    oldest_code: int
    checksum: str


def shipped() -> list[Migration]:
    """The migrations of this release, in order."""
    found = []
    for file in migrations_folder().iterdir():
        if match := _NAME.fullmatch(file.name):
            text = file.read_text(encoding="utf-8")
            oldest = _OLDEST.search(text)
            if oldest is None:
                raise SchemaError(f"{file.name}: the header lacks «-- oldest code: N»")
            version, name = int(match["version"]), match["name"]
            found.append(Migration(version, name, int(oldest[1]), text))
    return sorted(found, key=lambda migration: migration.version)


def code_version() -> int:
    """The version of this code: that of its newest migration."""
    return shipped()[-1].version


async def applied(connection: Connection, sql: Statements) -> list[Applied]:
    """The migrations that ran in this schema; none when there is no schema yet."""
    if not await connection.fetchval(sql["has_migrations"]):
        return []
    return [Applied(**row) for row in await connection.fetch(sql["applied_migrations"])]


def pending(ran: list[Applied], to: int | None = None) -> list[Migration]:
    """What is still to run. Raises SchemaError when what ran is not what this release ships."""
    mine = {migration.version: migration for migration in shipped()}
    for old in ran:
        new = mine.get(old.version)
        if new is not None and new.checksum != old.checksum:
            raise SchemaError(
                f"migration {old.version:04d}_{old.name} ran with other contents than this release "
                "ships; install the release that ran it, or restore the file"
            )
    if to is not None and to not in mine:
        raise UsageError(f"there is no migration {to}; the newest is {max(mine)}")
    newest_ran = max((old.version for old in ran), default=0)
    limit = max(mine) if to is None else to
    if limit < newest_ran and to is not None:
        raise UsageError(f"the schema is at {newest_ran} already: migrations only go forward")
    return [m for version, m in sorted(mine.items()) if newest_ran < version <= limit]


def fits(ran: list[Applied], schema: str) -> None:
    """Raise SchemaError, naming the command to run, unless this code works with the schema."""
    code = code_version()
    newest = max((old.version for old in ran), default=0)
    oldest_code = max((old.oldest_code for old in ran), default=0)
    if newest == 0:
        raise SchemaError(f"schema {schema!r} holds no inboxd tables; run: inboxd migrate")
    if newest < code:
        raise SchemaError(
            f"schema {schema!r} is at version {newest}, this release needs {code}; "
            "run: inboxd migrate"
        )
    if oldest_code > code:
        raise SchemaError(
            f"schema {schema!r} is at version {newest} and needs code of version {oldest_code} or "
            f"newer, this release is {code}; upgrade inboxd"
        )
    pending(ran)


async def check(connection: Connection, sql: Statements) -> None:
    """Raise SchemaError unless this code works with the schema that is there."""
    fits(await applied(connection, sql), sql.schema)


async def migrate(database: Database, to: int | None = None) -> list[Migration]:
    """Run what is pending, each file in its own transaction, under one advisory lock.

    Returns what ran. Raises DatabaseError or SchemaError; what ran before stays.
    """
    sql = Statements(database.schema_name)
    connection = await connect(database, "migrate", plans={"statement_timeout": "0"})
    try:
        await connection.execute(sql["lock_migrations"])
        await connection.execute(sql["create_migrations"])
        todo = pending(await applied(connection, sql), to)
        for migration in todo:
            await _apply(connection, sql, migration)
    except asyncpg.PostgresError as error:
        raise explain(error) from error
    finally:
        await connection.close()
    return todo


async def _apply(connection: Connection, sql: Statements, migration: Migration) -> None:
    async with connection.transaction():
        await connection.execute(render(migration.text, sql.schema))
        await connection.execute(
            sql["record_migration"],
            migration.version,
            migration.name,
            migration.oldest_code,
            migration.checksum,
        )
