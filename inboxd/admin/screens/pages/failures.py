"""Dead letters as groups of equal failures, and one group with its rows."""

from dataclasses import asdict
from functools import partial
from typing import Any, Final

from inboxd.admin.redaction import Redaction
from inboxd.admin.screens.pages.paging import part_of
from inboxd.admin.screens.pages.queries import is_set, page_size, row_number
from inboxd.admin.screens.pages.titles import labels_of, titles_of
from inboxd.admin.screens.screen import PageVisit, ScreenPage
from inboxd.admin.screens.whole_inbox import database_now, whole_inbox
from inboxd.errors import DatabaseError
from inboxd.operations import Group, failures
from inboxd.operations.failures import FIRST, document, rows_of, spread_of, trends_of
from inboxd.store import listing

# How long declarations are used again.
_FRESH_SECONDS: Final = 60.0
# The name of the group of dead letters without a fingerprint, in its path.
UNNAMED = "-"


async def _list(visit: PageVisit) -> ScreenPage:
    every, now = await failures(visit.session), await database_now(visit)
    archived = is_set(visit.query, "archived")
    found = [group for group in every if bool(group.archived) is archived]
    groups = [asdict(group) for group in found]
    part = part_of(groups, _key, visit.query, _words)
    on_page = {_key(row) for row in part.rows}
    trends = await trends_of(
        visit.session, (group for group in found if _key(asdict(group)) in on_page)
    )
    shown = {
        "part": part,
        "now": now,
        "on": {_key(asdict(group)) for group in found if group.goes_on(now)},
        "key": _key,
        "trends": {f"{kind} {name}": hours for (kind, name), hours in trends.items()},
        "total": sum(group.count for group in found),
        "total_cut": any(group.at_least for group in found),
        "archived": archived,
        "others": len(every) - len(found),
        "titles": {
            kind: await labels_of(visit)(visit.session, kind, _types(part.rows, kind))
            for kind in ("event", "command")
        },
    }
    told = {} if part.after is None else {"next": part.after}
    return ScreenPage("failures.html", {"groups": part.rows, **told}, shown)


def _key(group: dict[str, Any]) -> str:
    return f"{group['kind']} {group['fingerprint'] or UNNAMED}"


def _words(group: dict[str, Any]) -> str:
    words = (group["kind"], group["fingerprint"] or UNNAMED, *group["types"], group["error"] or "")
    return " ".join(words)


def _types(groups: list[dict[str, Any]], kind: str) -> set[str]:
    return {type_ for each in groups if each["kind"] == kind for type_ in each["types"]}


async def _group(visit: PageVisit) -> ScreenPage:
    name, after = visit.path["group"], row_number(visit.query, "after") or 0
    unnamed = name == UNNAMED
    groups = [
        group
        for group in await failures(visit.session, None if unnamed else name)
        if not unnamed or group.fingerprint is None
    ]
    limit = page_size(visit.query)
    found = [await _shown(visit, group, after, limit) for group in groups]
    documents = [
        document(group, each["rows"], each["spread"])
        for group, each in zip(groups, found, strict=True)
    ]
    shown = {"name": name, "shown": found, "unnamed": unnamed, "now": await database_now(visit)}
    shown["first"] = FIRST
    return ScreenPage("failure.html", {"groups": documents}, shown)


async def _shown(visit: PageVisit, group: Group, after: int, limit: int) -> dict[str, Any]:
    """A group without a fingerprint has no list of rows."""
    rows: list[dict[str, Any]] = []
    if group.fingerprint is not None:
        rows = await rows_of(visit.session, group, above=after, limit=limit)
    newest = await listing.one(visit.session, group.table, group.last_id)
    if newest is not None:
        newest["secret_keys"] = await _secret_keys(visit, group.kind)
        Redaction(visit.settings.admin).hide(newest)
    errors = (newest or {}).get("errors") or []
    return {
        "group": group,
        "rows": rows,
        "after": rows[-1]["id"] if len(rows) == limit else None,
        "spread": await spread_of(visit.session, group),
        "newest": errors[-1] if errors else None,
        "titles": await titles_of(visit, group.kind, group.types),
    }


async def _secret_keys(visit: PageVisit, kind: str) -> list[str]:
    read = partial(listing.secret_keys, visit.session, kind)
    found = await visit.shared.get(visit.session, f"secret keys of {kind}s", _FRESH_SECONDS, read)
    if found is None:
        raise DatabaseError("the list of secret keys cannot be read now: try again in a moment")
    return found


SCREENS = (whole_inbox("/failures", _list), whole_inbox("/failures/{group:path}", _group))
