"""`inboxd events`, `inboxd commands`: the same commands for both kinds of rows.

`cancel` only asks a running command to stop. An event cannot be cancelled: it is a fact, and its
page is one transaction.
"""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from inboxd.cli import actions, count, edit, show, why
from inboxd.cli.groups import CommandGroup
from inboxd.cli.options import Acting, Id, Looking, examples
from inboxd.cli.output import show as shown
from inboxd.cli.row_lists import add_list
from inboxd.model.moments import read_until
from inboxd.model.row_id import read_row_id

if TYPE_CHECKING:
    from inboxd.operations import Action
    from inboxd.store.wakeups import HotTable

IdsOrNone = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="ID", help="Row numbers or uuids; without them, a filter.", show_default=False
    ),
]

_REPLAY = "Run dead letters again: named rows (all or none), or all rows that match a filter."
_DISMISS = (
    "Dismiss dead letters without running them: named rows (all or none), or all rows that match a "
    "filter."
)
_BY_HAND = "4711 --reason 'sent by hand'"
_CANCEL = "Cancel commands that have not ended; the worker of a running one is asked to stop it."


def row_commands(table: "HotTable") -> CommandGroup:
    events = table == "events"
    app = CommandGroup(
        no_args_is_help=True,
        help=f"Show {table}, and replay{'' if events else ', cancel'} or dismiss them.",
    )
    _add_looks(app, table)
    count.add_to(app, table)
    batch = () if events else ("batch",)
    failed = actions.row_filter(table, "error", "group", *batch)
    why = "the shop is back" if events else "the mail server is back"
    group = "--group 5f2c1e0d9a7b3344 --dry-run"
    since = "--type email.send --since 2h --rate 50"
    canary = "--group 5f2c1e0d9a7b3344 --background --canary --rate 50"
    named = f"4711 4712 --reason '{why}'"
    _add_action(app, table, "replay", failed, _REPLAY, named, group, since, canary)
    _add_action(app, table, "dismiss", failed, _DISMISS, _BY_HAND, group)
    if not events:
        unsettled = actions.row_filter(table, *batch)
        tenant = "--type email.send --tenant acme --dry-run"
        _add_action(app, table, "cancel", unsettled, _CANCEL, _BY_HAND, tenant)
        _add_prioritize(app, unsettled)
        _add_replay_with(app)
        edit.add_to(app)
    _add_reschedule(app, table, actions.row_filter(table, *batch))
    return app


def _add_looks(app: CommandGroup, table: "HotTable") -> None:
    add_list(app, table)

    @app.command(
        "show",
        help=f"Show one {table.removesuffix('s')}: attempts, errors, lineage, created rows, "
        "retry rules.",
        epilog=_examples(table, "show", "4711", "4711 --payload"),
    )
    def _show(id: Id, given: show.Showing) -> None:
        show.print_one(table, id, given)

    @app.command(
        "why",
        help=f"Show why one {table.removesuffix('s')} is not running: all causes, in order.",
        epilog=_examples(table, "why", "4711", "4711 --json"),
    )
    def _why(id: Id, given: Looking) -> None:
        why.print_why(table, id, given)


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


def _add_reschedule(app: CommandGroup, table: "HotTable", filters: type[actions.RowFilter]) -> None:
    one = table.removesuffix("s")

    @app.command(
        options={"wanted": filters},
        help=f"Reschedule {table} that have not started: named rows (all or none); with "
        "--background, all rows that match.",
        epilog=_examples(
            table, "reschedule", "4711 --at 2h", "--type report.make --at 2h --background"
        ),
    )
    def reschedule(
        ids: IdsOrNone = None,
        *,
        at: Annotated[
            str,
            typer.Option(metavar="TIME", help="When they run: now, 2h, or a time in ISO 8601."),
        ],
        wanted: Any,
        given: actions.ActingOnRows,
    ) -> None:
        when = read_until(at)
        if done := actions.move(table, "reschedule", ids, wanted, when, given):
            told = f"Rescheduled to {shown(when)}: {one} {', '.join(map(str, done))}"
            given.tell({"rescheduled": done, "run_at": when}, told)


def _add_prioritize(app: CommandGroup, filters: type[actions.RowFilter]) -> None:
    @app.command(
        options={"wanted": filters},
        epilog=_examples(
            "commands",
            "prioritize",
            "4711 --priority -5",
            "--type email.send --priority -5 --background",
        ),
    )
    def prioritize(
        ids: IdsOrNone = None,
        *,
        priority: Annotated[
            int, typer.Option(metavar="N", help="The new priority: smaller numbers run first.")
        ],
        wanted: Any,
        given: actions.ActingOnRows,
    ) -> None:
        """Change the priority of commands that have not started.

        It changes named rows (all or none); with --background, all rows that match.
        """
        if done := actions.move("commands", "prioritize", ids, wanted, priority, given):
            told = f"Priority {priority}: command {', '.join(map(str, done))}"
            given.tell({"prioritized": done, "priority": priority}, told)


def _add_replay_with(app: CommandGroup) -> None:
    @app.command("replay-with", epilog=_examples("commands", "replay-with", "4711 @mended.json"))
    def replay_with(
        id: Id,
        payload: Annotated[
            str, typer.Argument(metavar="JSON|-|@FILE", help="The new payload; -: standard input.")
        ],
        given: Acting,
    ) -> None:
        """Replay a dead letter with another payload, as a new row; the old row does not change."""
        from inboxd import operations
        from inboxd.cli.payload import read_payload

        done = given.do(operations.replay_with, read_row_id(id), read_payload(payload))
        old, new = done.ids[0], done.new_ids[0]
        told = f"Replayed with another payload: command {old} as {new}"
        given.tell(operations.told("replay", done), told)


def _examples(table: str, command: str, *lines: str) -> str:
    return examples(*(f"inboxd {table} {command} {line}" for line in lines))
