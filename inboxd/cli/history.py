"""`inboxd history`: the partitions of history and bodies, and when retention drops them.

The current day is never dropped. Known limit: it shows the retention of its own settings.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from inboxd.cli import columns
from inboxd.cli.groups import CommandGroup
from inboxd.cli.options import Acting, Looking, Previewed, actor, examples
from inboxd.cli.output import TableColumn
from inboxd.model.wording import plural, size

if TYPE_CHECKING:
    from inboxd.store.session import Session

app = CommandGroup(
    no_args_is_help=True, help="Show partitions of history; export, drop and make them."
)

_EXAMPLE = "inboxd history {} events_history_20260131"

Parts = Annotated[
    list[str],
    typer.Argument(metavar="PARTITION", help="Partitions named by `list`.", show_default=False),
]
Form = Annotated[Literal["jsonl", "csv"], typer.Option("--format", help="Format of the files.")]


@app.command("list", epilog=examples("inboxd history list", "inboxd history list --json"))
def list_(
    all_: Annotated[
        bool,
        typer.Option("--all", help="Also list empty partitions, such as partitions of later days."),
    ] = False,
    *,
    given: Looking,
) -> None:
    """List partitions: their days, sizes and states, and the next ones that retention drops."""
    from inboxd.operations.history import history

    document = given.ask(lambda session: history(session, given.settings))
    found = document["partitions"]
    hidden = [] if all_ else [each for each in found if _is_dull(each)]
    told = []
    if hidden:
        last = max(each["from"] for each in hidden)
        empty = plural(len(hidden), "empty partition")
        told.append(f"{empty} not shown, up to {last:%Y-%m-%d}: --all lists them.")
    for table, age in document["retention"].items():
        kept = "forever" if age is None else f"for {plural(age.days, 'day')}"
        told.append(f"{table}: kept {kept}")
    shown = [each for each in found if each not in hidden]
    given.print(document, [columns.table(_LIST, shown)], told)


@app.command("make", epilog=examples("inboxd history make --days 30"))
def make(
    days: Annotated[int, typer.Option(metavar="N", min=1, max=366, help="Days ahead.")] = 14,
    *,
    given: Acting,
) -> None:
    """Make missing partitions for the days ahead, as workers do."""
    from inboxd.maintenance.partitions import manual

    made = given.do(manual.make, days)
    given.tell({"made": made}, f"Made {plural(made, 'partition')}.")


@app.command("export", epilog=examples(_EXAMPLE.format("export") + " --to /var/backups/inboxd"))
def export(
    parts: Parts,
    to: Annotated[Path, typer.Option(metavar="DIR", help="The folder.", show_default=False)],
    form: Form = "jsonl",
    *,
    given: Acting,
) -> None:
    """Write partitions of history to files; the partitions stay.

    A file is never overwritten. Days that ended less than a day ago, and bodies, are refused.
    """
    from inboxd.maintenance.partitions import manual
    from inboxd.maintenance.partitions.export import Exporter

    async def do(session: "Session") -> dict[str, int]:
        who, why = actor(), given.reason
        wanted = await manual.chosen(session, parts, to_drop=False)
        writer = Exporter(to, form)
        return {
            each.part: await manual.export(session, each, writer, actor=who, reason=why)
            for each in wanted
        }

    done = given.ask(do, patient=True)
    told = (f"Exported: {part}, {plural(count, 'row')}" for part, count in done.items())
    given.tell({"exported": done}, *told)


@app.command(
    "drop", epilog=examples(_EXAMPLE.format("drop"), _EXAMPLE.format("drop") + " --dry-run")
)
def drop(
    parts: Parts,
    no_export: Annotated[
        bool,
        typer.Option("--no-export", help="Do not export first, even if history.export is set."),
    ] = False,
    *,
    given: Previewed,
) -> None:
    """Drop partitions now, regardless of retention; bodies that rows still need are kept.

    Days that ended less than a day ago are refused.
    """
    from inboxd.maintenance.partitions import manual
    from inboxd.maintenance.partitions.retention import exporter
    from inboxd.operations.history import plain

    writer = None if no_export else exporter(given.settings)

    async def choose(session: "Session") -> list[Any]:
        return [plain(each) for each in await manual.chosen(session, parts, to_drop=True)]

    async def do(session: "Session") -> dict[str, bool]:
        who, why = actor(), given.reason
        return {
            each.part: await manual.drop(session, each, writer, actor=who, reason=why)
            for each in await manual.chosen(session, parts, to_drop=True)
        }

    def show() -> bool:
        wanted = given.ask(choose)
        also = "exported and " if writer is not None else ""
        given.print(
            {"partitions": wanted, "export": writer is not None},
            [columns.table((_LIST[0], *_SIZE), wanted)],
            [f"These partitions would be {also}dropped."],
        )
        return True

    if not given.confirmed(show, "Really drop them?"):
        return
    done = given.ask(do, patient=True)
    told = (
        f"Dropped: {part}" if gone else f"Kept: {part}, because rows still need it; try later"
        for part, gone in done.items()
    )
    given.tell({"dropped": done}, *told)


def _is_dull(each: dict[str, Any]) -> bool:
    return bool(each["empty"]) and each["state"] == "attached" and not each["due"]


def _about(rows: int | None) -> str:
    """Format PostgreSQL's estimate; None: the partition was not analyzed yet."""
    return "unknown" if rows is None else f"{rows:,}"


_SIZE = (
    TableColumn("rows", lambda each: _about(each["rows"]), kind="number"),
    TableColumn("size", lambda each: size(each["bytes"]), kind="number"),
)
_LIST = (
    TableColumn("partition"),
    TableColumn("from", lambda each: f"{each['from']:%Y-%m-%d}"),
    TableColumn("to", lambda each: f"{each['to']:%Y-%m-%d}", extra=True),
    *_SIZE,
    TableColumn("state"),
    TableColumn("exported", kind="number", extra=True),
    TableColumn("due", lambda each: "yes" if each["due"] else ""),
)
