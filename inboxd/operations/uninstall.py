"""inboxd is taken out of a database: its schema with all rows, and the roles that came with it.

Promises: what would go is known before; all of it goes in one transaction, so that an interrupted
run has changed nothing; once more, there is nothing left to do. Nothing outside of the schema is
dropped: where something there depends on it, or the schema holds what is not inboxd's, it is
refused and named: a table, a materialized view. Plugins' tables stay as they are; with the schema
goes the record of which of their migrations ran. A role that another database uses, or that owns
something, stays.
Known limits: views, functions and sequences that others made in the schema go with it; the audit
goes with the schema, so nothing in the database says who did it; history of thousands of partitions
needs as many locks at once, so drop it before (`inboxd history drop`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta

from inboxd.errors import Conflict
from inboxd.model.wording import plural, span
from inboxd.store import listing, plugin_migrations
from inboxd.store import uninstall as store
from inboxd.store.session import Session
from inboxd.store.uninstall import Contents, DatabaseRole

_SHOWN = 5
_MOST_WORKERS = 1000


@dataclass(frozen=True, slots=True)
class UninstallPlan:
    """What would go, and what stays. contents: of its schema, if there is one.

    workers: those that live, for people. plugins: at which version their tables are, which stay.
    staying: roles that stay, and why.
    """

    schema: str
    database: str
    contents: Contents | None
    workers: Sequence[str] = ()
    plugins: Mapping[str, int] = field(default_factory=dict)
    roles: Sequence[DatabaseRole] = ()
    staying: Mapping[str, str] = field(default_factory=dict)

    def __bool__(self) -> bool:
        """Whether there is anything to be taken out."""
        return self.contents is not None or any(
            each["role"] not in self.staying for each in self.roles
        )


async def survey(session: Session, lease: timedelta) -> UninstallPlan:
    """What is there; a worker lives if it was heard of within a lease."""
    schema = session.sql.schema
    contents = await store.contents(session)
    roles = await store.roles(session)
    workers: list[str] = []
    plugins: dict[str, int] = {}
    if contents is not None:
        states = await plugin_migrations.states(session.connection, session.sql, [])
        plugins = {each.plugin: each.version for each in states}
        workers = await _living(session, lease) if "workers" in contents.tables else []
    return UninstallPlan(
        schema,
        await store.database(session),
        contents,
        workers,
        plugins,
        roles,
        {each["role"]: why for each in roles if (why := _why_it_stays(each))},
    )


async def uninstall(session: Session, lease: timedelta, *, force: bool) -> UninstallPlan:
    """Take it out; returns what was there, with all roles that stay.

    Raises Conflict when a worker lives, unless it is forced, or when more than inboxd would go.
    """
    async with session.connection.transaction():
        found = await survey(session, lease)
        refuse(found, force=force)
        await store.drop_schema(session)
        staying = dict(found.staying)
        for each in found.roles:
            if each["role"] not in staying:
                why = await store.drop_role(session, each["role"])
                staying |= {each["role"]: why} if why else {}
    return replace(found, staying=staying)


def refuse(found: UninstallPlan, *, force: bool) -> None:
    """Raise Conflict if it is not to be taken out."""
    if found.workers and not force:
        raise Conflict(
            f"{plural(len(found.workers), 'worker')} of schema {found.schema!r} live: "
            f"{_first(found.workers)}; stop them, or insist with --force"
        )
    if found.contents is None:
        return
    if found.contents.foreign:
        raise Conflict(
            f"schema {found.schema!r} holds tables that are not inboxd's: "
            f"{_first(found.contents.foreign)}; move them (ALTER TABLE … SET SCHEMA …), or drop "
            "them yourself"
        )
    if found.contents.dependents:
        raise Conflict(
            f"outside of schema {found.schema!r} there is what depends on it: "
            f"{_first(found.contents.dependents)}; drop or change that first"
        )


async def _living(session: Session, lease: timedelta) -> list[str]:
    rows = await listing.workers(session, ended=False, limit=_MOST_WORKERS)
    return [
        f"{row['name']} ({row['host']}:{row['pid']}, heard of {span(row['silence'])} ago)"
        for row in rows
        if row["silence"] <= lease.total_seconds()
    ]


def _why_it_stays(role: DatabaseRole) -> str | None:
    if role["databases"]:
        return f"other databases of this server use it: {_first(role['databases'])}"
    if role["owned"]:
        return f"it owns: {_first(role['owned'])}"
    return None


def _first(names: Sequence[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (", …" if len(names) > _SHOWN else "")
