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
    from inboxd.operations.doctor import Finding
    from inboxd.settings import Settings
    from inboxd.store.session import Session


_VERDICTS: dict[str, Literal["ok", "warn", "fail"]] = {
    "ok": "ok",
    "notice": "warn",
    "warning": "warn",
    "critical": "fail",
}


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
    from inboxd.operations.doctor import Verdict, only
    from inboxd.operations.doctor.fleet import silenced
    from inboxd.operations.doctor.schema import judge_partitions
    from inboxd.operations.doctor.server import judge_version
    from inboxd.operations.doctor.work import undeclared_schedules
    from inboxd.store import listing, migrations, partitions

    server = await listing.server(session)
    major = server["version"] // 10_000
    yield _line(judge_version(major, server["version_text"], server["role"]), "database")
    if server["read_only"]:
        yield _fail("database", "read-only: a standby", "name the primary in database.dsn")
    missing = await listing.missing_privileges(session)
    for lacking in missing:
        found = f"{lacking['privilege']} on {lacking['object']} is missing"
        yield _fail("privileges", found, lacking["remedy"])
    if missing:
        return  # what follows cannot be read without them
    connection, sql = session.connection, session.sql
    await migrations.check(connection, sql)
    yield Line("schema", "ok", f"{settings.database.schema_name!r} fits this release")
    yield Line("privileges", "ok", f"role {server['role']!r} has what the daemon needs")
    ahead = await partitions.days_ahead(connection, sql)
    yield _line(judge_partitions(ahead, await partitions.apart(connection, sql)))
    yield await _retention(session, settings)
    for look in (undeclared_schedules, silenced):
        for finding in await only(look, session, settings):
            if finding.verdict is not Verdict.OK:
                yield _line(finding)


def _line(finding: "Finding", subject: str | None = None) -> Line:
    """What `inboxd doctor` says too."""
    verdict = _VERDICTS[finding.verdict]
    code = Exit.PROBLEMS if verdict == "fail" else Exit.OK
    return Line(subject or finding.subject, verdict, finding.found, finding.remedy, code)


async def _retention(session: "Session", settings: "Settings") -> Line:
    """How long history is kept, and how it goes."""
    from inboxd.store import partitions
    from inboxd.upkeep.retention import kept

    keep = kept(settings)
    if set(keep.values()) == {None}:
        remedy = "set history.events and history.commands, unless disks are for ever, too"
        return Line("retention", "ok", "history is kept for ever", remedy)
    days = (f"{table} {'for ever' if age is None else age.days}" for table, age in keep.items())
    found = f"days kept: {', '.join(days)}"
    if all(each.owned for each in await partitions.listed(session.connection, session.sql)):
        return Line("retention", "ok", f"{found}; detached concurrently")
    remedy = "nothing; or grant the role of the schema's owner, so that it detaches concurrently"
    return Line("retention", "ok", f"{found}; detached in moments without readers", remedy)


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
