"""`inboxd batches` and `inboxd workflows`: list, show, cancel; close a batch, resume a workflow.

Known limit: `show` prints at most 100 dead letters and steps; `inboxd trace batch ID` draws all.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from inboxd.cli import columns
from inboxd.cli.actions import ActingOnMany, act_on_all
from inboxd.cli.groups import CommandGroup, Options
from inboxd.cli.options import (
    Acting,
    Id,
    Look,
    Looking,
    Paging,
    Since,
    Statuses,
    Tenant,
    examples,
)
from inboxd.cli.output import Fields, Part, TableColumn
from inboxd.cli.row_lists import how_far
from inboxd.cli.show import WAITS
from inboxd.model.moments import read_since
from inboxd.model.row_id import read_row_id

if TYPE_CHECKING:
    from inboxd.operations import Found
    from inboxd.operations.batches import BatchEnded, Kind
    from inboxd.operations.totals import Number
    from inboxd.store.session import Session

_FIRST = (
    *(
        "id",
        "batch_id",
        "kind",
        "name",
        "type",
        "status",
        "tenant",
        "size",
        "unsettled",
        "succeeded",
    ),
    *("failed", "cancelled", "skipped", "created_at", "closed_at", "expires_at", "expired_at"),
    *("failed_at", "finished_at", "duration", "parent_id", "correlation_id", "causation_id"),
)


def _status(row: dict[str, Any]) -> str:
    if row["closed_at"] is not None or row["finished_at"] is not None:
        return str(row["status"])
    return f"{row['status']}, {'open' if row['expired_at'] is None else 'expired'}"


_LIST: columns.Columns = (
    *("id", TableColumn("name", cut="left"), TableColumn("status", _status)),
    TableColumn("type", cut="left", extra=True),
    *columns.numbers("size"),
    *columns.numbers("unsettled", "succeeded", "failed", "cancelled", "skipped", extra=True),
    *("tenant", "created", "took"),
)
_TABLES: dict[str, columns.Columns] = {
    "steps": (
        *(TableColumn("step", "name", cut="left"), "kind", "id", "type", "status", "attempts"),
        *(TableColumn("waits for", "waits", cut="right"), "error"),
    ),
    "waits_for": WAITS,
    "waiting": (TableColumn("waits for it", "condition"), "type", "id", "status"),
    "created": (TableColumn("created", "kind"), "type", "id", "status"),
    "failures": (TableColumn("dead letter", "id", kind="number"), "type", "attempts", "error"),
}


@dataclass(frozen=True, kw_only=True)
class OfWorkflows(Options):
    status: Statuses = None
    name: Annotated[str | None, typer.Option("--name", metavar="TEXT", help="Only this name.")] = (
        None
    )
    type: Annotated[str | None, typer.Option("--type", metavar="TYPE", help="Only this type.")] = (
        None
    )
    tenant: Tenant = None
    since: Since = None
    until: Annotated[
        str | None, typer.Option(metavar="TIME", help="Only rows created before TIME.")
    ] = None
    look: Look = None


@dataclass(frozen=True, kw_only=True)
class OfBatches(OfWorkflows):
    open: Annotated[
        bool, typer.Option("--open", help="Only batches that producers still add to.")
    ] = False


def batch_commands(kind: "Kind") -> CommandGroup:
    what = f"{kind}es" if kind == "batch" else f"{kind}s"
    ends = "close" if kind == "batch" else "resume"
    app = CommandGroup(no_args_is_help=True, help=f"Show, cancel and {ends} {what}.")
    own = "; workflows have their own list" if kind == "batch" else ""
    parts = (
        "its counts and dead letters, the rows that it created, the rows that wait for it"
        if kind == "batch"
        else "its steps with their prerequisites, and the rows that wait for the workflow"
    )

    @app.command(
        "list",
        options={"wanted": OfBatches if kind == "batch" else OfWorkflows},
        help=f"List {what}, newest first, with the totals of each status{own}.",
        epilog=examples(f"inboxd {what} list --status failed --since 1d"),
    )
    def _list(*, wanted: Any, page: Paging, given: Looking) -> None:
        _print_list(kind, what, wanted, page, given)

    @app.command(
        "show", help=f"Show one {kind}: {parts}.", epilog=examples(f"inboxd {what} show 3")
    )
    def _show(id: Id, given: Looking) -> None:
        wanted = read_row_id(id)
        from inboxd import operations

        found = given.ask(lambda session: operations.batch_details(session, wanted, _only(kind)))
        given.print(found, _parts(found))

    @app.command(
        "cancel",
        help=f"Cancel a whole {kind}: commands that have not started are cancelled, running ones "
        "are asked to stop.",
        epilog=examples(f"inboxd {what} cancel 3 --reason 'sent twice'"),
    )
    def _cancel(id: Id, given: Acting) -> None:
        from inboxd import operations

        cancel = partial(operations.cancel_batch, kind=_only(kind))
        _tell_end("cancelled", given.do(cancel, read_row_id(id)), given)

    return app


def _only(kind: "Kind") -> "Kind | None":
    """Return the kind that the row must have; None: any, since a workflow is also a batch."""
    return kind if kind == "workflow" else None


batches, workflows = batch_commands("batch"), batch_commands("workflow")


@workflows.command("resume", epilog=examples("inboxd workflows resume 4 --reason 'address mended'"))
def resume(id: Id, given: ActingOnMany) -> None:
    """Resume a failed workflow: replay its dead letters; the steps after them follow."""
    from inboxd import operations

    wanted = read_row_id(id)
    given.ask(lambda session: operations.resumable(session, wanted))
    act_on_all("commands", "replay", operations.Selection(batch=wanted), given)


@batches.command("close", epilog=examples("inboxd batches close 3 --reason 'its producer is gone'"))
def close(id: Id, given: Acting) -> None:
    """Close an open batch, even an expired one, so that it can end."""
    from inboxd import operations

    _tell_end("closed", given.do(operations.close_batch, read_row_id(id)), given)


def _print_list(kind: "Kind", what: str, wanted: OfWorkflows, page: Paging, given: Looking) -> None:
    from inboxd import operations
    from inboxd.operations import totals
    from inboxd.store import batch_listing

    of = asdict(wanted)
    most = of.pop("look")
    filter_ = batch_listing.BatchFilter(
        kind=kind,
        statuses=of.pop("status") or (),
        since=read_since(since) if (since := of.pop("since")) else None,
        until=read_since(until) if (until := of.pop("until")) else None,
        open=of.pop("open", False) or None,
        below=page.after,
        limit=page.limit,
        **of,
    )

    async def look(session: "Session") -> "tuple[Found, dict[str, Number]]":
        found = await operations.batch_rows(session, filter_, most)
        counted = await totals.count_batches(
            session, kind, type_=filter_.type, tenant=filter_.tenant
        )
        return found, counted

    found, counted = given.ask(look)
    of_all = {"total": totals.add(counted.values()), **counted}
    given.print(
        {
            **found.document(what),
            "totals": {status: number.document() for status, number in counted.items()},
        },
        [columns.table(_LIST, found.rows)],
        [
            *how_far(found, page.limit),
            ", ".join(f"{columns.exactly(number)} {status}" for status, number in of_all.items()),
        ],
    )


def _parts(found: dict[str, Any]) -> Iterator[Part]:
    origin = " ".join(str(found[k]) for k in ("origin_kind", "origin_id") if found[k] is not None)
    yield Fields({name.replace("_", " "): found[name] for name in _FIRST} | {"origin": origin})
    if found["failed_at"] is not None and found["status"] == "succeeded":
        yield (
            "Succeeded after a failure: the continuations that ran then (otherwise, finally) are "
            "not undone."
        )
    for key, shown in _TABLES.items():
        if found[key]:
            yield columns.table(shown, found[key])


def _tell_end(what: str, done: "BatchEnded", given: Acting) -> None:
    told = f"{what.capitalize()}: {done.id} {done.name}, {done.unsettled:,} unsettled"
    given.tell({what: done.id, "unsettled": done.unsettled}, told)
