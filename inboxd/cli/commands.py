"""`inboxd commands`: look at commands, replay and dismiss dead letters, cancel.

Known limit: a running command is asked to end; whether it did is seen by `show`.
"""

from typing import Annotated

import typer

from inboxd.cli import actions, rows
from inboxd.cli.help import CommandGroup
from inboxd.cli.options import (
    At,
    Config,
    Force,
    Id,
    Ids,
    Json,
    Reason,
    ask,
    examples,
    load_settings,
    read_id,
    read_since,
)
from inboxd.cli.output import print_json

app = CommandGroup(no_args_is_help=True, help="Look at commands, replay dead letters, cancel.")

ByQueue = Annotated[str | None, typer.Option("--queue", metavar="TEXT", help="Only this queue.")]


@app.command(
    "list",
    epilog=examples(
        "inboxd commands list --status failed --status running",
        "inboxd commands list --queue email --limit 100 --after 4711",
    ),
)
def list_(
    *,
    type: rows.ByType = None,
    status: rows.ByStatus = None,
    tenant: rows.ByTenant = None,
    queue: ByQueue = None,
    since: rows.Since = None,
    limit: rows.Limit = 20,
    after: rows.After = None,
    config: Config = None,
    json: Json = False,
) -> None:
    """List commands, newest first; payloads are not shown."""
    from inboxd.store.listing import Filter

    wanted = Filter(
        type=type,
        statuses=status or (),
        tenant=tenant,
        lane=queue,
        since=None if since is None else read_since(since),
        below=after,
        limit=limit,
    )
    rows.print_list("commands", "queue", wanted, config, json=json)


@app.command(epilog=examples("inboxd commands show 4711", "inboxd commands show 4711 --payload"))
def show(
    id: Id, payload: rows.WithPayload = False, config: Config = None, json: Json = False
) -> None:
    """Show one command: attempts, errors, lineage, its subcommands, its retry rule."""
    rows.print_one("commands", id, config, payload=payload, json=json)


@app.command(
    epilog=examples(
        "inboxd commands replay 4711 4712 --reason 'the mail server is back'",
        "inboxd commands replay --group 5f2c1e0d9a7b3344 --dry-run",
        "inboxd commands replay --type email.send --since 2h --rate 50",
    )
)
def replay(
    ids: actions.Ids = None,
    *,
    type: rows.ByType = None,
    queue: ByQueue = None,
    tenant: rows.ByTenant = None,
    since: rows.Since = None,
    error: actions.ByError = None,
    group: actions.ByGroup = None,
    batch: actions.ByBatch = None,
    everything: actions.All = False,
    dry_run: actions.DryRun = False,
    rate: actions.Rate = None,
    yes: actions.Yes = False,
    force: Force = False,
    reason: Reason = None,
    config: Config = None,
    json: Json = False,
) -> None:
    """Let dead letters run again now: those named, all or none; or all that match."""
    given = actions.Options(
        reason,
        rate,
        config,
        everything=everything,
        dry_run=dry_run,
        yes=yes,
        force=force,
        json=json,
    )
    actions.act(
        "commands",
        "replay",
        ids,
        given,
        type=type,
        lane=queue,
        tenant=tenant,
        since=since,
        error=error,
        group=group,
        batch=batch,
    )


@app.command(
    epilog=examples(
        "inboxd commands dismiss 4711 --reason 'sent by hand'",
        "inboxd commands dismiss --group 5f2c1e0d9a7b3344 --dry-run",
    )
)
def dismiss(
    ids: actions.Ids = None,
    *,
    type: rows.ByType = None,
    queue: ByQueue = None,
    tenant: rows.ByTenant = None,
    since: rows.Since = None,
    error: actions.ByError = None,
    group: actions.ByGroup = None,
    batch: actions.ByBatch = None,
    everything: actions.All = False,
    dry_run: actions.DryRun = False,
    rate: actions.Rate = None,
    yes: actions.Yes = False,
    force: Force = False,
    reason: Reason = None,
    config: Config = None,
    json: Json = False,
) -> None:
    """Put dead letters away for good: those named, all or none; or all that match."""
    given = actions.Options(
        reason,
        rate,
        config,
        everything=everything,
        dry_run=dry_run,
        yes=yes,
        force=force,
        json=json,
    )
    actions.act(
        "commands",
        "dismiss",
        ids,
        given,
        type=type,
        lane=queue,
        tenant=tenant,
        since=since,
        error=error,
        group=group,
        batch=batch,
    )


@app.command(
    epilog=examples(
        "inboxd commands cancel 4711 --reason 'sent by hand'",
        "inboxd commands cancel --type email.send --tenant acme --dry-run",
    )
)
def cancel(
    ids: actions.Ids = None,
    *,
    type: rows.ByType = None,
    queue: ByQueue = None,
    tenant: rows.ByTenant = None,
    since: rows.Since = None,
    batch: actions.ByBatch = None,
    everything: actions.All = False,
    dry_run: actions.DryRun = False,
    rate: actions.Rate = None,
    yes: actions.Yes = False,
    force: Force = False,
    reason: Reason = None,
    config: Config = None,
    json: Json = False,
) -> None:
    """Cancel what has not ended: at once, or by asking its worker when it runs."""
    given = actions.Options(
        reason,
        rate,
        config,
        everything=everything,
        dry_run=dry_run,
        yes=yes,
        force=force,
        json=json,
    )
    actions.act(
        "commands",
        "cancel",
        ids,
        given,
        type=type,
        lane=queue,
        tenant=tenant,
        since=since,
        batch=batch,
    )


@app.command(epilog=examples("inboxd commands reschedule 4711 --at 2h"))
def reschedule(
    ids: Ids, at: At, reason: Reason = None, config: Config = None, json: Json = False
) -> None:
    """Let commands that have not begun run at another time: all of those named, or none."""
    rows.reschedule("commands", ids, at, reason, config, json=json)


@app.command(epilog=examples("inboxd commands prioritize 4711 --priority -5"))
def prioritize(
    ids: Ids,
    priority: Annotated[int, typer.Option(metavar="N", help="The smallest runs first.")],
    reason: Reason = None,
    config: Config = None,
    json: Json = False,
) -> None:
    """Give commands that have not begun another priority: all of those named, or none."""
    from inboxd import operations

    wanted, who = [read_id(each) for each in ids], rows.actor()
    changed = ask(
        load_settings(config),
        lambda session: operations.prioritize(session, wanted, priority, actor=who, reason=reason),
    )
    if json:
        print_json({"prioritized": changed.ids, "priority": priority})
    else:
        typer.echo(f"Priority {priority}: command {', '.join(map(str, changed.ids))}")
