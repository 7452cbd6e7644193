"""`inboxd failures`: dead letters in groups of one exception type and one line of code."""

from collections.abc import Iterator
from dataclasses import asdict
from itertools import chain, starmap
from typing import TYPE_CHECKING, Annotated, Any

import typer

from inboxd.cli import actions, columns
from inboxd.cli.completion import FAILURE_GROUP, declared
from inboxd.cli.groups import CommandGroup
from inboxd.cli.options import Acting, Looking, examples
from inboxd.cli.output import Fields, Part, TableColumn
from inboxd.cli.output import show as shown
from inboxd.errors import UsageError
from inboxd.model.wording import plural

if TYPE_CHECKING:
    from inboxd.operations import Group
    from inboxd.operations.failures import Spread
    from inboxd.store.session import Session

app = CommandGroup(
    no_args_is_help=True,
    help="Show dead letters in groups of equal failures; replay and archive groups.",
)

_GroupName = Annotated[
    str,
    typer.Argument(
        metavar="GROUP",
        help="The group's name, or the beginning of it.",
        show_default=False,
        autocompletion=declared(FAILURE_GROUP),
    ),
]


_LIST = (
    TableColumn("group", "fingerprint"),
    TableColumn("rows of", lambda group: f"{group['kind']}s"),
    TableColumn("count", lambda group: _counted(group, group["count"]), kind="number"),
    TableColumn("types", lambda group: list(group["types"]), cut="left"),
    TableColumn("first", "first_at", kind="time", extra=True),
    TableColumn("last", "last_at", kind="time"),
    TableColumn("newest error", "error", cut="right"),
)
_ARCHIVED = TableColumn("archived", lambda group: _archived(group["archived"]), cut="right")
_SAMPLE = ("id", "type", "topic/queue", "tenant", "created", "error")


@app.command("list", epilog=examples("inboxd failures list", "inboxd failures list --json"))
def list_(
    *,
    limit: Annotated[int, typer.Option(metavar="N", min=1, help="List at most N groups.")] = 50,
    archived: Annotated[bool, typer.Option("--archived", help="Only archived groups.")] = False,
    given: Looking,
) -> None:
    """List groups, largest first: the number of rows, their types, and the newest error."""
    from inboxd.operations import failures

    every = given.ask(failures)
    found = [group for group in every if bool(group.archived) is archived]
    groups = [asdict(group) for group in found[:limit]]
    remarks = [f"{_dead_letters(found)} in {plural(len(found), 'group')}."]
    if not archived and (others := len(every) - len(found)):
        remarks.append(f"{plural(others, 'archived group')} not shown: --archived lists them.")
    listed = (*_LIST[:-1], _ARCHIVED, _LIST[-1]) if archived else _LIST
    given.print({"groups": groups}, [columns.table(listed, groups)], remarks)


@app.command(epilog=examples("inboxd failures show 5f2c1e0d9a7b3344"))
def show(group: _GroupName, given: Looking) -> None:
    """Show one group: its rows by type, the newest error in full, and a few rows."""
    from inboxd.operations import failures
    from inboxd.operations.failures import document, rows_of, spread_of

    async def look(session: "Session") -> "list[tuple[Group, list[dict[str, Any]], Spread | None]]":
        return [
            (each, await rows_of(session, each), await spread_of(session, each))
            for each in await failures(session, group)
        ]

    found = given.ask(look)
    given.print(
        {"groups": [document(*each) for each in found]}, chain.from_iterable(starmap(_parts, found))
    )


@app.command(
    epilog=examples(
        "inboxd failures replay 5f2c1e0d9a7b3344 --dry-run",
        "inboxd failures replay 5f2c --background --canary --rate 50 --reason 'mended'",
    )
)
def replay(group: _GroupName, given: actions.ActingOnMatching) -> None:
    """Replay all dead letters of a group: now, or by the workers with --background."""
    from inboxd.operations import Selection, failures

    given.refuse_without_background()
    found = given.ask(lambda session: failures(session, group))
    name = found[0].fingerprint
    if given.json and len(found) > 1:
        raise UsageError(
            f"the failure group {name} has events and commands, and --json prints one document: "
            f"use `inboxd events replay --group {name}` or `inboxd commands replay --group {name}`"
        )
    for each in found:
        if given.background:
            actions.order(each.table, "replay", Selection(group=name), None, given)
        else:
            actions.act_on_all(each.table, "replay", Selection(group=name), given)


@app.command(
    epilog=examples(
        "inboxd failures archive 5f2c1e0d9a7b3344 --reason 'the supplier mends it on Monday'"
    )
)
def archive(group: _GroupName, given: Acting) -> None:
    """Hide a group from lists until it grows; its rows stay dead letters."""
    from inboxd.operations import archive_group

    _tell("Archived", given.do(archive_group, group), given)


@app.command(epilog=examples("inboxd failures unarchive 5f2c1e0d9a7b3344"))
def unarchive(group: _GroupName, given: Acting) -> None:
    """Show an archived group in lists again."""
    from inboxd.operations import unarchive_group

    _tell("Unarchived", given.do(unarchive_group, group), given)


def _tell(done: str, groups: "list[Group]", given: Acting) -> None:
    name, count = groups[0].fingerprint, sum(each.count for each in groups)
    at_least = any(each.at_least for each in groups)
    document = {done.lower(): name, "count": count, "at_least": at_least}
    given.tell(document, f"{done}: group {name}, {_dead_letters(groups)}")


def _dead_letters(groups: "list[Group]") -> str:
    at_least = "at least " if any(each.at_least for each in groups) else ""
    return at_least + plural(sum(each.count for each in groups), "dead letter")


def _counted(group: dict[str, Any], count: int) -> str:
    cut = group["at_least"] and count >= max(group["types"].values())
    return f"{count:,}{'+' if cut else ''}"


def _archived(archived: dict[str, Any] | None) -> str | None:
    if archived is None:
        return None
    reason = f" ({archived['reason']})" if archived["reason"] else ""
    return f"{shown(archived['at'])}, by {archived['actor']}{reason}"


def _parts(group: "Group", sample: list[dict[str, Any]], spread: "Spread | None") -> Iterator[Part]:
    name = group.fingerprint
    yield Fields({**_fields(group), **_spread(spread, group)}, f"Group {name}")
    yield columns.table(_SAMPLE, sample)
    yield (
        f"To replay them: inboxd {group.table} replay --group {name} --dry-run\n"
        f"To see the newest payload: inboxd {group.table} show {group.last_id} --payload"
    )


def _spread(spread: "Spread | None", group: "Group") -> dict[str, object]:
    if spread is None:
        return {}
    began = [f"{what} {spread.told(spread.began, what)}" for what in spread.began]
    hours = [each for each in spread.hours if each is not None]
    cut = "at least " if group.at_least or spread.looked < group.count else ""
    return {
        "first failures": "; ".join(began) or None,
        "recent": f"{cut}{sum(hours):,} in a day, {cut}{hours[-1]:,} of them in this hour",
        **{
            f"by {what}": f"{spread.told(spread.newest, what)} of the newest {spread.looked:,}"
            for what in spread.newest
        },
    }


def _fields(group: "Group") -> dict[str, object]:
    told = asdict(group)
    counts = [f"{type_} ({_counted(told, count)})" for type_, count in group.types.items()]
    return {
        "rows": ("at least " if group.at_least else "") + plural(group.count, group.kind),
        "types": ", ".join(counts),
        "first": shown(group.first_at),
        "last": f"{shown(group.last_at)}, {group.kind} {group.last_id}",
        "error": group.error,
        "archived": _archived(asdict(group.archived)) if group.archived else None,
    }
