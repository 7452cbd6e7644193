"""Labels of ids: titles of types, names of tenants, links.

Promises: if names cannot be read, ids are shown and `trouble` has the reason; a text is one short
line without control characters; a link contains only values that cannot change its path.
"""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from time import monotonic
from typing import Any
from urllib.parse import quote

from inboxd.errors import DatabaseError
from inboxd.model.wording import one_line, title_from
from inboxd.settings.labels import PLACEHOLDER, Links, TenantNames
from inboxd.store import labels as store
from inboxd.store.session import Session
from inboxd.store.wakeups import HotTable

_LONGEST_NAME = 100
_LONGEST_TEXT = 300
_LONGEST_LINK = 4096
_MOST_NAMES = 10_000
# Time until a failed query is tried again.
_RETRY_SECONDS = 30.0
# Path segments that would change the link's path, encoded or not.
_DOTS = {".", ".."}


@dataclass(frozen=True, slots=True)
class Label:
    title: str
    description: str | None


# Returns the labels of types of a kind, even of undeclared types.
LabelsOf = Callable[[Session, str, Collection[str]], Awaitable[Mapping[str, Label]]]


async def type_labels(session: Session, kind: str, types: Collection[str]) -> dict[str, Label]:
    rows = await store.declared(session, kind, types) if types else []
    declared = {row["type"]: label(row["type"], row["title"], row["description"]) for row in rows}
    return {type_: declared.get(type_) or label(type_) for type_ in types}


async def declared_labels(session: Session) -> dict[tuple[str, str], Label]:
    return {
        (row["kind"], row["type"]): label(row["type"], row["title"], row["description"])
        for row in await store.declared(session)
    }


def label(type_: str, title: str | None = None, description: str | None = None) -> Label:
    """The default is a title from the type's name."""
    return Label(
        one_line(title or title_from(type_), _LONGEST_NAME),
        None if description is None else one_line(description, _LONGEST_TEXT),
    )


@dataclass(slots=True)
class Tenants:
    """trouble: why names are missing, if they are."""

    settings: TenantNames
    trouble: str | None = None
    _names: dict[str, str] = field(default_factory=dict)
    _looked_for: set[str] = field(default_factory=set)
    _asked_at: float = 0.0
    _failed_at: float | None = None

    async def names(self, session: Session, ids: Iterable[str | None]) -> Mapping[str, str]:
        """Query the names that are not cached."""
        wanted = {id for id in ids if id is not None}
        if self.settings.query is None or not wanted:
            return {}
        now = monotonic()
        if now - self._asked_at > self.settings.keep.total_seconds():
            self._forget()
        new = wanted - self._looked_for
        failed = self._failed_at is not None and now - self._failed_at < _RETRY_SECONDS
        if new and not failed:
            await self._ask(session, self.settings.query, new, now)
        return {id: self._names[id] for id in wanted if id in self._names}

    async def _ask(self, session: Session, query: str, new: set[str], now: float) -> None:
        if len(self._names) + len(new) > _MOST_NAMES:
            self._forget()
        timeout = round(self.settings.timeout.total_seconds() * 1000)
        try:
            found = await store.names(session, query, timeout, new)
        except DatabaseError as error:
            self._failed_at = now
            self.trouble = one_line(
                f"tenants are shown by their ids, because tenants.query failed: {error}",
                _LONGEST_TEXT,
            )
            return
        if not self._looked_for:
            self._asked_at = now
        self._looked_for |= new
        self._names |= {id: one_line(name, _LONGEST_NAME) for id, name in found.items()}
        self._failed_at, self.trouble = None, None

    def _forget(self) -> None:
        self._names, self._looked_for = {}, set()


def links_of(links: Links, row: Mapping[str, Any]) -> dict[str, str]:
    trace = (row.get("traceparent") or "").split("-")
    values = {
        "entity_type": row.get("entity_type"),
        "entity_id": row.get("entity_id"),
        "tenant": row.get("tenant"),
        "trace_id": trace[1] if len(trace) >= 3 else None,  # noqa: PLR2004 - version, trace, span
    }
    found = {key: _link(getattr(links, key), values) for key in ("entity", "trace", "tenant")}
    return {key: link for key, link in found.items() if link is not None}


def _link(template: str | None, values: Mapping[str, str | None]) -> str | None:
    """None if a value is missing, or would change the path."""
    if template is None:
        return None
    needed = [values[name] for name in PLACEHOLDER.findall(template)]
    if any(not each or each in _DOTS for each in needed):
        return None
    link = PLACEHOLDER.sub(lambda found: quote(values[found[1]] or "", safe=""), template)
    return link if len(link) <= _LONGEST_LINK else None


async def label_rows(
    session: Session,
    table: HotTable,
    rows: Collection[dict[str, Any]],
    tenants: Tenants,
    labels_of: LabelsOf = type_labels,
) -> None:
    """Add `title` to each row, and `tenant_name` if tenants have names."""
    kind = table.removesuffix("s")
    labels = await labels_of(session, kind, {row["type"] for row in rows})
    names = await tenants.names(session, (row["tenant"] for row in rows))
    for row in rows:
        row["title"] = labels[row["type"]].title
        if tenants.settings.query is not None:
            row["tenant_name"] = names.get(row["tenant"])
