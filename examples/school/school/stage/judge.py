"""How far the work is, whether it came out right, and how long it took: read from the tables.

Owns the questions. Promises: "right" means that every student got exactly the e-mails and
notifications that were due, once each, by the mail server's count and by the school's own tables;
that each teacher was told once, and after the last e-mail of the class; that the office was told of
exactly those activities that did not reach everybody at first; that each answer has one grade; and
that nothing is left.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from typing import Any, NamedTuple

from asyncpg import Connection, Record

from school.stage.mailbox import Mailbox


class Progress(NamedTuple):
    """Counts of rows."""

    events: int
    commands: int
    open: int  # what still moves: neither settled, nor a dead letter, nor waiting for one
    dead: int


class Emails(NamedTuple):
    """What came of the e-mails, but for those that waited for a mailbox; times in seconds."""

    sent: int
    seconds: float
    # What the mail server took for one, in the mean.
    each: float
    retries: int
    published_to_sent: tuple[float, float]  # median and 99th percentile

    @property
    def rate(self) -> float:
        """E-mails sent per second."""
        return self.sent / self.seconds if self.seconds else 0.0

    def bound(self, at_once: int) -> float:
        """How many per second the mail server bears, when so many wait for it at a time."""
        return at_once / self.each if self.each else 0.0


class Answers(NamedTuple):
    """What came of the answers: an event and a command for each."""

    events: int
    commands: int
    seconds: float

    @property
    def rate(self) -> float:
        """Rows settled per second."""
        return (self.events + self.commands) / self.seconds if self.seconds else 0.0


class Totals(NamedTuple):
    """What was settled in all."""

    events: int
    commands: int
    dead: int


_PROGRESS = """
    SELECT (SELECT count(*) FROM inboxd.events_history),
           (SELECT count(*) FROM inboxd.commands_history),
           (SELECT count(*) FROM inboxd.events WHERE status <> 'failed')
           + (SELECT count(*) FROM inboxd.commands WHERE status IN ('pending', 'running'))
           + (SELECT count(*) FROM inboxd.batches WHERE status IN ('pending', 'running'))
           + (SELECT count(*) FROM inboxd.batch_progress),
           (SELECT count(*) FROM inboxd.events WHERE status = 'failed')
           + (SELECT count(*) FROM inboxd.commands WHERE status = 'failed')
"""

_DUE = """
    SELECT activity.id, student.id, student.address, 'New activity: ' || activity.title
      FROM school.activities activity
      JOIN school.enrolments USING (class_id)
      JOIN school.students student ON student.id = enrolments.student_id
"""

# Each activity: the last of its e-mails, when its teacher was told, how often he and the office.
_TOLD = """
    SELECT activity.id, last.delivered_at, activity.reached_at,
           min(written_at) FILTER (WHERE reader = 'teacher') AS teacher_told,
           count(*) FILTER (WHERE reader = 'teacher') AS teacher,
           count(*) FILTER (WHERE reader = 'office') AS office
      FROM school.activities activity
     CROSS JOIN LATERAL (SELECT max(delivered_at) AS delivered_at FROM school.deliveries
                          WHERE activity_id = activity.id) AS last
      LEFT JOIN school.messages ON activity_id = activity.id
     GROUP BY activity.id, last.delivered_at, activity.reached_at ORDER BY activity.id
"""

_MISSED = """
    SELECT DISTINCT activity.id
      FROM school.activities activity
      JOIN school.enrolments USING (class_id)
      JOIN school.students student ON student.id = enrolments.student_id
     WHERE student.address = ANY ($1) ORDER BY 1
"""

# Without the addresses given, from the first activity to the last e-mail.
_EMAILS = """
    SELECT count(*), extract(epoch FROM max(delivered_at) - min(published_at)),
           percentile_cont(ARRAY[0.5, 0.99]) WITHIN GROUP (
               ORDER BY extract(epoch FROM delivered_at - published_at))
      FROM school.deliveries
      JOIN school.activities activity ON activity.id = activity_id
      JOIN school.students student ON student.id = student_id
     WHERE student.address <> ALL ($1)
"""

_TRIED = """
    SELECT extract(epoch FROM avg(duration)), sum(attempts - 1) FILTER (WHERE attempts > 0)
      FROM inboxd.commands_history WHERE type = 'school.send_email' AND status = 'succeeded'
"""

_ANSWERS = """
    SELECT count(*) FILTER (WHERE kind = 'event'), count(*) FILTER (WHERE kind = 'command'),
           extract(epoch FROM max(finished_at) - min(created_at))
      FROM (SELECT 'event' AS kind, created_at, finished_at
              FROM inboxd.events_history WHERE type = 'answer.given'
             UNION ALL
            SELECT 'command', created_at, finished_at
              FROM inboxd.commands_history WHERE type = 'school.grade_answer') settled
"""

_TOTALS = """
    SELECT (SELECT count(*) FROM inboxd.events_history),
           (SELECT count(*) FROM inboxd.commands_history WHERE status = 'succeeded')
"""

_GRADED = """
    SELECT count(*), count(DISTINCT (activity_id, student_id, answer)) FROM school.grades
"""


async def look(connection: "Connection[Record]") -> Progress:
    """How far the work is."""
    return Progress(*await _row(connection, _PROGRESS))


async def measure_emails(connection: "Connection[Record]", without: Collection[str]) -> Emails:
    """How the e-mails went; `without` are the addresses that had to wait."""
    sent, seconds, waits = await _row(connection, _EMAILS, list(without))
    each, retries = await _row(connection, _TRIED)
    p50, p99 = waits or (0, 0)
    return Emails(
        sent, float(seconds or 0), float(each or 0), int(retries or 0), (float(p50), float(p99))
    )


async def measure_answers(connection: "Connection[Record]") -> Answers:
    """How the answers went."""
    events, commands, seconds = await _row(connection, _ANSWERS)
    return Answers(events, commands, float(seconds or 0))


async def count_all(connection: "Connection[Record]") -> Totals:
    """What was settled."""
    events, commands = await _row(connection, _TOTALS)
    return Totals(events, commands, (await look(connection)).dead)


async def count_grades(connection: "Connection[Record]") -> int:
    """How many answers have been graded."""
    return int(await connection.fetchval("SELECT count(*) FROM school.grades"))


async def count_due(connection: "Connection[Record]") -> int:
    """How many e-mails the students are due."""
    return len(await connection.fetch(_DUE))


async def is_set_up(connection: "Connection[Record]") -> bool:
    """Whether all steps of the institution's set-up have succeeded."""
    return bool(
        await connection.fetchval(
            "SELECT EXISTS (SELECT FROM inboxd.batches "
            "WHERE kind = 'workflow' AND status = 'succeeded' AND succeeded = 5)"
        )
    )


async def find_missed(connection: "Connection[Record]", addresses: Collection[str]) -> list[int]:
    """The activities whose classes have a student with one of these addresses."""
    return [row[0] for row in await connection.fetch(_MISSED, list(addresses))]


async def find_faults(
    connection: "Connection[Record]", mailbox: Mailbox, missed: Collection[int], answers: int
) -> list[str]:
    """What did not come out right; empty is right. missed: activities that healed later."""
    graded, distinct = await _row(connection, _GRADED)
    rows = await connection.fetch(_DUE)
    noted = await connection.fetch("SELECT activity_id, student_id FROM school.deliveries")
    seen = await connection.fetch("SELECT activity_id, student_id FROM school.notifications")
    progress = await look(connection)
    return [
        *_untold(await connection.fetch(_TOLD), missed),
        *_differences(
            "notifications",
            Counter((row[0], row[1]) for row in rows),
            Counter(map(tuple, seen)),
        ),
        *_differences(
            "e-mails", Counter((row[2], row[3]) for row in rows), Counter(mailbox.delivered)
        ),
        *_differences(
            "rows in school.deliveries",
            Counter((row[0], row[1]) for row in rows),
            Counter(map(tuple, noted)),
        ),
        *([f"{graded} grades for {answers} answers"] if graded != answers else []),
        *([f"{graded - distinct} grades too many"] if graded != distinct else []),
        *([f"{progress.open} rows are not settled"] if progress.open else []),
        *([f"{progress.dead} dead letters"] if progress.dead else []),
    ]


def _untold(activities: Iterable[Record], missed: Collection[int]) -> Iterator[str]:
    for each in activities:
        if each["teacher"] != 1:
            yield f"the teacher was told {each['teacher']} times of activity {each['id']}"
        elif each["teacher_told"] < each["delivered_at"]:
            yield f"the teacher was told of activity {each['id']} before its last e-mail"
        elif each["reached_at"] is None or each["reached_at"] < each["delivered_at"]:
            yield f"activity {each['id']} was delivered, and is not marked so"
        if each["office"] != (each["id"] in missed):
            yield f"the office was told {each['office']} times of activity {each['id']}"


def _differences(
    what: str, due: Counter[tuple[Any, ...]], found: Counter[tuple[Any, ...]]
) -> Iterator[str]:
    for many, verdict in ((due - found, "missing"), (found - due, "too many")):
        if many:
            first = ", ".join(map(str, next(iter(many))))
            yield f"{many.total()} {what} {verdict}, such as the one for {first}"


async def _row(connection: "Connection[Record]", query: str, *arguments: object) -> Record:
    row = await connection.fetchrow(query, *arguments)
    if row is None:
        raise LookupError("A query of aggregates always has a row.")
    return row
