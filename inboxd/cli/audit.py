"""`inboxd audit`: the actions of operators; an actor is only the name of a user and a host."""

from typing import Annotated

import typer

from inboxd.cli import columns
from inboxd.cli.options import Looking, Paging, Since
from inboxd.cli.output import TableColumn
from inboxd.model.moments import read_since

_COLUMNS = (
    *("id", TableColumn("at", kind="time"), "by", "action", TableColumn("target", cut="right")),
    *(TableColumn("rows", "count", kind="number"), "why"),
)


def audit(
    actor: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Only actors whose name contains TEXT.")
    ] = None,
    action: Annotated[str | None, typer.Option(metavar="TEXT", help="Only this action.")] = None,
    target: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Only actions on this target.")
    ] = None,
    *,
    since: Since = None,
    page: Paging,
    given: Looking,
) -> None:
    """List actions of operators, newest first: actor, time, action, reason, and number of rows."""
    from inboxd.operations import all_actions
    from inboxd.store.operations import AuditFilter

    wanted = AuditFilter(
        actor=actor,
        action=action,
        target=target,
        since=None if since is None else read_since(since),
        below=page.after,
        limit=page.limit,
    )
    found = given.ask(lambda session: all_actions(session, wanted))
    given.print(found.document(), [columns.table(_COLUMNS, found.rows)])
