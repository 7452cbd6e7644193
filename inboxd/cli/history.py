"""`inboxd history`: the partitions of history and bodies, and what retention would do with them.

Promises: what drops says before what it would drop, with `--dry-run` or by a question at a
terminal; a day that is not over is never dropped. Known limit: retention is that of the settings
which this command reads, which workers elsewhere may not share.
"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from inboxd.cli import rows
from inboxd.cli.actions import DryRun, Yes
from inboxd.cli.help import CommandGroup
from inboxd.cli.options import Config, Json, Reason, ask, examples, load_settings
from inboxd.cli.output import print_json, print_table

if TYPE_CHECKING:
    from inboxd.store.partitions import Partition
    from inboxd.store.session import Session

app = CommandGroup(no_args_is_help=True, help="Look at partitions of history; export, drop, make.")

_EXAMPLE = "inboxd history {} events_history_20260131"

Parts = Annotated[
    list[str],
    typer.Argument(metavar="PARTITION", help="As `list` names them.", show_default=False),
]
Form = Annotated[Literal["jsonl", "csv"], typer.Option("--format", help="What a file looks like.")]


@app.command("list", epilog=examples("inboxd history list", "inboxd history list --json"))
def list_(
    all_: Annotated[
        bool, typer.Option("--all", help="List the empty ones too, such as those of days to come.")
    ] = False,
    config: Config = None,
    json: Json = False,
) -> None:
    """List partitions: their day, size and state, and which retention lets go next."""
    from inboxd.maintenance.partitions.retention import kept, served
    from inboxd.store import partitions

    async def look(session: "Session") -> "list[Partition]":
        return await partitions.listed(session.connection, session.sql, sizes=True)

    settings = load_settings(config)
    listed, keep = ask(settings, look), kept(settings)
    going = {each.part for each in served(listed, keep)}
    found = [{**_plain(each), "due": each.part in going} for each in listed]
    if json:
        print_json({"retention": dict(keep), "partitions": found})
        return
    columns = ("partition", "from", "to", "rows", "size", "state", "exported", "due")
    hidden = [] if all_ else [each for each in found if _is_dull(each)]
    print_table(columns, (_cells(each) for each in found if all_ or not _is_dull(each)))
    if hidden:
        last = max(each["from"] for each in hidden)
        typer.echo(
            f"{len(hidden)} more {'is' if len(hidden) == 1 else 'are'} empty, up to "
            f"{last:%Y-%m-%d}: --all shows them."
        )
    for table, age in keep.items():
        typer.echo(f"{table}: kept {'for ever' if age is None else f'for {age.days} days'}")


@app.command("make", epilog=examples("inboxd history make --days 30"))
def make(
    days: Annotated[int, typer.Option(metavar="N", min=1, max=366, help="How far ahead.")] = 14,
    reason: Reason = None,
    config: Config = None,
    json: Json = False,
) -> None:
    """Make the partitions that are missing for the days ahead, as workers do."""
    from inboxd.maintenance.partitions import manual

    made = ask(
        load_settings(config),
        lambda session: manual.make(session, days, actor=rows.actor(), reason=reason),
    )
    print_json({"made": made}) if json else typer.echo(f"Made {made} partitions.")


@app.command("export", epilog=examples(_EXAMPLE.format("export") + " --to /var/backups/inboxd"))
def export(
    parts: Parts,
    to: Annotated[Path, typer.Option(metavar="DIR", help="The folder.", show_default=False)],
    form: Form = "jsonl",
    reason: Reason = None,
    config: Config = None,
    json: Json = False,
) -> None:
    """Write partitions of history to files; they stay."""
    from inboxd.maintenance.partitions import manual
    from inboxd.maintenance.partitions.export import Exporter

    async def do(session: "Session") -> dict[str, int]:
        who = rows.actor()
        wanted = await manual.chosen(session, parts, to_drop=False)
        writer = Exporter(to, form)
        return {
            each.part: await manual.export(session, each, writer, actor=who, reason=reason)
            for each in wanted
        }

    done = ask(load_settings(config), do, patient=True)
    if json:
        print_json({"exported": done})
        return
    for part, count in done.items():
        typer.echo(f"Exported: {part}, {count:,} rows")


@app.command(
    "drop", epilog=examples(_EXAMPLE.format("drop"), _EXAMPLE.format("drop") + " --dry-run")
)
def drop(
    parts: Parts,
    no_export: Annotated[
        bool, typer.Option("--no-export", help="Not even where the settings say history.export.")
    ] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    reason: Reason = None,
    config: Config = None,
    json: Json = False,
) -> None:
    """Drop partitions now, whatever retention says; payloads that rows need are kept."""
    from inboxd.maintenance.partitions import manual
    from inboxd.maintenance.partitions.retention import exporter

    settings = load_settings(config)
    writer = None if no_export else exporter(settings)

    async def choose(session: "Session") -> list[Any]:
        return [_plain(each) for each in await manual.chosen(session, parts, to_drop=True)]

    async def do(session: "Session") -> dict[str, bool]:
        who = rows.actor()
        return {
            each.part: await manual.drop(session, each, writer, actor=who, reason=reason)
            for each in await manual.chosen(session, parts, to_drop=True)
        }

    asks = sys.stdin.isatty() and not (yes or json)
    if dry_run or asks:
        wanted = ask(settings, choose)
        if json:
            print_json({"partitions": wanted, "export": writer is not None})
        else:
            _print_wanted(wanted, exported=writer is not None)
        if dry_run:
            return
        typer.confirm("Let them go now?", abort=True)
    done = ask(settings, do, patient=True)
    if json:
        print_json({"dropped": done})
        return
    for part, gone in done.items():
        typer.echo(f"Dropped: {part}" if gone else f"Kept, since rows need it: {part}; try later")


def _plain(each: "Partition") -> dict[str, Any]:
    return {
        "partition": each.part,
        "table": each.parent,
        "from": each.low,
        "to": each.high,
        "state": each.state,
        "rows": each.rows,
        "bytes": each.bytes,
        "empty": each.empty,
        "exported": each.exported,
    }


def _is_dull(each: dict[str, Any]) -> bool:
    """Nothing is in it, and nothing happens to it."""
    return bool(each["empty"]) and each["state"] == "attached" and not each["due"]


def _cells(each: dict[str, Any]) -> list[Any]:
    days = [each[name].strftime("%Y-%m-%d") for name in ("from", "to")]
    return [
        *(each["partition"], *days, _about(each["rows"]), _size(each["bytes"])),
        *(each["state"], each["exported"], "yes" if each["due"] else ""),
    ]


def _print_wanted(wanted: list[dict[str, Any]], *, exported: bool) -> None:
    cells = ([each["partition"], _about(each["rows"]), _size(each["bytes"])] for each in wanted)
    print_table(("partition", "rows", "size"), cells)
    typer.echo(f"They would be {'exported and ' if exported else ''}dropped.")


def _about(rows: int | None) -> str:
    """How many rows PostgreSQL takes it to have; it knows once they were analyzed."""
    return "not known" if rows is None else f"{rows:,}"


def _size(count: int) -> str:
    """Bytes, short: 12 kB, 3.4 GB."""
    value = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000:  # noqa: PLR2004 - the step from unit to unit
            return f"{value:.3g} {unit}"
        value /= 1000
    return f"{value:.3g} TB"
