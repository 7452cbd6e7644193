"""Checks names that an operator gives against declared names.

A name is declared by a worker, living or not, or by `inboxd declare`. A role that cannot read
declarations may use any name. Known limit: tenants, entities and names of batches are never
declared, so they are not checked.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from inboxd.errors import UnknownName
from inboxd.model.spelling import did_you_mean
from inboxd.model.wording import LINES
from inboxd.store import listing, names, topics
from inboxd.store.session import Session
from inboxd.store.wakeups import HotTable

Named = Literal["type", "event type", "command type", "topic", "queue", "schedule", "source"]

_KINDS: dict[Named, tuple[str, ...]] = {
    "type": ("event type", "command type"),
    "topic": ("topic", "topic of settings"),
}


async def check_declared(
    session: Session, kind: Named, name: str, *, also: Collection[str] = ()
) -> None:
    """Raise UnknownName for an undeclared name. also: names that the settings declare."""
    remark = await _undeclared(session, kind, name, also)
    if remark:
        raise UnknownName(f"{remark} Nothing was written").on_terminals(
            "; --force writes it nevertheless"
        )


async def check_known(
    session: Session, kind: Named, name: str, *, also: Collection[str] = ()
) -> None:
    """Raise UnknownName for a name that is not declared, and that no row has."""
    remark = await unknown(session, kind, name, also=also)
    if remark:
        raise UnknownName(f"{remark} Nothing was changed").on_terminals(
            "; --force accepts the name"
        )


@dataclass(frozen=True, slots=True)
class KnownNames:
    """Names that the caller has read. lanes: rows of the overview."""

    declared: names.Names | None
    lanes: Collection[Mapping[str, Any]]


async def unknown(
    session: Session,
    kind: Named,
    name: str,
    *,
    also: Collection[str] = (),
    known: KnownNames | None = None,
) -> str | None:
    """None: it is declared, or a row has it."""
    if known is None:
        remark = await _undeclared(session, kind, name, also)
    else:
        remark = _remark(known.declared, kind, name, also)
    if remark is None:
        return None
    lanes = await _lanes(session, kind) if known is None else known.lanes
    return None if await _has_rows(session, kind, name, lanes) else remark


async def nearest(session: Session, kind: Named, name: str) -> str:
    """Return "did you mean" with the nearest declared name, to end a sentence with; or ""."""
    declared = await names.declared(session) or {}
    return did_you_mean(name, _of(declared, kind))


async def remarks(
    session: Session, also: Callable[[Named], Collection[str]]
) -> Callable[[Named, str], str | None]:
    """Return a function like `unknown` for many names; it ignores rows, and reads names once."""
    declared = await names.declared(session)
    return lambda kind, name: _remark(declared, kind, name, also(kind))


async def _undeclared(
    session: Session, kind: Named, name: str, also: Collection[str]
) -> str | None:
    return _remark(await names.declared(session), kind, name, also)


def _remark(
    declared: names.Names | None, kind: Named, name: str, also: Collection[str]
) -> str | None:
    if declared is None or not name:
        return None
    known = {*_of(declared, kind), *also}
    if name in known:
        return None
    if kind.endswith("type") and not known:
        remedy = f"no {kind} is declared yet (run `inboxd declare`)."
        return f"the {kind} {name!r} is not declared: {remedy}"
    return f"the {kind} {name!r} is not declared{did_you_mean(name, known) or '.'}"


def _of(declared: names.Names, kind: Named) -> set[str]:
    kinds = _KINDS.get(kind, (kind,))
    return {name for each in kinds for name in declared.get(each, ())}


async def _lanes(session: Session, kind: Named) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    tables: tuple[tuple[HotTable, str], ...] = (("events", "topic"), ("commands", "queue"))
    for table, place in tables:
        of = table.removesuffix("s")
        if kind in (place, "type", f"{of} type"):
            found += [{**row, "kind": of} for row in await listing.lanes(session, table)]
    if kind in ("topic", "type", "event type"):
        lined = await topics.lines(session)
        found += [{"kind": "event", "topic": row["topic"], "type": LINES} for row in lined]
    return found


async def _has_rows(
    session: Session, kind: Named, name: str, lanes: Collection[Mapping[str, Any]]
) -> bool:
    """It may be an old name, or one that only a producer uses."""
    of, _, column = kind.rpartition(" ")
    own = [lane for lane in lanes if lane["kind"] == (of or lane["kind"])]
    lined = [lane["topic"] for lane in own if lane["type"] == LINES]
    if any(lane.get(column) == name for lane in own if column != "type" or lane["type"] != LINES):
        return True
    return column == "type" and bool(lined) and await topics.waiting(session, lined, name) > 0
