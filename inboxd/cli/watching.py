"""`inboxd status --watch`: refreshes the status; a pipe gets one status below the other."""

import os
import sys
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from math import inf
from time import monotonic
from typing import TYPE_CHECKING, Any

from inboxd.cli import columns, plots
from inboxd.cli.options import Looking
from inboxd.cli.output import (
    Table,
    TableColumn,
    encodable,
    on_terminal,
    print_json,
    show,
    terminal_width,
)
from inboxd.model.wording import plural, short_number

if TYPE_CHECKING:
    from inboxd.store.session import Session

HOUR = timedelta(hours=1)
# Statistics by the minute, and samples, change no faster than this.
_COMPLETED_SECONDS = 60
_HOUR_SECONDS = 10
_MINUTES = 60
_BARS = 12
_BAR_CHARACTERS = 30


async def watch(
    session: "Session",
    minutes: int,
    interval: float,
    given: Looking,
    tables: Callable[[dict[str, Any]], list[Table]],
) -> BrokenPipeError:
    """Returns the error; if it were raised, the session would take it for a lost connection."""
    import anyio

    from inboxd.operations.figures import flows
    from inboxd.operations.overview import completed, overview
    from inboxd.store.samples import CurrentCounts

    done = _Cached(lambda: completed(session), _COMPLETED_SECONDS)
    hour = _Cached(lambda: flows(session, HOUR), _HOUR_SECONDS)
    counts = CurrentCounts()

    async def looked() -> dict[str, Any]:
        known = await done.now(), await hour.now(), await counts.read(session, given.settings)
        return await overview(session, minutes, given.settings, *known)

    moves = on_terminal() and os.environ.get("TERM") not in ("dumb", "unknown")
    if moves and not given.json:
        await _draw_over(looked, interval, tables, wide=given.wide)
    while True:
        found = await looked()
        try:
            if given.json:
                print_json(found)
            else:
                at = show(datetime.now(UTC))
                first, *rest = tables(found)
                given.print({}, [f"--- {at}", first, *drawn(found), *rest, ""])
                sys.stdout.flush()
        except BrokenPipeError as gone:
            return gone
        await anyio.sleep(interval)


async def _draw_over(
    looked: Callable[[], Awaitable[dict[str, Any]]],
    interval: float,
    tables: Callable[[dict[str, Any]], list[Table]],
    *,
    wide: bool,
) -> None:
    import anyio
    from rich.live import Live
    from rich.text import Text

    encoding = sys.stdout.encoding  # read before Live replaces sys.stdout

    async def look() -> Text:
        found = await looked()
        width = None if wide else terminal_width()
        first, *rest = tables(found)
        parts = ["\n".join(table.lines(width)) for table in (first, *drawn(found), *rest)]
        return Text(encodable("\n\n".join(parts), encoding))

    with Live(await look(), screen=True, auto_refresh=False) as live:
        while True:
            await anyio.sleep(interval)
            live.update(await look(), refresh=True)


class _Cached:
    """A value that is read again when it is `seconds` old."""

    def __init__(self, read: Callable[[], Awaitable[Any]], seconds: float) -> None:
        self._read, self._seconds = read, seconds
        self._at, self._found = -inf, None

    async def now(self) -> Any:
        if monotonic() - self._at >= self._seconds:
            self._at, self._found = monotonic(), await self._read()
        return self._found


def drawn(found: dict[str, Any]) -> list[Table]:
    lines = [
        {
            "flow": f"{flow['kind']}s {way}",
            "line": plots.sparkline(flow[name][-_MINUTES:], _MINUTES),
            "most": short_number(max((each or 0 for each in flow[name]), default=0)),
        }
        for flow in found["last_hour"]
        for way, name in (("in", "arrived"), ("out", "ended"))
    ]
    bars = _backlog(found)
    blank = max((flow["arrived"][-_MINUTES:].count(None) for flow in found["last_hour"]), default=0)
    shown = [columns.table(_flows(blank), lines)]
    if bars:
        shown.append(columns.table(_bars(bars), bars, "Backlog"))
    return shown


def _flows(blank: int) -> columns.Columns:
    """blank: minutes without a sample."""
    legend = f"{blank} are blank: no sample was taken" if blank else ""
    return (
        TableColumn("flow", cut="left"),
        TableColumn("last hour, minute by minute", "line", legend=legend),
        TableColumn("most", kind="number", legend="rows in one minute"),
    )


def _backlog(found: dict[str, Any]) -> list[dict[str, Any]]:
    waiting = defaultdict[tuple[str, str], int](int)
    cut_off = set[tuple[str, str]]()
    for lane in found["lanes"]:
        kind, rows = lane["kind"], lane["pending"]
        place = kind, lane["topic" if kind == "event" else "queue"]
        waiting[place] += rows
        if rows >= found["counted_to"]:
            cut_off.add(place)
    full = sorted((each for each in waiting.items() if each[1]), key=lambda each: -each[1])
    shown = [
        {"kind": place[0], "lane": place[1], "rows": rows, "more": place in cut_off}
        for place, rows in full[:_BARS]
    ]
    if rest := full[_BARS:]:
        rows = sum(rows for _, rows in rest)
        more = not cut_off.isdisjoint(place for place, _ in rest)
        others = {"kind": "", "lane": f"({plural(len(rest), 'other')})", "rows": rows, "more": more}
        shown.append(others)
    return shown


def _bars(rows: Sequence[dict[str, Any]]) -> columns.Columns:
    most = max(row["rows"] for row in rows)
    return (
        "kind",
        TableColumn("topic/queue", "lane", cut="left"),
        TableColumn(
            "rows", lambda row: f"{row['rows']:,}{'+' if row['more'] else ''}", kind="number"
        ),
        TableColumn("waiting", lambda row: plots.bar(row["rows"], most, _BAR_CHARACTERS)),
    )
