"""Uninstalling: what inboxd has in a database and on its server, and how it is removed.

Promises that outside of the schema only its roles are dropped, with their privileges.
"""

import re
from dataclasses import dataclass
from typing import TypedDict, cast

import asyncpg

from inboxd.store import catalogue
from inboxd.store.session import Session

COUNTED = 10_000
_DAY = re.compile(r"_[0-9]{8}$")


class DatabaseRole(TypedDict):
    """A role that came with the schema. owned: its objects outside of the schema."""

    role: str
    members: list[str]
    databases: list[str]
    owned: list[str]


@dataclass(frozen=True, slots=True)
class Contents:
    """unsettled: up to COUNTED. foreign: tables that no migration made. dependents: outside it."""

    tables: dict[str, int]
    unsettled: dict[str, int]
    foreign: list[str]
    dependents: list[str]


async def contents(session: Session) -> Contents | None:
    if not await session.fetchval("has_migrations"):
        return None
    tables = {row["name"]: row["rows"] for row in await session.fetch("uninstall_tables")}
    known = catalogue.tables()
    unsettled = dict.fromkeys(("events", "commands"), 0)
    if tables.keys() >= unsettled.keys():
        unsettled = dict(await session.one("uninstall_unsettled", COUNTED))
        tables |= {name: max(tables[name], rows) for name, rows in unsettled.items()}
    return Contents(
        tables,
        unsettled,
        # A detached partition's name is its parent's name and its day.
        [each for each in tables if _DAY.sub("", each) not in known],
        [row["described"] for row in await session.fetch("uninstall_dependents")],
    )


async def roles(session: Session) -> list[DatabaseRole]:
    return cast("list[DatabaseRole]", [dict(row) for row in await session.fetch("uninstall_roles")])


async def database(session: Session) -> str:
    return str(await session.fetchval("current_database"))


async def drop_schema(session: Session) -> None:
    await session.execute("drop_schema")


async def drop_role(session: Session, role: str) -> str | None:
    """Drop a role, in the caller's transaction; returns the reason if the server refuses."""
    try:
        async with session.transaction():
            for (statement,) in await session.fetch("drop_role", role):
                await session.connection.execute(statement)
    except (asyncpg.InsufficientPrivilegeError, asyncpg.DependentObjectsStillExistError) as error:
        return str(error.args[0])
    return None
