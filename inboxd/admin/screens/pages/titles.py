"""Titles of types on pages; all visitors share one reading for `_FRESH_SECONDS`."""

from collections.abc import Collection, Mapping
from functools import partial
from typing import Final

from inboxd import operations
from inboxd.admin.screens.screen import PageVisit
from inboxd.operations.labels import Label, LabelsOf, label
from inboxd.store.session import Session

_FRESH_SECONDS: Final = 60.0


def labels_of(visit: PageVisit) -> LabelsOf:
    async def found(session: Session, kind: str, types: Collection[str]) -> Mapping[str, Label]:
        read = partial(operations.declared_labels, session)
        known = await visit.shared.get(session, "labels", _FRESH_SECONDS, read) if types else None
        declared = known or {}
        return {type_: declared.get((kind, type_)) or label(type_) for type_ in types}

    return found


async def titles_of(visit: PageVisit, kind: str, types: Collection[str]) -> dict[str, str]:
    found = await labels_of(visit)(visit.session, kind, set(types))
    return {type_: each.title for type_, each in found.items()}


async def titles_of_rows(
    visit: PageVisit, rows: Collection[Mapping[str, str]]
) -> dict[str, Mapping[str, str]]:
    return {
        kind: await titles_of(visit, kind, {row["type"] for row in rows if row["kind"] == kind})
        for kind in ("event", "command")
    }
