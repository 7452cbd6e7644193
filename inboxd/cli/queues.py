"""`inboxd queues`: what waits in each queue, its limits, and the ordering keys that stand still.

Known limit: limits are those of the settings that this command reads, which workers elsewhere may
not share.
"""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from inboxd.cli.help import CommandGroup
from inboxd.cli.options import Config, Json, ask, examples, load_settings
from inboxd.cli.output import print_fields, print_json, print_table
from inboxd.cli.status import count, seconds

if TYPE_CHECKING:
    from inboxd.settings import Queue

app = CommandGroup(no_args_is_help=True, help="Look at queues, their limits and ordering keys.")

_FROM = "Limits: the settings that this command reads. Give all workers the same."


@app.command("list", epilog=examples("inboxd queues list", "inboxd queues list --json"))
def list_(config: Config = None, json: Json = False) -> None:
    """List queues: limits, what runs and waits, and keys that stand still."""
    from inboxd.store import listing, queues

    settings = load_settings(config)
    found = ask(settings, lambda session: queues.listed(session, settings.queues))
    for row in found:
        row["limits"] = _limits(settings.queues.get(row["queue"]))
    if json:
        print_json({"counted_to": listing.COUNTED, "queues": found})
        return
    columns = ("queue", "running", "pending", "in line", "keys", "blocked", "for others")
    table = [_shown(row, listing.COUNTED) for row in found]
    print_table((*columns, "failed", "oldest due", "limits"), table)
    typer.echo(_FROM)


@app.command("show", epilog=examples("inboxd queues show email", "inboxd queues show email --json"))
def show(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The queue.", show_default=False)],
    limit: Annotated[
        int, typer.Option(metavar="N", min=1, max=1000, help="How many blocked keys.")
    ] = 20,
    config: Config = None,
    json: Json = False,
) -> None:
    """Show one queue, and the ordering keys that stand still in it: who holds them, since when."""
    from inboxd.errors import UnknownName
    from inboxd.model.spelling import did_you_mean
    from inboxd.settings import Queue
    from inboxd.store import listing, queues

    settings = load_settings(config)
    own = settings.queues.get(name)

    async def look(session: Any) -> tuple[dict[str, dict[str, Any]], list[dict[str, Any]]]:
        listed = await queues.listed(session, settings.queues)
        keys = await queues.blocked_keys(session, name, own or Queue(), limit)
        return {row["queue"]: row for row in listed}, keys

    rows, keys = ask(settings, look)
    if name not in rows:
        hint = did_you_mean(name, rows) or "; `inboxd queues list` has the names."
        raise UnknownName(
            f"there is no queue {name!r}: no plugin declares it, and it has no unsettled commands "
            f"and no settings{hint}"
        )
    row = rows[name] | {"limits": _limits(own)}
    if json:
        print_json({"counted_to": listing.COUNTED, **row, "blocked_keys": keys})
        return
    _print_fields(row, listing.COUNTED)
    if keys:
        columns = ("key", "held by", "id", "type", "attempts", "next time", "behind", "waiting for")
        print_table(columns, (_key(each, listing.COUNTED) for each in keys))


def _limits(queue: "Queue | None") -> dict[str, Any]:
    """What is set for a queue, without what was left alone."""
    return {} if queue is None else queue.model_dump(mode="json", exclude_unset=True)


def _print_fields(row: dict[str, Any], most: int) -> None:
    counts = ("running", "pending", "in_line", "keys", "unmet", "failed")
    fields: dict[str, object] = {"limits": _told(row["limits"]) or "none in these settings"}
    fields |= {_NAMES.get(name, name): count(row[name], most) for name in counts}
    fields |= {"blocked keys": _blocked(row), "oldest due": seconds(row["oldest"])}
    print_fields(f"Queue {row['queue']}", fields)


_NAMES = {"in_line": "in line", "keys": "keys in line", "unmet": "waiting for others"}


def _shown(row: dict[str, Any], most: int) -> list[Any]:
    return [
        row["queue"],
        *(count(row[name], most) for name in ("running", "pending", "in_line", "keys")),
        _blocked(row),
        *(count(row[name], most) for name in ("unmet", "failed")),
        *(seconds(row["oldest"]), _told(row["limits"])),
    ]


def _blocked(row: dict[str, Any]) -> str | None:
    """How many keys stand still, why, and how long the first one behind has waited."""
    from inboxd.store.queues import HOLDERS

    parts = [
        f"{count(each['keys'], HOLDERS)} by {held_by} ({seconds(each['oldest'])})"
        for held_by, each in row["blocked"].items()
    ]
    return ", ".join(parts) or None


def _key(each: dict[str, Any], most: int) -> list[Any]:
    return [
        *(each["key"], each["held_by"], each["id"], each["type"], each["attempts"]),
        *(each["next_at"], count(each["behind"], most), seconds(each["oldest"])),
    ]


def _told(limits: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in limits.items())
