"""`inboxd events`: look at events, let dead letters run again.

Known limit: an event cannot be cancelled; it is a fact, and its page is one transaction.
"""

from typing import Annotated

import typer

from inboxd.cli import rows
from inboxd.cli.options import (
    At,
    Config,
    Id,
    Ids,
    Json,
    Reason,
    examples,
    read_since,
)

app = typer.Typer(no_args_is_help=True, help="Look at events, retry dead letters.")

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


@app.command(epilog=examples("inboxd events retry 4711 4712 --reason 'the shop is back'"))
def retry(ids: Ids, reason: Reason = None, config: Config = None, json: Json = False) -> None:
    """Let dead letters run again now, attempts counted anew: all of those named, or none."""
    rows.retry("events", ids, reason, config, json=json)


@app.command(epilog=examples("inboxd events reschedule 4711 --at 2h"))
def reschedule(
    ids: Ids, at: At, reason: Reason = None, config: Config = None, json: Json = False
) -> None:
    """Let events that have not begun run at another time: all of those named, or none."""
    rows.reschedule("events", ids, at, reason, config, json=json)
