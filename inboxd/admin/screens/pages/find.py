"""Finds a row or a name by one field; a single hit is opened at once."""

from dataclasses import asdict
from typing import Any, Final

from inboxd import operations
from inboxd.admin.screens import addresses
from inboxd.admin.screens.pages.queries import texts
from inboxd.admin.screens.pages.titles import titles_of_rows
from inboxd.admin.screens.screen import Elsewhere, PageVisit, Screen, ScreenPage
from inboxd.model.story import RECEIPT
from inboxd.operations.lookup import LOOKED_AT, Hit

_FILTERS: Final = (
    ("of this tenant", "tenant"),
    ("of this entity, or of entities of this type", "entity"),
    ("whose newest error contains this", "error"),
)


async def _find(visit: PageVisit) -> ScreenPage | Elsewhere:
    text = (texts(visit.query, "q")["q"] or "").strip()
    hits = await operations.look_up(visit.session, text) if text else []
    if len(hits) == 1:
        return Elsewhere(_address(hits[0]))
    rows = [{"kind": hit.kind, "type": hit.type or ""} for hit in hits if hit.id is not None]
    shown: dict[str, Any] = {
        "text": text,
        "hits": [(hit, _address(hit)) for hit in hits],
        "titles": await titles_of_rows(visit, rows),
        "looked_at": LOOKED_AT,
        "filters": _filters(text),
    }
    return ScreenPage("find.html", {"asked": text, "found": [asdict(hit) for hit in hits]}, shown)


def _address(hit: Hit) -> str:
    if hit.kind == RECEIPT:
        return addresses.path_of("story", RECEIPT, hit.name)
    if hit.id is not None:
        return addresses.path_of("batches" if hit.kind == "batch" else f"{hit.kind}s", hit.id)
    if hit.kind.endswith(" type"):
        return addresses.path_of("types", hit.kind.partition(" ")[0], hit.name)
    return addresses.of_name(hit.kind, hit.name or "") or "/find"


def _filters(text: str) -> list[tuple[str, str, str]]:
    return [
        (table, title, addresses.with_query(f"/{table}", [(name, text)]))
        for title, name in _FILTERS
        for table in ("events", "commands")
        if text
    ]


SCREENS = (Screen("/find", _find),)
