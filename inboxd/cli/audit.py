"""`inboxd audit`: what operators did.

Known limit: the table knows who by what the operating system of their machine said.
"""

from typing import Annotated

import typer

from inboxd.cli.options import Looking, Paging, Since, read_since
from inboxd.cli.output import BY, ID, WHY, Table, TableColumn

_COLUMNS = (
    *(
        ID,
        TableColumn("at", kind="time"),
        BY,
        TableColumn("action"),
        TableColumn("target", cut="right"),
    ),
    *(TableColumn("rows", "count", kind="number"), WHY),
)


def audit(
    actor: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Only whose name contains this.")
    ] = None,
    action: Annotated[str | None, typer.Option(metavar="TEXT", help="Only this action.")] = None,
    target: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Only what was done to this.")
    ] = None,
    *,
    since: Since = None,
    page: Paging,
    given: Looking,
) -> None:
    """List what operators did: who, when, what, why, and to how many rows; the newest first."""
    from inboxd.operations import actions

    found = given.ask(
        lambda session: actions(
            session,
            actor=actor,
            action=action,
            target=target,
            since=None if since is None else read_since(since),
            below=page.after,
            limit=page.limit,
        )
    )
    next_ = found[-1]["id"] if len(found) == page.limit else None
    given.print({"audit": found, "next": next_}, Table(_COLUMNS, found))
