"""`inboxd queues`: what waits in each queue, its limits, and the ordering keys that stand still.

Known limit: limits are those of the settings that this command reads, which workers elsewhere may
not share.
"""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from inboxd.cli import columns
from inboxd.cli.completion import declared
from inboxd.cli.groups import CommandGroup
from inboxd.cli.options import Looking, examples
from inboxd.cli.output import Fields, TableColumn
from inboxd.model.wording import span

if TYPE_CHECKING:
    from inboxd.settings import Queue

app = CommandGroup(no_args_is_help=True, help="Look at queues, their limits and ordering keys.")

_KEYS = (
    TableColumn("key", cut="right"),
    TableColumn("blocked by", "held_by"),
    *("id", "type", "attempts"),
    TableColumn("next time", "next_at", kind="time"),
    columns.counted("behind", legend="due commands that wait for it"),
    TableColumn("waiting for", "oldest", kind="span"),
)


@app.command("list", epilog=examples("inboxd queues list", "inboxd queues list --json"))
def list_(given: Looking) -> None:
    """List queues: limits, what runs and waits, and keys that stand still."""
    from inboxd.store import listing, queues

    settings = given.settings
    found = given.ask(lambda session: queues.listed(session, settings.all_queues))
    for row in found:
        row["limits"] = _limits(settings.all_queues.get(row["queue"]))
    given.print(
        {"counted_to": listing.COUNTED, "queues": found},
        [columns.table(_LIST, found)],
        ["Limits: the settings that this command reads. Give all workers the same."],
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
        int, typer.Option(metavar="N", min=1, max=1000, help="How many blocked keys.")
    ] = 20,
    given: Looking,
) -> None:
    """Show one queue, and the ordering keys that stand still in it: who holds them, since when."""
    from inboxd.errors import UnknownName
    from inboxd.model.spelling import did_you_mean
    from inboxd.settings import Queue
    from inboxd.store import listing, queues

    settings = given.settings
    own = settings.all_queues.get(name)

    async def look(session: Any) -> tuple[dict[str, dict[str, Any]], list[dict[str, Any]]]:
        listed = await queues.listed(session, settings.all_queues)
        keys = await queues.blocked_keys(session, name, own or Queue(), limit)
        return {row["queue"]: row for row in listed}, keys

    rows, keys = given.ask(look)
    if name not in rows:
        hint = did_you_mean(name, rows) or "; `inboxd queues list` has the names."
        raise UnknownName(
            f"there is no queue {name!r}: no plugin declares it, and it has no unsettled commands "
            f"and no settings{hint}"
        )
    row = rows[name] | {"limits": _limits(own)}
    fields = {each.title: each.of(row) for each in _LIST[1:]}
    fields["limits"] = fields["limits"] or "none in these settings"
    given.print(
        {"counted_to": listing.COUNTED, **row, "blocked_keys": keys},
        [Fields(fields, f"Queue {name}"), *([columns.table(_KEYS, keys)] if keys else [])],
    )


def _limits(queue: "Queue | None") -> dict[str, Any]:
    """What is set for a queue, without what was left alone."""
    return {} if queue is None else queue.model_dump(mode="json", exclude_unset=True)


def _blocked(row: dict[str, Any]) -> str | None:
    """How many keys stand still, why, and how long the first one behind has waited."""
    from inboxd.store.queues import HOLDERS

    parts = [
        f"{columns.count(each['keys'], HOLDERS)} by {held_by} ({span(each['oldest'])})"
        for held_by, each in row["blocked"].items()
    ]
    return ", ".join(parts) or None


def _told(limits: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in limits.items())


_LIST = (
    TableColumn("queue", cut="left"),
    columns.counted("running"),
    columns.counted("pending"),
    columns.IN_LINE,
    columns.counted("keys", extra=True, legend="ordering keys that have a line"),
    TableColumn("blocked", _blocked, cut="right", legend="keys that stand still, and for how long"),
    columns.UNMET,
    columns.counted("failed"),
    TableColumn("oldest due", "oldest", kind="span"),
    TableColumn("limits", lambda row: _told(row["limits"]), cut="right"),
)
