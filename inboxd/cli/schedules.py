"""`inboxd schedules`: what is sent at certain times.

Known limit: it shows what workers have declared; `check` judges the settings.
"""

from typing import Any

from inboxd.cli import columns
from inboxd.cli.groups import CommandGroup
from inboxd.cli.options import Looking, examples
from inboxd.cli.output import TableColumn

app = CommandGroup(no_args_is_help=True, help="Look at schedules.")


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
    TableColumn("from", "source", cut="left", extra=True),
    TableColumn("state", _held),
)


@app.command("list", epilog=examples("inboxd schedules list", "inboxd schedules list --json"))
def list_(given: Looking) -> None:
    """List schedules: what is sent when, the next and the last run, and who declares it."""
    from inboxd.store import schedules

    found = [dict(row) for row in given.ask(schedules.listed)]
    given.print({"schedules": found}, [columns.table(_COLUMNS, found)])
