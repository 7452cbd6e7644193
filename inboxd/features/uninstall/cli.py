"""`inboxd uninstall`: removes inboxd from a database, after it shows the parts that it drops."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from inboxd.cli import columns
from inboxd.cli.options import Looking, may_ask
from inboxd.cli.output import Part, TableColumn
from inboxd.errors import UsageError
from inboxd.model.wording import plural

if TYPE_CHECKING:
    from inboxd.features.uninstall.operations import UninstallPlan

_MOST_TABLES = 8  # shown, the largest ones

_TABLES = (
    TableColumn("table", lambda each: each[0]),
    TableColumn("rows", lambda each: each[1], kind="number", legend="estimated by statistics"),
)


def uninstall(
    force: Annotated[
        bool, typer.Option("--force", help="Uninstall even if workers are running; they will fail.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be dropped, and drop nothing.")
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Do not ask; required without a terminal.")
    ] = False,
    *,
    given: Looking,
) -> None:
    """Drop inboxd's schema with all its rows, and its roles; plugins' tables stay.

    The command refuses while workers live, unless --force is given, and while other objects depend
    on the schema. Run it as the schema's owner. This cannot be undone.
    """
    from inboxd.features.uninstall import operations

    lease = given.settings.worker.lease
    asks = may_ask(yes=yes, json=given.json)
    if not (yes or dry_run or asks):
        raise UsageError("this cannot be undone: give --yes, or --dry-run for a preview.")
    found = given.ask(lambda session: operations.survey(session, lease), patient=True)
    if dry_run or asks or not found:
        given.print(_document(found, "would_drop"), _parts(found))
    if dry_run or not found:
        return
    operations.refuse(found, force=force)
    if asks:
        typer.confirm("Uninstall inboxd now? This cannot be undone.", abort=True)
    done = given.ask(
        lambda session: operations.uninstall(session, lease, force=force), patient=True
    )
    given.tell(_document(done, "dropped"), *_result(done))


def _parts(found: "UninstallPlan") -> Iterator[Part]:
    if not found:
        yield f"Nothing to drop: database {found.database!r} has no schema {found.schema!r}."
    if found.contents is not None:
        yield f"It would drop schema {found.schema!r} of database {found.database!r}."
        most = sorted(found.contents.tables.items(), key=lambda each: -each[1])
        full = [each for each in most if each[1]][:_MOST_TABLES]
        title = f"{plural(len(most), 'table')}, {'largest first' if full else 'all empty'}"
        yield columns.table(_TABLES, full, title) if full else f"{title}."
        unsettled = found.contents.unsettled
        if any(unsettled.values()):
            counts = (
                f"{columns.count(n)} {table if n != 1 else table.removesuffix('s')}"
                for table, n in unsettled.items()
            )
            yield f"UNSETTLED rows, which would never be handled: {', '.join(counts)}."
        if in_the_way := _in_the_way(found):
            yield "\n".join(
                ["It would fail while these exist:", *(f"  {each}" for each in in_the_way)]
            )
    if found.workers:
        yield "\n".join(["Living workers:", *(f"  {each}" for each in found.workers)])
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
            yield f"Role {role} was dropped."
        else:
            members = f" (members lose it: {', '.join(each['members'])})"
            yield f"Role {role} would be dropped{members if each['members'] else ''}."


def _plugins(found: "UninstallPlan") -> Iterator[str]:
    if found.plugins:
        names = ", ".join(found.plugins)
        yield (
            f"Tables of plugins stay ({names}). The record of their migrations is dropped: a later "
            "inboxd migrate would run them again, on the existing tables."
        )
    elif found.contents is not None:
        yield "Tables of plugins, and all other schemas, stay."


def _result(done: "UninstallPlan") -> Iterator[str]:
    yield f"Schema {done.schema!r} of database {done.database!r} was dropped."
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
