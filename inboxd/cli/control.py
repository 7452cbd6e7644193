"""`inboxd pause`, `resume`, `paused`; a pause does not stop rows that are running."""

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from inboxd.cli import columns
from inboxd.cli.completion import of_kind
from inboxd.cli.options import Acting, Force, Looking, actor, named_in
from inboxd.cli.output import TableColumn
from inboxd.model.wording import plural

if TYPE_CHECKING:
    from inboxd.store.session import Session

Kind = Annotated[
    Literal["type", "topic", "queue", "schedule", "source"],
    typer.Argument(
        metavar="KIND",
        help="The kind of NAME: type, topic, queue, schedule or source (of webhooks or messages).",
        show_default=False,
    ),
]
Name = Annotated[
    str, typer.Argument(metavar="NAME", show_default=False, autocompletion=of_kind("kind"))
]

_SINCE = TableColumn("paused", "paused_at", kind="time")
_PAUSED = ("kind", TableColumn("name", cut="left"), _SINCE, "mode", "by", "why")


def pause(
    kind: Kind,
    name: Name,
    *,
    refuse: Annotated[
        bool,
        typer.Option(
            "--refuse",
            help="Answer webhooks of the source with 503; a sender that does not retry loses them.",
        ),
    ] = False,
    force: Force = False,
    given: Acting,
) -> None:
    """Pause a type, topic, queue, schedule or source in all workers, within a second.

    Running rows finish; workers release claimed rows that have not started. Producers continue to
    write. Webhooks of a paused source are received and stored, and become events when it is
    resumed; a paused source of messages is not read.
    """
    from inboxd import operations

    async def run(session: "Session") -> int:
        if not force and kind != "schedule":
            also = named_in(given.settings, kind)
            await operations.check_known(session, kind, name, also=also)
        return await operations.pause(
            session, kind, name, actor=actor(), reason=given.reason, refuse=refuse
        )

    _tell("paused", kind, name, given.ask(run), given)


def resume(kind: Kind, name: Name, given: Acting) -> None:
    """Resume a paused type, topic, queue, schedule or source in all workers, within a second."""
    from inboxd import operations

    _tell("resumed", kind, name, given.do(operations.resume, kind, name), given)


def paused(given: Looking) -> None:
    """List all pauses: time, actor and reason."""
    from inboxd.store import controls

    found = given.ask(controls.read)
    rows = [dict(row) for row in found]
    given.print({"paused": rows}, [columns.table(_PAUSED, rows)])


def _tell(done: str, kind: str, name: str, waiting: int, given: Acting) -> None:
    wait = f", {plural(waiting, 'row')} waiting"
    if kind == "source" and name in given.settings.inbound.messages:
        wait = ""
    elif kind == "source":
        wait = f", {plural(waiting, 'held receipt')}"
    told = f"{done.capitalize()}: {kind} {name}{'' if kind == 'schedule' else wait}"
    given.tell({done: {"kind": kind, "name": name}, "waiting": waiting}, told)
