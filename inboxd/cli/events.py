"""`inboxd events`: look at events, replay and dismiss dead letters.

Known limit: an event cannot be cancelled; it is a fact, and its page is one transaction.
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
    examples,
    read_since,
)

app = CommandGroup(no_args_is_help=True, help="Look at events, replay dead letters.")

ByTopic = Annotated[str | None, typer.Option("--topic", metavar="TEXT", help="Only this topic.")]


@app.command(
    "list",
    epilog=examples(
        "inboxd events list --status failed",
        "inboxd events list --type order.created --since 2h --json",
    ),
)
def list_(
    *,
    type: rows.ByType = None,
    status: rows.ByStatus = None,
    tenant: rows.ByTenant = None,
    topic: ByTopic = None,
    since: rows.Since = None,
    limit: rows.Limit = 20,
    after: rows.After = None,
    config: Config = None,
    json: Json = False,
) -> None:
    """List events, newest first; payloads are not shown."""
    from inboxd.store.listing import Filter

    wanted = Filter(
        type=type,
        statuses=status or (),
        tenant=tenant,
        lane=topic,
        since=None if since is None else read_since(since),
        below=after,
        limit=limit,
    )
    rows.print_list("events", "topic", wanted, config, json=json)


@app.command(epilog=examples("inboxd events show 4711", "inboxd events show 4711 --payload --json"))
def show(
    id: Id, payload: rows.WithPayload = False, config: Config = None, json: Json = False
) -> None:
    """Show one event: attempts, errors, lineage, the commands it created, its retry rules."""
    rows.print_one("events", id, config, payload=payload, json=json)


@app.command(
    epilog=examples(
        "inboxd events replay 4711 4712 --reason 'the shop is back'",
        "inboxd events replay --group 5f2c1e0d9a7b3344 --dry-run",
        "inboxd events replay --type email.send --since 2h --rate 50",
    )
)
def replay(
    ids: actions.Ids = None,
    *,
    type: rows.ByType = None,
    topic: ByTopic = None,
    tenant: rows.ByTenant = None,
    since: rows.Since = None,
    error: actions.ByError = None,
    group: actions.ByGroup = None,
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
        "events",
        "replay",
        ids,
        given,
        type=type,
        lane=topic,
        tenant=tenant,
        since=since,
        error=error,
        group=group,
    )


@app.command(
    epilog=examples(
        "inboxd events dismiss 4711 --reason 'sent by hand'",
        "inboxd events dismiss --group 5f2c1e0d9a7b3344 --dry-run",
    )
)
def dismiss(
    ids: actions.Ids = None,
    *,
    type: rows.ByType = None,
    topic: ByTopic = None,
    tenant: rows.ByTenant = None,
    since: rows.Since = None,
    error: actions.ByError = None,
    group: actions.ByGroup = None,
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
        "events",
        "dismiss",
        ids,
        given,
        type=type,
        lane=topic,
        tenant=tenant,
        since=since,
        error=error,
        group=group,
    )


@app.command(epilog=examples("inboxd events reschedule 4711 --at 2h"))
def reschedule(
    ids: Ids, at: At, reason: Reason = None, config: Config = None, json: Json = False
) -> None:
    """Let events that have not begun run at another time: all of those named, or none."""
    rows.reschedule("events", ids, at, reason, config, json=json)
