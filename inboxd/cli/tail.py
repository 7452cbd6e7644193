"""`inboxd tail`: prints changes of rows; it polls, so lines are late by at most `--interval`."""

import sys
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from inboxd.cli.completion import declared
from inboxd.cli.options import Asking, Entity, Tenant
from inboxd.cli.output import print_json, remark, say, show

if TYPE_CHECKING:
    from inboxd.operations.tail import Tail, TailNews
    from inboxd.store.session import Session
    from inboxd.store.wakeups import HotTable


def tail(
    kind: Annotated[
        Literal["events", "commands"] | None,
        typer.Argument(
            metavar="events|commands",
            help="Only events, or only commands. Default: both.",
            show_default=False,
        ),
    ] = None,
    *,
    type: Annotated[
        str | None,
        typer.Option(
            metavar="TYPE",
            help="Only this type.",
            autocompletion=declared("event type", "command type"),
        ),
    ] = None,
    tenant: Tenant = None,
    entity: Entity = None,
    payload: Annotated[
        str | None,
        typer.Option(metavar="FIELD=VALUE", help="Only rows whose payload has this value."),
    ] = None,
    interval: Annotated[
        float, typer.Option(metavar="SECONDS", min=0.2, max=60, help="Time between two polls.")
    ] = 1,
    given: Asking,
) -> None:
    """Print changes of rows as they happen: written, retried, failed, succeeded."""
    from inboxd.operations import read_filter
    from inboxd.operations.tail import Tail

    texts = {"type": type, "tenant": tenant, "entity": entity, "payload": payload}
    tables: tuple[HotTable, ...] = ("events", "commands") if kind is None else (kind,)
    looks = Tail(read_filter(texts), tables)
    if not given.json:
        remark("Waiting for changes; stop with Ctrl-C.")
    raise given.ask(lambda session: _follow(session, looks, interval, json=given.json))


async def _follow(
    session: "Session", looks: "Tail", interval: float, *, json: bool
) -> BrokenPipeError:
    """Returns the error; if it were raised, the session would take it for a lost connection."""
    import anyio

    from inboxd.operations.tail import MOST

    while True:
        found, cut = await looks.look(session)
        try:
            for each in found:
                if json:
                    print_json(each.document())
                else:
                    say(_line(each))
            sys.stdout.flush()
        except BrokenPipeError as gone:
            return gone
        if cut and not json:
            remark(f"More than {MOST} rows per kind since the last poll: add a filter, as --type.")
        await anyio.sleep(interval)


def _line(news: "TailNews") -> str:
    row = news.row
    lane = row.get("topic") or row.get("queue")
    parts = [show(news.at), f"{news.kind} {row['id']}", show(row["type"]), f"in {show(lane)}:"]
    parts.append(news.what)
    if news.what == "succeeded" and row["duration"] is not None:
        parts.append(f"in {show(row['duration'])}")
    if news.what not in ("written", "succeeded") and row["error"]:
        parts.append(f"({show(row['error'].partition(chr(10))[0])})")
    return " ".join(parts)
