"""The controls table: what operators have paused.

Promises that a trigger notifies every listening worker of a pause, and of its end.
"""

from collections.abc import Collection
from datetime import datetime
from typing import Literal, TypedDict, cast

from inboxd.store.session import Session

Kind = Literal["type", "topic", "queue", "schedule", "source"]
Mode = Literal["hold", "refuse"]


class Control(TypedDict):
    """A pause. mode: "refuse" if a webhook source answers 503, else "hold"."""

    kind: Kind
    name: str
    paused_at: datetime
    actor: str
    reason: str | None
    mode: Mode


async def read(
    session: Session, names: Collection[str] | None = None, rows: int | None = None
) -> list[Control]:
    """All pauses, or those of some names, or the first."""
    given = (None if names is None else [*names], rows)
    return cast("list[Control]", await session.fetch("read_controls", *given))


async def first(session: Session, most: int) -> tuple[list[Control], int]:
    """The first `most` pauses, and the number of the others."""
    found = await read(session, rows=most + 1)
    if len(found) <= most:
        return found, 0
    whole: int = await session.fetchval("count_controls")
    return found[:most], max(1, whole - most)


async def pause(
    session: Session, kind: Kind, name: str, actor: str, reason: str | None, mode: Mode = "hold"
) -> bool:
    """Pause it; False: it was already paused in that mode."""
    added = await session.fetchval("pause", kind, name, actor, reason, mode)
    return added is not None


async def resume(session: Session, kind: Kind, name: str) -> datetime | None:
    """End a pause; returns when it began, None if there was none."""
    since: datetime | None = await session.fetchval("resume", kind, name)
    return since
