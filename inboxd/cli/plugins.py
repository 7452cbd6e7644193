"""`inboxd plugins`: installed plugins, their migrations, and the workers that have them.

It works without a database. A worker counts as having a plugin if it declares types of it.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from inboxd.cli import columns
from inboxd.cli.completion import plugin_names
from inboxd.cli.groups import CommandGroup
from inboxd.cli.options import Looking, examples
from inboxd.cli.output import Fields, Part, TableColumn, remark
from inboxd.errors import DatabaseError, PluginError, SchemaError, UnknownName

if TYPE_CHECKING:
    from inboxd.registry.installed import InstalledPlugin
    from inboxd.settings import Settings
    from inboxd.store.plugin_folders import MigrationFolder
    from inboxd.store.plugin_migrations import PluginState
    from inboxd.store.session import Session

app = CommandGroup(no_args_is_help=True, help="Show plugins that are installed here or on workers.")

_MOST_WORKERS = 1000


class _Answer(NamedTuple):
    states: "Mapping[str, PluginState]"
    workers: Sequence[Mapping[str, Any]] | None = None
    error: str | None = None


@app.command("list", epilog=examples("inboxd plugins list", "inboxd plugins list --json"))
def list_(given: Looking) -> None:
    """List plugins: their types, schedules and migrations, and the number of workers."""
    found, elsewhere, error = _look(given)
    parts: list[Part] = [columns.table(_LIST, found)]
    if elsewhere:
        parts.append(columns.table(_ELSEWHERE, elsewhere, "Types only on other hosts' workers"))
    given.print({"plugins": found, "elsewhere": elsewhere, "database_error": error}, parts)
    _tell(error, given)


@app.command("show", epilog=examples("inboxd plugins show shop", "inboxd plugins show shop --json"))
def show(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME", help="The plugin.", show_default=False, autocompletion=plugin_names
        ),
    ],
    *,
    given: Looking,
) -> None:
    """Show one plugin: handlers, topics, queues, schedules, resources, migrations, workers."""
    from inboxd.model.spelling import did_you_mean

    found, _, error = _look(given)
    wanted = [each for each in found if each["plugin"] == name]
    if not wanted:
        hint = did_you_mean(name, [each["plugin"] for each in found])
        raise UnknownName(
            f"no plugin {name!r} is installed here, and no migration of it ran"
            f"{hint or '; `inboxd plugins list` has the names.'}"
        )
    parts = [part for each in wanted for part in _parts(each)]
    given.print({"plugins": wanted, "database_error": error}, parts)
    _tell(error, given)


def _tell(error: str | None, given: Looking) -> None:
    if error and not given.json:
        remark(f"Workers and executed migrations are unknown: {error}")


# --------------------------------------------------------------------------------------- looking


def _look(
    given: Looking,
) -> tuple[list[dict[str, Any]], list[dict[str, Any]], str | None]:
    from inboxd.registry.installed import installed

    settings = given.settings
    here = installed(settings)
    folders, problems = _folders()
    seen = _ask(given, list(folders.values()))
    names = {each.name for each in here}
    found = [_document(each, settings, seen, problems.get(each.name)) for each in here]
    others = {*seen.states, *problems} - names
    found += [_without_handlers(name, seen, problems.get(name)) for name in others]
    return sorted(found, key=lambda each: each["plugin"]), _elsewhere(here, seen), seen.error


def _folders() -> "tuple[dict[str, MigrationFolder], dict[str, str]]":
    from inboxd.store import plugin_folders

    found: dict[str, MigrationFolder] = {}
    problems = {}
    for name in plugin_folders.names():
        try:
            found |= {each.plugin: each for each in plugin_folders.shipped_by([name])}
        except PluginError as error:
            problems[name] = str(error).partition("\n- ")[2]
    return found, problems


def _ask(given: Looking, folders: "Sequence[MigrationFolder]") -> _Answer:
    from inboxd.store import listing, plugin_migrations
    from inboxd.store.plugin_migrations import PluginState

    async def look(session: "Session") -> _Answer:
        states = await plugin_migrations.states(session, folders)
        workers = await listing.workers(session, ended=False, limit=_MOST_WORKERS)
        return _Answer({each.plugin: each for each in states}, [dict(row) for row in workers])

    try:
        return given.ask(look)
    except (DatabaseError, SchemaError) as error:
        unknown = {each.plugin: PluginState(each.plugin, each) for each in folders}
        return _Answer(unknown, None, str(error))


def _document(
    plugin: "InstalledPlugin", settings: "Settings", seen: _Answer, problem: str | None
) -> dict[str, Any]:
    from inboxd.registry import installed

    registry = plugin.registry
    return {
        "plugin": plugin.name,
        "distribution": plugin.distribution,
        "entry_point": plugin.entry_point,
        "taken": plugin.taken,
        "error": plugin.error or problem,
        "event_types": registry.event_types if registry else [],
        "command_types": registry.command_types if registry else [],
        "handlers": list(installed.handlers(plugin, settings)),
        "topics": installed.topics(plugin),
        "queues": registry.queues if registry else [],
        "schedules": installed.schedules(plugin),
        "resources": installed.resources(plugin),
        "hooks": installed.hooks(plugin),
        "migrations": _migrations(plugin.name, seen),
        "workers": _workers(plugin, seen),
    }


def _without_handlers(name: str, seen: _Answer, problem: str | None) -> dict[str, Any]:
    state = seen.states.get(name)
    return {
        "plugin": name,
        "distribution": state.folder.distribution if state and state.folder else None,
        "entry_point": None,
        "taken": False,
        "error": problem,
        **dict.fromkeys(("event_types", "command_types", "handlers", "topics", "queues"), ()),
        **dict.fromkeys(("schedules", "resources", "hooks"), ()),
        "migrations": _migrations(name, seen),
        "workers": None,
    }


def _migrations(name: str, seen: _Answer) -> list[dict[str, Any]] | None:
    state = seen.states.get(name)
    if state is None:
        return None
    ran = {each.version: each for each in state.ran}
    changed = {each.version for each in state.changed}
    shipped = {each.version: each for each in (state.folder.migrations if state.folder else ())}
    return [
        {
            "version": version,
            "name": (shipped.get(version) or ran[version]).name,
            "state": _state(version, ran, shipped, changed) if seen.error is None else "unknown",
            "applied_at": ran[version].applied_at if version in ran else None,
        }
        for version in sorted({*ran, *shipped})
    ]


def _state(
    version: int, ran: Mapping[int, object], shipped: Mapping[int, object], changed: set[int]
) -> str:
    if version not in ran:
        return "pending"
    if version in changed:
        return "changed"
    return "ran" if version in shipped else "not here"


def _workers(plugin: "InstalledPlugin", seen: _Answer) -> list[dict[str, Any]] | None:
    """Return the living workers that have types of the plugin; None: unknown."""
    if seen.workers is None or plugin.registry is None:
        return None
    own = _types(plugin)
    found = []
    for row in seen.workers:
        has = len(own & _types_of(row))
        if has:
            shown = {key: row[key] for key in ("name", "host", "pid", "version")}
            found.append({**shown, "types": has, "of": len(own)})
    return found


def _elsewhere(here: "Sequence[InstalledPlugin]", seen: _Answer) -> list[dict[str, Any]]:
    known = {each for plugin in here for each in _types(plugin)}
    having: dict[tuple[str, str], list[str]] = {}
    for row in seen.workers or ():
        for each in _types_of(row) - known:
            having.setdefault(each, []).append(row["name"])
    return [
        {"kind": kind, "type": type_, "workers": sorted(names)}
        for (kind, type_), names in sorted(having.items())
    ]


def _types(plugin: "InstalledPlugin") -> set[tuple[str, str]]:
    if plugin.registry is None:
        return set()
    return _types_of(
        {"events": plugin.registry.event_types, "commands": plugin.registry.command_types}
    )


def _types_of(row: Mapping[str, Any]) -> set[tuple[str, str]]:
    return {("event", each) for each in row["events"]} | {("command", e) for e in row["commands"]}


# --------------------------------------------------------------------------------------- showing


def _of_migrations(row: Mapping[str, Any]) -> str | None:
    files = row["migrations"]
    if files is None:
        return None
    states = [each["state"] for each in files]
    if "unknown" in states:
        return f"{len(files)}, unknown"
    rest = [f"{states.count(state)} {state}" for state in _AMISS if state in states]
    return ", ".join([f"{len(files)}", *rest])


def _how_many(name: str) -> TableColumn:
    return TableColumn(name.replace("_types", "s"), lambda row: len(row[name]), kind="number")


def _parts(plugin: Mapping[str, Any]) -> Iterator[Part]:
    fields = {
        "distribution": plugin["distribution"] or "not installed here",
        "entry point": plugin["entry_point"] or "none in inboxd.handlers",
        "worker.plugins": None if plugin["taken"] or not plugin["entry_point"] else "excludes it",
        "error": plugin["error"],
        "queues": ", ".join(plugin["queues"]) or None,
    }
    yield Fields(fields, f"Plugin {plugin['plugin']}")
    for title, shown in _TABLES.items():
        rows = plugin[title.lower()]
        if rows:
            yield columns.table(shown, rows, title)
    if plugin["workers"] == []:
        yield "No living worker has types of this plugin."


_AMISS = ("pending", "changed", "not here")
_LIST = (
    "plugin",
    TableColumn("distribution", cut="right"),
    _how_many("event_types"),
    _how_many("command_types"),
    _how_many("schedules"),
    TableColumn("migrations", _of_migrations),
    TableColumn(
        "workers",
        lambda row: None if row["workers"] is None else len(row["workers"]),
        kind="number",
        legend="living workers that have types of the plugin",
    ),
    "error",
)
_ELSEWHERE = (
    "kind",
    "type",
    TableColumn("workers", lambda row: ", ".join(row["workers"]), cut="right"),
)
_TABLES: Mapping[str, columns.Columns] = {
    "Handlers": (
        "kind",
        "type",
        TableColumn("topic/queue", lambda row: row["topic"] or row["queue"], cut="left"),
        TableColumn("handler", cut="left", extra=True),
        TableColumn("version", "schema_version", kind="number"),
        TableColumn("timeout", kind="span"),
        TableColumn("runs in", "executor"),
        TableColumn("retry", lambda row: row["retry"]["policy"], cut="right", extra=True),
        TableColumn("set by", lambda row: row["retry"]["source"], cut="right", extra=True),
    ),
    "Topics": (TableColumn("topic", cut="left"), "mode"),
    "Schedules": (
        TableColumn("schedule", cut="left"),
        "cron",
        "zone",
        TableColumn("sends", cut="left"),
    ),
    "Resources": (
        TableColumn("resource", cut="left"),
        TableColumn("lifespan", cut="left"),
        TableColumn("timeout", kind="span"),
        TableColumn("taken by", lambda row: len(row["taken_by"]), kind="number"),
    ),
    "Hooks": ("hook", TableColumn("function", cut="left")),
    "Migrations": (
        TableColumn("migration", lambda row: f"{row['version']:04d}_{row['name']}"),
        "state",
        TableColumn("applied", "applied_at", kind="time"),
    ),
    "Workers": (
        TableColumn("worker", "name"),
        "host",
        TableColumn("pid", kind="number"),
        TableColumn("types", lambda row: f"{row['types']} of {row['of']}"),
    ),
}
