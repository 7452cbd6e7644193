"""`inboxd queues`: the rows of each queue, its limits by these settings, its blocked keys."""

from typing import Annotated, Any

import typer

from inboxd.cli import columns, figures
from inboxd.cli.completion import declared
from inboxd.cli.groups import CommandGroup
from inboxd.cli.options import Looking, examples
from inboxd.cli.output import Fields, TableColumn
from inboxd.model.wording import span

app = CommandGroup(no_args_is_help=True, help="Show queues, their limits and ordering keys.")

_KEYS = (
    TableColumn("key", cut="right"),
    TableColumn("blocked by", "held_by"),
    *("id", "type", "attempts"),
    TableColumn("next attempt", "next_at", kind="time"),
    columns.counted("behind", legend="due commands that wait for this one"),
    TableColumn("longest wait", "oldest", kind="span"),
    columns.TITLE,
)


@app.command("list", epilog=examples("inboxd queues list", "inboxd queues list --json"))
def list_(given: Looking) -> None:
    """List queues: limits, running and waiting commands, and blocked keys."""
    from inboxd.operations.lanes import queue_list

    document = given.ask(lambda session: queue_list(session, given.settings))
    given.print(
        document,
        [columns.table(_LIST, document["queues"])],
        ["The limits are from this command's settings. All workers should have the same settings."],
    )


@app.command("show", epilog=examples("inboxd queues show email", "inboxd queues show email --json"))
def show(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="The queue.",
            show_default=False,
            autocompletion=declared("queue"),
        ),
    ],
    *,
    limit: Annotated[
        int, typer.Option(metavar="N", min=1, max=1000, help="List at most N blocked keys.")
    ] = 20,
    given: Looking,
) -> None:
    """Show one queue, its work in the last hour, and its blocked ordering keys."""
    from inboxd.operations.lanes import one_queue

    row, done = given.ask(lambda session: one_queue(session, given.settings, name, limit))
    keys = row["blocked_keys"]
    fields = {each.title: each.of(row) for each in _LIST[1:]}
    fields["limits"] = fields["limits"] or "none in these settings"
    given.print(
        row,
        [
            Fields(fields, f"Queue {name}"),
            *figures.hour_tables(done),
            *([columns.table(_KEYS, keys)] if keys else []),
        ],
    )


def _blocked(row: dict[str, Any]) -> str | None:
    from inboxd.store.queues import HOLDERS

    parts = [
        f"{columns.count(each['keys'], HOLDERS)} by {held_by} ({span(each['oldest'])})"
        for held_by, each in row["blocked"].items()
    ]
    return ", ".join(parts) or None


def _limits(limits: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in limits.items())


_LIST = (
    TableColumn("queue", cut="left"),
    columns.counted("running"),
    columns.counted("pending"),
    columns.in_line(),
    columns.counted("keys", extra=True, legend="ordering keys that have a line"),
    TableColumn("blocked", _blocked, cut="right", legend="blocked keys, and the longest wait"),
    columns.unmet(),
    columns.counted("failed"),
    TableColumn("oldest due", "oldest", kind="span"),
    TableColumn("limits", lambda row: _limits(row["limits"]), cut="right"),
)
