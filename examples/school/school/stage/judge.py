"""How far the work is, whether it came out right, and how long it took: read from the tables.

Owns the questions. Promises: "right" means that every student got exactly the e-mails that were
due, once each, by the mail server's count and by the school's own table, and that nothing is left.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

from asyncpg import Connection, Record

from school.stage.mailbox import Mailbox


class Progress(NamedTuple):
    """Counts of rows."""

    events: int
    commands: int
    open: int
    dead: int


class Result(NamedTuple):
    """What the histories say; times in seconds, each a pair of median and 99th percentile."""

    events: int
    commands: int
    retries: int
    dead: int
    seconds: float
    event_settled: tuple[float, float]
    email_started: tuple[float, float]
    mail_delivered: tuple[float, float]

    @property
    def rate(self) -> float:
        """Events and commands settled per second."""
        return (self.events + self.commands) / self.seconds if self.seconds else 0.0


_PROGRESS = """
    SELECT (SELECT count(*) FROM inboxd.events_history),
           (SELECT count(*) FROM inboxd.commands_history),
           (SELECT count(*) FROM inboxd.events WHERE status <> 'failed')
           + (SELECT count(*) FROM inboxd.commands WHERE status <> 'failed'),
           (SELECT count(*) FROM inboxd.events WHERE status = 'failed')
           + (SELECT count(*) FROM inboxd.commands WHERE status = 'failed')
"""

_DUE = """
    SELECT activity.id, student.id, student.address, 'New activity: ' || activity.title
      FROM school.activities activity
      JOIN school.enrolments USING (class_id)
      JOIN school.students student ON student.id = enrolments.student_id
"""

_RESULT = """
    SELECT count(*) FILTER (WHERE kind = 'event'),
           count(*) FILTER (WHERE kind = 'command'),
           coalesce(sum(attempts - 1), 0),
           coalesce(extract(epoch FROM max(finished_at) - min(created_at)), 0)
      FROM (SELECT 'event' AS kind, attempts, created_at, finished_at
              FROM inboxd.events_history
             UNION ALL
            SELECT 'command', attempts, created_at, finished_at
              FROM inboxd.commands_history) settled
"""

# A retried command's started_at is that of its last attempt, so only first attempts are timed.
_WAITS = (
    "SELECT finished_at - created_at AS wait FROM inboxd.events_history",
    """SELECT started_at - created_at AS wait
         FROM inboxd.commands_history WHERE type = 'school.send_email' AND attempts = 1""",
    """SELECT delivered_at - published_at AS wait
         FROM school.deliveries JOIN school.activities activity ON activity.id = activity_id""",
)

_PERCENTILES = """
    SELECT percentile_cont(ARRAY[0.5, 0.99]) WITHIN GROUP (ORDER BY extract(epoch FROM wait))
      FROM ({}) waits
"""


async def look(connection: "Connection[Record]") -> Progress:
    """How far the work is."""
    return Progress(*await _row(connection, _PROGRESS))


async def measure(connection: "Connection[Record]") -> Result:
    """What was done and how long it took."""
    events, commands, retries, seconds = await _row(connection, _RESULT)
    waits = [await connection.fetchval(_PERCENTILES.format(query)) for query in _WAITS]
    pairs = [(float(p50), float(p99)) for p50, p99 in (wait or (0, 0) for wait in waits)]
    dead = (await look(connection)).dead
    return Result(events, commands, int(retries), dead, float(seconds), *pairs)


async def count_due(connection: "Connection[Record]") -> int:
    """How many e-mails the students are due."""
    return len(await connection.fetch(_DUE))


async def find_faults(connection: "Connection[Record]", mailbox: Mailbox) -> list[str]:
    """What did not come out right; empty is right."""
    rows = await connection.fetch(_DUE)
    noted = await connection.fetch("SELECT activity_id, student_id FROM school.deliveries")
    progress = await look(connection)
    return [
        *_differences(
            "e-mails", Counter((row[2], row[3]) for row in rows), Counter(mailbox.delivered)
        ),
        *_differences(
            "rows in school.deliveries",
            Counter((row[0], row[1]) for row in rows),
            Counter(map(tuple, noted)),
        ),
        *([f"{progress.open} rows are not settled"] if progress.open else []),
        *([f"{progress.dead} dead letters"] if progress.dead else []),
    ]


def _differences(
    what: str, due: Counter[tuple[Any, ...]], found: Counter[tuple[Any, ...]]
) -> Iterator[str]:
    for many, verdict in ((due - found, "missing"), (found - due, "too many")):
        if many:
            first = ", ".join(map(str, next(iter(many))))
            yield f"{many.total()} {what} {verdict}, such as the one for {first}"


async def _row(connection: "Connection[Record]", query: str) -> Record:
    row = await connection.fetchrow(query)
    if row is None:
        raise LookupError("A query of aggregates always has a row.")
    return row
