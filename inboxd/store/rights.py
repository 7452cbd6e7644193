"""Privileges that an operation needs, and those that this session's role lacks."""

from collections.abc import Sequence
from dataclasses import dataclass

from inboxd.store.connections import Row
from inboxd.store.session import Session


@dataclass(frozen=True, slots=True)
class NeededRight:
    """On a table, or EXECUTE on a function. columns: "a, b"; None: on the whole table."""

    privilege: str
    object: str
    columns: str | None = None


async def lacking(session: Session, needed: Sequence[NeededRight]) -> list[Row]:
    return await session.fetch(
        "lacking_rights",
        [each.privilege for each in needed],
        [each.object for each in needed],
        [each.columns for each in needed],
    )
