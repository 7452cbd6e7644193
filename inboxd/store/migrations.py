"""The schema's versions: numbered files that run once, and functions that are made as they change.

Owns the tables `schema_migrations` and `schema_functions`, what ran in a schema, and the rule of
who fits whom. A numbered file is plain SQL, forward only, one transaction each, and states in its
header the oldest code that can work with the schema that it leaves (`-- oldest code: N`), so
expanding migrations run while the previous release still works, and a rolling deploy never stops:
code fits a schema that has all of the code's migrations and none that the code is too old for.

A function has one file in `migrations/functions/`, with its newest text alone. Functions are made
after the numbered files: each whose text is not the one that was made last, all in one transaction.
So a function that producers call meanwhile is never newer than the tables, whichever file failed.
Before a file that says `-- functions: first`, in its transaction, only those are made that are
missing, and those whose newest text it needs: which it calls, or which it names, since they called
what it drops, by `-- functions: first; new texts: NAME, NAME`.

A release that changes a function has a numbered file more, so that code of the release before knows
the schema for a newer one and leaves its functions alone.
A function's text has the schema's name in it, so all are made again in a schema that was renamed.

Roles and grants are in blocks of the numbered files, and in the headers of functions. A dump may
lack both, so they can be made again (`grant`): a block that grants may run as often as one likes.

Promises that two migrators never run together, that a file that was changed after it ran is
noticed, and that nothing is taken over which a stranger has made: no schema, no function in it, no
operator in a schema of the migrator's path. Known limits: there is no way back, a mistake is mended
by the next migration; a function whose signature or result changes is dropped by a numbered file
first (CONTRIBUTING.md).
*See:* `plugin_migrations`, for those of plugins;
docs/adr/0022-a-baseline-and-a-file-for-each-function.md.
"""

import hashlib
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import asyncpg

from inboxd.errors import DatabaseError, SchemaError, UsageError
from inboxd.settings import Database
from inboxd.store.connections import LOST, Connection, connect, explain, whereabouts
from inboxd.store.files import migrations_folder
from inboxd.store.statements import Statements, render

FILE_NAME = re.compile(r"(?P<version>\d{4})_(?P<name>[a-z0-9_]+)\.sql")
_OLDEST = re.compile(r"^-- oldest code: (\d+)$", re.MULTILINE)
_FUNCTIONS_FIRST = re.compile(
    r"^-- functions: first(?:; new texts: (?P<names>[a-z_]+(?:, [a-z_]+)*))?$", re.MULTILINE
)
_CALLED = re.compile(r"\b(?:SELECT|PERFORM) \{schema\}\.([a-z_]+)\(")
# A file that only gives functions' changes a number has none: PostgreSQL answers nothing to that.
_STATEMENT = re.compile(r"^\s*(?!--)\S", re.MULTILINE)
_BLOCK = re.compile(r"^DO \$do\$$.*?^\$do\$;$", re.MULTILINE | re.DOTALL)
_ROLE = "(?:operator|producer|receiver|viewer|worker)"
_ROLES = re.compile(rf"^-- roles: (none|{_ROLE}(?:, {_ROLE})*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Numbered:
    """A file that runs once, `NNNN_name.sql`: inboxd's, or a plugin's."""

    version: int
    name: str
    text: str

    @property
    def label(self) -> str:
        """Its name, without `.sql`."""
        return f"{self.version:04d}_{self.name}"

    @property
    def checksum(self) -> str:
        """SHA-256 of the file as it is shipped, whatever the schema is called."""
        return _checksum(self.text)


@dataclass(frozen=True, slots=True)
class Migration(Numbered):
    """A numbered file of inboxd, and the oldest code that works with what it leaves."""

    oldest_code: int

    def functions_first(self, made: Mapping[str, str], schema: str) -> "list[DatabaseFunction]":
        """The functions that are made before it; made: the checksums of those that are there."""
        said = _FUNCTIONS_FIRST.search(self.text)
        if said is None:
            return []
        anew = {*_CALLED.findall(self.text), *(said["names"] or "").split(", ")}
        return [
            each for each in _changed(made, schema) if each.name not in made or each.name in anew
        ]

    @property
    def grants(self) -> list[str]:
        """Its blocks that make roles, or grant them something."""
        return [block for block in _BLOCK.findall(self.text) if "GRANT " in block]


@dataclass(frozen=True, slots=True)
class DatabaseFunction:
    """One function's file. roles: who may call it, besides its owner."""

    name: str
    roles: tuple[str, ...]
    text: str

    def checksum(self, schema: str) -> str:
        """SHA-256 of its text in a schema of this name."""
        return _checksum(render(self.text, schema))


@dataclass(frozen=True, slots=True)
class Applied:
    """What `schema_migrations` says of a migration that ran."""

    version: int
    name: str
    oldest_code: int
    checksum: str


@dataclass(frozen=True, slots=True)
class SchemaState:
    """What ran in a schema, by its name. functions: the checksum of each that is there.

    where: the database that it is in, for messages.
    """

    schema: str
    where: str
    migrations: Sequence[Applied] = ()
    functions: Mapping[str, str] = field(default_factory=dict)

    @property
    def named(self) -> str:
        """The schema, and the database that it is in."""
        return f"schema {self.schema!r} of {self.where}"

    @property
    def version(self) -> int:
        """That of the newest migration that ran; 0: there is no schema yet."""
        return max((each.version for each in self.migrations), default=0)


@dataclass(frozen=True, slots=True)
class MigrationPlan:
    """What is to run, or ran."""

    migrations: Sequence[Migration] = ()
    functions: Sequence[DatabaseFunction] = ()

    def __bool__(self) -> bool:
        return bool(self.migrations or self.functions)


def shipped() -> list[Migration]:
    """The migrations of this release, in order."""
    found = []
    for file in migrations_folder().iterdir():
        if match := FILE_NAME.fullmatch(file.name):
            text = file.read_text(encoding="utf-8")
            oldest = _OLDEST.search(text)
            if oldest is None:
                raise SchemaError(f"{file.name}: the header lacks «-- oldest code: N»")
            version, name = int(match["version"]), match["name"]
            found.append(Migration(version, name, text, int(oldest[1])))
    return sorted(found, key=lambda migration: migration.version)


def functions() -> list[DatabaseFunction]:
    """The functions of this release, by name."""
    found = []
    for file in sorted((migrations_folder() / "functions").glob("*.sql")):
        text = file.read_text(encoding="utf-8")
        roles = _ROLES.search(text)
        if roles is None:
            raise SchemaError(f"{file.name}: the header lacks «-- roles: producer, worker» or none")
        named = () if roles[1] == "none" else tuple(roles[1].split(", "))
        found.append(DatabaseFunction(file.stem, named, text))
    return found


def code_version() -> int:
    """The version of this code: that of its newest migration."""
    return shipped()[-1].version


async def applied(connection: Connection, sql: Statements) -> SchemaState:
    """What ran in this schema; nothing when there is no schema yet."""
    where = whereabouts(connection)
    if not await connection.fetchval(sql["has_migrations"]):
        return SchemaState(sql.schema, where)
    ran = [Applied(**row) for row in await connection.fetch(sql["applied_migrations"])]
    if not await connection.fetchval(sql["has_functions"]):
        return SchemaState(sql.schema, where, ran)
    return SchemaState(sql.schema, where, ran, await _made(connection, sql))


def pending(ran: SchemaState, to: int | None = None) -> MigrationPlan:
    """What is still to run. Raises SchemaError when what ran is not what this release ships."""
    mine = {migration.version: migration for migration in shipped()}
    newest = max(mine)
    for old in ran.migrations:
        new = mine.get(old.version)
        if new is not None and new.checksum != old.checksum:
            raise SchemaError(
                f"{ran.named}: migration {old.version:04d}_{old.name} ran with other contents than "
                "this release ships; install the release that ran it, restore the file, or make a "
                "database from before the first release anew"
            )
    if to is not None and to not in mine:
        raise UsageError(f"there is no migration {to}; the newest is {newest}")
    if to is not None and to < ran.version:
        raise UsageError(f"{ran.named} is at {ran.version} already: migrations only go forward")
    limit = newest if to is None else to
    todo = [m for version, m in sorted(mine.items()) if ran.version < version <= limit]
    # A newer schema's functions are not this release's to make.
    if max(ran.version, limit) == newest:
        return MigrationPlan(todo, _changed(ran.functions, ran.schema))
    first = {each.name for one in todo for each in one.functions_first(ran.functions, ran.schema)}
    return MigrationPlan(
        todo, [each for each in _changed(ran.functions, ran.schema) if each.name in first]
    )


def fits(ran: SchemaState) -> None:
    """Raise SchemaError, naming the command to run, unless this code works with the schema."""
    code = code_version()
    due = pending(ran)  # first: it refuses what ran with other contents
    oldest_code = max((old.oldest_code for old in ran.migrations), default=0)
    if ran.version == 0:
        raise SchemaError(f"{ran.named} holds no inboxd tables; run: inboxd migrate")
    if ran.version < code:
        raise SchemaError(
            f"{ran.named} is at version {ran.version}, this release needs {code}; "
            "run: inboxd migrate"
        )
    if oldest_code > code:
        raise SchemaError(
            f"{ran.named} is at version {ran.version} and needs code of version "
            f"{oldest_code} or newer, this release is {code}; upgrade inboxd"
        )
    if changed := [each.name for each in due.functions]:
        raise SchemaError(
            f"{ran.named} lacks functions of this release, or has other texts of them: "
            f"{', '.join(changed[:3])}{', …' if changed[3:] else ''}; run: inboxd migrate"
        )


async def check(connection: Connection, sql: Statements) -> None:
    """Raise SchemaError unless this code works with the schema that is there."""
    fits(await applied(connection, sql))


async def migrate(database: Database, to: int | None = None) -> MigrationPlan:
    """Bring inboxd's own schema up to this release, and leave plugins alone: see `run`."""
    async with only_migrator(database) as (connection, sql):
        return await run(connection, sql, to)


@asynccontextmanager
async def only_migrator(database: Database) -> AsyncIterator[tuple[Connection, Statements]]:
    """A session that has the migrators' advisory lock, for the `async with` block.

    What fails on it comes out as DatabaseError or SchemaError.
    """
    sql = Statements(database.schema_name)
    connection = await connect(database, "migrate", plans={"statement_timeout": "0"})
    try:
        try:
            await connection.execute(sql["lock_migrations"])
        except asyncpg.LockNotAvailableError as error:
            raise DatabaseError(
                f"another run of inboxd migrate has not ended in {whereabouts(connection)}; wait "
                "for it, then run: inboxd migrate"
            ) from error
        yield connection, sql
    except asyncpg.InsufficientPrivilegeError as error:
        raise explain(error, await _who_may(connection, sql)) from error
    except asyncpg.PostgresError as error:
        raise explain(error, asked=connection) from error
    finally:
        await connection.close()


async def _who_may(connection: Connection, sql: Statements) -> str:
    """What is said to who may not migrate: whom to connect as, or what to grant."""
    try:
        owners = await connection.fetch(sql["other_owners"])
    except (*LOST, asyncpg.PostgresError):
        owners = []
    if owners:
        return (
            f"the schema is another role's, and its owner migrates it; connect as "
            f"{owners[0]['name']!r}, or as a member of that role"
        )
    return "grant this role CREATE on the database, or connect as who may make a schema in it"


async def run(connection: Connection, sql: Statements, to: int | None = None) -> MigrationPlan:
    """Run what is pending, each file in its own transaction, and return it; what ran stays.

    Under the migrators' lock. Raises SchemaError, or what the driver raises.
    """
    made: list[DatabaseFunction] = []
    async with _changing(connection, sql):
        await connection.execute(sql["create_migrations"])
        await _refuse_strangers(connection, sql)
    plan = pending(await applied(connection, sql), to)
    for migration in plan.migrations:
        async with _changing(connection, sql):
            first = migration.functions_first(await _made(connection, sql), sql.schema)
            made += await _make(connection, sql, first)
            await _run(connection, sql, migration)
    if rest := pending(await applied(connection, sql), to).functions:
        async with _changing(connection, sql):
            made += await _make(connection, sql, rest)
    return MigrationPlan(plan.migrations, made)


@asynccontextmanager
async def _changing(connection: Connection, sql: Statements) -> AsyncIterator[None]:
    """A transaction in which names are the server's own, or have their schema.

    A member of the schema's owner acts as the owner: what it makes would else be its own, and the
    owner would be refused from then on.
    """
    async with connection.transaction():
        await connection.execute(sql["believe_no_path"])
        await connection.execute(sql["act_as_owner"])
        yield


async def _refuse_strangers(connection: Connection, sql: Statements) -> None:
    """Raise DatabaseError where somebody else could make this role run what they like."""
    found = await connection.fetch(sql["foreign_owners"])
    if found:
        kind, object_, owner = found[0]["kind"], found[0]["object"], found[0]["name"]
        raise DatabaseError(
            f"the {kind} {object_} belongs to {owner!r}, who could run anything there as this "
            f"role, so nothing was changed; connect as {owner!r} if it is inboxd's, else look at "
            "what is in the schema, and drop it or give it another owner"
        )


async def grant(database: Database) -> list[str]:
    """Make roles and their rights again, as the migrations made them; returns roles that lack.

    Rights that somebody granted besides stay, but that everybody may call a function. Those of
    roles that may not be created here are an administrator's to grant. Raises DatabaseError or
    SchemaError; then nothing was changed.
    """
    async with only_migrator(database) as (connection, sql):
        # Who is not the owner would be warned by the server, and nothing granted.
        if owners := await connection.fetch(sql["other_owners"]):
            raise DatabaseError(
                f"only the owner of a thing grants rights on it; connect as {owners[0]['name']!r}, "
                "or as a member of that role"
            )
        ran = await applied(connection, sql)
        fits(ran)
        if ran.version > code_version():
            raise SchemaError(
                f"{ran.named} is at version {ran.version}, newer than this release; "
                "run: inboxd migrate --grants, of the release that migrated it"
            )
        async with _changing(connection, sql):
            for migration in shipped():
                for block in migration.grants:
                    await connection.execute(render(block, sql.schema))
            for function in functions():
                await _grant_function(connection, sql, function)
            # Those that an older release left have no file any more.
            for row in await connection.fetch(sql["open_functions"]):
                await connection.execute(row["remedy"])
        return [row["name"] for row in await connection.fetch(sql["missing_roles"])]


async def _run(connection: Connection, sql: Statements, migration: Migration) -> None:
    if _STATEMENT.search(migration.text):
        await connection.execute(render(migration.text, sql.schema))
    await connection.execute(
        sql["record_migration"],
        migration.version,
        migration.name,
        migration.oldest_code,
        migration.checksum,
    )


async def _make(
    connection: Connection, sql: Statements, todo: Sequence[DatabaseFunction]
) -> Sequence[DatabaseFunction]:
    """Make functions in the caller's transaction.

    What they say is not looked at yet: one may call another that comes later.
    """
    if todo:
        await connection.execute(sql["leave_bodies_unchecked"])
    for function in todo:
        await connection.execute(render(function.text, sql.schema))
        await _grant_function(connection, sql, function)
        checksum = function.checksum(sql.schema)
        await connection.execute(sql["record_function"], function.name, checksum)
    return todo


async def _grant_function(
    connection: Connection, sql: Statements, function: DatabaseFunction
) -> None:
    """Let those roles call it that its file names, and nobody else."""
    for (statement,) in await connection.fetch(
        sql["grant_function"], function.name, function.roles
    ):
        await connection.execute(statement)


async def _made(connection: Connection, sql: Statements) -> dict[str, str]:
    """The checksums of the functions that are there, by name."""
    rows = await connection.fetch(sql["applied_functions"])
    return {row["name"]: row["checksum"] for row in rows}


def _changed(made: Mapping[str, str], schema: str) -> list[DatabaseFunction]:
    return [each for each in functions() if made.get(each.name) != each.checksum(schema)]


def _checksum(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
