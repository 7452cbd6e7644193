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

from inboxd.cli.options import ask, load_settings, named_in, read_id, read_until
from inboxd.cli.output import print_fields, print_json, print_table, show
from inboxd.errors import NotFound
from inboxd.model.lifecycle import Status

if TYPE_CHECKING:
    from collections.abc import Iterator

    from inboxd.operations import Named, Selection
    from inboxd.settings import Settings
    from inboxd.store.listing import Filter
    from inboxd.store.session import Session
    from inboxd.store.wakeups import Place

ByType = Annotated[str | None, typer.Option("--type", metavar="TYPE", help="Only this type.")]
ByStatus = Annotated[
    list[Status] | None,
    typer.Option(
        "--status",
        metavar="STATUS",
        help=f"Only this status ({', '.join(Status)}); may be given several times.",
    ),
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
_OF_SUSPECTS = ("suspect_group", "lone_crashes", "alone_fence")
_DIED = "WorkerDied"
_RULE = ("made", "left", "next_at", "policy", "source")
_APART = {
    *("errors", "payload", "headers", "result", "progress", "retry", "children", "replays"),
    *("waits_for", "elsewhere", "suspect"),
    *("origin_kind", "origin_id", "correlation_id", "causation_id"),
    *("replay_of", "batch_id", "traceparent"),
}


def print_list(
    place: "Place", lane: str, wanted: "Filter", config: Path | None, *, json: bool
) -> None:
    """Print a page of a list; `lane` is what a lane is called here: topic or queue."""
    settings = load_settings(config)
    found, doubts = ask(settings, lambda session: _page(session, settings, place, wanted))
    for doubt in doubts:
        typer.echo(doubt, err=True)
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
        print_json({"rescheduled": changed.ids, "run_at": when})
    else:
        numbers = ", ".join(map(str, changed.ids))
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


def names_of(place: "Place", wanted: "Filter | Selection") -> "Iterator[tuple[Named, str]]":
    """What a filter names that somebody may have declared, by kind."""
    given: dict[Named, str | None] = (
        {"event type": wanted.type, "topic": wanted.lane}
        if place == "events"
        else {"command type": wanted.type, "queue": wanted.lane}
    )
    return ((kind, name) for kind, name in given.items() if name is not None)


async def _page(
    session: "Session", settings: "Settings", place: "Place", wanted: "Filter"
) -> tuple[dict[str, Any], list[str]]:
    """A page of a list as JSON values: the rows, and where the next page starts.

    And what to say of names that nobody declared, where no row was found.
    """
    from inboxd import operations
    from inboxd.store import listing

    rows = [dict(row) for row in await listing.rows(session, place, wanted)]
    told = [
        await operations.unknown(session, kind, name, also=named_in(settings, kind))
        for kind, name in (() if rows else names_of(place, wanted))
    ]
    next_ = rows[-1]["id"] if len(rows) == wanted.limit else None
    return {place: rows, "next": next_}, [each for each in told if each]


async def _details(
    session: "Session", settings: "Settings", place: "Place", id: int | UUID, *, payload: bool
) -> dict[str, Any]:
    """One row with its retry rules and the commands that it created. Raises NotFound."""
    from inboxd import operations
    from inboxd.registry.retry_rules import default_rule, rules_in
    from inboxd.store import listing

    row = await listing.one(session, place, id, payload=payload)
    if row is None:
        one = place.removesuffix("s")
        raise NotFound(f"there is no {one} {id}: look the id up with `inboxd {place} list`")
    kind = place.removesuffix("s")
    rules = await listing.rules(session, kind, row["type"])
    if kind == "event":
        rules = rules_in(row["topic"], rules, lists=row["mode"] == "batch")
    row["retry"] = [_retry(rule, row) for rule in rules or [asdict(default_rule(settings))]]
    uuid = UUID(row[f"{kind}_id"])
    made_at = datetime.fromisoformat(row["created_at"])
    created = await operations.created_by(session, kind, row["id"], uuid, made_at)
    # A row without a story begins one: it is what its descendants carry.
    row["correlation_id"] = row["correlation_id"] or row[f"{kind}_id"]
    row["children"] = [
        {key: getattr(each, key) for key in ("kind", "id", "uuid", "type", "lane", "status")}
        for each in created
    ]
    row["replays"] = await operations.replays_of(session, kind, row["id"])
    waits = row["status"] == Status.WAITING
    row["waits_for"] = await operations.waits_of(session, uuid) if waits else []
    row["suspect"] = await _suspicion(session, row)
    return row


async def _suspicion(session: "Session", row: dict[str, Any]) -> dict[str, Any] | None:
    """Of a command that ran on a worker when it died: on which, and how it runs until it ends."""
    from inboxd.store import suspects

    group, lone, _ = (row.pop(key, None) for key in _OF_SUSPECTS)
    if group is None:
        return None
    died = [each for each in row["errors"] or () if each.get("error", "").startswith(_DIED)]
    return {
        "died_on": died[-1].get("process", died[-1].get("worker")) if died else None,
        "others": await suspects.others(session, UUID(group), row["id"]),
        "alone": lone is not None,
        "deaths_alone": lone or 0,
    }


def _print_details(row: dict[str, Any]) -> None:
    """Print what `details` found, for a person."""
    told = {key: row[key] for key in (*_FIRST, *sorted(row)) if key in row.keys() - _APART}
    if told.get("duration") is not None:
        told["duration"] = timedelta(seconds=row["duration"])
    print_fields("", told)
    if _is_skipped(row):
        typer.echo("\nSkipped: it was not needed, since what it waited for ended otherwise.")
    _print_suspicion(row["suspect"])
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


def _print_suspicion(suspect: dict[str, Any] | None) -> None:
    """Say why a suspect waits, and how it runs."""
    if suspect is None:
        return
    where = suspect["died_on"] or "(unknown)"
    others = suspect["others"]
    how = "beside ordinary commands"
    if others:
        how = f"with {others} other{'s' * (others > 1)} of its group, {how}"
    if suspect["alone"]:
        how = f"alone; deaths at which it ran alone: {suspect['deaths_alone']}"
    typer.echo(f"\nSuspect: ran on worker {where} when it died. It runs {how}.")


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
