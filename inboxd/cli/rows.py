"""`inboxd events`, `inboxd commands`: the same commands for both kinds of rows.

Owns `row_commands`, which makes a group of them for a table: list, show, replay, dismiss,
reschedule; and for commands cancel and prioritize. The list is in `cli/row_lists.py`.
Known limits: a running command is asked to end; whether it did is seen by `show`. An event cannot
be cancelled: it is a fact, and its page is one transaction.
"""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from inboxd.cli import actions, count, show
from inboxd.cli.groups import CommandGroup
from inboxd.cli.options import Acting, Id, examples
from inboxd.cli.output import show as shown
from inboxd.cli.row_lists import add_list
from inboxd.model.moments import read_until
from inboxd.model.row_id import read_row_id

if TYPE_CHECKING:
    from inboxd.operations import Action
    from inboxd.store.wakeups import HotTable

Ids = Annotated[
    list[str],
    typer.Argument(metavar="ID", help="Row numbers or uuids.", show_default=False),
]
IdsOrNone = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="ID", help="Row numbers or uuids; or else a filter.", show_default=False
    ),
]

_REPLAY = "Let dead letters run again now: those named, all or none; or all that match."
_DISMISS = "Put dead letters away for good: those named, all or none; or all that match."
_BY_HAND = "4711 --reason 'sent by hand'"
_CANCEL = "Cancel what has not ended: at once, or by asking its worker when it runs."


def row_commands(table: "HotTable") -> CommandGroup:
    """The group of commands for a table."""
    events = table == "events"
    app = CommandGroup(
        no_args_is_help=True,
        help=f"Look at {table}, replay dead letters{'' if events else ', cancel'}.",
    )
    _add_looks(app, table)
    count.add_to(app, table)
    batch = () if events else ("batch",)
    failed = actions.row_filter(table, "error", "group", *batch)
    why = "the shop is back" if events else "the mail server is back"
    group = "--group 5f2c1e0d9a7b3344 --dry-run"
    since = "--type email.send --since 2h --rate 50"
    _add_action(app, table, "replay", failed, _REPLAY, f"4711 4712 --reason '{why}'", group, since)
    _add_action(app, table, "dismiss", failed, _DISMISS, _BY_HAND, group)
    if not events:
        unsettled = actions.row_filter(table, *batch)
        tenant = "--type email.send --tenant acme --dry-run"
        _add_action(app, table, "cancel", unsettled, _CANCEL, _BY_HAND, tenant)
        _add_prioritize(app)
    _add_reschedule(app, table)
    return app


def _add_looks(app: CommandGroup, table: "HotTable") -> None:
    add_list(app, table)

    @app.command(
        "show",
        help=f"Show one {table.removesuffix('s')}: attempts, errors, lineage, what it created, "
        "how it is retried.",
        epilog=_examples(table, "show", "4711", "4711 --payload"),
    )
    def _show(id: Id, given: show.Showing) -> None:
        show.print_one(table, id, given)


def _add_action(
    app: CommandGroup,
    table: "HotTable",
    action: "Action",
    filters: type[actions.RowFilter],
    told: str,
    *lines: str,
) -> None:
    @app.command(
        action, options={"wanted": filters}, help=told, epilog=_examples(table, action, *lines)
    )
    def _run(ids: IdsOrNone = None, *, wanted: Any, given: actions.ActingOnRows) -> None:
        actions.act(table, action, ids, wanted, given)


def _add_reschedule(app: CommandGroup, table: "HotTable") -> None:
    @app.command(
        help=f"Let {table} that have not begun run at another time: all of those named, or none.",
        epilog=_examples(table, "reschedule", "4711 --at 2h"),
    )
    def reschedule(
        ids: Ids,
        at: Annotated[
            str,
            typer.Option(metavar="TIME", help="When: now, 2h from now, or a time in ISO 8601."),
        ],
        given: Acting,
    ) -> None:
        from inboxd import operations

        when, wanted = read_until(at), [read_row_id(each) for each in ids]
        done = given.do(operations.reschedule, table, wanted, when)
        rows = f"{table.removesuffix('s')} {', '.join(map(str, done.ids))}"
        told = f"Rescheduled to {shown(when)}: {rows}"
        given.tell({"rescheduled": done.ids, "run_at": when}, told)


def _add_prioritize(app: CommandGroup) -> None:
    @app.command(epilog=_examples("commands", "prioritize", "4711 --priority -5"))
    def prioritize(
        ids: Ids,
        priority: Annotated[int, typer.Option(metavar="N", help="The smallest runs first.")],
        given: Acting,
    ) -> None:
        """Give commands that have not begun another priority: all of those named, or none."""
        from inboxd import operations

        done = given.do(operations.prioritize, [read_row_id(each) for each in ids], priority)
        told = f"Priority {priority}: command {', '.join(map(str, done.ids))}"
        given.tell({"prioritized": done.ids, "priority": priority}, told)


def _examples(table: str, command: str, *lines: str) -> str:
    return examples(*(f"inboxd {table} {command} {line}" for line in lines))
