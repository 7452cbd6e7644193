"""`inboxd batches` and `inboxd workflows`: look at them, cancel, close, resume.

Known limit: of a batch the first hundred dead letters and steps are shown; `inboxd trace batch ID`
draws what is in it.
"""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from inboxd.cli import actions, rows
from inboxd.cli.help import CommandGroup
from inboxd.cli.options import (
    Config,
    Id,
    Json,
    Reason,
    ask,
    examples,
    load_settings,
    read_id,
    read_since,
)
from inboxd.cli.output import print_fields, print_json, print_table
from inboxd.errors import NotFound

if TYPE_CHECKING:
    from uuid import UUID

    from inboxd.operations.batches import Kind
    from inboxd.store.grouping import BatchFilter
    from inboxd.store.session import Session

batches = CommandGroup(no_args_is_help=True, help="Look at batches, cancel, close.")
workflows = CommandGroup(no_args_is_help=True, help="Look at workflows, cancel, resume.")

ByName = Annotated[str | None, typer.Option("--name", metavar="TEXT", help="Only of this name.")]
Open = Annotated[bool, typer.Option("--open", help="Only those that are filled still.")]

_SHOWN = 100
_COLUMNS = (
    *("id", "name", "status", "size", "unsettled", "succeeded", "failed", "cancelled", "skipped"),
    *("tenant", "created_at", "duration"),
)
_FIRST = (
    *("id", "batch_id", "kind", "name", "status", "tenant", "size", "unsettled", "succeeded"),
    *("failed", "cancelled", "skipped", "created_at", "closed_at", "expires_at", "expired_at"),
    *("failed_at", "finished_at", "duration", "parent_id", "correlation_id", "causation_id"),
)
_STEP = ("name", "kind", "id", "type", "status", "attempts", "waits", "error")


@batches.command("list", epilog=examples("inboxd batches list --status failed --since 1d"))
def list_batches(
    *,
    status: rows.ByStatus = None,
    name: ByName = None,
    tenant: rows.ByTenant = None,
    open: Open = False,
    since: rows.Since = None,
    limit: rows.Limit = 20,
    after: rows.After = None,
    config: Config = None,
    json: Json = False,
) -> None:
    """List batches, newest first, with the totals of each status; workflows have their own list."""
    from inboxd.store.grouping import BatchFilter

    wanted = BatchFilter(
        kind="batch",
        statuses=status or (),
        name=name,
        tenant=tenant,
        open=open or None,
        since=None if since is None else read_since(since),
        below=after,
        limit=limit,
    )
    _print_list("batches", wanted, config, json=json)


@workflows.command("list", epilog=examples("inboxd workflows list --status failed"))
def list_workflows(
    *,
    status: rows.ByStatus = None,
    name: ByName = None,
    tenant: rows.ByTenant = None,
    since: rows.Since = None,
    limit: rows.Limit = 20,
    after: rows.After = None,
    config: Config = None,
    json: Json = False,
) -> None:
    """List workflows, newest first, with the totals of each status."""
    from inboxd.store.grouping import BatchFilter

    wanted = BatchFilter(
        kind="workflow",
        statuses=status or (),
        name=name,
        tenant=tenant,
        since=None if since is None else read_since(since),
        below=after,
        limit=limit,
    )
    _print_list("workflows", wanted, config, json=json)


@batches.command("show", epilog=examples("inboxd batches show 3"))
def show_batch(id: Id, config: Config = None, json: Json = False) -> None:
    """Show one batch: its counts, its dead letters, what it brought about and what waits for it."""
    _print_one(id, config, json=json)


@workflows.command("show", epilog=examples("inboxd workflows show 4"))
def show_workflow(id: Id, config: Config = None, json: Json = False) -> None:
    """Show one workflow: its steps, what each waits for, what waits for the whole."""
    _print_one(id, config, kind="workflow", json=json)


@batches.command("cancel", epilog=examples("inboxd batches cancel 3 --reason 'sent twice'"))
def cancel_batch(id: Id, reason: Reason = None, config: Config = None, json: Json = False) -> None:
    """Cancel a batch as a whole: what has not begun ends, what runs is asked to end."""
    _end("cancelled", id, reason, config, json=json)


@workflows.command("cancel", epilog=examples("inboxd workflows cancel 4 --reason 'wrong school'"))
def cancel_workflow(
    id: Id, reason: Reason = None, config: Config = None, json: Json = False
) -> None:
    """Cancel a workflow as a whole: what has not begun ends, what runs is asked to end."""
    _end("cancelled", id, reason, config, kind="workflow", json=json)


@workflows.command("resume", epilog=examples("inboxd workflows resume 4 --reason 'address mended'"))
def resume(
    id: Id,
    *,
    dry_run: actions.DryRun = False,
    rate: actions.Rate = None,
    yes: actions.Yes = False,
    reason: Reason = None,
    config: Config = None,
    json: Json = False,
) -> None:
    """Go on from where a workflow failed: its dead letters run again, and the rest follows."""
    given = actions.Options(
        reason, rate, config, everything=False, dry_run=dry_run, yes=yes, force=False, json=json
    )
    from inboxd import operations

    wanted = read_id(id)
    ask(load_settings(config), lambda session: operations.resumable(session, wanted))
    actions.act("commands", "replay", None, given, batch=id)


@batches.command("close", epilog=examples("inboxd batches close 3 --reason 'its filler is gone'"))
def close(id: Id, reason: Reason = None, config: Config = None, json: Json = False) -> None:
    """Close an open batch, also one that has expired, so that it can end."""
    _end("closed", id, reason, config, json=json)


def _print_list(what: str, wanted: "BatchFilter", config: Any, *, json: bool) -> None:
    found = ask(load_settings(config), lambda session: _page(session, what, wanted))
    if json:
        print_json(found)
        return
    counts = found["totals"]
    of_all = {"total": sum(counts.values()), **counts}
    typer.echo(", ".join(f"{count:,} {status}" for status, count in of_all.items()))
    print_table(_COLUMNS, ([_cell(row, name) for name in _COLUMNS] for row in found[what]))
    if found["next"] is not None:
        typer.echo(f"There may be more: add --after {found['next']}", err=True)


def _cell(row: dict[str, Any], name: str) -> object:
    """A status tells too that nobody closed the batch, until it was too late."""
    if name != "status" or row["closed_at"] is not None or row["finished_at"] is not None:
        return row[name]
    return f"{row['status']}, {'open' if row['expired_at'] is None else 'expired'}"


async def _page(session: "Session", what: str, wanted: "BatchFilter") -> dict[str, Any]:
    from inboxd.store import grouping

    found = [dict(row) for row in await grouping.rows(session, wanted)]
    next_ = found[-1]["id"] if len(found) == wanted.limit else None
    return {what: found, "totals": await grouping.totals(session, wanted), "next": next_}


def _print_one(id: str, config: Any, *, kind: "Kind | None" = None, json: bool) -> None:
    wanted = read_id(id)
    found = ask(load_settings(config), lambda session: _details(session, wanted, kind))
    if json:
        print_json(found)
        return
    origin = " ".join(str(found[k]) for k in ("origin_kind", "origin_id") if found[k] is not None)
    print_fields("", {**{name: found[name] for name in _FIRST}, "origin": origin})
    if found["failed_at"] is not None and found["status"] == "succeeded":
        typer.echo("\nHealed: it had failed before. What ran then (otherwise, finally) stays run.")
    if found["steps"]:
        table = [[_joined(row[name]) for name in _STEP] for row in found["steps"]]
        print_table(("step", *_STEP[1:6], "waits for", "error"), table)
    if found["waits_for"]:
        rows.print_waits(found["waits_for"])
    for heading, key, columns in (
        ("waits for it", "waiting", ("condition", "type", "id", "status")),
        ("brought about", "created", ("kind", "type", "id", "status")),
        ("dead letter", "failures", ("id", "type", "attempts", "error")),
    ):
        if found[key]:
            table = [[row[name] for name in columns] for row in found[key]]
            print_table((heading, *columns[1:]), table)


def _joined(value: object) -> object:
    return ", ".join(value) or None if isinstance(value, list) else value


async def _details(session: "Session", id: "int | UUID", kind: "Kind | None") -> dict[str, Any]:
    from inboxd import operations
    from inboxd.store import grouping

    row = await grouping.one(session, id)
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
        "steps": [dict(each) for each in await grouping.steps(session, row["id"], _SHOWN)],
        "waits_for": await operations.waits_of(session, row["batch_id"]),
        "waiting": [
            dict(each) for each in await grouping.continuations(session, row["batch_id"], _SHOWN)
        ],
        "created": [{key: getattr(each, key) for key in keys} for each in created],
        "failures": [dict(each) for each in await grouping.failures(session, row["id"], _SHOWN)],
    }


def _end(
    what: str,
    id: str,
    reason: str | None,
    config: Any,
    *,
    kind: "Kind | None" = None,
    json: bool,
) -> None:
    from inboxd import operations

    wanted, who = read_id(id), rows.actor()

    async def act(session: "Session") -> operations.BatchEnded:
        if what == "closed":
            return await operations.close_batch(session, wanted, actor=who, reason=reason)
        return await operations.cancel_batch(session, wanted, actor=who, reason=reason, kind=kind)

    done = ask(load_settings(config), act)
    if json:
        print_json({what: done.id, "unsettled": done.unsettled})
    else:
        typer.echo(f"{what.capitalize()}: {done.id} {done.name}, {done.unsettled:,} had not ended")
