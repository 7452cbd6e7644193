"""One event or command in full: its origin, its outcome, and the rows that it created.

Promises that payloads are shown on request alone (`application.py` checks the role), at most
`_SHOWN_BYTES` of each, without secrets; and acts of operators only to visitors who may open the
audit. Known limit: numbers with more digits than a double holds lose digits, as in JSON anywhere.
"""

from collections.abc import Collection
from datetime import datetime
from functools import partial
from typing import Any, Final

from inboxd import operations
from inboxd.admin.redaction import Redaction
from inboxd.admin.screens.pages.origins import origin_shown
from inboxd.admin.screens.pages.queries import is_set
from inboxd.admin.screens.pages.titles import labels_of, titles_of_rows
from inboxd.admin.screens.rendering import json_text
from inboxd.admin.screens.roles import Role
from inboxd.admin.screens.screen import Elsewhere, PageVisit, Screen, ScreenPage
from inboxd.admin.screens.states import state_of
from inboxd.model.row_id import read_row_id
from inboxd.operations.audit import ActsOnRow
from inboxd.store.wakeups import HotTable

_SHOWN_BYTES: Final = 64 * 1024
# How long the acts on a row are used again while the row does not change.
_ACTS_SECONDS: Final = 15.0
_CONTENTS = ("payload", "headers", "result")
# Fields with their own place on the page, and fields for the daemon alone.
_APART = {
    *("id", "event_id", "command_id", "type", "title", "description", "status", "topic", "queue"),
    *("tenant", "tenant_name", "names_missing", "attempts", "created_at", "occurred_at"),
    *("finished_at", "duration", "errors", "payload", "headers", "result", "progress", "retry"),
    *("children", "replays", "waits_for", "elsewhere", "suspect", "receipt", "breakers", "links"),
    *("why", "withheld", "origin_kind", "origin_id", "causation_id", "replay_of", "batch_id"),
    *("entity_type", "entity_id", "correlation_id", "ordering_key", "unique_key", "run_at"),
    *("awaited", "body_at", "body_id", "bucket", "fence", "head", "line_at", "needs", "position"),
    *("updated_at", "fingerprint", "cancel_requested", "ended_as", "secret_keys"),
}


async def _show(table: HotTable, visit: PageVisit) -> ScreenPage | Elsewhere:
    id_ = read_row_id(visit.path["id"])
    kind, payload = table.removesuffix("s"), is_set(visit.query, "payload")
    own = visit.visitor.tenants
    row = await operations.details(
        *(visit.session, visit.settings, table, id_),
        payload=payload,
        tenants=visit.tenants,
        labels_of=labels_of(visit),
    )
    if own is not None:
        row = operations.alone(table, id_, row, own)
    if not isinstance(id_, int):
        return Elsewhere(f"/{table}/{row['id']}")
    hidden = Redaction(visit.settings.admin).hide(row)
    shown = {
        "table": table,
        "kind": kind,
        "row": row,
        "alone": own is not None,
        "origin": await origin_shown(visit, row) if own is None else None,
        "titles": await titles_of_rows(visit, row["children"]),
        "state": state_of(
            kind,
            row["status"],
            in_line=_is_in_line(row),
            is_settled=row.get("finished_at") is not None,
        ),
        "contents": _contents(row) if payload else None,
        "hidden": hidden,
        "can_read": visit.visitor.may(Role.READER) and "content" not in visit.session.withheld,
        "more": {key: row[key] for key in sorted(row.keys() - _APART) if row[key] is not None},
        "attempts": _attempts(row["errors"] or ()),
        "acts": await _acts(table, visit, row) if own is None else None,
    }
    return ScreenPage("row.html", row, shown)


def _is_in_line(row: dict[str, Any]) -> bool:
    if "mode" in row:
        return row["mode"] in ("sequential", "batch")
    return row.get("ordering_key") is not None


async def _acts(table: HotTable, visit: PageVisit, row: dict[str, Any]) -> ActsOnRow | None:
    """None: the audit could not be read."""
    finished_at = row.get("finished_at")
    read = partial(
        operations.acts_on,
        *(visit.session, table, row["id"], datetime.fromisoformat(row["created_at"])),
        None if finished_at is None else datetime.fromisoformat(finished_at),
    )
    key = ("acts", table, row["id"], row["status"], row["updated_at"])
    return await visit.shared.get(visit.session, key, _ACTS_SECONDS, read)


def _contents(row: dict[str, Any]) -> list[dict[str, Any]]:
    found = []
    for name in _CONTENTS:
        if row.get(name) is None:
            continue
        text = json_text(row[name])
        size = len(text.encode())
        cut = text.encode()[:_SHOWN_BYTES].decode(errors="ignore") if size > _SHOWN_BYTES else text
        found.append({"name": name, "text": cut, "size": size, "cut": size > _SHOWN_BYTES})
    return found


def _attempts(errors: Collection[dict[str, Any]]) -> list[dict[str, Any]]:
    """The newest first; the first line is shown, the rest folded."""
    found = []
    for error in reversed(list(errors)):
        first, _, rest = str(error.get("error", "")).partition("\n")
        whole = "\n".join(filter(None, (rest, str(error.get("traceback") or ""))))
        found.append({**error, "first": first, "rest": whole[:_SHOWN_BYTES]})
    return found


SCREENS = (
    Screen("/events/{id}", partial(_show, "events"), for_tenants=True),
    Screen("/commands/{id}", partial(_show, "commands"), for_tenants=True),
)
