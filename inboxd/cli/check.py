"""`inboxd check`: is everything right for the daemon to start, and if not, what is to be done?

Promises: every line has a verdict, and a line that is not right says what to do; nothing is
changed. Known limit: it judges this machine's settings and plugins, as the user who runs it.
"""

from collections.abc import AsyncIterator, Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from inboxd.cli.exits import Exit, exit_code
from inboxd.cli.options import Config, Json, load_settings
from inboxd.cli.output import print_json, print_table
from inboxd.errors import DatabaseError, PluginError, SchemaError, SettingsError

if TYPE_CHECKING:
    from inboxd.settings import Settings
    from inboxd.store.session import Session

_OLDEST, _NEWEST = 15, 18
_FEW_DAYS = 3


@dataclass(frozen=True, slots=True)
class Line:
    """One thing that was looked at."""

    subject: str
    verdict: Literal["ok", "warn", "fail"]
    found: str
    remedy: str = ""
    code: int = Exit.OK


def check(
    settings: Annotated[
        bool, typer.Option("--settings", help="List every setting, not only those that were set.")
    ] = False,
    config: Config = None,
    json: Json = False,
) -> None:
    """Check settings, database, schema, privileges, partitions and plugins."""
    import anyio

    from inboxd.settings import describe

    loaded = load_settings(config)
    lines = [*anyio.run(_database, loaded), *_plugins(loaded)]
    listed = [one for one in describe(loaded) if json or settings or one[2] != "default"]
    if json:
        keyed = {key: {"value": value, "source": source} for key, value, source in listed}
        print_json({"settings": keyed, "checks": [asdict(line) for line in lines]})
    else:
        print_table(("setting", "value", "from"), listed)
        print_table(
            ("check", "verdict", "found", "what to do"),
            ([line.subject, line.verdict, line.found, line.remedy] for line in lines),
        )
    raise typer.Exit(max((line.code for line in lines), default=Exit.OK))


async def _database(settings: "Settings") -> list[Line]:
    from inboxd.store.session import open_session

    lines: list[Line] = []
    try:
        async with open_session(settings.database) as session:
            async for line in _look(session, settings):
                lines.append(line)  # noqa: PERF401 - what was found before an error is kept
    except DatabaseError as error:
        lines.append(_failure("database", error))
    except SchemaError as error:
        lines.append(_failure("schema", error))
    return lines


async def _look(session: "Session", settings: "Settings") -> AsyncIterator[Line]:
    """Line by line, as long as one rests on another."""
    from inboxd.store import listing, migrations, schedules

    server = await listing.server(session)
    yield judge_server(server["version"] // 10_000, server["version_text"], server["role"])
    if server["read_only"]:
        yield _fail("database", "read-only: a standby", "name the primary in database.dsn")
    missing = await listing.missing_privileges(session)
    for lacking in missing:
        found = f"{lacking['privilege']} on {lacking['object']} is missing"
        yield _fail("privileges", found, lacking["remedy"])
    if missing:
        return  # what follows cannot be read without them
    await migrations.check(session.connection, session.sql)
    yield Line("schema", "ok", f"{settings.database.schema_name!r} fits this release")
    yield Line("privileges", "ok", f"role {server['role']!r} has what the daemon needs")
    yield _partitions(await listing.partition_days(session))
    for row in await schedules.listed(session):
        if row["undeclared_at"] is not None:
            yield Line(
                "schedules",
                "warn",
                f"{row['name']!r} ({row['source']}) is not sent: no living worker declares it",
                "start a worker with its plugin or settings; if it is meant to be gone, nothing",
            )
    for name in await listing.silenced(session):
        yield Line(
            "wake-ups",
            "warn",
            f"{name} inserts without a wake-up (inboxd.notify = off)",
            f"nothing, if that is meant: its rows wait for worker.poll_interval "
            f"({settings.worker.poll_interval})",
        )


def judge_server(major: int, version: str, role: str) -> Line:
    """Whether inboxd works with this version of PostgreSQL."""
    found = f"PostgreSQL {version}, as role {role!r}"
    if _OLDEST <= major <= _NEWEST:
        return Line("database", "ok", found)
    if major > _NEWEST:
        return Line("database", "warn", found, f"tested with {_OLDEST} to {_NEWEST}")
    return _fail("database", found, f"upgrade PostgreSQL: inboxd needs {_OLDEST} or newer")


def _partitions(days: int) -> Line:
    found = f"partitions for {days} days ahead" if days >= 0 else "no partition for today"
    if days >= _FEW_DAYS:
        return Line("partitions", "ok", found)
    remedy = "start a worker: it makes them; if one runs, its log says what keeps it from that"
    if days >= 0:
        return Line("partitions", "warn", found, remedy)
    return _fail("partitions", found, remedy)


def _plugins(settings: "Settings") -> Iterator[Line]:
    from inboxd.runtime.plugins import load_registry
    from inboxd.runtime.scheduling import scheduled

    try:
        registry = load_registry(settings)
    except (PluginError, SettingsError) as error:
        yield _fail("plugins", str(error), "correct what it names, or uninstall the plugin")
        return
    events, commands = len(registry.events), len(registry.commands)
    found = f"{events} event types, {commands} command types"
    if times := scheduled(registry, settings.schedules):
        found += f", {len(times)} schedules"
    if events or commands:
        yield Line("plugins", "ok", found)
    else:
        yield Line("plugins", "warn", found, "install a plugin into this Python environment")


def _fail(subject: str, found: str, remedy: str) -> Line:
    return Line(subject, "fail", found, remedy, Exit.PROBLEMS)


def _failure(subject: str, error: DatabaseError | SchemaError) -> Line:
    """A line from an error, whose message ends with what to do."""
    found, _, remedy = str(error).rpartition("; ")
    code = Exit.PROBLEMS if isinstance(error, SchemaError) else exit_code(error)
    return Line(subject, "fail", found or remedy, remedy if found else "", code)
