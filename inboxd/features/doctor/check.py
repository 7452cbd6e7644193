"""`inboxd check`: whether the daemon can start with these settings, and how to correct mistakes.

Nothing is changed. Known limit: it checks this machine, with the rights of its user.
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
    from pathlib import Path

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
_PERSONS = {"operator": "an operator", "viewer": "a viewer"}
# If inboxd's own role lacks privileges too, at most this many are listed one by one.
_MOST_LISTED = 10
_CORRECT = "correct this in the settings"
_IF_MEANT = "correct the name; if a later producer or plugin will use it, do nothing"


@dataclass(frozen=True, slots=True)
class CheckLine:
    subject: str
    verdict: Literal["ok", "warn", "fail"]
    found: str
    remedy: str = ""
    code: int = Exit.OK


def check(
    everything: Annotated[
        bool,
        typer.Option("--all", help="List every setting, including default values."),
    ] = False,
    grants: Annotated[
        bool, typer.Option("--grants", help="List each missing privilege on its own line.")
    ] = False,
    whose: Annotated[
        Literal["worker", "operator", "viewer"],
        typer.Option("--as", help="The role whose privileges this login must have."),
    ] = "worker",
    *,
    given: Looking,
) -> None:
    """Check settings, database, schema, privileges, partitions, plugins and brokers.

    All mistakes are reported at once, each with its remedy, such as a GRANT statement for a missing
    privilege. The exit code is 1 if a check failed, and 78 if the settings are wrong. The command
    connects to brokers, but publishes and consumes nothing.
    """
    import anyio

    from inboxd.cli.dev_place import surroundings
    from inboxd.settings import read

    reading = read(given.config, surroundings(given.config))
    wrong = [_fail("settings", each, _CORRECT, Exit.CONFIG) for each in reading.problems]
    lines, declared = anyio.run(_database, reading.settings, given.config, whose, grants)
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
    from inboxd.settings import Settings, describe

    usual = {} if everything else {key: value for key, value, _ in describe(Settings())}
    return [
        (key, value, source)
        for key, value, source in describe(loaded)
        if everything or (source != "default" and usual.get(key) != value)
    ]


async def _database(
    settings: "Settings", config: "Path | None", whose: "Whose", grants: bool
) -> "tuple[list[CheckLine], Names]":
    from inboxd.cli.dev_place import require
    from inboxd.store import names
    from inboxd.store.operator_sessions import open_session

    lines: list[CheckLine] = []
    declared: names.Names = {}
    if not settings.knows("database"):
        return [_not_looked_at("database", "[database]")], declared
    try:
        require(settings, config)
        async with open_session(settings.database) as session:
            async for line in _look(session, settings, whose, grants=grants):
                lines.append(line)  # noqa: PERF401 - keeps the lines before an error
            declared = await names.declared(session) or {}
    except DatabaseError as error:
        lines.append(_failure("database", error))
    except SchemaError as error:
        lines.append(_failure("schema", error))
    return lines, declared


async def _look(
    session: "Session", settings: "Settings", whose: "Whose", *, grants: bool
) -> AsyncIterator[CheckLine]:
    """Yield lines in the order in which the checks depend on each other."""
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
        return  # row security hides rows, so later checks would be wrong
    missing = await listing.missing_privileges(session, whose=whose)
    if missing and whose == "worker" and (told := await _other_use(session, settings, missing)):
        await migrations.check(session)
        yield CheckLine("schema", "ok", f"{settings.database.schema_name!r} fits this release")
        found = f"role {server['role']!r} has the privileges of {told[0]}, not of a worker"
        yield CheckLine(
            "privileges", "warn", found, f"if only {told[1]} log in with it, do nothing"
        )
        return
    if missing:
        for line in await _privileges(session, server["role"], missing, whose, grants=grants):
            yield line
        return  # the later checks need these privileges
    await migrations.check(session)
    yield CheckLine("schema", "ok", f"{settings.database.schema_name!r} fits this release")
    async for line in _plugin_migrations(session, settings):
        yield line
    needs = "the daemon needs" if whose == "worker" else f"{_PERSONS[whose]} needs"
    yield CheckLine("privileges", "ok", f"role {server['role']!r} has all privileges that {needs}")
    ahead = await partitions.days_ahead(session)
    yield _line(judge_partitions(ahead, await partitions.apart(session)))
    yield await _retention(session, settings)
    looks = (
        *(moved.identities, moved.sequences, moved.rights, moved.search_path),
        *(undeclared_schedules, silenced),
    )
    async for line in _troubles(session, settings, *looks):
        yield line


async def _troubles(
    session: "Session", settings: "Settings", *looks: "Check"
) -> AsyncIterator[CheckLine]:
    """Yield a line for each finding of these checks of the doctor that is not ok."""
    from inboxd.operations.doctor import Verdict, only

    for look in looks:
        for finding in await only(look, session, settings):
            if finding.verdict is not Verdict.OK:
                yield _line(finding)


async def _other_use(
    session: "Session", settings: "Settings", missing: "Sequence[Row]"
) -> tuple[str, str] | None:
    """Return another use that the login has enough privileges for, and who logs in for it."""
    from inboxd.store import listing

    if _only_receives(settings) and not await listing.missing_privileges(session, whose="receiver"):
        return "`inboxd receive`", "receivers"
    # A login that may insert a worker's row is meant for workers: report its missing rights.
    entering = ("INSERT", f"table {session.sql.schema}.workers")
    if entering not in {(row["privilege"], row["object"]) for row in missing}:
        return None
    for whose in ("operator", "viewer"):
        if not await listing.missing_privileges(session, whose=whose):
            return _PERSONS[whose], "people"
    return None


def _only_receives(settings: "Settings") -> bool:
    return bool(settings.inbound.webhooks) and not settings.inbound.http.enabled


async def _plugin_migrations(session: "Session", settings: "Settings") -> AsyncIterator[CheckLine]:
    from inboxd.operations.doctor import Verdict, only
    from inboxd.operations.doctor.schema import plugin_migrations

    if not settings.knows("worker", "plugins"):
        return  # `_plugins` reports the mistake
    for finding in await only(plugin_migrations, session, settings):
        if finding.verdict is not Verdict.OK or finding.figure:
            yield _line(finding)


async def _privileges(
    session: "Session", role: str, missing: "Sequence[Row]", whose: "Whose", *, grants: bool
) -> list[CheckLine]:
    """Return one line if one remedy grants all; else, or with --grants, a line per privilege."""
    if not grants and (line := await _single_remedy(session, role, missing, whose)):
        return [line]
    return [
        _fail("privileges", f"{row['privilege']} on {row['object']} is missing", row["remedy"])
        for row in missing
    ]


async def _single_remedy(
    session: "Session", role: str, missing: "Sequence[Row]", whose: "Whose"
) -> CheckLine | None:
    from inboxd.store import listing

    theirs = f"{session.sql.schema}_{whose}"
    found = f"the role {role!r} lacks {plural(len(missing), 'privilege')} (--grants lists them)"
    grant = f"GRANT {theirs} TO {_quoted(role)};"
    there = theirs not in await listing.missing_roles(session)
    if there and not await listing.missing_privileges(session, theirs, whose):
        if remedy := await listing.not_inherited(session, whose):
            found += f": it is a member of {theirs!r}, but does not inherit its privileges"
            return _fail("privileges", found, remedy)
        reaches = await listing.role_to_grant(session, whose)
        return _fail("privileges", found, grant) if reaches else None
    if len(missing) <= _MOST_LISTED:
        return None
    found += f"; the role {theirs!r} {'also lacks some' if there else 'does not exist'}"
    remedy = f"as the schema's owner, run: inboxd migrate --grants; then {grant}"
    return _fail("privileges", found, remedy)


def _quoted(name: str) -> str:
    plain = name.isidentifier() and name.isascii() and name == name.lower()
    return name if plain else '"' + name.replace('"', '""') + '"'


def _line(finding: "doctor.Finding", subject: str | None = None) -> CheckLine:
    verdict = _VERDICTS[finding.verdict]
    code = Exit.PROBLEMS if verdict == "fail" else Exit.OK
    remedy = "" if verdict == "ok" else finding.remedy
    return CheckLine(subject or finding.subject, verdict, finding.found, remedy, code)


async def _retention(session: "Session", settings: "Settings") -> CheckLine:
    from inboxd.maintenance.partitions.retention import by_default
    from inboxd.store import partitions
    from inboxd.store.retention import kept

    keep = kept(settings)
    if set(keep.values()) == {None}:
        return CheckLine("retention", "ok", "history is kept for ever, as set")
    days = (f"{table} {'for ever' if age is None else age.days}" for table, age in keep.items())
    found = f"days kept: {', '.join(days)}"
    listed = await partitions.listed(session, sizes=True)
    if going := by_default(listed, settings):
        since, names = min(each.low for each in going), sorted({each.parent for each in going})
        return CheckLine(
            "retention",
            "warn",
            f"{found}, by default; as soon as a worker leads, it drops older partitions of "
            f"{' and '.join(names)}, from {since:%Y-%m-%d} on",
            'before a worker starts, set history.events and history.commands ("forever" keeps all)',
        )
    if all(each.owned for each in listed):
        return CheckLine("retention", "ok", f"{found}; detached concurrently")
    # Not a fault: only the schema's owner may detach concurrently (docs/growth.md).
    return CheckLine("retention", "ok", f"{found}; detached while nothing reads them")


def _plugins(settings: "Settings", declared: "Names") -> Iterator[CheckLine]:
    from inboxd.registry.plugins import judged, load_plugins
    from inboxd.registry.unknown_names import doubts

    if not settings.knows("worker", "plugins"):
        yield _not_looked_at("plugins", "worker.plugins")
        return
    try:
        registry, wrong = judged(load_plugins(settings.worker.plugins), settings)
    except PluginError as error:
        yield _fail("plugins", str(error), "correct the plugin, or uninstall it")
        return
    for problem in wrong:
        yield _fail("settings", problem, _CORRECT)
    if not wrong:
        yield _installed(registry)
    for each in doubts(settings, registry, declared):
        yield CheckLine("settings", "warn", f"{each.setting}: {each.found}", _IF_MEANT)


def _protection(settings: "Settings") -> Iterator[CheckLine]:
    from inboxd.features.doctor.check_protection import judge

    yield from map(_line, judge(settings))


def _webhooks(settings: "Settings") -> Iterator[CheckLine]:
    from inboxd.features.doctor.check_webhooks import judge

    if settings.inbound.webhooks:
        yield from map(_line, judge(settings))


def _messages(settings: "Settings") -> Iterator[CheckLine]:
    if settings.inbound.messages:
        from inboxd.features.doctor.check_messages import judge

        yield from map(_line, judge(settings))


async def _brokers(settings: "Settings") -> list[CheckLine]:
    if not settings.brokers:
        return []
    from inboxd.features.doctor.check_brokers import judge

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
    return CheckLine(subject, "warn", f"not checked: there is a mistake in {setting}", _CORRECT)


def _fail(subject: str, found: str, remedy: str, code: int = Exit.PROBLEMS) -> CheckLine:
    return CheckLine(subject, "fail", found, remedy, code)


def _failure(subject: str, error: DatabaseError | SchemaError) -> CheckLine:
    """Make a line of an error: its message ends with "; " and the remedy."""
    found, _, remedy = str(error).rpartition("; ")
    code = Exit.PROBLEMS if isinstance(error, SchemaError) else exit_code(error)
    return CheckLine(subject, "fail", found or remedy, remedy if found else "", code)
