"""`inboxd uninstall`: inboxd is taken out of a database.

Promises: it shows what would go and what would stay before it does anything; without `--yes` it
asks, and where there is nobody to ask it refuses. Known limit: as `inboxd.operations.uninstall` has
it.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from inboxd.cli import columns
from inboxd.cli.options import Looking, may_ask
from inboxd.cli.output import Part, TableColumn
from inboxd.errors import UsageError
from inboxd.model.wording import plural

if TYPE_CHECKING:
    from inboxd.operations.uninstall import UninstallPlan

_MOST = 8  # tables that are shown, those with most rows

_TABLES = (
    TableColumn("table", lambda each: each[0]),
    TableColumn("rows", lambda each: each[1], kind="number", legend="about, by the statistics"),
)


def uninstall(
    force: Annotated[
        bool, typer.Option("--force", help="Also while workers live; they fail then.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Change nothing: show what would go and stay.")
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Do not ask; needed where nobody can be asked.")
    ] = False,
    *,
    given: Looking,
) -> None:
    """Drop inboxd's schema with all its rows, and its roles; plugins' tables stay.

    There is no way back.
    """
    from inboxd.operations import uninstall as operation

    lease = given.settings.worker.lease
    asks = may_ask(yes=yes, json=given.json)
    if not (yes or dry_run or asks):
        raise UsageError("there is no way back: give --yes, or --dry-run to look.")
    found = given.ask(lambda session: operation.survey(session, lease), patient=True)
    if dry_run or asks or not found:
        given.print(_document(found, "would_drop"), _parts(found))
    if dry_run or not found:
        return
    operation.refuse(found, force=force)
    if asks:
        typer.confirm("Take inboxd out now? There is no way back.", abort=True)
    done = given.ask(lambda session: operation.uninstall(session, lease, force=force), patient=True)
    given.tell(_document(done, "dropped"), *_told(done))


def _parts(found: "UninstallPlan") -> Iterator[Part]:
    if not found:
        yield f"Nothing to drop: database {found.database!r} has no schema {found.schema!r}."
    if found.contents is not None:
        yield f"It would drop schema {found.schema!r} of database {found.database!r}."
        most = sorted(found.contents.tables.items(), key=lambda each: -each[1])
        full = [each for each in most if each[1]][:_MOST]
        title = f"{plural(len(most), 'table')}, {'the fullest' if full else 'all empty'}"
        yield columns.table(_TABLES, full, title) if full else f"{title}."
        unsettled = found.contents.unsettled
        if any(unsettled.values()):
            counts = (
                f"{columns.count(n)} {table if n != 1 else table.removesuffix('s')}"
                for table, n in unsettled.items()
            )
            yield f"UNSETTLED, and never handled then: {', '.join(counts)}."
        if in_the_way := _in_the_way(found):
            yield "\n".join(
                ["It would be refused while this is there:", *(f"  {each}" for each in in_the_way)]
            )
    if found.workers:
        yield "\n".join(["Workers that live:", *(f"  {each}" for each in found.workers)])
    if told := [*_roles(found), *_plugins(found)]:
        yield "\n".join(told)


def _in_the_way(found: "UninstallPlan") -> list[str]:
    if found.contents is None:
        return []
    return [*(f"table {each}" for each in found.contents.foreign), *found.contents.dependents]


def _roles(found: "UninstallPlan", *, done: bool = False) -> Iterator[str]:
    for each in found.roles:
        role = each["role"]
        if role in found.staying:
            yield f"Role {role} stays: {found.staying[role]}."
        elif done:
            yield f"Role {role} is dropped."
        else:
            members = f" (its members lose it: {', '.join(each['members'])})"
            yield f"Role {role} goes{members if each['members'] else ''}."


def _plugins(found: "UninstallPlan") -> Iterator[str]:
    if found.plugins:
        names = ", ".join(found.plugins)
        yield (
            f"Tables of plugins stay ({names}). The record of their migrations goes: a later "
            "inboxd migrate would run them again, on tables that are there."
        )
    elif found.contents is not None:
        yield "Tables of plugins, and all other schemas, stay."


def _told(done: "UninstallPlan") -> Iterator[str]:
    yield f"Schema {done.schema!r} of database {done.database!r} is dropped."
    yield from _roles(done, done=True)
    yield from _plugins(done)


def _document(found: "UninstallPlan", what: str) -> dict[str, Any]:
    contents = found.contents
    return {
        "database": found.database,
        what: {
            "schema": found.schema if contents else None,
            "tables": contents.tables if contents else {},
            "unsettled": contents.unsettled if contents else {},
            "roles": [e["role"] for e in found.roles if e["role"] not in found.staying],
        },
        "in_the_way": _in_the_way(found),
        "workers": list(found.workers),
        "stays": {"roles": dict(found.staying), "plugins": dict(found.plugins)},
    }
