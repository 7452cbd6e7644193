"""`inboxd events list`, `inboxd commands list`: rows by any filter, and how far back they look."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from inboxd.cli import actions, columns
from inboxd.cli.groups import CommandGroup, Options
from inboxd.cli.options import (
    Look,
    Looking,
    Paging,
    Statuses,
    examples,
    named_in,
)
from inboxd.cli.output import TableColumn, remark, show
from inboxd.model.lifecycle import Status
from inboxd.model.wording import plural

if TYPE_CHECKING:
    from inboxd.operations import Found
    from inboxd.settings import Settings
    from inboxd.store.finding import Filter
    from inboxd.store.session import Session
    from inboxd.store.wakeups import HotTable


@dataclass(frozen=True, kw_only=True)
class ListFilter(Options):
    error: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="Only rows whose newest error contains TEXT."),
    ] = None
    payload: Annotated[
        str | None,
        typer.Option(
            metavar="FIELD=VALUE",
            help="Only rows whose payload has this value (order_id=17, customer.id=17), or "
            "contains this JSON object.",
        ),
    ] = None
    look: Look = None


@dataclass(frozen=True, kw_only=True)
class EventListFilter(ListFilter):
    commands: Annotated[
        list[Status] | None,
        typer.Option(
            metavar="STATUS",
            help="Only events that sent a command which has this status now; repeatable.",
        ),
    ] = None


def add_list(app: CommandGroup, table: "HotTable") -> None:
    events = table == "events"
    lines = (
        "--status failed --since 1d",
        "--type order.created --since 2h --json" if events else "--queue email --limit 100",
        "--payload order_id=17 --look 1000000",
        *(("--commands failed",) if events else ()),
    )

    @app.command(
        "list",
        options={
            "wanted": actions.row_filter(table),
            "where": EventListFilter if events else ListFilter,
        },
        help=f"List {table}, newest first; payloads are not shown.",
        epilog=examples(*(f"inboxd {table} list {line}" for line in lines)),
    )
    def _list(
        *, wanted: Any, status: Statuses = None, where: Any, page: Paging, given: Looking
    ) -> None:
        from inboxd import operations

        texts = {**asdict(wanted), **asdict(where)}
        look, commands = texts.pop("look"), texts.pop("commands", None)
        filter_ = operations.read_filter(texts, statuses=status or (), commands=commands or ())
        _print(table, filter_, look, page, given)


def _print(
    table: "HotTable", wanted: "Filter", look: int | None, page: Paging, given: Looking
) -> None:
    found, doubts = given.ask(
        lambda session: _find(session, given.settings, table, wanted, look, page)
    )
    lane = TableColumn("topic" if table == "events" else "queue", cut="left")
    status, error = TableColumn("status", _status), TableColumn("error", _error, cut="right")
    tenant = TableColumn("tenant", _tenant, cut="right", extra=True)
    shown = ("id", "type", lane, status, "attempts", tenant, "created", "took", error)
    given.print(
        found.document(table), [columns.table(shown, found.rows)], how_far(found, page.limit)
    )
    for doubt in doubts:
        remark(doubt)


def how_far(found: "Found", limit: int) -> Sequence[str]:
    if found.next is None or len(found.rows) == limit:
        return ()
    back = "" if found.looked_back_to is None else f" back to {show(found.looked_back_to)}"
    rows = plural(found.looked, "row")
    return (f"Looked{back} ({rows}): {len(found.rows)} found; --look N looks further.",)


async def _find(
    session: "Session",
    settings: "Settings",
    table: "HotTable",
    wanted: "Filter",
    look: int | None,
    page: Paging,
) -> "tuple[Found, list[str]]":
    from inboxd import operations

    where: Any = {"below": page.after, "limit": page.limit}
    if look is None:
        found = await operations.find(session, table, wanted, **where)
    else:
        found = await operations.search(session, table, wanted, **where, look=look)
    tenants = operations.Tenants(settings.tenants)
    await operations.label_rows(session, table, found.rows, tenants)
    await operations.mark_replayed(session, table, found.rows)
    told = [
        await operations.unknown(session, kind, name, also=named_in(settings, kind))
        for kind, name in (() if found.rows else operations.names_of(table, wanted))
    ]
    return found, [each for each in (*told, tenants.trouble) if each]


def _status(row: dict[str, Any]) -> str:
    new = row.get("replayed_as")
    return row["status"] if new is None else f"{row['status']}, replayed as {new}"


def _error(row: dict[str, Any]) -> str | None:
    """Return the newest error; marked "(before)" if the row has succeeded since."""
    error: str | None = row["error"]
    return f"(before) {error}" if error and row["status"] == Status.SUCCEEDED else error


def _tenant(row: dict[str, Any]) -> str | None:
    name: str | None = row.get("tenant_name") or row["tenant"]
    return name
