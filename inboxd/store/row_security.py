"""Row level security on inboxd's tables: it hides their rows from a worker, without an error.

Owns what is said of it. Known limit: a policy that lets a role see all rows by a condition, and not
by `true`, counts as one that hides some.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from inboxd.errors import SchemaError
from inboxd.store.connections import Connection
from inboxd.store.statements import Statements

_SHOWN = 3


@dataclass(frozen=True, slots=True)
class SecuredTable:
    """A table that has it. exempt: this session's role is. hides: rows from this role."""

    name: str
    exempt: bool
    hides: bool


async def secured(connection: Connection, sql: Statements) -> list[SecuredTable]:
    """The tables that have it, by name."""
    return [SecuredTable(**row) for row in await connection.fetch(sql["secured_tables"])]


async def hidden(connection: Connection, sql: Statements) -> str | None:
    """Why this session's role does not see all rows; None: it does."""
    names = [each.name for each in await secured(connection, sql) if each.hides]
    return f"row level security hides rows of {named(names)} from this role" if names else None


async def check(connection: Connection, sql: Statements) -> None:
    """Raise SchemaError if rows are hidden from this role: it would find nothing to do."""
    if reason := await hidden(connection, sql):
        raise SchemaError(f"{reason}; see: inboxd doctor")


def named(names: Sequence[str]) -> str:
    """A few of them, and how many more."""
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {more} more" if more > 0 else "")


def ending(names: Sequence[str], schema: str) -> str:
    """What switches it off: statements, a line each, for the schema's owner."""
    return "\n".join(
        f"ALTER TABLE {schema}.{name} DISABLE ROW LEVEL SECURITY;" for name in names
    )
