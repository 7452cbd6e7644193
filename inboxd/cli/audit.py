"""`inboxd audit`: what operators did.

Known limit: the table knows who by what the operating system of their machine said.
"""

from typing import Annotated

import typer

from inboxd.cli import rows
from inboxd.cli.options import Config, Json, ask, load_settings, read_since
from inboxd.cli.output import print_json, print_table

_COLUMNS = ("id", "at", "actor", "action", "target", "count", "reason")


def audit(
    actor: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Only whose name contains this.")
    ] = None,
    action: Annotated[str | None, typer.Option(metavar="TEXT", help="Only this action.")] = None,
    target: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Only what was done to this.")
    ] = None,
    since: rows.Since = None,
    limit: rows.Limit = 20,
    after: rows.After = None,
    config: Config = None,
    json: Json = False,
) -> None:
    """List what operators did: who, when, what, why, and to how many rows; the newest first."""
    from inboxd.operations import actions

    found = ask(
        load_settings(config),
        lambda session: actions(
            session,
            actor=actor,
            action=action,
            target=target,
            since=None if since is None else read_since(since),
            below=after,
            limit=limit,
        ),
    )
    following = found[-1]["id"] if len(found) == limit else None
    if json:
        print_json({"audit": found, "next": following})
        return
    print_table(_COLUMNS, ([row[name] for name in _COLUMNS] for row in found))
    if following is not None:
        typer.echo(f"There may be more: add --after {following}", err=True)
