"""`inboxd batches` and `inboxd workflows`: look at them, cancel, close, resume.

Known limit: of a batch the first hundred dead letters and steps are shown; `inboxd trace batch ID`
draws what is in it.
"""

from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from inboxd.cli.actions import Careful, act_on_all
from inboxd.cli.groups import CommandGroup, Options
from inboxd.cli.options import (
    Acting,
    Id,
    Looking,
    Paging,
    Since,
    Statuses,
    Tenant,
    examples,
    read_id,
    read_since,
)
from inboxd.cli.output import (
    ATTEMPTS,
    CREATED,
    ERROR,
    ID,
    STATUS,
    TENANT,
    TOOK,
    TYPE,
    Table,
    TableColumn,
    numbers,
    print_fields,
    print_json,
    print_tables,
)
from inboxd.cli.show import WAITS
from inboxd.errors import NotFound

if TYPE_CHECKING:
    from uuid import UUID

    from inboxd.operations.batches import Kind
    from inboxd.store.session import Session

batches = CommandGroup(no_args_is_help=True, help="Look at batches, cancel, close.")
workflows = CommandGroup(no_args_is_help=True, help="Look at workflows, cancel, resume.")

_SHOWN = 100
_FIRST = (
    *("id", "batch_id", "kind", "name", "status", "tenant", "size", "unsettled", "succeeded"),
    *("failed", "cancelled", "skipped", "created_at", "closed_at", "expires_at", "expired_at"),
    *("failed_at", "finished_at", "duration", "parent_id", "correlation_id", "causation_id"),
)


def _status(row: dict[str, Any]) -> str:
    """Says too that nobody closed the batch, until it was too late."""
    if row["closed_at"] is not None or row["finished_at"] is not None:
        return str(row["status"])
    return f"{row['status']}, {'open' if row['expired_at'] is None else 'expired'}"


_LIST = (
    ID,
    TableColumn("name", cut="left"),
    TableColumn("status", _status),
    *numbers("size"),
    *numbers("unsettled", "succeeded", "failed", "cancelled", "skipped", extra=True),
    *(TENANT, CREATED, TOOK),
)
_STEP = (TableColumn("step", "name", cut="left"), TableColumn("kind"), ID, TYPE, STATUS, ATTEMPTS)
_TABLES = {
    "steps": (*_STEP, TableColumn("waits for", "waits", cut="right"), ERROR),
    "waits_for": WAITS,
    "waiting": (TableColumn("waits for it", "condition"), TYPE, ID, STATUS),
    "created": (TableColumn("brought about", "kind"), TYPE, ID, STATUS),
    "failures": (TableColumn("dead letter", "id", kind="number"), TYPE, ATTEMPTS, ERROR),
}


@dataclass(frozen=True, kw_only=True)
class OfWorkflows(Options):
    """Which workflows."""

    status: Statuses = None
    name: Annotated[
        str | None, typer.Option("--name", metavar="TEXT", help="Only of this name.")
    ] = None
    tenant: Tenant = None
    since: Since = None


@dataclass(frozen=True, kw_only=True)
class OfBatches(OfWorkflows):
    """Which batches."""

    open: Annotated[bool, typer.Option("--open", help="Only those that are filled still.")] = False


@batches.command("list", epilog=examples("inboxd batches list --status failed --since 1d"))
def list_batches(wanted: OfBatches, page: Paging, given: Looking) -> None:
    """List batches, newest first, with the totals of each status; workflows have their own list."""
    _print_list("batch", "batches", wanted, page, given)


@workflows.command("list", epilog=examples("inboxd workflows list --status failed"))
def list_workflows(wanted: OfWorkflows, page: Paging, given: Looking) -> None:
    """List workflows, newest first, with the totals of each status."""
    _print_list("workflow", "workflows", wanted, page, given)


@batches.command("show", epilog=examples("inboxd batches show 3"))
def show_batch(id: Id, given: Looking) -> None:
    """Show one batch: its counts, its dead letters, what it brought about and what waits for it."""
    _print_one(id, given, kind=None)


@workflows.command("show", epilog=examples("inboxd workflows show 4"))
def show_workflow(id: Id, given: Looking) -> None:
    """Show one workflow: its steps, what each waits for, what waits for the whole."""
    _print_one(id, given, kind="workflow")


@batches.command("cancel", epilog=examples("inboxd batches cancel 3 --reason 'sent twice'"))
def cancel_batch(id: Id, given: Acting) -> None:
    """Cancel a batch as a whole: what has not begun ends, what runs is asked to end."""
    _end("cancelled", id, given, kind=None)


@workflows.command("cancel", epilog=examples("inboxd workflows cancel 4 --reason 'wrong school'"))
def cancel_workflow(id: Id, given: Acting) -> None:
    """Cancel a workflow as a whole: what has not begun ends, what runs is asked to end."""
    _end("cancelled", id, given, kind="workflow")


@workflows.command("resume", epilog=examples("inboxd workflows resume 4 --reason 'address mended'"))
def resume(id: Id, given: Careful) -> None:
    """Go on from where a workflow failed: its dead letters run again, and the rest follows."""
    from inboxd import operations

    wanted = read_id(id)
    given.ask(lambda session: operations.resumable(session, wanted))
    act_on_all("commands", "replay", operations.Selection(batch=wanted), given)


@batches.command("close", epilog=examples("inboxd batches close 3 --reason 'its filler is gone'"))
def close(id: Id, given: Acting) -> None:
    """Close an open batch, also one that has expired, so that it can end."""
    _end("closed", id, given, kind=None)


def _print_list(kind: "Kind", what: str, wanted: OfWorkflows, page: Paging, given: Looking) -> None:
    from inboxd.store import batch_listing

    of = asdict(wanted)
    filter_ = batch_listing.BatchFilter(
        kind=kind,
        statuses=of.pop("status") or (),
        since=read_since(since) if (since := of.pop("since")) else None,
        open=of.pop("open", False) or None,
        below=page.after,
        limit=page.limit,
        **of,
    )

    async def look(session: "Session") -> dict[str, Any]:
        found = [dict(row) for row in await batch_listing.rows(session, filter_)]
        next_ = found[-1]["id"] if len(found) == page.limit else None
        return {what: found, "totals": await batch_listing.totals(session, filter_), "next": next_}

    found = given.ask(look)
    if not given.json:
        counts = found["totals"]
        of_all = {"total": sum(counts.values()), **counts}
        typer.echo(", ".join(f"{count:,} {status}" for status, count in of_all.items()))
    given.print(found, Table(_LIST, found[what]))


def _print_one(id: str, given: Looking, *, kind: "Kind | None") -> None:
    wanted = read_id(id)
    found = given.ask(lambda session: _details(session, wanted, kind))
    if given.json:
        print_json(found)
        return
    origin = " ".join(str(found[k]) for k in ("origin_kind", "origin_id") if found[k] is not None)
    fields = {name.replace("_", " "): found[name] for name in _FIRST}
    print_fields("", {**fields, "origin": origin})
    if found["failed_at"] is not None and found["status"] == "succeeded":
        typer.echo("\nHealed: it had failed before. What ran then (otherwise, finally) stays run.")
    typer.echo()
    tables = (Table(columns, found[key]) for key, columns in _TABLES.items() if found[key])
    print_tables(tables, wide=given.wide)


async def _details(session: "Session", id: "int | UUID", kind: "Kind | None") -> dict[str, Any]:
    from inboxd import operations
    from inboxd.store import batch_listing

    row = await batch_listing.one(session, id)
    if row is None:
        raise NotFound(
            f"there is no batch {id}: look the id up with `inboxd batches list` or "
            "`inboxd workflows list`"
        )
    operations.check_kind(row, kind)
    created = await operations.created_by(
        session, "batch", row["id"], row["batch_id"], row["created_at"]
    )
    keys = ("kind", "id", "type", "status")
    return {
        **dict(row),
        "steps": [dict(each) for each in await batch_listing.steps(session, row["id"], _SHOWN)],
        "waits_for": await operations.waits_of(session, row["batch_id"]),
        "waiting": [
            dict(each)
            for each in await batch_listing.continuations(session, row["batch_id"], _SHOWN)
        ],
        "created": [{key: getattr(each, key) for key in keys} for each in created],
        "failures": [
            dict(each) for each in await batch_listing.failures(session, row["id"], _SHOWN)
        ],
    }


def _end(
    what: Literal["cancelled", "closed"], id: str, given: Acting, *, kind: "Kind | None"
) -> None:
    from inboxd import operations

    end = (
        operations.close_batch if what == "closed" else partial(operations.cancel_batch, kind=kind)
    )
    done = given.do(end, read_id(id))
    told = f"{what.capitalize()}: {done.id} {done.name}, {done.unsettled:,} had not ended"
    given.tell({what: done.id, "unsettled": done.unsettled}, told)
