"""The statistics per minute, and the backlog that metrics show.

Owns the stats table. Promises that reading or writing them costs the same whatever history weighs.
Known limit: what a worker counted since it last wrote is lost when it is killed; backlogs are
counted up to a bound.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from uuid import UUID

from inboxd.store.connections import Connection
from inboxd.store.statements import Statements
from inboxd.telemetry.metrics import CommandBacklog, EventBacklog

# Counting further would cost more than the answer is worth: «100,000 or more».
MOST_COUNTED = 100_000
_BY_TYPE = (MOST_COUNTED, False)  # dead letters, which by their topic or queue would be read each

Counts = tuple[datetime, str, str, str, int, float, float]


async def add(
    connection: Connection, sql: Statements, worker: UUID, counts: Sequence[Counts]
) -> None:
    """Add (minute, kind, type, outcome, count, total, maximum) rows, if any; times in seconds."""
    if counts:
        columns = [list(column) for column in zip(*counts, strict=True)]
        await connection.execute(sql["add_statistics"], worker, *columns)


async def add_ignored(
    connection: Connection, sql: Statements, worker: UUID, type_: str, count: int
) -> None:
    """Count events that were ignored, in the transaction in which they were."""
    minute = datetime.now(UTC).replace(second=0, microsecond=0)
    await add(connection, sql, worker, [(minute, "event", type_, "ignored", count, 0.0, 0.0)])


async def event_backlog(connection: Connection, sql: Statements) -> list[EventBacklog]:
    """The unsettled events, lane by lane; those in lines are counted by their topic alone."""
    found = []
    for row in await connection.fetch(sql["lanes_events"], *_BY_TYPE):
        age = None if row["paused"] else row["oldest"]
        lane = (row["topic"], row["type"], row["state"])
        found.append(EventBacklog(*lane, row["rows"], age, row["breaker"]))
    for row in await connection.fetch(sql["status_lines"], MOST_COUNTED):
        topic = row["topic"]
        found.append(EventBacklog(topic, "", "arrived", row["arrived"], row["late"]))
        if row["breaker"] is not None:  # events that are among those that arrived
            waits = row["breaker_for"]
            found.append(EventBacklog(topic, "", "arrived", None, waits, row["breaker"]))
        found.append(EventBacklog(topic, "", "in_line", row["lined_up"], None))
        if row["kept"]:  # lines, whose events are among those in line
            found.append(EventBacklog(topic, "", "kept", None, row["kept_for"]))
    return found


async def command_backlog(connection: Connection, sql: Statements) -> list[CommandBacklog]:
    """The unsettled commands, lane by lane; those that run, and suspects, all together."""
    found, together = [], {"suspect": 0, "running": 0}
    for row in await connection.fetch(sql["lanes_commands"], *_BY_TYPE):
        state, age = row["state"], None if row["paused"] else row["oldest"]
        if state in together:
            together[state] += row["rows"]
        else:
            lane = (row["queue"], row["type"], row["priority"])
            found.append(CommandBacklog(*lane, state, row["rows"], age, row["breaker"]))
    return found + [CommandBacklog("", "", "", *each, None) for each in together.items()]
