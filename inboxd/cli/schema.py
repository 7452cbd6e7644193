"""`inboxd migrate`: bring the schema up to this release.

Promises: the plan is shown before anything runs; two at once wait for each other.
Known limit: forward only (`inboxd.store.migrations`).
"""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from inboxd.cli.exits import Exit
from inboxd.cli.options import Asking, Yes
from inboxd.cli.output import print_json

if TYPE_CHECKING:
    from inboxd.settings import Database
    from inboxd.store.migrations import Applied, Migration


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
    todo = migrations.pending(ran, to)
    if not given.json:
        _show_plan(database.schema_name, ran, todo)
    if todo and not check:
        if not (yes or given.json) and sys.stdin.isatty():
            typer.confirm("Run them now?", abort=True)
        todo = anyio.run(migrations.migrate, database, to)
    if given.json:
        _print_json(database.schema_name, ran, todo, check=check)
    elif todo and not check:
        typer.echo(f"Done: schema {database.schema_name!r} is at version {todo[-1].version}.")
    if todo and check:
        raise typer.Exit(Exit.PROBLEMS)


async def _applied(database: "Database") -> "list[Applied]":
    from inboxd.store.migrations import applied
    from inboxd.store.session import open_session

    async with open_session(database) as session:
        return await applied(session.connection, session.sql)


def _show_plan(schema: str, ran: "list[Applied]", todo: "list[Migration]") -> None:
    version = max((each.version for each in ran), default=0)
    typer.echo(f"Schema {schema!r} is at version {version}; pending: {len(todo) or 'nothing'}")
    for each in todo:
        typer.echo(f"  {each.version:04d} {each.name}")


def _print_json(schema: str, ran: "list[Applied]", todo: "list[Migration]", *, check: bool) -> None:
    names = [{"version": each.version, "name": each.name} for each in todo]
    before = max((each.version for each in ran), default=0)
    after = before if check or not todo else todo[-1].version
    found = {"schema": schema, "version": after}
    print_json({**found, "pending" if check else "ran": names})
