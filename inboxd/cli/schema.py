"""`inboxd migrate`: migrates inboxd's schema, and then the tables of plugins; there is no way back.

Two runs at once wait for each other; `--grants` makes roles and rights, which a dump may lack.
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

# At most this many functions of a plan are printed, since a first run makes all. `--json` has all.
_MOST_FUNCTIONS = 5


class _Seen(NamedTuple):
    """State and plan. named, version: of inboxd's own schema; named includes the database."""

    named: str
    version: int
    plugins: "Sequence[PluginState]"
    plan: "FullPlan"


def migrate(
    check: Annotated[
        bool, typer.Option("--check", help="Change nothing; exit with 1 if something is pending.")
    ] = False,
    to: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="Stop after inboxd's migration N; skip plugins' migrations.", min=1
        ),
    ] = None,
    grants: Annotated[
        bool,
        typer.Option("--grants", help="Also create roles and their rights again, after a restore."),
    ] = False,
    yes: Yes = False,
    *,
    given: Asking,
) -> None:
    """Migrate inboxd's schema, then the tables of plugins; show the plan first."""
    import anyio

    from inboxd.cli.dev_place import require
    from inboxd.store import migrations, plugin_migrations

    if grants and (check or to is not None):
        raise UsageError(
            "--grants needs the complete schema, and changes it: leave out --check and --to"
        )
    settings = given.settings
    require(settings, given.config)
    seen = anyio.run(_look, settings, to)
    if not given.json:
        _show_plan(seen)
        if grants:
            typer.echo("Roles and their rights will be created again.")
    plan, runs = seen.plan, bool(seen.plan) and not check
    if (runs or grants) and not (yes or given.json) and sys.stdin.isatty():
        typer.confirm("Run them now?" if runs else "Create them now?", abort=True)
    if runs:
        only = settings.worker.plugins
        plan = anyio.run(plugin_migrations.migrate, settings.database, only, to)
        seen = anyio.run(_look, settings, to)
    lacking = anyio.run(migrations.grant, settings.database) if grants else None
    if given.json:
        _print_json(settings, seen, "pending" if check else "ran", plan, lacking)
    else:
        if runs:
            _print_result(seen, plan)
        if lacking is not None:
            _print_rights(lacking)
    if plan and check:
        raise typer.Exit(Exit.PROBLEMS)


async def _look(settings: "Settings", to: int | None) -> _Seen:
    from inboxd.store import migrations, plugin_folders, plugin_migrations
    from inboxd.store.operator_sessions import open_session

    folders = plugin_folders.shipped_by(settings.worker.plugins) if to is None else []
    async with open_session(settings.database) as session:
        ran = await migrations.applied(session)
        plugins = []
        if to is None:
            plugins = await plugin_migrations.states(session, folders)
    own = migrations.pending(ran, to)
    return _Seen(ran.named, ran.version, plugins, plugin_migrations.planned(own, plugins))


def _show_plan(seen: _Seen) -> None:
    own = seen.plan.own
    pending = len(own.migrations) or ("functions" if own else "nothing")
    typer.echo(f"S{seen.named[1:]} is at version {seen.version}; pending: {pending}")
    for each in own.migrations:
        typer.echo(f"  {each.version:04d} {each.name}")
    if own.functions:
        names = ", ".join(each.name for each in own.functions[:_MOST_FUNCTIONS])
        if more := len(own.functions) - _MOST_FUNCTIONS:
            names += f", and {more} more" if more > 0 else ""
        typer.echo(textwrap.fill(f"  functions: {names}", 80, subsequent_indent="    "))
    for state in seen.plugins:
        for line in _lines(state):
            typer.echo(line)


def _lines(state: "PluginState") -> Iterator[str]:
    is_at = f"is at version {state.version}"
    if state.folder is None:
        yield f"Plugin {state.plugin!r} {is_at}; not checked: {state.why_absent}"
        return
    due = state.pending
    yield (
        f"Plugin {state.plugin!r} ({state.folder.distribution}) {is_at}; "
        f"pending: {len(due) or 'nothing'}"
    )
    for each in due:
        yield f"  {each.version:04d} {each.name}"


def _print_result(seen: _Seen, plan: "FullPlan") -> None:
    end = "Done" if plan else "Done by another run of inboxd migrate"
    at = [f"{seen.named} is at version {seen.version}"]
    at += [f"plugin {each.plugin!r} at {each.version}" for each in seen.plugins if each.folder]
    typer.echo(f"{end}: {', '.join(at)}.")


def _print_rights(lacking: "Sequence[str]") -> None:
    typer.echo("Done: roles and rights are as the migrations define them.")
    if lacking:
        typer.echo(
            f"Missing roles that could not be created: {', '.join(lacking)}. Let a user with the "
            "right to create roles create them, and run this command again; or grant the "
            "privileges that `inboxd check --grants` lists to roles of your own."
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
