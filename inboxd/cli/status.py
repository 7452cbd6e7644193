"""`inboxd status` and `inboxd workers`: what waits, what runs, who works, how fast.

Promises: the look costs the same whatever the tables hold; counts stop at a limit, shown by "+".
Known limit: the throughput is what workers have written down, some seconds behind.
"""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from inboxd.cli.options import Config, Json, ask, load_settings
from inboxd.cli.output import print_json, print_table, table

if TYPE_CHECKING:
    from inboxd.store.session import Session

LINES = "(lines)"

_MOST_WORKERS = 1000
_OUTCOMES = ("succeeded", "retried", "deferred", "failed", "cancelled", "ignored")
_MOST_PROGRESS = 50
# Commands that ran on a worker when it died; shown while there are any.
_SUSPECTS = ("suspects waiting", "running", "alone", "groups", "oldest")
# What is counted of a lane, and how it is called.
_COUNTS = {
    **{name: name for name in ("pending", "due", "running", "failed")},
    "in_line": "in line",
    "unmet": "for others",
}


def status(
    watch: Annotated[bool, typer.Option("--watch", help="Look again until Ctrl-C.")] = False,
    interval: Annotated[
        float, typer.Option(metavar="SECONDS", min=0.5, max=3600, help="Between two looks.")
    ] = 2,
    minutes: Annotated[
        int, typer.Option(metavar="N", min=1, max=1440, help="How far back throughput looks.")
    ] = 5,
    config: Config = None,
    json: Json = False,
) -> None:
    """Show lanes, workers and throughput."""

    async def look_once(session: "Session") -> None:
        found = await look(session, minutes)
        print_json(found) if json else _print(found)

    async def keep_looking(session: "Session") -> None:
        await _watch(session, minutes, interval, json=json)

    ask(load_settings(config), keep_looking if watch else look_once)


def workers(
    ended: Annotated[
        bool, typer.Option("--all", help="Those too that ended during the last week.")
    ] = False,
    config: Config = None,
    json: Json = False,
) -> None:
    """List the workers."""
    from inboxd.store import listing

    found = ask(
        load_settings(config),
        lambda session: listing.workers(session, ended=ended, limit=_MOST_WORKERS),
    )
    rows = [dict(row) for row in found]
    if json:
        print_json({"workers": rows})
        return
    about = ("name", "host", "pid", "version", "state", "leads")
    columns = (*about, "in_flight", "silence", "started_at")
    serves = ("queues", "topics")
    named = (
        [*(row[name] for name in columns), *(", ".join(row[name]) for name in serves)]
        for row in rows
    )
    print_table((*columns, *serves), named)


async def look(session: "Session", minutes: int) -> dict[str, Any]:
    """Everything that a status shows, as JSON values."""
    from inboxd.store import controls, listing, suspects, topics

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
    for lane in (*events, *commands):
        place = "topic" if lane["kind"] == "event" else "queue"
        lane["paused"] = not names.isdisjoint({("type", lane["type"]), (place, lane[place])})
    shown = ("id", "name", "state", "leads", "in_flight", "silence")
    return {
        "counted_to": listing.COUNTED,
        "paused": paused,
        "lanes": [*events, *commands],
        "suspects": await suspects.count(session, listing.COUNTED),
        "workers": [{name: row[name] for name in shown} for row in living],
        "progress": await listing.progress(session, _MOST_PROGRESS),
        "throughput": [dict(row) for row in await listing.throughput(session, minutes)],
    }


def _in_lines(row: dict[str, Any]) -> dict[str, Any]:
    """The lines of a topic as one lane, since an event of any type may stand in them."""
    waiting = row["arrived"] + row["filed"]
    zeros = dict.fromkeys(("running", "unmet"))
    return {
        "kind": "event",
        "topic": row["topic"],
        "type": LINES,
        **zeros,
        "pending": waiting,
        "in_line": waiting,
        "due": row["arrived"],
        "failed": row["blocked"],
        "oldest": row["oldest"],
        "kept": row["kept"] > 0,
    }


async def _watch(session: "Session", minutes: int, interval: float, *, json: bool) -> None:
    import anyio
    from rich.live import Live

    if json:
        while True:
            print_json(await look(session, minutes))
            await anyio.sleep(interval)
    with Live(_drawn(await look(session, minutes)), screen=True, auto_refresh=False) as live:
        while True:
            await anyio.sleep(interval)
            live.update(_drawn(await look(session, minutes)), refresh=True)


def _print(found: dict[str, Any]) -> None:
    for columns, rows in _tables(found):
        print_table(columns, rows)


def _drawn(found: dict[str, Any]) -> Any:
    from rich.console import Group

    return Group(*(table(columns, rows) for columns, rows in _tables(found)))


def _tables(found: dict[str, Any]) -> list[tuple[tuple[str, ...], list[list[Any]]]]:
    most = found["counted_to"]
    lanes = [
        [
            *(lane["kind"], lane.get("topic") or lane.get("queue"), lane["type"]),
            *(count(lane[name], most) for name in _COUNTS),
            seconds(lane["oldest"]),
            ", ".join(mark for mark in ("paused", "kept") if lane.get(mark)),
        ]
        for lane in found["lanes"]
    ]
    workers = [
        [
            *(each["name"], each["state"], "yes" if each["leads"] else "", each["in_flight"]),
            seconds(each["silence"]),
        ]
        for each in found["workers"]
    ]
    done = [
        [
            *(each["kind"], each["type"], f"{each['succeeded'] / each['seconds']:.1f}"),
            *(each[name] for name in _OUTCOMES),
            *(seconds(each[name]) for name in ("mean", "maximum")),
        ]
        for each in found["throughput"]
    ]
    progress = [
        [
            *(each["id"], each["type"], each["queue"], _share(each["done"], each["total"])),
            *(each["note"], seconds(each["running"]), each["worker"]),
        ]
        for each in found["progress"]
    ]
    doubted = found["suspects"]
    suspects = [
        [
            *(doubted[name] for name in ("waiting", "running", "alone", "groups")),
            seconds(doubted["oldest"]),
        ]
    ]
    return [
        *([(_SUSPECTS, suspects)] if doubted["groups"] else []),
        (("worker", "state", "leads", "in flight", "silence"), workers),
        (("kind", "type", "per second", *_OUTCOMES, "mean", "maximum"), done),
        (("command", "type", "queue", "progress", "note", "for", "worker"), progress),
        # Last, because it is the longest: a small screen cuts the end.
        (("kind", "topic/queue", "type", *_COUNTS.values(), "oldest due", ""), lanes),
    ]


def count(rows: int | None, most: int) -> str | None:
    """A count that stops at `most`."""
    if rows is None:
        return None
    return f"{rows}+" if rows >= most else str(rows)


def _share(done: float, total: float | None) -> str:
    """How far it has come: 30 of 100 (30 %)."""
    if not total:
        return f"{done:g}"
    return f"{done:g} of {total:g} ({100 * done / total:.0f} %)"


def seconds(span: float | None) -> str | None:
    """Short, since it stands in a column: 12ms, 3.4s, 2h05m."""
    if span is None:
        return None
    minutes, rest = divmod(int(span), 60)
    if minutes >= 60:  # noqa: PLR2004 - minutes in an hour
        return f"{minutes // 60}h{minutes % 60:02d}m"
    if minutes:
        return f"{minutes}m{rest:02d}s"
    return f"{span:.1f}s" if span >= 1 else f"{span * 1000:.1f}ms"
