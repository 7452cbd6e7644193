"""`inboxd commands`: look at commands, let dead letters run again, cancel.

Known limit: a running command is asked to end; whether it did is seen by `show`.
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
    ask,
    examples,
    load_settings,
    read_id,
    read_since,
)
from inboxd.cli.output import print_json

app = typer.Typer(no_args_is_help=True, help="Look at commands, retry dead letters, cancel.")

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


@app.command(epilog=examples("inboxd commands retry 4711 4712 --reason 'the mail server is back'"))
def retry(ids: Ids, reason: Reason = None, config: Config = None, json: Json = False) -> None:
    """Let dead letters run again now, attempts counted anew: all of those named, or none."""
    rows.retry("commands", ids, reason, config, json=json)


@app.command(epilog=examples("inboxd commands cancel 4711 --reason 'sent by hand'"))
def cancel(ids: Ids, reason: Reason = None, config: Config = None, json: Json = False) -> None:
    """Cancel commands that have not ended, all of those named or none; what runs is asked to."""
    from inboxd import operations

    wanted, who = [read_id(each) for each in ids], rows.actor()
    done = ask(
        load_settings(config),
        lambda session: operations.cancel(session, wanted, actor=who, reason=reason),
    )
    if json:
        print_json({"cancelled": done.at_once, "requested": done.requested})
        return
    if done.at_once:
        typer.echo(f"Cancelled at once: command {', '.join(map(str, done.at_once))}")
    if done.requested:
        typer.echo(f"Running, asked to end: {', '.join(map(str, done.requested))}")


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
        lambda session: operations.reprioritize(
            session, wanted, priority, actor=who, reason=reason
        ),
    )
    if json:
        print_json({"prioritized": changed, "priority": priority})
    else:
        typer.echo(f"Priority {priority}: command {', '.join(map(str, changed))}")
