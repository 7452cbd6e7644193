"""`inboxd pause`, `resume`, `paused`: what workers leave alone.

Known limit: what runs already when a pause begins goes on.
"""

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from inboxd.cli import rows
from inboxd.cli.options import Config, Force, Json, Reason, ask, load_settings, named_in
from inboxd.cli.output import print_json, print_table

if TYPE_CHECKING:
    from inboxd.store.session import Session

Kind = Annotated[
    Literal["type", "topic", "queue", "schedule"],
    typer.Argument(help="What it is that NAME names.", show_default=False),
]
Name = Annotated[str, typer.Argument(metavar="NAME", show_default=False)]


def pause(
    kind: Kind,
    name: Name,
    *,
    reason: Reason = None,
    force: Force = False,
    config: Config = None,
    json: Json = False,
) -> None:
    """Let all workers leave a type, topic, queue or schedule alone, within a second.

    What runs goes on; what was claimed and has not started is given back. Producers go on.
    """
    from inboxd import operations

    who, settings = rows.actor(), load_settings(config)

    async def run(session: "Session") -> int:
        if not force and kind != "schedule":
            also = named_in(settings, kind)
            await operations.check_known(session, kind, name, also=also)
        return await operations.pause(session, kind, name, actor=who, reason=reason)

    waiting = ask(settings, run)
    _tell("paused", kind, name, waiting, json=json)


def resume(
    kind: Kind, name: Name, reason: Reason = None, config: Config = None, json: Json = False
) -> None:
    """Let all workers take it up again, within a second."""
    from inboxd import operations

    who = rows.actor()
    waiting = ask(
        load_settings(config),
        lambda session: operations.resume(session, kind, name, actor=who, reason=reason),
    )
    _tell("resumed", kind, name, waiting, json=json)


def paused(config: Config = None, json: Json = False) -> None:
    """List what is paused: since when, by whom and why."""
    from inboxd.store import controls

    found = ask(
        load_settings(config), lambda session: controls.read(session.connection, session.sql)
    )
    listed = [dict(row) for row in found]
    if json:
        print_json({"paused": listed})
        return
    columns = ("kind", "name", "paused_at", "actor", "reason")
    print_table(columns, ([row[name] for name in columns] for row in listed))


def _tell(done: str, kind: str, name: str, waiting: int, *, json: bool) -> None:
    if json:
        print_json({done: {"kind": kind, "name": name}, "waiting": waiting})
    elif kind == "schedule":
        typer.echo(f"{done.capitalize()}: schedule {name}")
    else:
        typer.echo(f"{done.capitalize()}: {kind} {name}, where {waiting} rows wait")
