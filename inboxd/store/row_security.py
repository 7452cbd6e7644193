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
    """A table that has it, and whom it hides rows from.

    remedy: SQL that switches it off. from_me: this session's role. from_owner: the owner, as whom
    functions run. from_roles: those of inboxd's roles. is_unknown: this role is exempt, and who
    works here has roles of their own.
    """

    name: str
    remedy: str
    from_me: bool
    from_owner: bool
    from_roles: Sequence[str]
    is_unknown: bool


async def secured(connection: Connection, sql: Statements) -> list[SecuredTable]:
    """The tables that have it, by name."""
    return [SecuredTable(**row) for row in await connection.fetch(sql["secured_tables"])]


async def hidden(connection: Connection, sql: Statements) -> str | None:
    """Why this role, or a function that it calls, does not see all rows; None: they do."""
    reasons = [reason for reason, _ in blinding(await secured(connection, sql))]
    return f"row level security hides {', and '.join(reasons)}" if reasons else None


async def check(connection: Connection, sql: Statements) -> None:
    """Raise SchemaError if rows are hidden from this role: it would find nothing to do."""
    if reason := await hidden(connection, sql):
        raise SchemaError(f"{reason}; see: inboxd doctor")


def blinding(tables: Sequence[SecuredTable]) -> list[tuple[str, list[SecuredTable]]]:
    """What is hidden from whom, so that this role does not work, and the tables of each."""
    mine = [each for each in tables if each.from_me]
    owners = [each for each in tables if each.from_owner and not each.from_me]
    found = (
        (f"rows of {these(mine)} from this role", mine),
        (f"rows of {these(owners)} from the owner, as whom functions run", owners),
    )
    return [(reason, some) for reason, some in found if some]


def these(tables: Sequence[SecuredTable]) -> str:
    """A few of their names, and how many more."""
    return named([each.name for each in tables])


def named(names: Sequence[str]) -> str:
    """A few of them, and how many more."""
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
