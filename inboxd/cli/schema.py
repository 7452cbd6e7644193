"""`inboxd migrate`: bring a database up to date, inboxd's schema and then the tables of plugins.

Promises: the plan is shown before anything runs; two at once wait for each other. With `--grants`
roles and rights are made again, which a dump may have left behind.
Known limit: forward only (`inboxd.store.migrations`).
"""

import sys
import textwrap
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from inboxd.cli.exits import Exit
from inboxd.cli.options import Asking, Yes
from inboxd.cli.output import print_json
from inboxd.errors import UsageError

if TYPE_CHECKING:
    from inboxd.settings import Settings
    from inboxd.store.plugin_migrations import FullPlan, PluginState

# Functions of a plan that are named: a first run makes all of them. `--json` names each.
_NAMED = 5


class _Seen(NamedTuple):
    """What ran, and what is to run. named, version: of inboxd's own schema, with its database."""

    named: str
    version: int
    plugins: "Sequence[PluginState]"
    plan: "FullPlan"


def migrate(
    check: Annotated[
        bool, typer.Option("--check", help="Change nothing; exit 1 if something is pending.")
    ] = False,
    to: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="Stop after inboxd's migration N; plugins are left alone.", min=1
        ),
    ] = None,
    grants: Annotated[
        bool,
        typer.Option("--grants", help="Make roles and their rights again too, as after a restore."),
    ] = False,
    yes: Yes = False,
    *,
    given: Asking,
) -> None:
    """Bring the database up to date: inboxd's schema, then plugins' tables; show the plan first."""
    import anyio

    from inboxd.cli.dev_place import require
    from inboxd.store import migrations, plugin_migrations

    if grants and (check or to is not None):
        raise UsageError("--grants needs the whole schema, and changes it: leave --check and --to")
    settings = given.settings
    require(settings)
    seen = anyio.run(_look, settings, to)
    if not given.json:
        _show_plan(seen)
        if grants:
            typer.echo("Roles and their rights are made again.")
    plan, runs = seen.plan, bool(seen.plan) and not check
    if (runs or grants) and not (yes or given.json) and sys.stdin.isatty():
        typer.confirm("Run them now?" if runs else "Do it now?", abort=True)
    if runs:
        only = settings.worker.plugins
        plan = anyio.run(plugin_migrations.migrate, settings.database, only, to)
        seen = anyio.run(_look, settings, to)
    lacking = anyio.run(migrations.grant, settings.database) if grants else None
    if given.json:
        _print_json(settings, seen, "pending" if check else "ran", plan, lacking)
    else:
        if runs:
            _tell_end(seen, plan)
        if lacking is not None:
            _tell_rights(lacking)
    if plan and check:
        raise typer.Exit(Exit.PROBLEMS)


async def _look(settings: "Settings", to: int | None) -> _Seen:
    """Raises SchemaError or PluginError where nothing is to run before something is mended."""
    from inboxd.store import migrations, plugin_folders, plugin_migrations
    from inboxd.store.session import open_session

    folders = plugin_folders.shipped_by(settings.worker.plugins) if to is None else []
    async with open_session(settings.database) as session:
        ran = await migrations.applied(session.connection, session.sql)
        plugins = []
        if to is None:
            plugins = await plugin_migrations.states(session.connection, session.sql, folders)
    own = migrations.pending(ran, to)
    return _Seen(ran.named, ran.version, plugins, plugin_migrations.planned(own, plugins))


def _show_plan(seen: _Seen) -> None:
    own = seen.plan.own
    pending = len(own.migrations) or ("functions" if own else "nothing")
    typer.echo(f"S{seen.named[1:]} is at version {seen.version}; pending: {pending}")
    for each in own.migrations:
        typer.echo(f"  {each.version:04d} {each.name}")
    if own.functions:
        names = ", ".join(each.name for each in own.functions[:_NAMED])
        if more := len(own.functions) - _NAMED:
            names += f", and {more} more" if more > 0 else ""
        typer.echo(textwrap.fill(f"  functions: {names}", 80, subsequent_indent="    "))
    for state in seen.plugins:
        for line in _lines(state):
            typer.echo(line)


def _lines(state: "PluginState") -> Iterator[str]:
    is_at = f"is at version {state.version}"
    if state.folder is None:
        yield f"Plugin {state.plugin!r} {is_at}; not looked at: {state.why_absent}"
        return
    due = state.pending
    yield (
        f"Plugin {state.plugin!r} ({state.folder.distribution}) {is_at}; "
        f"pending: {len(due) or 'nothing'}"
    )
    for each in due:
        yield f"  {each.version:04d} {each.name}"


def _tell_end(seen: _Seen, plan: "FullPlan") -> None:
    end = "Done" if plan else "Done by another run of inboxd migrate"
    at = [f"{seen.named} is at version {seen.version}"]
    at += [f"plugin {each.plugin!r} at {each.version}" for each in seen.plugins if each.folder]
    typer.echo(f"{end}: {', '.join(at)}.")


def _tell_rights(lacking: "Sequence[str]") -> None:
    typer.echo("Done: rights are as the migrations make them.")
    if lacking:
        typer.echo(
            f"Roles that are not there, and could not be made: {', '.join(lacking)}. Let one who "
            "may create roles make them, and run this again; or grant what `inboxd check "
            "--grants` lists to roles of your own."
        )


def _print_json(
    settings: "Settings",
    seen: _Seen,
    what: str,
    plan: "FullPlan",
    lacking: "Sequence[str] | None",
) -> None:
    granted = {} if lacking is None else {"roles_missing": lacking}
    print_json(
        {
            "schema": settings.database.schema_name,
            "version": seen.version,
            "plugins": [
                {
                    "plugin": each.plugin,
                    "distribution": each.folder and each.folder.distribution,
                    "version": each.version,
                    "newest": each.newest if each.folder else None,
                }
                for each in seen.plugins
            ],
            what: {
                "migrations": [{"version": m.version, "name": m.name} for m in plan.own.migrations],
                "functions": [each.name for each in plan.own.functions],
                "plugins": [
                    {"plugin": folder.plugin, "version": file.version, "name": file.name}
                    for folder, file in plan.plugins
                ],
            },
            **granted,
        }
    )
