"""The migrations of plugins: which ran, which are to run, and one run of all of them.

Owns the table `plugin_migrations`. The rules are those of inboxd's own numbered files
(`migrations`), which run before, under the same lock: forward only, once, a file that was changed
after it ran is refused. Differences: nothing in a file is replaced, and no file says which code can
work with what it leaves; a plugin that is older than what ran is taken to work with it, so its
author changes tables in two steps (expand, then contract).

A file and its record are one transaction, in a session of its own, so that what it sets is gone
before the next one. It runs inside a block of PL/pgSQL, where the server refuses COMMIT: a file
cannot end the transaction half-way. One that says `-- transaction: none` runs by itself, a single
statement, and is recorded afterwards: if the run ends between the two, it runs once more.

Promises that a file that fails leaves nothing, unless it has no transaction, and that the files
before it stay. Known limit: a record is not taken back when a plugin is uninstalled; it is shown.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import asyncpg

from inboxd.errors import DatabaseError, SchemaError
from inboxd.model.masking import redact
from inboxd.settings import Database
from inboxd.store import migrations, plugin_folders
from inboxd.store.connections import LOST, VOID, Connection, connect, is_passing, whereabouts
from inboxd.store.migrations import MigrationPlan
from inboxd.store.plugin_folders import MigrationFolder, PluginMigration
from inboxd.store.statements import Statements


@dataclass(frozen=True, slots=True)
class PluginRecord:
    """What `plugin_migrations` says of a file that ran. distribution: the one that shipped it."""

    version: int
    name: str
    checksum: str
    distribution: str
    applied_at: datetime

    @property
    def label(self) -> str:
        """The file's name, without `.sql`."""
        return f"{self.version:04d}_{self.name}"


@dataclass(frozen=True, slots=True)
class PluginState:
    """A plugin's migrations: what is here, and what ran. folder: None if it is not here.

    where: the database in which it ran, for messages.
    """

    plugin: str
    folder: MigrationFolder | None
    ran: Sequence[PluginRecord] = ()
    where: str = "no database"

    @property
    def version(self) -> int:
        """That of the newest file that ran; 0: none did."""
        return max((each.version for each in self.ran), default=0)

    @property
    def newest(self) -> int:
        """That of the newest file that is here."""
        return max((each.version for each in self._shipped), default=0)

    @property
    def pending(self) -> list[PluginMigration]:
        """What is still to run, in order."""
        return [each for each in self._shipped if each.version > self.version]

    @property
    def changed(self) -> list[PluginRecord]:
        """What ran with other contents than the files here have."""
        mine = {each.version: each.checksum for each in self._shipped}
        return [each for each in self.ran if mine.get(each.version, each.checksum) != each.checksum]

    @property
    def why_absent(self) -> str:
        """Why there is no folder; of a plugin that has none here."""
        left_out = self.plugin in plugin_folders.names()
        return "worker.plugins leaves it out" if left_out else "it is not installed here"

    @property
    def _shipped(self) -> Sequence[PluginMigration]:
        return self.folder.migrations if self.folder else ()


@dataclass(frozen=True, slots=True)
class FullPlan:
    """What is to run, or ran: inboxd's own, and of each plugin."""

    own: MigrationPlan
    plugins: Sequence[tuple[MigrationFolder, PluginMigration]] = ()

    def __bool__(self) -> bool:
        return bool(self.own or self.plugins)


async def migrate(
    database: Database, plugins: Collection[str] = (), to: int | None = None
) -> FullPlan:
    """Bring a database up to date: inboxd's schema, then the tables of the installed plugins.

    plugins: only those of these names, as `worker.plugins` has them; none named: all. to: only
    inboxd's own migrations, up to that number. Returns what ran. Raises DatabaseError, SchemaError
    or PluginError; what ran before stays.
    """
    folders = plugin_folders.shipped_by(plugins) if to is None else []
    async with migrations.only_migrator(database) as (connection, sql):
        own = await migrations.run(connection, sql, to)
        plan = planned(own, await states(connection, sql, folders))
        for folder, file in plan.plugins:
            await _run(database, (connection, sql), folder, file)
        return plan


async def states(
    connection: Connection, sql: Statements, folders: Sequence[MigrationFolder]
) -> list[PluginState]:
    """Each of these plugins, and each that something ran of, by name."""
    ran = await _recorded(connection, sql)
    where = whereabouts(connection)
    here = {each.plugin: each for each in folders}
    return [
        PluginState(plugin, here.get(plugin), ran.get(plugin, ()), where)
        for plugin in sorted({*here, *ran})
    ]


def planned(own: MigrationPlan, found: Sequence[PluginState]) -> FullPlan:
    """What is to run. Raises SchemaError if a plugin's file was changed after it ran."""
    _refuse_changed(found)
    return FullPlan(
        own,
        [(each.folder, file) for each in found if each.folder is not None for file in each.pending],
    )


def _refuse_changed(found: Sequence[PluginState]) -> None:
    for each in found:
        for record in each.changed:
            raise SchemaError(
                f"{each.where}: plugin {each.plugin!r}: migration {record.label} ran with other "
                f"contents (from {record.distribution}) than the installed plugin ships; "
                "restore the file and put the change into a new one, or make the database anew"
            )


def fits(found: Sequence[PluginState]) -> None:
    """Raise SchemaError, naming the command to run, if something has not run or was changed."""
    _refuse_changed(found)
    for each in found:
        if due := [file.label for file in each.pending]:
            raise SchemaError(
                f"{each.where}: plugin {each.plugin!r}: migrations that have not run: "
                f"{', '.join(due)}; "
                "run: inboxd migrate"
            )


async def check(
    connection: Connection, sql: Statements, folders: Sequence[MigrationFolder]
) -> None:
    """Raise SchemaError unless all files of these plugins have run."""
    if folders:
        fits(await states(connection, sql, folders))


def summary(found: Sequence[PluginState]) -> str:
    """At which version each is, in a line."""
    parts = []
    for each in found:
        absent = "" if each.folder else f" ({each.why_absent})"
        parts.append(f"{each.plugin} at version {each.version}{absent}")
    return ", ".join(parts)


async def _recorded(connection: Connection, sql: Statements) -> Mapping[str, list[PluginRecord]]:
    """What ran, by plugin; nothing where inboxd's own schema is older than the table."""
    found: dict[str, list[PluginRecord]] = {}
    if await connection.fetchval(sql["has_plugin_migrations"]):
        for row in await connection.fetch(sql["applied_plugin_migrations"]):
            plugin, *record = row.values()
            found.setdefault(plugin, []).append(PluginRecord(*record))
    return found


async def _run(
    database: Database,
    recorder: tuple[Connection, Statements],
    folder: MigrationFolder,
    file: PluginMigration,
) -> None:
    """Run a file of a plugin and record it; the recorder is the session that holds the lock."""
    connection, sql = recorder
    record = (folder.plugin, file.version, file.name, file.checksum, folder.distribution)
    limits = {"statement_timeout": "0"}
    if not file.in_transaction:
        # What cannot run in a transaction waits for old ones to end, and is in nobody's way.
        limits["lock_timeout"] = "0"
    own = await connect(database, "migrate", plans=limits)
    try:
        if file.in_transaction:
            async with own.transaction():
                # First, since the file may take another role on.
                await own.execute(sql["record_plugin_migration"], *record)
                await own.execute(sql["hand_over_migration"], file.text)
                await own.execute(sql["run_migration"])
        else:
            await own.execute(file.text)
            await connection.execute(sql["record_plugin_migration"], *record)
    except (asyncpg.PostgresError, *LOST) as error:
        raise _failed(folder.plugin, file, error) from error
    finally:
        await own.close()


def _failed(
    plugin: str, file: PluginMigration, error: BaseException
) -> DatabaseError | SchemaError:
    """What failed and where, what became of it, and what to do."""
    said = redact(str(error.args[0]) if error.args else "") or type(error).__name__
    text = f"plugin {plugin!r}: migration {file.label} failed{_where(error, file.text)}: {said}"
    stays = "nothing of it stays"
    if not file.in_transaction:
        stays = (
            "it has no transaction, so a part of it may stay, such as an invalid index: remove that"
        )
    match error:
        case _ if is_passing(error) and not isinstance(error, VOID):
            return DatabaseError(f"{text}; {stays}; run again: inboxd migrate")
        case asyncpg.InsufficientPrivilegeError():
            remedy = "let a role that may do it run: inboxd migrate"
        case asyncpg.ActiveSQLTransactionError():
            remedy = (
                "put this statement alone into a file with the line «-- transaction: none», and "
                "run: inboxd migrate"
            )
        case asyncpg.FeatureNotSupportedError() if file.in_transaction:
            remedy = (
                "leave out BEGIN, COMMIT and COPY from a client, since a file is one transaction, "
                "write CREATE TABLE … AS in place of SELECT … INTO, and run: inboxd migrate"
            )
        case _:
            remedy = "correct the file, and run: inboxd migrate"
    return SchemaError(f"{text}; {stays}; {remedy}")


def _where(error: BaseException, text: str) -> str:
    """At which line, if the server says so of this text."""
    position = getattr(error, "position", None)
    if position is None and getattr(error, "internal_query", None) == text:
        position = getattr(error, "internal_position", None)
    if position is None:
        return ""
    before = text[: int(position) - 1]
    column = len(before) - (before.rfind("\n") + 1) + 1
    return f" at line {before.count(chr(10)) + 1}, column {column}"
