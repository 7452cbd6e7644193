"""`inboxd schedules`: schedules that workers declare or operators add."""

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
    no_args_is_help=True, help="Show schedules; run one now; add, change and remove them."
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


def _state(row: dict[str, Any]) -> str:
    return "undeclared" if row["undeclared_at"] else "paused" if row["paused_at"] else ""


_COLUMNS = (
    TableColumn("name", cut="left"),
    TableColumn("cron"),
    TableColumn("zone", cut="left"),
    TableColumn("sends", lambda row: f"{row['kind']} {row['type']}", cut="left"),
    TableColumn("missed", extra=True, legend="treatment of runs that were due while no worker ran"),
    TableColumn(
        "expires after",
        kind="span",
        extra=True,
        legend="time after a run at which its command is cancelled, unless it started",
    ),
    TableColumn("next run", lambda row: None if _state(row) else row["next_at"], kind="time"),
    TableColumn("last run", "last_at", kind="time"),
    TableColumn(
        "from",
        lambda row: f"added by {row['source']}" if row["added_at"] else row["source"],
        cut="left",
        extra=True,
    ),
    TableColumn("state", _state),
    TableColumn("title", cut="right", extra=True),
    TableColumn("description", cut="right", extra=True),
)


@app.command("list", epilog=examples("inboxd schedules list", "inboxd schedules list --json"))
def list_(given: Looking) -> None:
    """List schedules: their times and types, the next and last run, and their source."""
    from inboxd.store import schedules

    found = [dict(row) for row in given.ask(schedules.listed)]
    given.print({"schedules": found}, [columns.table(_COLUMNS, found)])


@app.command("run", epilog=examples("inboxd schedules run nightly-report --reason 'it was missed'"))
def run(name: Name, given: Acting) -> None:
    """Send the event or command of a schedule once, now, even if the schedule is paused."""
    from inboxd.operations.by_hand import run_schedule

    at = given.do(run_schedule, name)
    given.tell({"schedule": name, "run_at": at}, f"Sent: schedule {show(name)}, run {show(at)}")


def _text(metavar: str, text: str, *names: str) -> Any:
    return typer.Option(*names, metavar=metavar, help=text, show_default=False)


@dataclass(frozen=True, kw_only=True)
class ScheduleFields(Acting):
    payload: Annotated[
        str | None, _text("JSON|-|@FILE", "Payload; -: standard input. Default: {}.")
    ] = None
    zone: Annotated[
        str | None,
        _text("ZONE", "Time zone of the cron expression, such as Europe/Berlin. Default: UTC."),
    ] = None
    missed: Annotated[
        str | None,
        _text("once|skip|all", "Which missed runs are sent later. Default: once, the newest."),
    ] = None
    topic: Annotated[
        str | None, _text("TEXT", "Topic of the event. Default: the topics of its type.")
    ] = None
    queue: Annotated[
        str | None, _text("TEXT", "Queue of the command. Default: the queue of its handler.")
    ] = None
    priority: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=-32768,
            max=32767,
            help="The command's priority: smaller numbers run first.",
        ),
    ] = None
    expires_after: Annotated[
        str | None,
        _text("DURATION", "Time after a run at which its command is cancelled, unless it started."),
    ] = None
    tenant: Annotated[str | None, _text("TEXT", "Tenant of the row.")] = None
    time_field: Annotated[
        str | None, _text("FIELD", "Field of the payload that gets the time of the run.")
    ] = None
    schema_version: Annotated[
        int | None, typer.Option(metavar="N", min=1, max=32767, help="Schema version. Default: 1.")
    ] = None
    title: Annotated[str | None, _text("TEXT", "Title, for people.")] = None
    description: Annotated[str | None, _text("TEXT", "Purpose, for people.")] = None

    def said(self) -> dict[str, object]:
        from inboxd.cli.payload import read_payload
        from inboxd.model import duration

        payload = None if self.payload is None else read_payload(self.payload)
        given = {"payload": payload, **{name: getattr(self, name) for name in _FIELDS}}
        if self.expires_after is not None:
            given["expires_after"] = duration.parse(self.expires_after)
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
        str, typer.Argument(metavar="NAME", help="The new schedule's name.", show_default=False)
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
    event: Annotated[str | None, _text("TYPE", "Emit an event of this type.")] = None,
    command: Annotated[str | None, _text("TYPE", "Send a command of this type.")] = None,
    force: Force = False,
    given: ScheduleFields,
) -> None:
    """Add a schedule, which workers run from now on until it is removed."""
    from inboxd.operations.schedules import add_schedule, check_names, new_schedule

    if event is not None and command is None:
        schedule = new_schedule(name, cron, "event", event, given.said())
    elif command is not None and event is None:
        schedule = new_schedule(name, cron, "command", command, given.said())
    else:
        raise UsageError("give --event TYPE or --command TYPE, and only one of them.")
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
    cron: Annotated[str | None, _text("CRON", "New cron expression.")] = None,
    clear: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FIELD",
            help="Remove this field's value, such as tenant; repeatable. The payload becomes {}.",
            show_default=False,
        ),
    ] = None,
    force: Force = False,
    given: ScheduleFields,
) -> None:
    """Change a schedule that was added by hand; fields that are not given stay unchanged."""
    from inboxd.operations.schedules import (
        added_schedule,
        change_schedule,
        changed,
        check_names,
    )

    changes = given.said() | ({} if cron is None else {"cron": cron})
    changes |= _cleared(clear or (), changes)
    if not changes:
        raise UsageError("no change is given: give an option, such as --cron '0 3 * * *'.")
    if not force and (given.topic or given.queue):
        before = given.ask(lambda session: added_schedule(session, name))
        after, of = changed(before, changes), partial(named_in, given.settings)
        given.ask(lambda session: check_names(session, after, of, before))
    next_at = given.do(change_schedule, name, changes)
    told = f"Changed: schedule {show(name)}, next run {show(next_at)}"
    given.tell({"schedule": name, "next_at": next_at}, told)


def _cleared(names: Sequence[str], changes: Mapping[str, object]) -> dict[str, object]:
    from inboxd.operations.schedules import CLEARED

    cleared = {}
    for name in names:
        field = name.replace("-", "_")
        if field not in CLEARED:
            known = ", ".join(each.replace("_", "-") for each in CLEARED)
            raise UsageError(f"{name[:40]!r} cannot be cleared: --clear takes {known}.")
        if field in changes:
            raise UsageError(f"give --{name} or --clear {name}, not both.")
        cleared[field] = CLEARED[field]
    return cleared


@app.command("remove", epilog=examples("inboxd schedules remove cleanup --reason 'not needed'"))
def remove(name: Name, given: Acting) -> None:
    """Remove a schedule that was added by hand; rows that it has sent stay."""
    from inboxd.operations.schedules import remove_schedule

    given.do(remove_schedule, name)
    given.tell({"schedule": name}, f"Removed: schedule {show(name)}")
