"""`inboxd events show`, `inboxd commands show`: one row in full.

Promises: payloads, headers and results are shown only when asked for, and columns that only the
daemon reads only with `--verbose`; JSON has all of those.
Known limit: of what a row created, a hundred are shown; `inboxd trace` counts them all.
"""

import base64
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

import typer

from inboxd.cli import columns
from inboxd.cli.breakers import LIST as BREAKERS
from inboxd.cli.options import Looking, read_id
from inboxd.cli.output import Document, Fields, Part, TableColumn
from inboxd.cli.output import show as shown
from inboxd.errors import NotFound, UsageError
from inboxd.model.lifecycle import Status
from inboxd.model.wording import plural

if TYPE_CHECKING:
    from inboxd.settings import Settings
    from inboxd.store.session import Session
    from inboxd.store.wakeups import HotTable


@dataclass(frozen=True, kw_only=True)
class Showing(Looking):
    """How much of a row is shown."""

    payload: Annotated[
        bool, typer.Option("--payload", help="Show the payload, headers and result too.")
    ] = False
    raw: Annotated[
        bool, typer.Option("--raw", help="Show the webhook that an event came in, as it came.")
    ] = False
    verbose: Annotated[
        bool, typer.Option("--verbose", help="Show what only the daemon reads, too.")
    ] = False


# The first fields, those in sections of their own, and those that only the daemon reads.
_FIRST = (
    *("id", "event_id", "command_id", "type", "schema_version", "topic", "queue", "status"),
    *("attempts", "run_at", "created_at", "finished_at", "duration"),
)
_APART = {
    *("errors", "payload", "headers", "result", "progress", "retry", "children", "replays"),
    *("waits_for", "elsewhere", "suspect", "receipt", "breakers"),
    *("origin_kind", "origin_id", "correlation_id", "causation_id"),
    *("replay_of", "batch_id", "traceparent"),
}
_INTERNAL = {
    *("awaited", "body_at", "body_bytes", "body_id", "bucket", "fence", "head", "line_at"),
    *("needs", "position"),
}
_OF_SUSPECTS = ("suspect_group", "lone_crashes", "alone_fence")
_DIED = "WorkerDied"
_RECEIPT = (
    *("receipt_id", "received_at", "source", "outcome", "address", "key_id"),
    *("content_type", "body_bytes"),
)


def _named(row: dict[str, Any]) -> str:
    return f"{row['kind']} {row['id']}"


WAITS = (TableColumn("waits for", _named), "type", "status", "condition")
_RETRY = (
    TableColumn("handler", lambda rule: rule["handler"] or "(nobody)", cut="left"),
    TableColumn("attempts", "made", kind="number"),
    TableColumn("left", kind="number"),
    TableColumn("next", "next_at", kind="time"),
    TableColumn("retry rule", "policy", cut="right"),
    TableColumn("from", "source", cut="right"),
)
_TABLES = {
    "elsewhere": (TableColumn("also in", "topic", cut="left"), "id", "status"),
    "retry": _RETRY,
    "waits_for": WAITS,
    "breakers": BREAKERS,
    "replays": (
        *(TableColumn("replayed", "at", kind="time"), "by", "why"),
        TableColumn("as", "new_id", kind="number"),
    ),
    "children": (TableColumn("created", _named), "type", "in", "status"),
}


def print_one(table: "HotTable", id: str, given: Showing) -> None:
    """Print one row with its retry rules and what it created. Raises NotFound."""
    wanted, settings = read_id(id), given.settings
    if given.raw and table != "events":
        raise UsageError("a command came in no webhook: --raw is for events.")

    async def look(session: "Session") -> dict[str, Any]:
        row = await _details(session, settings, table, wanted, payload=given.payload)
        row["receipt"] = await _receipt(session, row, raw=given.raw)
        return row

    found = given.ask(look)
    given.print(found, _parts(found, verbose=given.verbose))


async def _details(
    session: "Session", settings: "Settings", table: "HotTable", id: int | UUID, *, payload: bool
) -> dict[str, Any]:
    """One row with its retry rules and the commands that it created. Raises NotFound."""
    from inboxd import operations
    from inboxd.registry.retry_rules import default_rule, rules_in
    from inboxd.store import breakers, listing

    row = await listing.one(session, table, id, payload=payload)
    if row is None:
        one = table.removesuffix("s")
        raise NotFound(f"there is no {one} {id}: look the id up with `inboxd {table} list`")
    kind = table.removesuffix("s")
    rules = await listing.rules(session, kind, row["type"])
    if kind == "event":
        rules = rules_in(row["topic"], rules, chunks=row["mode"] == "batch")
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
    uses = [f"{kind} {row['type']}"] + ([f"queue {row['queue']}"] if kind == "command" else [])
    needed = await breakers.listed(session, uses=uses)
    row["breakers"] = [dict(each) for each in needed]
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


async def _receipt(session: "Session", row: dict[str, Any], *, raw: bool) -> dict[str, Any] | None:
    """The webhook that an event came in; None: it came otherwise, or that is gone."""
    from inboxd.store import receipts

    if row["origin_kind"] != "receipt" or row["causation_id"] is None:
        return None
    found = await receipts.one(session, UUID(row["causation_id"]), raw=raw)
    if found is None:
        return None
    told: dict[str, Any] = {key: found[key] for key in _RECEIPT}  # type: ignore[literal-required]
    if raw:
        body, headers = found.get("body"), found.get("headers")
        told["headers"] = None if headers is None else json.loads(headers)
        told |= {"body": None} if body is None else _readable(body)
    return told


def _readable(body: bytes) -> dict[str, str]:
    """A body as text, or else in base64."""
    try:
        return {"body": body.decode()}
    except UnicodeDecodeError:
        return {"body_base64": base64.b64encode(body).decode()}


def _receipt_told(receipt: dict[str, Any]) -> Iterator[Part]:
    yield Fields({key.replace("_", " "): receipt[key] for key in _RECEIPT}, "Receipt")
    if receipt.get("headers") is not None:
        yield Document("headers as they came", receipt["headers"])
    for key in ("body", "body_base64"):
        if receipt.get(key) is not None:
            yield f"{key.replace('_', ' ')} as it came:\n{receipt[key]}"


def _parts(row: dict[str, Any], *, verbose: bool) -> Iterator[Part]:
    """What `_details` found, for a person."""
    hidden = _APART if verbose else _APART | _INTERNAL
    told = {key: row[key] for key in (*_FIRST, *sorted(row)) if key in row.keys() - hidden}
    yield Fields({key.replace("_", " "): _read(key, told[key]) for key in told})
    if _is_skipped(row):
        yield "Skipped: it was not needed, since what it waited for ended otherwise."
    if row["suspect"] is not None:
        yield _suspicion_told(row["suspect"])
    yield Fields(_lineage(row), "Lineage")
    if row["receipt"] is not None:
        yield from _receipt_told(row["receipt"])
    for key, shown_columns in _TABLES.items():
        if row.get(key):
            yield columns.table(shown_columns, row[key])
    for error in row["errors"] or ():
        at = shown(_read("at", error.get("at")))
        yield Fields({k: v for k, v in error.items() if k != "at"}, f"Error at {at}")
    for key in ("headers", "payload", "progress", "result"):
        if row.get(key) is not None:
            yield Document(key, row[key])


def _read(key: str, value: Any) -> object:
    """A JSON value as what it is: a time, or a span of time."""
    if value is None:
        return None
    if key == "at" or key.endswith("_at"):
        return datetime.fromisoformat(value)
    return timedelta(seconds=value) if key == "duration" else value


def _is_skipped(row: dict[str, Any]) -> bool:
    """Cancelled by nobody: by the end of what it waited for."""
    return row["status"] == Status.CANCELLED and not row.get("cancel_requested")


def _suspicion_told(suspect: dict[str, Any]) -> str:
    """Why a suspect waits, and how it runs."""
    where = suspect["died_on"] or "(unknown)"
    others = suspect["others"]
    how = "beside ordinary commands"
    if others:
        how = f"with {plural(others, 'other')} of its group, {how}"
    if suspect["alone"]:
        how = f"alone; deaths at which it ran alone: {suspect['deaths_alone']}"
    return f"Suspect: ran on worker {where} when it died. It runs {how}."


def _lineage(row: dict[str, Any]) -> dict[str, Any]:
    names = ("origin_kind", "causation_id" if row["origin_kind"] == "receipt" else "origin_id")
    origin = " ".join(str(row[k]) for k in names if row.get(k) is not None)
    keys = ("correlation_id", "causation_id", "replay_of", "batch_id", "traceparent")
    told = {key.replace("_", " "): row.get(key) for key in keys}
    return {"origin": origin or "producer", **told}


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
