"""`inboxd failures`: dead letters read as problems.

Known limit: a group is the exception's type and line; what the rows say besides is seen by `show`.
"""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from inboxd.cli.help import CommandGroup
from inboxd.cli.options import Config, Json, ask, examples, load_settings
from inboxd.cli.output import print_fields, print_json, print_table
from inboxd.cli.output import show as shown

if TYPE_CHECKING:
    from inboxd.operations import ActionPreview, Group
    from inboxd.store.session import Session
    from inboxd.store.wakeups import Place

app = CommandGroup(no_args_is_help=True, help="Read dead letters as groups of equal failures.")

_TYPES = 2  # named in a line
_GroupName = Annotated[
    str, typer.Argument(metavar="GROUP", help="As listed, or its beginning.", show_default=False)
]


@app.command("list", epilog=examples("inboxd failures list", "inboxd failures list --json"))
def list_(
    limit: Annotated[int, typer.Option(metavar="N", min=1, help="Most groups to list.")] = 50,
    config: Config = None,
    json: Json = False,
) -> None:
    """List groups, the largest first: how many rows, of which types, and the newest error."""
    from inboxd.operations import failures

    found = ask(load_settings(config), failures)
    if json:
        print_json({"groups": [asdict(group) for group in found[:limit]]})
        return
    columns = ("group", "of", "rows", "types", "first", "last", "newest error")
    print_table(columns, map(_row, found[:limit]))
    total = sum(group.count for group in found)
    typer.echo(f"{total:,} dead letters in {len(found):,} groups.", err=True)


@app.command(epilog=examples("inboxd failures show 5f2c1e0d9a7b3344"))
def show(group: _GroupName, config: Config = None, json: Json = False) -> None:
    """Show one group: its rows by type, the newest error in full, and a few rows."""
    from inboxd import operations
    from inboxd.operations import Selection

    async def look(session: "Session") -> "list[tuple[Group, ActionPreview]]":
        return [
            (each, await operations.preview(session, _place(each), "replay", Selection(group=name)))
            for each in await operations.failures(session, group)
            for name in [each.fingerprint]
        ]

    found = ask(load_settings(config), look)
    if json:
        print_json({"groups": [{**asdict(each), "sample": few.sample} for each, few in found]})
        return
    for each, few in found:
        name = each.fingerprint
        print_fields(f"Group {name}", _fields(each))
        columns = ("id", "type", "lane", "tenant", "created_at", "error")
        print_table(columns, ([row[name] for name in columns] for row in few.sample))
        typer.echo(f"Run them again: inboxd {_place(each)} replay --group {name} --dry-run")


def _place(group: "Group") -> "Place":
    return "events" if group.kind == "event" else "commands"


def _row(group: "Group") -> list[object]:
    types = list(group.types)
    more = f" and {len(types) - _TYPES} more" if len(types) > _TYPES else ""
    error = (group.error or "").splitlines()
    return [
        group.fingerprint,
        f"{group.kind}s",
        f"{group.count:,}",
        ", ".join(types[:_TYPES]) + more,
        group.first_at,
        group.last_at,
        error[0] if error else None,
    ]


def _fields(group: "Group") -> dict[str, object]:
    return {
        "rows": f"{group.count:,} {group.kind}s",
        "types": ", ".join(f"{type_} ({count:,})" for type_, count in group.types.items()),
        "first": shown(group.first_at),
        "last": f"{shown(group.last_at)}, {group.kind} {group.last_id}",
        "error": group.error,
    }
