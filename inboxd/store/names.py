"""Declared names: types, topics, queues, schedules. A mere producer may not read them."""

from collections import defaultdict
from collections.abc import Mapping

import asyncpg

from inboxd.store.session import Session

Names = Mapping[str, frozenset[str]]


async def declared(session: Session) -> Names | None:
    """The names of each kind: see `list_names.sql`; None if the role may not read them."""
    try:
        async with session.apart():
            rows = await session.fetch("list_names")
    except asyncpg.InsufficientPrivilegeError:
        return None
    found = defaultdict(set)
    for row in rows:
        found[row["kind"]].add(row["name"])
    return {kind: frozenset(names) for kind, names in found.items()}
