"""`inboxd events show`, `inboxd commands show`: one row in full.

Promises: payloads, headers and results are shown only when asked for, and columns that only the
daemon reads only with `--verbose`; JSON has all of those.
Known limit: of what a row created, a hundred are shown; `inboxd trace` counts them all.
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
from inboxd.model.lifecycle import Status
from inboxd.model.row_id import read_row_id
from inboxd.model.wording import STATUS_WORDS, plural

if TYPE_CHECKING:
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
    *("id", "event_id", "command_id", "type", "title", "description", "schema_version"),
    *("topic", "queue", "status", "tenant", "tenant_name"),
    *("attempts", "run_at", "created_at", "finished_at", "duration"),
)
_APART = {
    *("errors", "payload", "headers", "result", "progress", "retry", "children", "replays"),
    *("waits_for", "elsewhere", "suspect", "receipt", "breakers", "withheld"),
    "secret_keys",
    *("links", "names_missing", "why"),
    *("origin_kind", "origin_id", "correlation_id", "causation_id"),
    *("replay_of", "batch_id", "traceparent"),
}
_INTERNAL = {
    *("awaited", "body_at", "body_bytes", "body_id", "bucket", "fence", "head", "line_at"),
    *("needs", "position"),
}
# Of a receipt, as it came.
_AS_IT_CAME = ("headers", "body", "body_base64")


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
    "children": (TableColumn("created", _named), "type", "topic/queue", "status"),
}


def print_one(table: "HotTable", id: str, given: Showing) -> None:
    """Print one row with its retry rules and what it created. Raises NotFound."""
    from inboxd import operations

    wanted, settings = read_row_id(id), given.settings
    if given.raw and table != "events":
        raise UsageError("a command came in no webhook: --raw is for events.")

    async def look(session: "Session") -> dict[str, Any]:
        return await operations.details(
            session, settings, table, wanted, payload=given.payload, raw=given.raw
        )

    found = given.ask(look)
    withheld = found["withheld"]
    told = [f"This role may not read: {', '.join(withheld)}."] if withheld else []
    if missing := found.get("names_missing"):
        told.append(missing[:1].upper() + missing[1:])
    if not (given.payload or withheld):
        told.append(_payload_told(table, found))
    given.print(found, _parts(found, verbose=given.verbose), told)


def _payload_told(table: "HotTable", row: dict[str, Any]) -> str:
    """Where its payload is to be had; an error names a field and no value."""
    told = f"Its payload: inboxd {table} show {row['id']} --payload"
    if fields := fields_at_fault(row["errors"] or ()):
        told += f" (also what came at {', '.join(fields)}: errors keep no values)"
    return told


def _receipt_told(receipt: dict[str, Any]) -> Iterator[Part]:
    told = {key: value for key, value in receipt.items() if key not in _AS_IT_CAME}
    yield Fields({key.replace("_", " "): told[key] for key in told}, "Receipt")
    if receipt.get("headers") is not None:
        yield Document("headers as they came", receipt["headers"])
    for key in _AS_IT_CAME[1:]:
        if receipt.get(key) is not None:
            yield f"{key.replace('_', ' ')} as it came:\n{receipt[key]}"


def _parts(row: dict[str, Any], *, verbose: bool) -> Iterator[Part]:
    """What `operations.details` found, for a person."""
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
    """With what it says to people, where that is another word."""
    return f"{status} ({STATUS_WORDS[status]})"


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


def _told(row: dict[str, Any]) -> Iterator[Part]:
    """What is said of it in a sentence."""
    if row["why"] is not None:
        yield row["why"]["sentence"]
    if _is_skipped(row):
        yield "Skipped: it was not needed, since what it waited for ended otherwise."
    if row["suspect"] is not None:
        yield _suspicion_told(row["suspect"])


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
