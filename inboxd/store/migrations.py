"""The schema's versions: numbered files that run once, and functions that are replaced on change.

A numbered file is plain SQL, forward only, in one transaction. Its header states the oldest code
that works with the resulting schema (`-- oldest code: N`), so that a rolling deploy never stops.
Code fits a schema that has all of its migrations, and none for which it is too old.

After the numbered files, all functions whose text has changed are made in one transaction, so none
that producers call is newer than the tables. Lists of columns in them are written out first
(`inboxd.store.columns`). Before a file with the line `-- functions: first`, and
in its transaction, only missing functions are made, those that it calls, and those that it names
(`-- functions: first; new texts: NAME, NAME`). A file that drops functions because their parameters
or results change names them, too (`-- functions next: NAME`): they are made anew in its
transaction, after it, and roles that are not inboxd's own may call them as before.
A release that changes a function adds a numbered
file: then older code leaves its functions alone. A function's text contains the schema's name, so
all are made again in a renamed schema. A dump may lack roles and grants: `grant` makes them again,
so their blocks run any number of times.

Promises that two migrators never run together, that a file that changed after it ran is detected,
and that no schema, function or operator of another owner is trusted. Known limit: a function whose
signature or result changes is dropped by a numbered file first (CONTRIBUTING.md, ADR 22).
"""

import hashlib
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import asyncpg

from inboxd.errors import DatabaseError, SchemaError, UsageError
from inboxd.settings import Database
from inboxd.store.columns import written_out
from inboxd.store.connections import LOST, explain, whereabouts
from inboxd.store.files import migrations_folder
from inboxd.store.session import Session, connect
from inboxd.store.statements import render

FILE_NAME = re.compile(r"(?P<version>\d{4})_(?P<name>[a-z0-9_]+)\.sql")
_OLDEST = re.compile(r"^-- oldest code: (\d+)$", re.MULTILINE)
_FUNCTIONS_FIRST = re.compile(
    r"^-- functions: first(?:; new texts: (?P<names>[a-z_]+(?:, [a-z_]+)*))?$", re.MULTILINE
)
_FUNCTIONS_NEXT = re.compile(r"^-- functions next: (?P<names>[a-z_]+(?:, [a-z_]+)*)$", re.MULTILINE)
_CALLED = re.compile(r"\b(?:SELECT|PERFORM) \{schema\}\.([a-z_]+)\(")
# A file without statements only numbers a change of functions; asyncpg cannot execute it.
_STATEMENT = re.compile(r"^\s*(?!--)\S", re.MULTILINE)
_BLOCK = re.compile(r"^DO \$do\$$.*?^\$do\$;$", re.MULTILINE | re.DOTALL)
_ROLE = "(?:operator|producer|receiver|viewer|worker)"
_ROLES = re.compile(rf"^-- roles: (none|{_ROLE}(?:, {_ROLE})*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Numbered:
    """A file that runs once, `NNNN_name.sql`, of inboxd or of a plugin."""

    version: int
    name: str
    text: str

    @property
    def label(self) -> str:
        return f"{self.version:04d}_{self.name}"

    @property
    def checksum(self) -> str:
        """SHA-256 of the shipped text, independent of the schema's name."""
        return _checksum(self.text)


@dataclass(frozen=True, slots=True)
class Migration(Numbered):
    oldest_code: int

    def functions_first(self, made: Mapping[str, str], schema: str) -> "list[DatabaseFunction]":
        """The functions to make before it; made: the checksums of existing functions by name."""
        said = _FUNCTIONS_FIRST.search(self.text)
        if said is None:
            return []
        anew = {*_CALLED.findall(self.text), *(said["names"] or "").split(", ")}
        return [
            each for each in _changed(made, schema) if each.name not in made or each.name in anew
        ]

    @property
    def functions_next(self) -> "list[DatabaseFunction]":
        """The functions that it drops, to make anew. Raises SchemaError for an unknown name."""
        said = _FUNCTIONS_NEXT.search(self.text)
        names = [] if said is None else said["names"].split(", ")
        found = [each for each in functions() if each.name in names]
        if unknown := {*names} - {each.name for each in found}:
            raise SchemaError(f"{self.label} names functions without a file: {sorted(unknown)}")
        return found

    @property
    def grants(self) -> list[str]:
        return [block for block in _BLOCK.findall(self.text) if "GRANT " in block]


@dataclass(frozen=True, slots=True)
class DatabaseFunction:
    """A function's file. roles: which roles may call it, besides its owner."""

    name: str
    roles: tuple[str, ...]
    text: str

    def checksum(self, schema: str) -> str:
        """SHA-256 of its text, rendered with this schema's name."""
        return _checksum(render(self.text, schema))


@dataclass(frozen=True, slots=True)
class Applied:
    version: int
    name: str
    oldest_code: int
    checksum: str


@dataclass(frozen=True, slots=True)
class SchemaState:
    """Migrations that ran in a schema. functions: checksums by name. where: its database."""

    schema: str
    where: str
    migrations: Sequence[Applied] = ()
    functions: Mapping[str, str] = field(default_factory=dict)

    @property
    def named(self) -> str:
        return f"schema {self.schema!r} of {self.where}"

    @property
    def version(self) -> int:
        """The number of the newest migration that ran; 0: there is no schema yet."""
        return max((each.version for each in self.migrations), default=0)


@dataclass(frozen=True, slots=True)
class MigrationPlan:
    migrations: Sequence[Migration] = ()
    functions: Sequence[DatabaseFunction] = ()

    def __bool__(self) -> bool:
        return bool(self.migrations or self.functions)


def shipped() -> list[Migration]:
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
    found = []
    for file in sorted((migrations_folder() / "functions").glob("*.sql")):
        text = file.read_text(encoding="utf-8")
        roles = _ROLES.search(text)
        if roles is None:
            raise SchemaError(f"{file.name}: the header lacks «-- roles: producer, worker» or none")
        named = () if roles[1] == "none" else tuple(roles[1].split(", "))
        found.append(DatabaseFunction(file.stem, named, written_out(text)))
    return found


def code_version() -> int:
    return shipped()[-1].version


async def applied(session: Session) -> SchemaState:
    where = whereabouts(session.connection)
    if not await session.fetchval("has_migrations"):
        return SchemaState(session.sql.schema, where)
    ran = [Applied(**row) for row in await session.fetch("applied_migrations")]
    if not await session.fetchval("has_functions"):
        return SchemaState(session.sql.schema, where, ran)
    return SchemaState(session.sql.schema, where, ran, await _made(session))


def pending(ran: SchemaState, to: int | None = None) -> MigrationPlan:
    """The plan that remains. Raises SchemaError if a migration ran with other contents."""
    mine = {migration.version: migration for migration in shipped()}
    newest = max(mine)
    for old in ran.migrations:
        new = mine.get(old.version)
        if new is not None and new.checksum != old.checksum:
            raise SchemaError(
                f"{ran.named}: migration {old.version:04d}_{old.name} ran with other contents than "
                "this release ships; install the release that ran it, restore the file, or "
                "recreate a database from before the first release"
            )
    if to is not None and to not in mine:
        raise UsageError(f"there is no migration {to}; the newest is {newest}")
    if to is not None and to < ran.version:
        raise UsageError(f"{ran.named} is at {ran.version} already: migrations only go forward")
    limit = newest if to is None else to
    todo = [m for version, m in sorted(mine.items()) if ran.version < version <= limit]
    # The functions of a newer schema belong to a newer release.
    if max(ran.version, limit) == newest:
        return MigrationPlan(todo, _changed(ran.functions, ran.schema))
    first = {each.name for one in todo for each in one.functions_first(ran.functions, ran.schema)}
    return MigrationPlan(
        todo, [each for each in _changed(ran.functions, ran.schema) if each.name in first]
    )


def fits(ran: SchemaState) -> None:
    """Raise SchemaError, with the command to run, unless this code works with the schema."""
    code = code_version()
    due = pending(ran)  # first, since it raises for migrations with other contents
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
            f"{ran.named} lacks functions of this release, or has other versions of them: "
            f"{', '.join(changed[:3])}{', …' if changed[3:] else ''}; run: inboxd migrate"
        )


async def check(session: Session) -> None:
    fits(await applied(session))


async def migrate(database: Database, to: int | None = None) -> MigrationPlan:
    """Bring inboxd's own schema up to this release, without the plugins' tables: see `run`."""
    async with only_migrator(database) as session:
        return await run(session, to)


@asynccontextmanager
async def only_migrator(database: Database) -> AsyncIterator[Session]:
    """A session with the migrators' lock. Raises DatabaseError or SchemaError."""
    session = await connect(database, "migrate", plans={"statement_timeout": "0"})
    try:
        try:
            await session.execute("lock_migrations")
        except asyncpg.LockNotAvailableError as error:
            raise DatabaseError(
                "another run of inboxd migrate has not ended in "
                f"{whereabouts(session.connection)}: wait for it, then run: inboxd migrate"
            ) from error
        yield session
    except asyncpg.InsufficientPrivilegeError as error:
        raise explain(error, await _who_may(session)) from error
    except asyncpg.PostgresError as error:
        raise explain(error, asked=session.connection) from error
    finally:
        await session.connection.close()


async def _who_may(session: Session) -> str:
    """The remedy where this role may not migrate: the role to connect as, or the grant."""
    try:
        owners = await session.fetch("other_owners")
    except (*LOST, asyncpg.PostgresError):
        owners = []
    if owners:
        return (
            f"another role owns the schema, and only the owner can migrate it; connect as "
            f"{owners[0]['name']!r}, or as a member of that role"
        )
    return "grant this role CREATE on the database, or connect as a role that has it"


async def run(session: Session, to: int | None = None) -> MigrationPlan:
    """Needs the migrators' lock; finished files stay. Raises SchemaError or the driver's errors."""
    made: dict[str, DatabaseFunction] = {}
    async with _changing(session):
        await session.execute("create_migrations")
        await _refuse_strangers(session)
    plan = pending(await applied(session), to)
    for migration in plan.migrations:
        async with _changing(session):
            first = migration.functions_first(await _made(session), session.sql.schema)
            made |= await _make(session, first)
            anew = migration.functions_next
            names = [each.name for each in anew]
            callers = await session.fetch("other_callers", names) if anew else ()
            await _run(session, migration)
            made |= await _make(session, anew)
            for caller in callers:
                for (statement,) in await session.fetch("grant_calls", *caller.values()):
                    await session.connection.execute(statement)
    if rest := pending(await applied(session), to).functions:
        async with _changing(session):
            made |= await _make(session, rest)
    return MigrationPlan(plan.migrations, list(made.values()))


@asynccontextmanager
async def _changing(session: Session) -> AsyncIterator[None]:
    """A transaction in which a name without a schema means the server's own object.

    A member of the schema's owner acts as the owner, whom new objects would refuse otherwise.
    """
    async with session.transaction():
        await session.execute("believe_no_path")
        await session.execute("act_as_owner")
        yield


async def _refuse_strangers(session: Session) -> None:
    """Raise DatabaseError if objects of another owner could run code as this role."""
    found = await session.fetch("foreign_owners")
    if found:
        kind, object_, owner = found[0]["kind"], found[0]["object"], found[0]["name"]
        raise DatabaseError(
            f"the {kind} {object_} belongs to {owner!r}, which could use it to run code as this "
            f"role, so nothing was changed; connect as {owner!r} if that is inboxd's role, else "
            f"inspect the schema, and drop the {kind} or change its owner"
        )


async def grant(database: Database) -> list[str]:
    """Make roles and their privileges again; returns roles still missing.

    Additional grants stay, except EXECUTE of PUBLIC on functions. Raises DatabaseError or
    SchemaError; then nothing was changed.
    """
    async with only_migrator(database) as session:
        # The server answers grants of a role that is not the owner with a warning alone.
        if owners := await session.fetch("other_owners"):
            raise DatabaseError(
                f"only the owner of an object can grant rights on it; connect as "
                f"{owners[0]['name']!r}, or as a member of that role"
            )
        ran = await applied(session)
        fits(ran)
        if ran.version > code_version():
            raise SchemaError(
                f"{ran.named} is at version {ran.version}, newer than this release; "
                "run: inboxd migrate --grants, of the release that migrated it"
            )
        async with _changing(session):
            for migration in shipped():
                for block in migration.grants:
                    await session.connection.execute(render(block, session.sql.schema))
            for function in functions():
                await _grant_function(session, function)
            # Functions of an older release, which have no file in this one.
            for row in await session.fetch("open_functions"):
                await session.connection.execute(row["remedy"])
        return [row["name"] for row in await session.fetch("missing_roles")]


async def _run(session: Session, migration: Migration) -> None:
    if _STATEMENT.search(migration.text):
        try:
            await session.connection.execute(render(migration.text, session.sql.schema))
        except asyncpg.DependentObjectsStillExistError as error:
            raise DatabaseError(
                f"{migration.label} makes objects anew that an object of yours uses: drop yours, "
                f"migrate, and make it again ({error.detail})"
            ) from error
    await session.execute(
        "record_migration",
        migration.version,
        migration.name,
        migration.oldest_code,
        migration.checksum,
    )


async def _make(session: Session, todo: Sequence[DatabaseFunction]) -> dict[str, DatabaseFunction]:
    """Needs a transaction. Bodies are not checked: a function may call one that is made later."""
    if todo:
        await session.execute("leave_bodies_unchecked")
    for function in todo:
        await session.connection.execute(render(function.text, session.sql.schema))
        await _grant_function(session, function)
        checksum = function.checksum(session.sql.schema)
        await session.execute("record_function", function.name, checksum)
    return {function.name: function for function in todo}


async def _grant_function(session: Session, function: DatabaseFunction) -> None:
    """Grant EXECUTE to the roles that its file names, and to no others."""
    for (statement,) in await session.fetch("grant_function", function.name, function.roles):
        await session.connection.execute(statement)


async def _made(session: Session) -> dict[str, str]:
    rows = await session.fetch("applied_functions")
    return {row["name"]: row["checksum"] for row in rows}


def _changed(made: Mapping[str, str], schema: str) -> list[DatabaseFunction]:
    return [each for each in functions() if made.get(each.name) != each.checksum(schema)]


def _checksum(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
