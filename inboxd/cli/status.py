"""`inboxd status` and `inboxd workers`: what waits, what runs, who works and receives, how fast.

Promises: a look at what waits costs the same whatever the tables hold; counts stop at a limit,
shown by "+".
Known limits: the throughput is what workers have written down, some seconds behind; what became of
a day is read from all rows of a day of `stats`, so who watches gets the last hour, each minute.
"""

from collections.abc import Sequence
from datetime import timedelta
from math import inf
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from inboxd.cli import columns
from inboxd.cli.breakers import LIST as BREAKERS
from inboxd.cli.messages import LIST as MESSAGES
from inboxd.cli.options import Looking
from inboxd.cli.output import Table, TableColumn, print_json, terminal_width
from inboxd.cli.together import together
from inboxd.model.wording import breaker_word, plural, span

if TYPE_CHECKING:
    from inboxd.store.session import Session

_LINES = "(lines)"
_MOST_WORKERS = 1000
_MOST_RECEIVERS = 1000
_MOST_PROGRESS = 50
# Seconds: what is counted by the minute does not change much sooner.
_COMPLETED_EVERY = 60


def _share(row: dict[str, Any]) -> str:
    """How far it has come: 30 of 100 (30 %)."""
    done, total = row["done"], row["total"]
    return f"{done:g} of {total:g} ({100 * done / total:.0f} %)" if total else f"{done:g}"


def _heartbeat(row: dict[str, Any]) -> str:
    return f"{span(row['silence'])} ago"


def _type(lane: dict[str, Any]) -> str:
    return "(in line)" if lane["type"] == _LINES else str(lane["type"])


def _notes(lane: dict[str, Any]) -> str:
    return ", ".join(mark for mark in ("paused", "breaker", "kept") if lane.get(mark))


def _processes(row: dict[str, Any]) -> str:
    """Their numbers; where there is one alone, nothing."""
    return ", ".join(map(str, row["processes"]))


_PROCESSES = TableColumn("processes", _processes, cut="right")
_LEADS = TableColumn("leads", lambda row: "yes" if row["leads"] else "")
_SUSPECTS = (
    *columns.numbers("waiting", "running", "alone", "groups"),
    TableColumn("oldest", kind="span"),
)
_LIVING = (
    TableColumn("worker", "name", cut="left"),
    _PROCESSES,
    "state",
    _LEADS,
    TableColumn("in flight", kind="number"),
    TableColumn("heartbeat", _heartbeat),
)
_RECEIVERS = (
    TableColumn("receiver", "name", cut="left"),
    _PROCESSES,
    TableColumn("host", cut="left", extra=True),
    "state",
    TableColumn("heartbeat", _heartbeat),
    TableColumn("since", "started_at", kind="time"),
    TableColumn("sources", cut="right"),
    TableColumn(
        "spools",
        lambda row: ", ".join(row["spooled"]),
        cut="right",
        legend="their webhooks wait on the disk of its host",
    ),
    TableColumn("trouble", cut="right"),
)
_WORKERS = (
    TableColumn("name", cut="left"),
    TableColumn("host", cut="left"),
    TableColumn("pid", kind="number"),
    TableColumn("version", extra=True),
    "state",
    _LEADS,
    TableColumn("in flight", kind="number"),
    TableColumn("heartbeat", _heartbeat),
    TableColumn("started", "started_at", kind="time"),
    TableColumn("queues", cut="right", extra=True),
    TableColumn("topics", cut="right", extra=True),
)
_RARE = columns.numbers("deferred", "cancelled", "ignored", extra=True)
_DONE: columns.Columns = (
    *("kind", "type"),
    TableColumn(
        "per second", lambda row: f"{row['succeeded'] / row['seconds']:.1f}", kind="number"
    ),
    *(*columns.numbers("succeeded", "retried", "failed"), *_RARE),
    TableColumn("mean", kind="span"),
    TableColumn("longest", "maximum", kind="span", extra=True),
)


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.0f} %" if whole else ""


def _succeeded_again(row: dict[str, Any]) -> str:
    """Of what had failed before and came to an end: the share that succeeded."""
    well = row["after_retry"] + row["after_replay"]
    return _percent(well, well + row["failed_again"])


_COMPLETED: columns.Columns = (
    TableColumn("last", lambda row: "hour" if row["hours"] == 1 else "day"),
    *("kind", "type"),
    *columns.numbers("completed"),
    TableColumn("mean", kind="span", legend="from creation to success"),
    TableColumn("longest", "maximum", kind="span"),
    TableColumn(
        "reprocessed",
        lambda row: _percent(row["reprocessed"], row["attempts"]),
        kind="number",
        legend="attempts that followed a retry or a replay",
    ),
    *columns.numbers("after retry", "after replay", "failed again", extra=True),
    TableColumn(
        "succeeded",
        _succeeded_again,
        kind="number",
        legend="of what was reprocessed to its end",
    ),
)
_PROGRESS: columns.Columns = (
    *(TableColumn("command", "id", kind="number"), "type"),
    TableColumn("queue", cut="left", extra=True),
    TableColumn("progress", _share),
    TableColumn("note", cut="right"),
    TableColumn("runs for", "running", kind="span"),
    TableColumn("worker", cut="left", extra=True),
)
_LANES: columns.Columns = (
    "kind",
    TableColumn("topic/queue", lambda lane: lane.get("topic") or lane.get("queue"), cut="left"),
    TableColumn("type", _type, cut="left"),
    *(columns.counted(name) for name in ("pending", "due", "running", "failed")),
    columns.IN_LINE,
    columns.UNMET,
    TableColumn("oldest due", "oldest", kind="span"),
    TableColumn("note", _notes, legend=f"breaker: it is open; kept: {columns.KEPT}"),
)


def status(
    watch: Annotated[bool, typer.Option("--watch", help="Look again until Ctrl-C.")] = False,
    interval: Annotated[
        float, typer.Option(metavar="SECONDS", min=0.5, max=3600, help="Between two looks.")
    ] = 2,
    minutes: Annotated[
        int, typer.Option(metavar="N", min=1, max=1440, help="How far back throughput looks.")
    ] = 5,
    *,
    given: Looking,
) -> None:
    """Show workers, receivers, throughput and lanes."""
    if watch:
        raise given.ask(lambda session: _watch(session, minutes, interval, given))
    lease = given.settings.worker.lease
    found = given.ask(lambda session: _look_once(session, minutes, lease))
    given.print(found, _tables(found, minutes))


def workers(
    ended: Annotated[
        bool, typer.Option("--all", help="Those too that ended during the last week.")
    ] = False,
    *,
    given: Looking,
) -> None:
    """List the workers."""
    from inboxd.store import listing

    found = given.ask(lambda session: listing.workers(session, ended=ended, limit=_MOST_WORKERS))
    rows = [dict(row) for row in found]
    given.print({"workers": rows}, [columns.table(_WORKERS, rows)])


async def _look_once(session: "Session", minutes: int, silence: timedelta) -> dict[str, Any]:
    return await look(session, minutes, silence, await _completed(session, 24))


async def look(
    session: "Session", minutes: int, silence: timedelta, completed: Sequence[dict[str, Any]]
) -> dict[str, Any]:
    """Everything that a status shows, as JSON values.

    silence: after which a receiver is taken for dead. completed: read by the caller, since a
    watcher reads it less often.
    """
    from inboxd.operations.messages import streams_read
    from inboxd.store import (
        breakers,
        controls,
        listing,
        message_readers,
        receivers,
        stream_positions,
        suspects,
        topics,
    )

    events = [
        {"kind": "event", **dict(row), "running": None, "in_line": None, "unmet": None}
        for row in await listing.lanes(session, "events")
    ]
    events += [_in_lines(row) for row in await topics.lines(session)]
    commands = [
        {"kind": "command", **dict(row)} for row in await listing.lanes(session, "commands")
    ]
    living = await listing.workers(session, ended=False, limit=_MOST_WORKERS)
    paused = [dict(row) for row in await controls.read(session.connection, session.sql)]
    names = {(each["kind"], each["name"]) for each in paused}
    known: list[dict[str, Any]] = [{**row} for row in await breakers.listed(session)]
    stopped = [each for each in known if breaker_word(each) not in ("closed", "metrics only")]
    shut = {
        use for each in stopped if breaker_word(each) != "forced closed" for use in each["uses"]
    }
    for lane in (*events, *commands):
        place = "topic" if lane["kind"] == "event" else "queue"
        uses = {f"{lane['kind']} {lane['type']}"}
        if lane["kind"] == "command":
            uses.add(f"queue {lane['queue']}")
        lane["breaker"] = not uses.isdisjoint(shut)
        lane["paused"] = not names.isdisjoint({("type", lane["type"]), (place, lane[place])})
    receiving = await receivers.listed(session, silence, _MOST_RECEIVERS)
    streams = await stream_positions.listed(session)
    readers = await message_readers.listed(session)
    shown = (
        "id",
        "name",
        "process",
        "host",
        "state",
        "leads",
        "in_flight",
        "silence",
        "started_at",
    )
    return {
        "counted_to": listing.COUNTED,
        "paused": paused,
        "breakers": stopped,
        "lanes": [*events, *commands],
        "suspects": await suspects.count(session, listing.COUNTED),
        "workers": [{name: row[name] for name in shown} for row in living],
        "receivers": [dict(row) for row in receiving],
        "messages": streams_read(streams, readers),
        "progress": await listing.progress(session, _MOST_PROGRESS),
        "completed": list(completed),
        "throughput": [dict(row) for row in await listing.throughput(session, minutes)],
    }


async def _completed(session: "Session", hours: Literal[1, 24]) -> list[dict[str, Any]]:
    from inboxd.store import listing

    return [dict(row) for row in await listing.completed(session, hours)]


def _in_lines(row: dict[str, Any]) -> dict[str, Any]:
    """The lines of a topic as one lane, since an event of any type may stand in them."""
    waiting = row["arrived"] + row["lined_up"]
    zeros = dict.fromkeys(("running", "unmet"))
    return {
        "kind": "event",
        "topic": row["topic"],
        "type": _LINES,
        **zeros,
        "pending": waiting,
        "in_line": waiting,
        "due": row["arrived"],
        "failed": row["blocked"],
        "oldest": row["oldest"],
        "kept": row["kept"] > 0,
    }


async def _watch(
    session: "Session", minutes: int, interval: float, given: Looking
) -> BrokenPipeError:
    """Look again and again; the error once nobody reads what is printed.

    It is returned: on a session an OSError would be a lost connection.
    """
    import anyio
    from rich.live import Live
    from rich.text import Text

    read_at, completed = -inf, list[dict[str, Any]]()

    async def looked() -> dict[str, Any]:
        nonlocal read_at, completed
        if monotonic() - read_at >= _COMPLETED_EVERY:
            read_at, completed = monotonic(), await _completed(session, 1)
        return await look(session, minutes, given.settings.worker.lease, completed)

    if given.json:
        while True:
            found = await looked()
            try:
                print_json(found)
            except BrokenPipeError as gone:
                return gone
            await anyio.sleep(interval)
    width = None if given.wide else terminal_width()

    async def drawn() -> Text:
        tables = _tables(await looked(), minutes)
        return Text("\n\n".join("\n".join(table.lines(width)) for table in tables))

    with Live(await drawn(), screen=True, auto_refresh=False) as live:
        while True:
            await anyio.sleep(interval)
            live.update(await drawn(), refresh=True)


def _tables(found: dict[str, Any], minutes: int) -> list[Table]:
    """Those that have rows; workers and lanes are always shown."""
    suspects = [found["suspects"]] if found["suspects"]["groups"] else []
    workers, receivers = together(found["workers"]), together(found["receivers"])
    last = plural(minutes, "minute").removeprefix("1 ")
    shown: list[tuple[str, columns.Columns, Sequence[Any]]] = [
        ("Suspects: commands that ran on a worker when it died", _SUSPECTS, suspects),
        ("Breakers that are not closed", BREAKERS, found["breakers"]),
        (f"Workers: {len(workers)}", _LIVING, workers),
        (f"Receivers: {len(receivers)}", _RECEIVERS, receivers),
        ("Sources of messages", MESSAGES, found["messages"]),
        (f"Done in the last {last}", _DONE, found["throughput"]),
        ("From creation to success", _COMPLETED, found["completed"]),
        ("Progress of running commands", _PROGRESS, found["progress"]),
        # Last, because it is the longest: a small screen cuts the end.
        ("Lanes", _LANES, found["lanes"]),
    ]
    return [
        columns.table(of, rows, title)
        for title, of, rows in shown
        if rows or of in (_LIVING, _LANES)
    ]
