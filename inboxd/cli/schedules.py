"""`inboxd schedules`: what is sent at certain times, and what operators add to it.

Known limit: it shows what workers have declared; `check` judges the settings.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

import typer

from inboxd.cli import columns
from inboxd.cli.completion import declared
from inboxd.cli.groups import CommandGroup
from inboxd.cli.options import Acting, Force, Looking, examples, named_in
from inboxd.cli.output import TableColumn, show
from inboxd.errors import UsageError

app = CommandGroup(
    no_args_is_help=True, help="Look at schedules, run one now, add, change and remove them."
)

Name = Annotated[
    str,
    typer.Argument(
        metavar="NAME",
        help="The schedule.",
        show_default=False,
        autocompletion=declared("schedule"),
    ),
]


def _held(row: dict[str, Any]) -> str:
    return "undeclared" if row["undeclared_at"] else "paused" if row["paused_at"] else ""


_COLUMNS = (
    TableColumn("name", cut="left"),
    TableColumn("cron"),
    TableColumn("zone", cut="left"),
    TableColumn("sends", lambda row: f"{row['kind']} {row['type']}", cut="left"),
    TableColumn("missed", extra=True, legend="what becomes of runs that nobody was there for"),
    TableColumn("next run", lambda row: None if _held(row) else row["next_at"], kind="time"),
    TableColumn("last run", "last_at", kind="time"),
    TableColumn(
        "from",
        lambda row: f"added by {row['source']}" if row["added_at"] else row["source"],
        cut="left",
        extra=True,
    ),
    TableColumn("state", _held),
    TableColumn("title", cut="right", extra=True),
    TableColumn("description", cut="right", extra=True),
)


@app.command("list", epilog=examples("inboxd schedules list", "inboxd schedules list --json"))
def list_(given: Looking) -> None:
    """List schedules: what is sent when, the next and the last run, and who declares it."""
    from inboxd.store import schedules

    found = [dict(row) for row in given.ask(schedules.listed)]
    given.print({"schedules": found}, [columns.table(_COLUMNS, found)])


@app.command("run", epilog=examples("inboxd schedules run nightly-report --reason 'it was missed'"))
def run(name: Name, given: Acting) -> None:
    """Send what a schedule sends once, now, besides its times; also while it is paused."""
    from inboxd.operations.by_hand import run_schedule

    at = given.do(run_schedule, name)
    given.tell({"schedule": name, "run_at": at}, f"Sent: schedule {show(name)}, run {show(at)}")


def _text(metavar: str, told: str, *names: str) -> Any:
    return typer.Option(*names, metavar=metavar, help=told, show_default=False)


@dataclass(frozen=True, kw_only=True)
class ScheduleFields(Acting):
    """What is sent, but for its type and its times; None: not said."""

    payload: Annotated[
        str | None, _text("JSON|-|@FILE", "What is sent; -: standard input. Else {}.")
    ] = None
    zone: Annotated[str | None, _text("ZONE", "Of the times, such as Europe/Berlin; else UTC.")] = (
        None
    )
    missed: Annotated[
        str | None, _text("once|skip|all", "What becomes of missed runs; else one is made up for.")
    ] = None
    topic: Annotated[str | None, _text("TEXT", "Of an event; else those of its type.")] = None
    queue: Annotated[str | None, _text("TEXT", "Of a command; else its handler's.")] = None
    priority: Annotated[
        int | None,
        typer.Option(metavar="N", min=-32768, max=32767, help="Of a command: smaller goes first."),
    ] = None
    tenant: Annotated[str | None, _text("TEXT", "Whose it is.")] = None
    time_field: Annotated[
        str | None, _text("FIELD", "The payload's field that gets the time of the run.")
    ] = None
    schema_version: Annotated[
        int | None, typer.Option(metavar="N", min=1, max=32767, help="Schema version; else 1.")
    ] = None
    title: Annotated[str | None, _text("TEXT", "What people call it.")] = None
    description: Annotated[str | None, _text("TEXT", "What it is for.")] = None

    def said(self) -> dict[str, object]:
        """What was said. Raises UsageError for a payload that is not JSON."""
        from inboxd.cli.produce import read_payload

        payload = None if self.payload is None else read_payload(self.payload)
        given = {"payload": payload, **{name: getattr(self, name) for name in _FIELDS}}
        return {name: value for name, value in given.items() if value is not None}


_FIELDS = (
    *("zone", "missed", "topic", "queue", "priority", "tenant", "time_field"),
    *("schema_version", "title", "description"),
)


@app.command(
    "add",
    epilog=examples(
        "inboxd schedules add cleanup '*/15 * * * *' --command school.clean_up",
        "inboxd schedules add day '0 0 * * *' --event day.began --zone Europe/Berlin "
        "--time-field at",
    ),
)
def add(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="What it is called.", show_default=False)
    ],
    cron: Annotated[
        str,
        typer.Argument(
            metavar="CRON",
            help='Minute, hour, day of month, month, day of week: "30 7 * * MON-FRI".',
            show_default=False,
        ),
    ],
    *,
    event: Annotated[str | None, _text("TYPE", "The type of the event that it emits.")] = None,
    command: Annotated[str | None, _text("TYPE", "The type of the command that it sends.")] = None,
    force: Force = False,
    given: ScheduleFields,
) -> None:
    """Add a schedule that any worker sends, from now on and until it is removed."""
    from inboxd.operations.schedules import add_schedule, check_names, new_schedule

    if event is not None and command is None:
        schedule = new_schedule(name, cron, "event", event, given.said())
    elif command is not None and event is None:
        schedule = new_schedule(name, cron, "command", command, given.said())
    else:
        raise UsageError("give --event TYPE or --command TYPE: what it sends.")
    if not force:
        of = partial(named_in, given.settings)
        given.ask(lambda session: check_names(session, schedule, of))
    next_at = given.do(add_schedule, schedule)
    told = f"Added: schedule {show(name)}, next run {show(next_at)}"
    given.tell({"schedule": name, "next_at": next_at}, told)


@app.command(
    "change",
    epilog=examples(
        "inboxd schedules change cleanup --cron '0 * * * *' --reason 'too often'",
        "inboxd schedules change cleanup --clear tenant --clear time-field",
    ),
)
def change(
    name: Name,
    *,
    cron: Annotated[str | None, _text("CRON", "Its times.")] = None,
    clear: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FIELD",
            help="Take this away, such as tenant; again for several. A payload is {} then.",
            show_default=False,
        ),
    ] = None,
    force: Force = False,
    given: ScheduleFields,
) -> None:
    """Change a schedule that was added by hand; what is not said stays as it is."""
    from inboxd.operations.schedules import (
        added_schedule,
        change_schedule,
        changed,
        check_names,
    )

    changes = given.said() | ({} if cron is None else {"cron": cron})
    changes |= _cleared(clear or (), changes)
    if not changes:
        raise UsageError("nothing is to be changed: say what, such as --cron '0 3 * * *'.")
    if not force and (given.topic or given.queue):
        before = given.ask(lambda session: added_schedule(session, name))
        after, of = changed(before, changes), partial(named_in, given.settings)
        given.ask(lambda session: check_names(session, after, of, before))
    next_at = given.do(change_schedule, name, changes)
    told = f"Changed: schedule {show(name)}, next run {show(next_at)}"
    given.tell({"schedule": name, "next_at": next_at}, told)


def _cleared(names: Sequence[str], changes: Mapping[str, object]) -> dict[str, object]:
    """What is taken away. Raises UsageError for what cannot be, or is said as well."""
    from inboxd.operations.schedules import CLEARED

    cleared = {}
    for name in names:
        field = name.replace("-", "_")
        if field not in CLEARED:
            known = ", ".join(each.replace("_", "-") for each in CLEARED)
            raise UsageError(f"{name[:40]!r} is not a field that can be cleared: {known} are.")
        if field in changes:
            raise UsageError(f"--{name} is given, and to be cleared: choose one.")
        cleared[field] = CLEARED[field]
    return cleared


@app.command("remove", epilog=examples("inboxd schedules remove cleanup --reason 'not needed'"))
def remove(name: Name, given: Acting) -> None:
    """Remove a schedule that was added by hand; what it has sent stays."""
    from inboxd.operations.schedules import remove_schedule

    given.do(remove_schedule, name)
    given.tell({"schedule": name}, f"Removed: schedule {show(name)}")
