"""The migrations of plugins: which ran, which are pending, and one run of all of them.

The rules are those of inboxd's own numbered files (`migrations`), which run before, under the same
lock. Differences: files have no placeholders, and a plugin that is older than what ran is assumed
to work with it, so authors change tables in two steps (expand, then contract). A file and its
record are one transaction, in a session of its own, so that settings end with the file. It runs
inside a block of PL/pgSQL, where the server refuses COMMIT. A file with `-- transaction: none` is a
single statement, recorded afterwards: if the run ends between the two, it runs once more.

Promises that a failing file changes nothing, unless it has no transaction.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import asyncpg

from inboxd.errors import DatabaseError, SchemaError
from inboxd.model.masking import redact
from inboxd.settings import Database
from inboxd.store import migrations, plugin_folders
from inboxd.store.connections import LOST, VOID, is_passing, whereabouts
from inboxd.store.migrations import MigrationPlan
from inboxd.store.plugin_folders import MigrationFolder, PluginMigration
from inboxd.store.session import Session, connect


@dataclass(frozen=True, slots=True)
class PluginRecord:
    """A file that ran, as `plugin_migrations` records it. distribution: its origin."""

    version: int
    name: str
    checksum: str
    distribution: str
    applied_at: datetime

    @property
    def label(self) -> str:
        return f"{self.version:04d}_{self.name}"


@dataclass(frozen=True, slots=True)
class PluginState:
    """folder: None if it is not installed. where: the database of the records."""

    plugin: str
    folder: MigrationFolder | None
    ran: Sequence[PluginRecord] = ()
    where: str = "no database"

    @property
    def version(self) -> int:
        return max((each.version for each in self.ran), default=0)

    @property
    def newest(self) -> int:
        return max((each.version for each in self._shipped), default=0)

    @property
    def pending(self) -> list[PluginMigration]:
        return [each for each in self._shipped if each.version > self.version]

    @property
    def changed(self) -> list[PluginRecord]:
        """The records whose checksums differ from the installed files'."""
        mine = {each.version: each.checksum for each in self._shipped}
        return [each for each in self.ran if mine.get(each.version, each.checksum) != each.checksum]

    @property
    def why_absent(self) -> str:
        left_out = self.plugin in plugin_folders.names()
        return "worker.plugins leaves it out" if left_out else "it is not installed here"

    @property
    def _shipped(self) -> Sequence[PluginMigration]:
        return self.folder.migrations if self.folder else ()


@dataclass(frozen=True, slots=True)
class FullPlan:
    own: MigrationPlan
    plugins: Sequence[tuple[MigrationFolder, PluginMigration]] = ()

    def __bool__(self) -> bool:
        return bool(self.own or self.plugins)


async def migrate(
    database: Database, plugins: Collection[str] = (), to: int | None = None
) -> FullPlan:
    """Bring a database up to date: inboxd's schema, then the tables of the installed plugins.

    plugins: empty for all. to: only inboxd's own migrations, up to this number. Raises
    DatabaseError, SchemaError or PluginError; finished migrations stay.
    """
    folders = plugin_folders.shipped_by(plugins) if to is None else []
    async with migrations.only_migrator(database) as session:
        own = await migrations.run(session, to)
        plan = planned(own, await states(session, folders))
        for folder, file in plan.plugins:
            await _run(database, session, folder, file)
        return plan


async def states(session: Session, folders: Sequence[MigrationFolder]) -> list[PluginState]:
    """The state of each plugin that has a folder or records, by name."""
    ran = await _recorded(session)
    where = whereabouts(session.connection)
    here = {each.plugin: each for each in folders}
    return [
        PluginState(plugin, here.get(plugin), ran.get(plugin, ()), where)
        for plugin in sorted({*here, *ran})
    ]


def planned(own: MigrationPlan, found: Sequence[PluginState]) -> FullPlan:
    """The plan that remains. Raises SchemaError if a plugin's file changed after it ran."""
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
                "restore the file and put the change into a new one, or recreate the database"
            )


def fits(found: Sequence[PluginState]) -> None:
    """Raise SchemaError, with the command to run, if a file is pending or has changed."""
    _refuse_changed(found)
    for each in found:
        if due := [file.label for file in each.pending]:
            raise SchemaError(
                f"{each.where}: plugin {each.plugin!r}: migrations that have not run: "
                f"{', '.join(due)}; "
                "run: inboxd migrate"
            )


async def check(session: Session, folders: Sequence[MigrationFolder]) -> None:
    if folders:
        fits(await states(session, folders))


def summary(found: Sequence[PluginState]) -> str:
    parts = []
    for each in found:
        absent = "" if each.folder else f" ({each.why_absent})"
        parts.append(f"{each.plugin} at version {each.version}{absent}")
    return ", ".join(parts)


async def _recorded(session: Session) -> Mapping[str, list[PluginRecord]]:
    """The records by plugin; none if inboxd's own schema is older than the table."""
    found: dict[str, list[PluginRecord]] = {}
    if await session.fetchval("has_plugin_migrations"):
        for row in await session.fetch("applied_plugin_migrations"):
            plugin, *record = row.values()
            found.setdefault(plugin, []).append(PluginRecord(*record))
    return found


async def _run(
    database: Database,
    recorder: Session,
    folder: MigrationFolder,
    file: PluginMigration,
) -> None:
    """Run and record a plugin's file; recorder: the session that holds the migrators' lock."""
    record = (folder.plugin, file.version, file.name, file.checksum, folder.distribution)
    limits = {"statement_timeout": "0"}
    if not file.in_transaction:
        # A statement outside a transaction (CONCURRENTLY) waits for old ones, and blocks no other.
        limits["lock_timeout"] = "0"
    own = await connect(database, "migrate", plans=limits)
    try:
        if file.in_transaction:
            async with own.transaction():
                # Before the file, since the file may change the role.
                await own.execute("record_plugin_migration", *record)
                await own.execute("hand_over_migration", file.text)
                await own.execute("run_migration")
        else:
            await own.connection.execute(file.text)
            await recorder.execute("record_plugin_migration", *record)
    except (asyncpg.PostgresError, *LOST) as error:
        raise _failed(folder.plugin, file, error) from error
    finally:
        await own.connection.close()


def _failed(
    plugin: str, file: PluginMigration, error: BaseException
) -> DatabaseError | SchemaError:
    said = redact(str(error.args[0]) if error.args else "") or type(error).__name__
    text = f"plugin {plugin!r}: migration {file.label} failed{_where(error, file.text)}: {said}"
    stays = "nothing of it stays"
    if not file.in_transaction:
        stays = (
            "it ran without a transaction, so a part may stay, such as an invalid index: remove it"
        )
    match error:
        case _ if is_passing(error) and not isinstance(error, VOID):
            return DatabaseError(f"{text}; {stays}; run again: inboxd migrate")
        case asyncpg.InsufficientPrivilegeError():
            remedy = "run as a role that may do it: inboxd migrate"
        case asyncpg.ActiveSQLTransactionError():
            remedy = (
                "put this statement alone into a file with the line «-- transaction: none», and "
                "run: inboxd migrate"
            )
        case asyncpg.FeatureNotSupportedError() if file.in_transaction:
            remedy = (
                "remove BEGIN, COMMIT and COPY from a client, since a file is one transaction, "
                "use CREATE TABLE … AS instead of SELECT … INTO, and run: inboxd migrate"
            )
        case _:
            remedy = "correct the file, and run: inboxd migrate"
    return SchemaError(f"{text}; {stays}; {remedy}")


def _where(error: BaseException, text: str) -> str:
    """The line and column of the error, if the server gives a position in this text."""
    position = getattr(error, "position", None)
    if position is None and getattr(error, "internal_query", None) == text:
        position = getattr(error, "internal_position", None)
    if position is None:
        return ""
    before = text[: int(position) - 1]
    column = len(before) - (before.rfind("\n") + 1) + 1
    return f" at line {before.count(chr(10)) + 1}, column {column}"
