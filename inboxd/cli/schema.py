"""`inboxd migrate`: bring the schema up to this release, its numbered files and its functions.

Promises: the plan is shown before anything runs; two at once wait for each other.
Known limit: forward only (`inboxd.store.migrations`).
"""

import sys
import textwrap
from typing import TYPE_CHECKING, Annotated

import typer

from inboxd.cli.exits import Exit
from inboxd.cli.options import Asking, Yes
from inboxd.cli.output import print_json

if TYPE_CHECKING:
    from inboxd.settings import Database
    from inboxd.store.migrations import MigrationPlan, SchemaState


def migrate(
    check: Annotated[
        bool, typer.Option("--check", help="Change nothing; exit 1 if something is pending.")
    ] = False,
    to: Annotated[
        int | None, typer.Option(metavar="N", help="Stop after migration N.", min=1)
    ] = None,
    yes: Yes = False,
    *,
    given: Asking,
) -> None:
    """Bring the database's schema up to this release; show the plan first."""
    import anyio

    from inboxd.store import migrations

    database = given.settings.database
    ran = anyio.run(_applied, database)
    plan = migrations.pending(ran, to)
    if not given.json:
        _show_plan(database.schema_name, ran, plan)
    runs = bool(plan) and not check
    if runs:
        if not (yes or given.json) and sys.stdin.isatty():
            typer.confirm("Run them now?", abort=True)
        plan = anyio.run(migrations.migrate, database, to)
        ran = anyio.run(_applied, database)
    if given.json:
        _print_json(database.schema_name, ran.version, "pending" if check else "ran", plan)
    elif runs:
        end = "Done" if plan else "Done by another run of inboxd migrate"
        typer.echo(f"{end}: schema {database.schema_name!r} is at version {ran.version}.")
    if plan and check:
        raise typer.Exit(Exit.PROBLEMS)


async def _applied(database: "Database") -> "SchemaState":
    from inboxd.store.migrations import applied
    from inboxd.store.session import open_session

    async with open_session(database) as session:
        return await applied(session.connection, session.sql)


def _show_plan(schema: str, ran: "SchemaState", plan: "MigrationPlan") -> None:
    pending = len(plan.migrations) or ("functions" if plan else "nothing")
    typer.echo(f"Schema {schema!r} is at version {ran.version}; pending: {pending}")
    for each in plan.migrations:
        typer.echo(f"  {each.version:04d} {each.name}")
    if plan.functions:
        names = ", ".join(each.name for each in plan.functions)
        typer.echo(textwrap.fill(f"  functions: {names}", 80, subsequent_indent="    "))


def _print_json(schema: str, version: int, what: str, plan: "MigrationPlan") -> None:
    numbered = [{"version": each.version, "name": each.name} for each in plan.migrations]
    functions = [each.name for each in plan.functions]
    files = {"migrations": numbered, "functions": functions}
    print_json({"schema": schema, "version": version, what: files})
