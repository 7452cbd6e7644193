"""`inboxd schedules`: what is sent at certain times.

Known limit: it shows what workers have declared; what the settings say now is seen by `check`.
"""

from typing import Any

from inboxd.cli.help import CommandGroup
from inboxd.cli.options import Config, Json, ask, examples, load_settings
from inboxd.cli.output import print_json, print_table

app = CommandGroup(no_args_is_help=True, help="Look at schedules.")


@app.command("list", epilog=examples("inboxd schedules list", "inboxd schedules list --json"))
def list_(config: Config = None, json: Json = False) -> None:
    """List schedules: what is sent when, the next and the last run, and who declares it."""
    from inboxd.store import schedules

    found = [dict(row) for row in ask(load_settings(config), schedules.listed)]
    if json:
        print_json({"schedules": found})
        return
    columns = ("name", "cron", "zone", "sends", "missed", "next run", "last run", "from", "")
    print_table(columns, map(_shown, found))


def _shown(row: dict[str, Any]) -> list[Any]:
    held = "undeclared" if row["undeclared_at"] else "paused" if row["paused_at"] else ""
    return [
        *(row["name"], row["cron"], row["zone"], f"{row['kind']} {row['type']}", row["missed"]),
        *(None if held else row["next_at"], row["last_at"], row["source"], held),
    ]
