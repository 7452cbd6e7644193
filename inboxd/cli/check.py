"""`inboxd check`: is everything right for the daemon to start, and if not, what is to be done?

Promises: every line has a verdict, and a remedy when it is not right, and only then; nothing
is changed. Known limit: it judges this machine's settings and plugins, as the user who runs it.
"""

from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from inboxd.cli import columns
from inboxd.cli.exits import Exit, exit_code
from inboxd.cli.findings import FindingLine, print_findings
from inboxd.cli.options import Looking
from inboxd.cli.output import TableColumn, print_json
from inboxd.errors import DatabaseError, PluginError, SchemaError, SettingsError
from inboxd.model.wording import plural

if TYPE_CHECKING:
    from inboxd.operations import doctor
    from inboxd.operations.doctor.look import Check
    from inboxd.registry.registry import Registry
    from inboxd.settings import Settings
    from inboxd.store.connections import Row
    from inboxd.store.listing import Whose
    from inboxd.store.names import Names
    from inboxd.store.session import Session


_VERDICTS: dict[str, Literal["ok", "warn", "fail"]] = {
    "ok": "ok",
    "notice": "warn",
    "warning": "warn",
    "critical": "fail",
}


_SETTINGS = (
    TableColumn("setting", lambda each: each[0]),
    TableColumn("value", lambda each: each[1], cut="right"),
    TableColumn("from", lambda each: each[2], cut="left"),
)
_A = {"operator": "an operator", "viewer": "a viewer"}
# So many missing privileges are listed, where no role has them either.
_FEW = 10
_CORRECT = "correct what it names, in the settings"
_IF_MEANT = "correct it; if a producer or a plugin to come will name it so, nothing"


@dataclass(frozen=True, slots=True)
class CheckLine:
    """One thing that was looked at."""

    subject: str
    verdict: Literal["ok", "warn", "fail"]
    found: str
    remedy: str = ""
    code: int = Exit.OK


def check(
    everything: Annotated[
        bool,
        typer.Option("--all", help="List every setting, also where it is the default."),
    ] = False,
    grants: Annotated[
        bool, typer.Option("--grants", help="List each missing privilege by itself.")
    ] = False,
    whose: Annotated[
        Literal["worker", "operator", "viewer"],
        typer.Option("--as", help="Whose privileges this login should have."),
    ] = "worker",
    *,
    given: Looking,
) -> None:
    """Check settings, database, schema, privileges, partitions, plugins and brokers."""
    import anyio

    from inboxd.cli.dev_place import surroundings
    from inboxd.settings import read

    reading = read(given.config, surroundings(given.config))
    wrong = [_fail("settings", each, _CORRECT, Exit.CONFIG) for each in reading.problems]
    lines, declared = anyio.run(_database, reading.settings, whose, grants)
    lines += _protection(reading.settings)
    lines += _plugins(reading.settings, declared)
    lines += _webhooks(reading.settings)
    lines += _messages(reading.settings)
    lines += anyio.run(_brokers, reading.settings)
    listed = _settings(reading.settings, everything=everything or given.json)
    if given.json:
        keyed = {key: {"value": value, "source": source} for key, value, source in listed}
        print_json({"settings": keyed, "checks": [asdict(line) for line in (*wrong, *lines)]})
    else:
        if listed:
            given.print({}, [columns.table(_SETTINGS, listed), ""])
        print_findings(
            FindingLine("Checks", line.subject, line.verdict, line.found, line.remedy)
            for line in (*wrong, *lines)
        )
    if wrong:
        raise SettingsError("\n".join(reading.problems))
    raise typer.Exit(max((line.code for line in lines), default=Exit.OK))


def _settings(loaded: "Settings", *, everything: bool) -> list[tuple[str, str, str]]:
    """Key, value and source of those that are not as they are by default; or of all."""
    from inboxd.settings import Settings, describe

    usual = {} if everything else {key: value for key, value, _ in describe(Settings())}
    return [
        (key, value, source)
        for key, value, source in describe(loaded)
        if everything or (source != "default" and usual.get(key) != value)
    ]


async def _database(
    settings: "Settings", whose: "Whose", grants: bool
) -> "tuple[list[CheckLine], Names]":
    """Its lines, and the names that are declared there."""
    from inboxd.cli.dev_place import require
    from inboxd.store import names
    from inboxd.store.session import open_session

    lines: list[CheckLine] = []
    declared: names.Names = {}
    if not settings.knows("database"):
        return [_not_looked_at("database", "[database]")], declared
    try:
        require(settings)
        async with open_session(settings.database) as session:
            async for line in _look(session, settings, whose, grants=grants):
                lines.append(line)  # noqa: PERF401 - what was found before an error is kept
            declared = await names.declared(session.connection, session.sql) or {}
    except DatabaseError as error:
        lines.append(_failure("database", error))
    except SchemaError as error:
        lines.append(_failure("schema", error))
    return lines, declared


async def _look(
    session: "Session", settings: "Settings", whose: "Whose", *, grants: bool
) -> AsyncIterator[CheckLine]:
    """Line by line, as long as one rests on another."""
    from inboxd.operations.doctor import moved
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
    blind = False
    async for line in _troubles(session, settings, moved.row_secured):
        yield line
        blind = blind or line.verdict == "fail"
    if blind:
        return  # nothing that tables say can be believed
    missing = await listing.missing_privileges(session, whose=whose)
    if missing and whose == "worker" and (told := await _instead(session, settings, missing)):
        await migrations.check(session.connection, session.sql)
        yield CheckLine("schema", "ok", f"{settings.database.schema_name!r} fits this release")
        found = f"role {server['role']!r} has what {told[0]} needs, and not what a worker does"
        yield CheckLine("privileges", "warn", found, f"nothing, if only {told[1]} log in with it")
        return
    if missing:
        for line in await _privileges(session, server["role"], missing, whose, grants=grants):
            yield line
        return  # what follows cannot be read without them
    connection, sql = session.connection, session.sql
    await migrations.check(connection, sql)
    yield CheckLine("schema", "ok", f"{settings.database.schema_name!r} fits this release")
    async for line in _plugin_migrations(session, settings):
        yield line
    needs = "the daemon needs" if whose == "worker" else f"{_A[whose]} needs"
    yield CheckLine("privileges", "ok", f"role {server['role']!r} has what {needs}")
    ahead = await partitions.days_ahead(connection, sql)
    yield _line(judge_partitions(ahead, await partitions.apart(connection, sql)))
    yield await _retention(session, settings)
    looks = (moved.identities, moved.sequences, moved.rights, undeclared_schedules, silenced)
    async for line in _troubles(session, settings, *looks):
        yield line


async def _troubles(
    session: "Session", settings: "Settings", *looks: "Check"
) -> AsyncIterator[CheckLine]:
    """A line for each thing that is not as it should be, of these of the doctor's looks."""
    from inboxd.operations.doctor import Verdict, only

    for look in looks:
        for finding in await only(look, session, settings):
            if finding.verdict is not Verdict.OK:
                yield _line(finding)


async def _instead(
    session: "Session", settings: "Settings", missing: "Sequence[Row]"
) -> tuple[str, str] | None:
    """What the login is good for that is no worker's: who needs no more, and who logs in so."""
    from inboxd.store import listing

    if _only_receives(settings) and not await listing.missing_privileges(session, whose="receiver"):
        return "`inboxd receive`", "receivers"
    # Who may enter a worker's row is to be one, and is told what it lacks, however little that is.
    entering = ("INSERT", f"table {session.sql.schema}.workers")
    if entering not in {(row["privilege"], row["object"]) for row in missing}:
        return None
    for whose in ("operator", "viewer"):
        if not await listing.missing_privileges(session, whose=whose):
            return _A[whose], "people"
    return None


def _only_receives(settings: "Settings") -> bool:
    """Whether these may be the settings of a receiver alone."""
    return bool(settings.inbound.webhooks) and not settings.inbound.http.enabled


async def _plugin_migrations(session: "Session", settings: "Settings") -> AsyncIterator[CheckLine]:
    """A line if plugins ship migrations, or some ran."""
    from inboxd.operations.doctor import Verdict, only
    from inboxd.operations.doctor.schema import plugin_migrations

    if not settings.knows("worker", "plugins"):
        return  # said with the plugins
    for finding in await only(plugin_migrations, session, settings):
        if finding.verdict is not Verdict.OK or finding.figure:
            yield _line(finding)


async def _privileges(
    session: "Session", role: str, missing: "Sequence[Row]", whose: "Whose", *, grants: bool
) -> list[CheckLine]:
    """One line where one remedy is enough; else, or where they are asked for, each by itself."""
    if not grants and (line := await _at_once(session, role, missing, whose)):
        return [line]
    return [
        _fail("privileges", f"{row['privilege']} on {row['object']} is missing", row["remedy"])
        for row in missing
    ]


async def _at_once(
    session: "Session", role: str, missing: "Sequence[Row]", whose: "Whose"
) -> CheckLine | None:
    """What gives this role all that it lacks: that of inboxd's roles which has it."""
    from inboxd.store import listing

    theirs = f"{session.sql.schema}_{whose}"
    found = f"the role {role!r} lacks {len(missing)} (--grants lists them)"
    grant = f"GRANT {theirs} TO {_quoted(role)};"
    there = theirs not in await listing.missing_roles(session)
    if there and not await listing.missing_privileges(session, theirs, whose):
        if remedy := await listing.not_inherited(session, whose):
            found += f": it is a member of {theirs!r}, and inherits none of its rights"
            return _fail("privileges", found, remedy)
        reaches = await listing.role_to_grant(session, whose)
        return _fail("privileges", found, grant) if reaches else None
    if len(missing) <= _FEW:
        return None
    found += f"; the role {theirs!r} {'lacks some too' if there else 'is not there'}"
    remedy = f"as the schema's owner, run: inboxd migrate --grants; then {grant}"
    return _fail("privileges", found, remedy)


def _quoted(name: str) -> str:
    """As SQL wants a role's name."""
    plain = name.isidentifier() and name.isascii() and name == name.lower()
    return name if plain else '"' + name.replace('"', '""') + '"'


def _line(finding: "doctor.Finding", subject: str | None = None) -> CheckLine:
    """A finding of `inboxd doctor` as a line."""
    verdict = _VERDICTS[finding.verdict]
    code = Exit.PROBLEMS if verdict == "fail" else Exit.OK
    remedy = "" if verdict == "ok" else finding.remedy
    return CheckLine(subject or finding.subject, verdict, finding.found, remedy, code)


async def _retention(session: "Session", settings: "Settings") -> CheckLine:
    """How long history is kept, and how it goes."""
    from inboxd.maintenance.partitions.retention import by_default
    from inboxd.store import partitions
    from inboxd.store.retention import kept

    keep = kept(settings)
    if set(keep.values()) == {None}:
        return CheckLine("retention", "ok", "history is kept for ever, as set")
    days = (f"{table} {'for ever' if age is None else age.days}" for table, age in keep.items())
    found = f"days kept: {', '.join(days)}"
    listed = await partitions.listed(session.connection, session.sql, sizes=True)
    if going := by_default(listed, settings):
        since, names = min(each.low for each in going), sorted({each.parent for each in going})
        return CheckLine(
            "retention",
            "warn",
            f"{found}; nobody set that, and what is older is dropped as soon as a worker leads: "
            f"{' and '.join(names)}, from {since:%Y-%m-%d} on",
            'set history.events and history.commands to what is to stay ("forever": all of it) '
            "before a worker starts",
        )
    if all(each.owned for each in listed):
        return CheckLine("retention", "ok", f"{found}; detached concurrently")
    # No fault: the role of the schema's owner would detach concurrently (docs/growth.md).
    return CheckLine("retention", "ok", f"{found}; detached in moments without readers")


def _plugins(settings: "Settings", declared: "Names") -> Iterator[CheckLine]:
    from inboxd.registry.plugins import judged, load_plugins
    from inboxd.registry.unknown_names import doubts

    if not settings.knows("worker", "plugins"):
        yield _not_looked_at("plugins", "worker.plugins")
        return
    try:
        registry, wrong = judged(load_plugins(settings.worker.plugins), settings)
    except PluginError as error:
        yield _fail("plugins", str(error), "correct what it names, or uninstall the plugin")
        return
    for problem in wrong:
        yield _fail("settings", problem, _CORRECT)
    if not wrong:
        yield _installed(registry)
    for each in doubts(settings, registry, declared):
        yield CheckLine("settings", "warn", f"{each.setting}: {each.found}", _IF_MEANT)


def _protection(settings: "Settings") -> Iterator[CheckLine]:
    """Its lines, if somebody else may read or be what they must not."""
    from inboxd.cli.check_protection import judge

    yield from map(_line, judge(settings))


def _webhooks(settings: "Settings") -> Iterator[CheckLine]:
    """Its lines, if there are sources."""
    from inboxd.cli.check_webhooks import judge

    if settings.inbound.webhooks:
        yield from map(_line, judge(settings))


def _messages(settings: "Settings") -> Iterator[CheckLine]:
    """Its lines, if there are sources of messages."""
    if settings.inbound.messages:
        from inboxd.cli.check_messages import judge

        yield from map(_line, judge(settings))


async def _brokers(settings: "Settings") -> list[CheckLine]:
    """Its lines, if there are brokers."""
    if not settings.brokers:
        return []
    from inboxd.cli.check_brokers import judge

    return [_line(finding) for finding in await judge(settings)]


def _installed(registry: "Registry") -> CheckLine:
    events, commands = len(registry.events), len(registry.commands)
    found = f"{plural(events, 'event type')}, {plural(commands, 'command type')}"
    if registry.to_send:
        found += f", {plural(len(registry.to_send), 'schedule')}"
    if events or commands:
        return CheckLine("plugins", "ok", found)
    return CheckLine("plugins", "warn", found, "install a plugin into this Python environment")


def _not_looked_at(subject: str, setting: str) -> CheckLine:
    return CheckLine(subject, "warn", f"not looked at: there is a mistake in {setting}", _CORRECT)


def _fail(subject: str, found: str, remedy: str, code: int = Exit.PROBLEMS) -> CheckLine:
    return CheckLine(subject, "fail", found, remedy, code)


def _failure(subject: str, error: DatabaseError | SchemaError) -> CheckLine:
    """A line from an error, whose message ends with what to do."""
    found, _, remedy = str(error).rpartition("; ")
    code = Exit.PROBLEMS if isinstance(error, SchemaError) else exit_code(error)
    return CheckLine(subject, "fail", found or remedy, remedy if found else "", code)
