"""Privileges that an operation needs, and those that this session's role lacks.

*See:* `operations/ability.py`, which lists them per operation.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from inboxd.store.connections import Row
from inboxd.store.session import Session


@dataclass(frozen=True, slots=True)
class NeededRight:
    """A privilege on a table, or on a function where it is EXECUTE.

    columns: "a, b"; None: on the whole table.
    """

    privilege: str
    object: str
    columns: str | None = None


async def lacking(session: Session, needed: Sequence[NeededRight]) -> list[Row]:
    """The privileges that the role lacks: role, privilege, object, remedy (SQL)."""
    return await session.fetch(
        "lacking_rights",
        [each.privilege for each in needed],
        [each.object for each in needed],
        [each.columns for each in needed],
    )
