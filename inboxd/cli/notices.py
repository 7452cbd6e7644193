"""`inboxd notices`: open notices, and with `--all` ended ones too."""

from typing import Annotated

import typer

from inboxd.cli import columns
from inboxd.cli.options import Looking
from inboxd.cli.output import TableColumn

_COLUMNS = (
    *("id", "cause", TableColumn("kind"), TableColumn("subject", cut="left")),
    TableColumn("since", "began_at", kind="time"),
    TableColumn("gone since", "gone_at", kind="time", extra=True),
    TableColumn("ended", "ended_at", kind="time"),
)


def notices(
    *,
    all_: Annotated[bool, typer.Option("--all", help="Also ended notices.")] = False,
    limit: Annotated[
        int, typer.Option(metavar="N", min=1, max=10_000, help="List at most N notices.")
    ] = 100,
    given: Looking,
) -> None:
    """List open notices, newest first: problems that need a person."""
    from inboxd.store.notices import listed

    found = given.ask(lambda session: listed(session, only_open=not all_, limit=limit))
    given.print({"notices": found}, [columns.table(_COLUMNS, found)])
