"""Names that an operator gives, held against those that somebody declared.

Owns what counts as known: what a worker or `inboxd declare` declared, whether it still lives or
not; and, where rows are to be acted on, what rows have. Promises: a role that may not read what is
declared, such as a producer's, is refused nothing. Known limit: names that nobody declares, such
as tenants, entities and the names of batches, cannot be judged.
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
    """Raise UnknownName for what nobody declared; also: names that the settings declare."""
    told = await _undeclared(session, kind, name, also)
    if told:
        raise UnknownName(f"{told} Nothing was written").on_terminals(
            "; --force writes it all the same"
        )


async def check_known(
    session: Session, kind: Named, name: str, *, also: Collection[str] = ()
) -> None:
    """Raise UnknownName for what nobody declared and no row has."""
    told = await unknown(session, kind, name, also=also)
    if told:
        raise UnknownName(f"{told} Nothing was changed").on_terminals("; --force insists")


@dataclass(frozen=True, slots=True)
class KnownNames:
    """What somebody has read already. lanes: what waits, as the overview has it."""

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
    """A remark on a name that nobody declared and no row has; None of any other."""
    if known is None:
        told = await _undeclared(session, kind, name, also)
    else:
        told = _remark(known.declared, kind, name, also)
    if told is None:
        return None
    lanes = await _lanes(session, kind) if known is None else known.lanes
    return None if await _has_rows(session, kind, name, lanes) else told


async def nearest(session: Session, kind: Named, name: str) -> str:
    """The question whether another was meant, to end a sentence with; empty when none is near."""
    declared = await names.declared(session.connection, session.sql) or {}
    return did_you_mean(name, _of(declared, kind))


async def remarks(
    session: Session, also: Callable[[Named], Collection[str]]
) -> Callable[[Named, str], str | None]:
    """As `unknown` but for rows, for many names: what is declared is read once.

    also: names of a kind that the settings declare.
    """
    declared = await names.declared(session.connection, session.sql)
    return lambda kind, name: _remark(declared, kind, name, also(kind))


async def _undeclared(
    session: Session, kind: Named, name: str, also: Collection[str]
) -> str | None:
    return _remark(await names.declared(session.connection, session.sql), kind, name, also)


def _remark(
    declared: names.Names | None, kind: Named, name: str, also: Collection[str]
) -> str | None:
    if declared is None or not name:
        return None
    known = {*_of(declared, kind), *also}
    if name in known:
        return None
    if kind.endswith("type") and not known:
        return f"nothing declares the {kind} {name!r}: no {kind} is declared yet (inboxd declare)."
    return f"nothing declares the {kind} {name!r}{did_you_mean(name, known) or '.'}"


def _of(declared: names.Names, kind: Named) -> set[str]:
    kinds = _KINDS.get(kind, (kind,))
    return {name for each in kinds for name in declared.get(each, ())}


async def _lanes(session: Session, kind: Named) -> list[dict[str, Any]]:
    """What waits, where such a name may be."""
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
    """Whether unsettled rows have it, be it a name from before or one of a producer's own."""
    of, _, column = kind.rpartition(" ")
    own = [lane for lane in lanes if lane["kind"] == (of or lane["kind"])]
    lined = [lane["topic"] for lane in own if lane["type"] == LINES]
    if any(lane.get(column) == name for lane in own if column != "type" or lane["type"] != LINES):
        return True
    return column == "type" and bool(lined) and await topics.waiting(session, lined, name) > 0
