"""`inboxd status --watch`: the same again and again, below how the last hour went.

Promises: nothing but characters tells anything, no colour; where the cursor cannot be moved (a
pipe, TERM=dumb) each look stands below the one before, with its time.
*See:* `cli/status.py`, whose tables are drawn; `cli/plots.py`.
"""

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
# Seconds: what is counted by the minute, and what samples have, does not change much sooner.
_COMPLETED_EVERY = 60
_HOUR_EVERY = 10
_MINUTES = 60
_BARS = 12
_LONGEST_BAR = 30

_FLOWS: columns.Columns = (
    TableColumn("flow", cut="left"),
    TableColumn("last hour, minute by minute", "line"),
    TableColumn("most", kind="number", legend="in a minute"),
)


async def watch(
    session: "Session",
    minutes: int,
    interval: float,
    given: Looking,
    tables: Callable[[dict[str, Any]], list[Table]],
) -> BrokenPipeError:
    """Look again and again; the error once nobody reads what is printed.

    It is returned: on a session an OSError would be a lost connection.
    """
    import anyio

    from inboxd.operations.figures import flows
    from inboxd.operations.overview import completed, overview

    done = _Kept(lambda: completed(session), _COMPLETED_EVERY)
    hour = _Kept(lambda: flows(session, HOUR), _HOUR_EVERY)

    async def looked() -> dict[str, Any]:
        known = await done.now(), await hour.now()
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
    """On a screen of its own, until cancelled."""
    import anyio
    from rich.live import Live
    from rich.text import Text

    encoding = sys.stdout.encoding  # before Live puts something else in its place

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


class _Kept:
    """What is read again only when it is so many seconds old."""

    def __init__(self, read: Callable[[], Awaitable[Any]], every: float) -> None:
        self._read, self._every = read, every
        self._at, self._found = -inf, None

    async def now(self) -> Any:
        """It, or what it was a short while ago."""
        if monotonic() - self._at >= self._every:
            self._at, self._found = monotonic(), await self._read()
        return self._found


def drawn(found: dict[str, Any]) -> list[Table]:
    """How the last hour went, and what waits where."""
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
    shown = [columns.table(_FLOWS, lines)]
    if bars:
        shown.append(columns.table(_bars(bars), bars, "Backlog"))
    return shown


def _backlog(found: dict[str, Any]) -> list[dict[str, Any]]:
    """What waits in each topic and queue, the fullest first; the rest together."""
    waiting = defaultdict[tuple[str, str], int](int)
    bound = False
    for lane in found["lanes"]:
        kind, rows = lane["kind"], lane["pending"]
        waiting[kind, lane["topic" if kind == "event" else "queue"]] += rows
        bound |= rows >= found["counted_to"]
    full = sorted((each for each in waiting.items() if each[1]), key=lambda each: -each[1])
    shown = [{"kind": kind, "lane": name, "rows": rows} for (kind, name), rows in full[:_BARS]]
    if rest := full[_BARS:]:
        rows = sum(rows for _, rows in rest)
        shown.append({"kind": "", "lane": f"({plural(len(rest), 'other')})", "rows": rows})
    for each in shown:
        each["more"] = bound and each["rows"] >= found["counted_to"]
    return shown


def _bars(rows: Sequence[dict[str, Any]]) -> columns.Columns:
    """As long as they are full, the fullest as long as there is room for."""
    most = max(row["rows"] for row in rows)
    return (
        "kind",
        TableColumn("topic/queue", "lane", cut="left"),
        TableColumn(
            "rows", lambda row: f"{row['rows']:,}{'+' if row['more'] else ''}", kind="number"
        ),
        TableColumn("waiting", lambda row: plots.bar(row["rows"], most, _LONGEST_BAR)),
    )
