"""One row in full, as JSON values for the command line and the admin API.

Known limit: at most 100 created rows are included.
"""

import base64
import json
from collections.abc import Mapping
from dataclasses import asdict, astuple
from datetime import datetime
from typing import Any
from uuid import UUID

from inboxd.errors import NotFound
from inboxd.model.lifecycle import Status
from inboxd.model.waiting import brief
from inboxd.operations.labels import LabelsOf, Tenants, links_of, type_labels
from inboxd.operations.story import created_by, replays_of, waits_of
from inboxd.operations.waiting import why_of
from inboxd.registry.retry_rules import default_rule, rules_in
from inboxd.settings import Settings
from inboxd.store import breakers, listing, receipts, suspects
from inboxd.store.session import Session
from inboxd.store.wakeups import HotTable

_OF_SUSPECTS = ("suspect_group", "lone_crashes", "alone_fence")
_DIED = "WorkerDied"
# Fields that are null for a role that cannot read contents.
_WITHHELD = ("errors", "progress")
# Fields about other rows, with the values that hide them.
_ALONE: Mapping[str, Any] = {
    **dict.fromkeys(("children", "replays", "waits_for", "elsewhere", "breakers"), ()),
    "suspect": None,
}
_RECEIPT = (
    *("receipt_id", "received_at", "source", "outcome", "address", "key_id"),
    *("content_type", "body_bytes"),
)


async def details(
    session: Session,
    settings: Settings,
    table: HotTable,
    id: int | UUID,
    *,
    payload: bool,
    raw: bool = False,
    tenants: Tenants | None = None,
    labels_of: LabelsOf = type_labels,
) -> dict[str, Any]:
    """Raises NotFound; DatabaseError if it asks for contents that the role cannot read.

    payload: with headers and result. raw: the webhook of an event. `withheld` names those contents.
    """
    if payload:
        session.refuse_withheld("payloads, headers and results")
    row = await listing.one(session, table, id, payload=payload)
    if row is None:
        raise _missing(table, id)
    kind = table.removesuffix("s")
    rules, row["secret_keys"] = await listing.rules_and_secrets(session, kind, row["type"])
    if kind == "event":
        rules = rules_in(row["topic"], rules, chunks=row["mode"] == "batch")
    row["retry"] = [_retry(rule, row) for rule in rules or [asdict(default_rule(settings))]]
    uuid = UUID(row[f"{kind}_id"])
    made_at = datetime.fromisoformat(row["created_at"])
    created = await created_by(session, kind, row["id"], uuid, made_at)
    # A row without a correlation id begins a story: its descendants have its uuid as their
    # correlation id.
    row["correlation_id"] = row["correlation_id"] or row[f"{kind}_id"]
    row["children"] = [
        {key: getattr(each, key) for key in ("kind", "id", "uuid", "type", "lane", "status")}
        for each in created
    ]
    row["replays"] = await replays_of(session, kind, row["id"])
    row["why"] = await why_of(session, settings, table, row)
    row["waits_for"] = await waits_of(session, uuid) if row.get("needs") else []
    row["suspect"] = await _suspicion(session, row)
    uses = [f"{kind} {row['type']}"] + ([f"queue {row['queue']}"] if kind == "command" else [])
    needed = await breakers.listed(session, uses=uses)
    row["breakers"] = [dict(each) for each in needed]
    row["receipt"] = await _receipt(session, row, raw=raw)
    row["title"], row["description"] = astuple(
        (await labels_of(session, kind, {row["type"]}))[row["type"]]
    )
    await _name_tenant(session, row, tenants or Tenants(settings.tenants))
    row["links"] = links_of(settings.links, row)
    row["withheld"] = list(_WITHHELD) if "content" in session.withheld else []
    return row


def alone(
    table: HotTable, id: int | UUID, row: dict[str, Any], tenants: frozenset[str]
) -> dict[str, Any]:
    """Other rows may be of any tenant. Raises NotFound for a row of another tenant."""
    if row["tenant"] not in tenants:
        raise _missing(table, id)
    why = None if row["why"] is None else brief(row["why"])
    return row | {key: value for key, value in _ALONE.items() if key in row} | {"why": why}


def _missing(table: HotTable, id: int | UUID) -> NotFound:
    one = table.removesuffix("s")
    return NotFound(f"there is no {one} {id}: look the id up with `inboxd {table} list`")


async def _name_tenant(session: Session, row: dict[str, Any], tenants: Tenants) -> None:
    if tenants.settings.query is not None:
        names = await tenants.names(session, [row["tenant"]])
        row["tenant_name"] = names.get(row["tenant"])
        row["names_missing"] = tenants.trouble


async def _suspicion(session: Session, row: dict[str, Any]) -> dict[str, Any] | None:
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


async def _receipt(session: Session, row: dict[str, Any], *, raw: bool) -> dict[str, Any] | None:
    """None: it was not a webhook, or the receipt is not kept."""
    if row["origin_kind"] != "receipt" or row["causation_id"] is None:
        return None
    found = await receipts.one(session, UUID(row["causation_id"]), raw=raw)
    if found is None:
        return None
    shown: dict[str, Any] = {key: found[key] for key in _RECEIPT}  # type: ignore[literal-required]
    if raw:
        body, headers = found.get("body"), found.get("headers")
        shown["headers"] = None if headers is None else json.loads(headers)
        shown |= {"body": None} if body is None else _readable(body)
    return shown


def _readable(body: bytes) -> dict[str, str]:
    """Return the text, or else base64."""
    try:
        return {"body": body.decode()}
    except UnicodeDecodeError:
        return {"body_base64": base64.b64encode(body).decode()}


def _has_a_time(row: dict[str, Any]) -> bool:
    """A row in a line runs at its own time only if it is the first."""
    if row["status"] == Status.WAITING:
        return bool(row.get("head")) or row.get("line_at") is not None
    return bool(row["status"] == Status.PENDING)


def _retry(rule: dict[str, Any], row: dict[str, Any]) -> dict[str, Any]:
    """The row may have its own number of attempts."""
    own = row.get("max_attempts")
    policy = rule["policy"] if own is None else f"{rule['policy']}; for this row: attempts {own}"
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
