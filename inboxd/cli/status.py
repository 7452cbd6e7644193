"""`inboxd status` and `inboxd workers`; counts that stop at a limit are shown with "+"."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from inboxd.cli import columns, figures, watching
from inboxd.cli.breakers import LIST as BREAKERS
from inboxd.cli.by_host import together
from inboxd.cli.messages import LIST as MESSAGES
from inboxd.cli.options import Looking
from inboxd.cli.output import Table, TableColumn
from inboxd.errors import UsageError
from inboxd.model.wording import LINES, plural, span

if TYPE_CHECKING:
    from inboxd.settings import Settings
    from inboxd.store.session import Session

_MOST_WORKERS = 1000


def _share(row: dict[str, Any]) -> str:
    done, total = row["done"], row["total"]
    return f"{done:g} of {total:g} ({100 * done / total:.0f} %)" if total else f"{done:g}"


def _heartbeat(row: dict[str, Any]) -> str:
    return f"{span(row['silence'])} ago"


def _type(lane: dict[str, Any]) -> str:
    return "(in line)" if lane["type"] == LINES else str(lane["type"])


def _notes(lane: dict[str, Any]) -> str:
    return ", ".join(mark for mark in ("paused", "breaker", "kept") if lane.get(mark))


def _processes(row: dict[str, Any]) -> str:
    return ", ".join(map(str, row["processes"]))


_PROCESSES = TableColumn("processes", _processes, cut="right")
_LEADS = TableColumn("leads", lambda row: "yes" if row["leads"] else "")
_SUSPECTS = (
    *columns.numbers("waiting", "running", "alone", "groups"),
    TableColumn("oldest", kind="span"),
)
# A worker of an older release reports only the sum.
_IN_FLIGHT = (
    TableColumn("events", "events_in_flight", kind="number", legend="in flight"),
    TableColumn("commands", "commands_in_flight", kind="number", legend="in flight"),
    TableColumn("in flight", kind="number", extra=True),
)
_LIVING = (
    TableColumn("worker", "name", cut="left"),
    _PROCESSES,
    "state",
    _LEADS,
    *_IN_FLIGHT,
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
        legend="sources whose webhooks wait on the host's disk",
    ),
    TableColumn(
        "trouble",
        lambda row: row["trouble"] or ("withheld" if row["broken"] else None),
        cut="right",
    ),
)
_WORKERS = (
    TableColumn("name", cut="left"),
    TableColumn("host", cut="left"),
    TableColumn("pid", kind="number"),
    TableColumn("version", extra=True),
    "state",
    _LEADS,
    *_IN_FLIGHT,
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
    TableColumn("succeeded", kind="number", legend=columns.ROWS),
    *(*columns.numbers("retried", "failed"), *_RARE),
    TableColumn("mean", kind="span"),
    TableColumn("longest", "maximum", kind="span", extra=True),
    TableColumn("p95", kind="span", legend=f"run time of handlers, {columns.WITHIN}"),
    columns.TITLE,
)


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.0f} %" if whole else ""


def _succeeded_again(row: dict[str, Any]) -> str:
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
        legend="share of the reprocessed rows that ended",
    ),
    TableColumn("p95", kind="span", legend=f"from creation to success, {columns.WITHIN}"),
    columns.TITLE,
    *(TableColumn(rank, kind="span", extra=True) for rank in ("p50", "p99")),
)
_PROGRESS: columns.Columns = (
    *(TableColumn("command", "id", kind="number"), "type"),
    TableColumn("queue", cut="left", extra=True),
    TableColumn("progress", _share),
    TableColumn("note", cut="right"),
    TableColumn("runs for", "running", kind="span"),
    TableColumn("worker", cut="left", extra=True),
    columns.TITLE,
)


def _lanes(most: int, most_failed: int) -> columns.Columns:
    return (
        "kind",
        TableColumn("topic/queue", lambda lane: lane.get("topic") or lane.get("queue"), cut="left"),
        TableColumn("type", _type, cut="left"),
        *(columns.counted(name, most=most) for name in ("pending", "due", "running")),
        columns.counted("failed", most=most_failed),
        columns.in_line(most),
        columns.unmet(most),
        TableColumn("oldest due", "oldest", kind="span"),
        columns.TITLE,
        TableColumn("note", _notes, legend=f"breaker: an open breaker; kept: {columns.KEPT}"),
    )


def status(
    watch: Annotated[bool, typer.Option("--watch", help="Refresh until Ctrl-C.")] = False,
    interval: Annotated[
        float, typer.Option(metavar="SECONDS", min=0.5, max=3600, help="With --watch: interval.")
    ] = 2,
    minutes: Annotated[
        int, typer.Option(metavar="N", min=1, max=1440, help="Throughput of the last N minutes.")
    ] = 5,
    since: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Show the throughput since TIME (2h, 7d, ISO 8601) instead of the current state.",
        ),
    ] = None,
    limit: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=1,
            max=200,
            help="With --since: at most N types and N lanes per kind; one line sums up all others.",
        ),
    ] = 20,
    tenant: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="With --since: only this tenant.", show_default=False),
    ] = None,
    *,
    given: Looking,
) -> None:
    """Show workers, receivers, throughput and lanes; or the throughput of a span of time."""
    if tenant is not None and since is None:
        raise UsageError("--tenant is for statistics: give --since too, for example --since 1d.")
    if since is not None:
        if watch:
            raise UsageError("--watch shows the current state: leave out --since, or --watch.")
        figures.print_since(since, limit, tenant, given)
    elif watch:
        raise given.ask(
            lambda session: watching.watch(
                session, minutes, interval, given, lambda found: tables(found, minutes)
            )
        )
    else:
        found = given.ask(lambda session: _look_once(session, minutes, given.settings))
        given.print(found, tables(found, minutes))


def workers(
    ended: Annotated[
        bool, typer.Option("--all", help="Also workers that ended in the last week.")
    ] = False,
    *,
    given: Looking,
) -> None:
    """List workers: their hosts, states, heartbeats, queues and topics."""
    from inboxd.store import listing

    found = given.ask(lambda session: listing.workers(session, ended=ended, limit=_MOST_WORKERS))
    rows = [dict(row) for row in found]
    given.print({"workers": rows}, [columns.table(_WORKERS, rows)])


async def _look_once(session: "Session", minutes: int, settings: "Settings") -> dict[str, Any]:
    from inboxd.operations.figures import flows
    from inboxd.operations.overview import completed, overview

    done, hour = await completed(session), await flows(session, watching.HOUR)
    return await overview(session, minutes, settings, done, hour)


def tables(found: dict[str, Any], minutes: int) -> list[Table]:
    """Make the tables: troubles first; empty ones are left out, except workers and lanes."""
    suspects = [found["suspects"]] if found["suspects"]["groups"] else []
    workers, receivers = together(found["workers"]), together(found["receivers"])
    last = plural(minutes, "minute").removeprefix("1 ")
    lanes = _lanes(found["counted_to"], found["sample"]["failed_counted_to"])
    shown: list[tuple[str, columns.Columns, Sequence[Any]]] = [
        ("Suspects: commands that ran on a worker when it died", _SUSPECTS, suspects),
        ("Breakers that are not closed", BREAKERS, found["breakers"]),
        (f"Workers: {len(workers)}", _LIVING, workers),
        (f"Receivers: {len(receivers)}", _RECEIVERS, receivers),
        (f"Sources of messages{_more_streams(found)}", MESSAGES, found["messages"]),
        (f"Done in the last {last}", _DONE, found["throughput"]),
        ("From creation to success", _COMPLETED, _without_repeated_days(found["completed"])),
        ("Progress of running commands", _PROGRESS, found["progress"]),
        # Last, because it is the longest, and a small screen cuts the end.
        (f"Lanes, {_counted(found['sample'])}", lanes, found["lanes"]),
    ]
    return [
        Table((), (), _dead_letters(found)),
        *(
            columns.table(of if rows else (), rows, title)
            for title, of, rows in shown
            if rows or of in (_LIVING, lanes)
        ),
    ]


def _more_streams(found: dict[str, Any]) -> str:
    left_out = found["streams_left_out"]
    return f"; {plural(left_out, 'more stream')} not shown" if left_out else ""


def _dead_letters(found: dict[str, Any]) -> str:
    most, counts, cut = found["sample"]["failed_counted_to"], dict[str, int](), False
    for lane in found["lanes"]:
        counts[lane["kind"]] = counts.get(lane["kind"], 0) + lane["failed"]
        cut |= lane["failed"] >= most
    if not (total := sum(counts.values())):
        return "Dead letters: none"
    each = ", ".join(plural(count, kind) for kind, count in counts.items() if count)
    return f"Dead letters: {total:,}{'+' if cut else ''} ({each}); see: inboxd failures list"


def _without_repeated_days(completed: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Leave out the last day of a type if all of its rows are of the last hour."""
    hours = {
        (row["kind"], row["type"]): (row["completed"], row["attempts"])
        for row in completed
        if row["hours"] == 1
    }
    return [
        row
        for row in completed
        if row["hours"] == 1
        or hours.get((row["kind"], row["type"])) != (row["completed"], row["attempts"])
    ]


def _here(sample: dict[str, Any]) -> str:
    return "counted now" if sample["age"] < 1 else f"counted here {span(sample['age'])} ago"


def _counted(sample: dict[str, Any]) -> str:
    if sample["counted_by"] == "leader":
        text = f"counted {span(sample['age'])} ago"
    elif sample["newest_age"] is None:
        text = f"{_here(sample)}: no worker has taken a sample"
    else:
        text = f"{_here(sample)}: no worker has taken a sample for {span(sample['newest_age'])}"
    left_out = sample["lanes_left_out"]
    return text + (f"; {plural(left_out, 'lane')} with fewer rows not shown" if left_out else "")
