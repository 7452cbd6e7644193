"""`inboxd events show`, `inboxd commands show`: one row in full; the payload only if asked for.

Known limit: at most 100 created rows are shown; `inboxd trace` counts them all.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from inboxd.cli import columns
from inboxd.cli.breakers import LIST as BREAKERS
from inboxd.cli.errors_shown import fields_at_fault, folded
from inboxd.cli.options import Looking
from inboxd.cli.output import Document, Fields, Part, TableColumn
from inboxd.errors import UsageError
from inboxd.model.row_id import read_row_id
from inboxd.model.wording import STATUS_WORDS, plural

if TYPE_CHECKING:
    from inboxd.store.session import Session
    from inboxd.store.wakeups import HotTable


@dataclass(frozen=True, kw_only=True)
class Showing(Looking):
    payload: Annotated[
        bool, typer.Option("--payload", help="Also show the payload, headers and result.")
    ] = False
    raw: Annotated[
        bool, typer.Option("--raw", help="Show the webhook of an event, as it was received.")
    ] = False
    verbose: Annotated[
        bool, typer.Option("--verbose", help="Also show columns that only the daemon reads.")
    ] = False


# Fields shown first, fields with sections of their own, and fields that only the daemon reads.
_FIRST = (
    *("id", "event_id", "command_id", "type", "title", "description", "schema_version"),
    *("topic", "queue", "status", "tenant", "tenant_name"),
    *("attempts", "run_at", "created_at", "finished_at", "duration"),
)
_APART = {
    *("errors", "payload", "headers", "result", "progress", "retry", "children", "replays"),
    *("waits_for", "elsewhere", "suspect", "receipt", "breakers", "withheld"),
    *("secret_keys", "ended_as"),
    *("links", "names_missing", "why"),
    *("origin_kind", "origin_id", "correlation_id", "causation_id"),
    *("replay_of", "batch_id", "traceparent"),
}
_INTERNAL = {
    *("awaited", "body_at", "body_bytes", "body_id", "bucket", "fence", "head", "line_at"),
    *("needs", "position"),
}
# Contents of a receipt.
_AS_IT_CAME = ("headers", "body", "body_base64")


def _named(row: dict[str, Any]) -> str:
    return f"{row['kind']} {row['id']}"


WAITS = (TableColumn("waits for", _named), "type", "status", "condition")
_RETRY = (
    TableColumn("handler", lambda rule: rule["handler"] or "(none)", cut="left"),
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
    "children": (TableColumn("created", _named), "type", "topic/queue", "status"),
}


def print_one(table: "HotTable", id: str, given: Showing) -> None:
    from inboxd import operations

    wanted, settings = read_row_id(id), given.settings
    if given.raw and table != "events":
        raise UsageError("--raw is for events: a command has no webhook.")

    async def look(session: "Session") -> dict[str, Any]:
        return await operations.details(
            session, settings, table, wanted, payload=given.payload, raw=given.raw
        )

    found = given.ask(look)
    withheld = found["withheld"]
    told = [f"This role cannot read: {', '.join(withheld)}."] if withheld else []
    if missing := found.get("names_missing"):
        told.append(missing[:1].upper() + missing[1:])
    if not (given.payload or withheld):
        told.append(_payload_told(table, found))
    given.print(found, _parts(found, verbose=given.verbose), told)


def _payload_told(table: "HotTable", row: dict[str, Any]) -> str:
    text = f"To see its payload: inboxd {table} show {row['id']} --payload"
    if fields := fields_at_fault(row["errors"] or ()):
        text += f" (with the values at {', '.join(fields)}, which errors do not contain)"
    return text


def _receipt_told(receipt: dict[str, Any]) -> Iterator[Part]:
    told = {key: value for key, value in receipt.items() if key not in _AS_IT_CAME}
    yield Fields({key.replace("_", " "): told[key] for key in told}, "Receipt")
    if receipt.get("headers") is not None:
        yield Document("received headers", receipt["headers"])
    for key in _AS_IT_CAME[1:]:
        if receipt.get(key) is not None:
            yield f"received {key.replace('_', ' ')}:\n{receipt[key]}"


def _parts(row: dict[str, Any], *, verbose: bool) -> Iterator[Part]:
    hidden = _APART if verbose else _APART | _INTERNAL
    told = {key: row[key] for key in (*_FIRST, *sorted(row)) if key in row.keys() - hidden}
    fields = {key.replace("_", " "): _read(key, told[key]) for key in told}
    yield Fields(fields | {"status": _status(row["status"])})
    yield from _told(row)
    yield Fields(_lineage(row), "Lineage")
    if row["links"]:
        yield Fields(row["links"], "Links")
    if row["receipt"] is not None:
        yield from _receipt_told(row["receipt"])
    for key, shown_columns in _TABLES.items():
        if row.get(key):
            yield columns.table(shown_columns, row[key])
    yield from folded(row["errors"] or ())
    for key in ("headers", "payload", "progress", "result"):
        if row.get(key) is not None:
            yield Document(key, row[key])


def _status(status: str) -> str:
    return f"{status} ({STATUS_WORDS[status]})"


def _read(key: str, value: Any) -> object:
    if value is None:
        return None
    if key == "at" or key.endswith("_at"):
        return datetime.fromisoformat(value)
    return timedelta(seconds=value) if key == "duration" else value


def _told(row: dict[str, Any]) -> Iterator[Part]:
    if row["why"] is not None:
        yield row["why"]["sentence"]
    if row.get("ended_as") == "expired":
        yield "Expired: it had not started by its expires_at."
    if row.get("ended_as") == "skipped":
        yield "Skipped: the row that it waited for had another outcome than required."
    if row["suspect"] is not None:
        yield _suspicion_told(row["suspect"])


def _suspicion_told(suspect: dict[str, Any]) -> str:
    where = suspect["died_on"] or "(unknown)"
    others = suspect["others"]
    how = "beside ordinary commands"
    if others:
        how = f"with {plural(others, 'other')} of its group, {how}"
    if suspect["alone"]:
        how = f"alone; worker deaths while it ran alone: {suspect['deaths_alone']}"
    return f"Suspect: it was running on worker {where} when the worker died. It runs {how}."


def _lineage(row: dict[str, Any]) -> dict[str, Any]:
    names = ("origin_kind", "causation_id" if row["origin_kind"] == "receipt" else "origin_id")
    origin = " ".join(str(row[k]) for k in names if row.get(k) is not None)
    keys = ("correlation_id", "causation_id", "replay_of", "batch_id", "traceparent")
    told = {key.replace("_", " "): row.get(key) for key in keys}
    return {"origin": origin or "producer", **told}
