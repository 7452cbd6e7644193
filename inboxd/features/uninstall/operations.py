"""Removes inboxd from a database: its schema with all rows, and its roles.

Promises: one transaction drops everything. It refuses if something outside depends on the schema,
or if the schema contains foreign tables or materialized views, and names them. Plugins' tables
stay, the record of their migrations does not. A role stays if another database uses it, or if it
owns something. Known limits: foreign views, functions and sequences are dropped, and so is the
audit; thousands of partitions need one lock each: drop them first (`inboxd history drop`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta

from inboxd.errors import Conflict
from inboxd.features.uninstall import store
from inboxd.features.uninstall.store import Contents, DatabaseRole
from inboxd.model.wording import plural, span
from inboxd.store import listing, plugin_migrations
from inboxd.store.session import Session

_SHOWN = 5
_MOST_WORKERS = 1000


@dataclass(frozen=True, slots=True)
class UninstallPlan:
    """plugins: versions of plugins' tables, which stay. staying: roles, with the reason."""

    schema: str
    database: str
    contents: Contents | None
    workers: Sequence[str] = ()
    plugins: Mapping[str, int] = field(default_factory=dict)
    roles: Sequence[DatabaseRole] = ()
    staying: Mapping[str, str] = field(default_factory=dict)

    def __bool__(self) -> bool:
        """Whether there is anything to drop."""
        return self.contents is not None or any(
            each["role"] not in self.staying for each in self.roles
        )


async def survey(session: Session, lease: timedelta) -> UninstallPlan:
    """A worker counts as living for one lease after its heartbeat."""
    schema = session.sql.schema
    contents = await store.contents(session)
    roles = await store.roles(session)
    workers: list[str] = []
    plugins: dict[str, int] = {}
    if contents is not None:
        states = await plugin_migrations.states(session, [])
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
    """Raises Conflict if a worker lives, unless forced, or if it would drop foreign things."""
    async with session.transaction():
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
    """Raise Conflict if workers live, or foreign things are in the way."""
    if found.workers and not force:
        raise Conflict(
            f"schema {found.schema!r} has {plural(len(found.workers), 'living worker')}: "
            f"{_first(found.workers)}; stop them, or uninstall with --force"
        )
    if found.contents is None:
        return
    if found.contents.foreign:
        raise Conflict(
            f"schema {found.schema!r} contains foreign tables: "
            f"{_first(found.contents.foreign)}; move them (ALTER TABLE … SET SCHEMA …), or drop "
            "them yourself"
        )
    if found.contents.dependents:
        raise Conflict(
            f"these depend on schema {found.schema!r}: {_first(found.contents.dependents)}; drop "
            "or change them first"
        )


async def _living(session: Session, lease: timedelta) -> list[str]:
    rows = await listing.workers(session, ended=False, limit=_MOST_WORKERS)
    return [
        f"{row['name']} ({row['host']}:{row['pid']}, heartbeat {span(row['silence'])} ago)"
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
