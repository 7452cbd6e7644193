"""Lists and single rows, the same for events and commands.

Promises: a list never reads more than a page; its `next` leads to the page after it. Payloads,
headers and results are shown only when asked for.
Known limit: of what a row created, a hundred are shown; `inboxd trace` counts them all.
"""

import getpass
import socket
from dataclasses import asdict
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

import typer

from inboxd.cli.options import ask, load_settings, read_id, read_until
from inboxd.cli.output import print_fields, print_json, print_table, show
from inboxd.errors import NotFound
from inboxd.model.lifecycle import Status

if TYPE_CHECKING:
    from inboxd.settings import Settings
    from inboxd.store.listing import Filter
    from inboxd.store.session import Session
    from inboxd.store.wakeups import Place

ByType = Annotated[str | None, typer.Option("--type", metavar="TYPE", help="Only this type.")]
ByStatus = Annotated[
    list[Status] | None,
    typer.Option("--status", help="Only this status; may be given several times."),
]
ByTenant = Annotated[str | None, typer.Option("--tenant", metavar="TEXT", help="Only this tenant.")]
Since = Annotated[
    str | None,
    typer.Option(
        metavar="TIME", help="Only what was created since: 2h, 7d, or a time in ISO 8601."
    ),
]
Limit = Annotated[int, typer.Option(metavar="N", min=1, max=10_000, help="Most rows to list.")]
After = Annotated[
    int | None,
    typer.Option(metavar="ID", min=1, help="Go on below this row number: the last one listed."),
]
WithPayload = Annotated[
    bool, typer.Option("--payload", help="Show the payload, headers and result too.")
]

# What a table shows of a list; JSON has every column.
_COLUMNS = ("id", "type", "lane", "status", "attempts", "tenant", "created_at", "duration", "error")
# What `show` begins with, and what it says in sections of its own.
_FIRST = (
    *("id", "event_id", "command_id", "type", "schema_version", "topic", "queue", "status"),
    *("attempts", "run_at", "created_at", "finished_at", "duration"),
)
_RULE = ("made", "left", "next_at", "policy", "source")
_APART = {
    *("errors", "payload", "headers", "result", "progress", "retry", "children", "replays"),
    *("waits_for", "elsewhere"),
    *("origin_kind", "origin_id", "correlation_id", "causation_id"),
    *("replay_of", "batch_id", "traceparent"),
}


def print_list(
    place: "Place", lane: str, wanted: "Filter", config: Path | None, *, json: bool
) -> None:
    """Print a page of a list; `lane` is what a lane is called here: topic or queue."""
    found = ask(load_settings(config), lambda session: _page(session, place, wanted))
    if json:
        print_json(found)
        return
    columns = [lane if name == "lane" else name for name in _COLUMNS]
    print_table(columns, ([row[name] for name in columns] for row in found[place]))
    if found["next"] is not None:
        typer.echo(f"There may be more: add --after {found['next']}", err=True)


def print_one(place: "Place", id: str, config: Path | None, *, payload: bool, json: bool) -> None:
    """Print one row with its retry rules and the commands that it created. Raises NotFound."""
    wanted, settings = read_id(id), load_settings(config)
    found = ask(
        settings, lambda session: _details(session, settings, place, wanted, payload=payload)
    )
    if json:
        print_json(found)
    else:
        _print_details(found)


def reschedule(
    place: "Place", ids: list[str], at: str, reason: str | None, config: Path | None, *, json: bool
) -> None:
    """Give rows another time. Raises UsageError, NotFound or Conflict."""
    from inboxd import operations

    wanted, who, when = [read_id(each) for each in ids], actor(), read_until(at)
    changed = ask(
        load_settings(config),
        lambda session: operations.reschedule(
            session, place, wanted, when, actor=who, reason=reason
        ),
    )
    if json:
        print_json({"rescheduled": changed, "run_at": when})
    else:
        numbers = ", ".join(map(str, changed))
        typer.echo(f"Rescheduled to {show(when)} UTC: {place.removesuffix('s')} {numbers}")


def print_waits(waits: list[dict[str, Any]]) -> None:
    """Print what a command or a batch waits for."""
    columns = ("type", "status", "condition")
    table = ([f"{each['kind']} {each['id']}", *(each[c] for c in columns)] for each in waits)
    print_table(("waits for", *columns), table)


def actor() -> str:
    """Who acts, for the audit: the operating system's user at this host."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container's user id without a name
        user = "unknown"
    return f"{user}@{socket.gethostname()}"


async def _page(session: "Session", place: "Place", wanted: "Filter") -> dict[str, Any]:
    """A page of a list as JSON values: the rows, and where the next page starts."""
    from inboxd.store import listing

    rows = [dict(row) for row in await listing.rows(session, place, wanted)]
    return {place: rows, "next": rows[-1]["id"] if len(rows) == wanted.limit else None}


async def _details(
    session: "Session", settings: "Settings", place: "Place", id: int | UUID, *, payload: bool
) -> dict[str, Any]:
    """One row with its retry rules and the commands that it created. Raises NotFound."""
    from inboxd import operations
    from inboxd.runtime.rules import default_rule
    from inboxd.store import listing

    row = await listing.one(session, place, id, payload=payload)
    if row is None:
        one = place.removesuffix("s")
        raise NotFound(f"there is no {one} {id}: look the id up with `inboxd {place} list`")
    kind = place.removesuffix("s")
    rules = await listing.rules(session, kind, row["type"]) or [asdict(default_rule(settings))]
    row["retry"] = [_retry(rule, row) for rule in rules]
    uuid = UUID(row[f"{kind}_id"])
    created = await operations.created_by(session, uuid, datetime.fromisoformat(row["created_at"]))
    # A row without a story begins one: it is what its descendants carry.
    row["correlation_id"] = row["correlation_id"] or row[f"{kind}_id"]
    row["children"] = [
        {key: getattr(each, key) for key in ("kind", "id", "uuid", "type", "lane", "status")}
        for each in created
    ]
    row["replays"] = await operations.replays_of(session, kind, row["id"])
    waits = row["status"] == Status.WAITING
    row["waits_for"] = await operations.waits_of(session, uuid) if waits else []
    return row


def _print_details(row: dict[str, Any]) -> None:
    """Print what `details` found, for a person."""
    told = {key: row[key] for key in (*_FIRST, *sorted(row)) if key in row.keys() - _APART}
    if told.get("duration") is not None:
        told["duration"] = timedelta(seconds=row["duration"])
    print_fields("", told)
    if _is_skipped(row):
        typer.echo("\nSkipped: it was not needed, since what it waited for ended otherwise.")
    if row.get("elsewhere"):
        others = ((each["topic"], each["id"], each["status"]) for each in row["elsewhere"])
        print_table(("also in", "id", "status"), others)
    print_fields("Lineage", _lineage(row))
    rules = (
        (rule["handler"] or "(nobody)", *(rule[name] for name in _RULE)) for rule in row["retry"]
    )
    print_table(("handler", "attempts", "left", "next", "retry rule", "from"), rules)
    if row["waits_for"]:
        print_waits(row["waits_for"])
    if row["replays"]:
        columns = ("at", "actor", "reason", "new_id")
        print_table(
            ("replayed at", "by", "why", "as"), ([r[c] for c in columns] for r in row["replays"])
        )
    if row["children"]:
        print_table(("created", "type", "in", "status"), map(_child, row["children"]))
    for error in row["errors"] or ():
        print_fields(f"Error at {error.get('at')}", {k: v for k, v in error.items() if k != "at"})
    for key in ("headers", "payload", "progress", "result"):
        if row.get(key) is not None:
            typer.echo(f"\n{key}:")
            print_json(row[key], indent=True)


def _is_skipped(row: dict[str, Any]) -> bool:
    """Cancelled by nobody: by the end of what it waited for."""
    return row["status"] == Status.CANCELLED and not row.get("cancel_requested")


def _child(row: dict[str, Any]) -> list[Any]:
    return [f"{row['kind']} {row['id']}", row["type"], row["lane"], row["status"]]


def _lineage(row: dict[str, Any]) -> dict[str, Any]:
    origin = " ".join(str(row[k]) for k in ("origin_kind", "origin_id") if row.get(k) is not None)
    keys = ("correlation_id", "causation_id", "replay_of", "batch_id", "traceparent")
    return {"origin": origin or "producer", **{key: row.get(key) for key in keys}}


def _has_a_time(row: dict[str, Any]) -> bool:
    """Whether it runs by its own time: it is in no line, or holds the one that it stands in."""
    if row["status"] == Status.WAITING:
        return bool(row.get("head")) or row.get("line_at") is not None
    return bool(row["status"] == Status.PENDING)


def _retry(rule: dict[str, Any], row: dict[str, Any]) -> dict[str, Any]:
    """A rule as it applies to a row, which may allow attempts of its own."""
    own = row.get("max_attempts")
    policy = rule["policy"] if own is None else f"{rule['policy']}; the row itself: attempts {own}"
    most = rule["attempts"] if own is None else own
    waits = row["status"] in (Status.PENDING, Status.WAITING)
    return {
        "handler": rule["handler"],
        "policy": policy,
        "source": rule["source"],
        "made": row["attempts"],
        "left": max(most - row["attempts"], 0) if waits or row["status"] == Status.RUNNING else 0,
        "next_at": row["run_at"] if _has_a_time(row) else None,
    }
