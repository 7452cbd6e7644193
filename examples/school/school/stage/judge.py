"""The demo's progress, faults and times, read from the tables.

Owns the questions. Promises: "right" means that every student got exactly the e-mails and
notifications that were due, each once, in the mail server's count and in the school's tables; that
each teacher was told once, after the last e-mail of the class; that the office was told of exactly
the activities with an e-mail that could not be sent at first; that each answer has one grade; and
that no work is left.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from typing import Any, NamedTuple

from asyncpg import Connection, Record

from school.stage.mailbox import Mailbox


class Progress(NamedTuple):
    events: int
    commands: int
    open: int  # rows with work left; without dead letters, and batches that wait for one
    dead: int


class Emails(NamedTuple):
    """The e-mails of the students who had a mailbox from the beginning; times in seconds."""

    sent: int
    seconds: float
    # The mean time of a command that sends an e-mail.
    each: float
    retries: int
    published_to_sent: tuple[float, float]  # median and 99th percentile

    @property
    def rate(self) -> float:
        """E-mails per second, as measured."""
        return self.sent / self.seconds if self.seconds else 0.0

    def bound(self, at_once: int) -> float:
        """E-mails per second that the mail server allows with `at_once` connections."""
        return at_once / self.each if self.each else 0.0


class Answers(NamedTuple):
    """The answers: an event and a command for each."""

    events: int
    commands: int
    seconds: float

    @property
    def rate(self) -> float:
        return (self.events + self.commands) / self.seconds if self.seconds else 0.0


class Totals(NamedTuple):
    """The rows settled in the whole demo."""

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

# For each activity: its last e-mail, and when and how often teacher and office were told.
_MESSAGES = """
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

# Without the given addresses; from the first activity to the last e-mail.
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
    """The progress of all work so far."""
    return Progress(*await _row(connection, _PROGRESS))


async def measure_emails(connection: "Connection[Record]", without: Collection[str]) -> Emails:
    """Measure the e-mails; `without` lists the addresses that had no mailbox at first."""
    sent, seconds, waits = await _row(connection, _EMAILS, list(without))
    each, retries = await _row(connection, _TRIED)
    p50, p99 = waits or (0, 0)
    return Emails(
        sent, float(seconds or 0), float(each or 0), int(retries or 0), (float(p50), float(p99))
    )


async def measure_answers(connection: "Connection[Record]") -> Answers:
    events, commands, seconds = await _row(connection, _ANSWERS)
    return Answers(events, commands, float(seconds or 0))


async def count_all(connection: "Connection[Record]") -> Totals:
    events, commands = await _row(connection, _TOTALS)
    return Totals(events, commands, (await look(connection)).dead)


async def count_grades(connection: "Connection[Record]") -> int:
    return int(await connection.fetchval("SELECT count(*) FROM school.grades"))


async def count_due(connection: "Connection[Record]") -> int:
    """The number of e-mails that students must get."""
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
    """One sentence for each fault; `missed` lists the activities that healed later."""
    graded, distinct = await _row(connection, _GRADED)
    rows = await connection.fetch(_DUE)
    noted = await connection.fetch("SELECT activity_id, student_id FROM school.deliveries")
    seen = await connection.fetch("SELECT activity_id, student_id FROM school.notifications")
    progress = await look(connection)
    return [
        *_wrong_messages(await connection.fetch(_MESSAGES), missed),
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


def _wrong_messages(activities: Iterable[Record], missed: Collection[int]) -> Iterator[str]:
    for each in activities:
        if each["teacher"] != 1:
            yield f"the teacher was told of activity {each['id']} {each['teacher']} times"
        elif each["teacher_told"] < each["delivered_at"]:
            yield f"the teacher was told of activity {each['id']} before its last e-mail"
        elif each["reached_at"] is None or each["reached_at"] < each["delivered_at"]:
            yield f"activity {each['id']} was delivered, but is not marked as delivered"
        if each["office"] != (each["id"] in missed):
            yield f"the office was told of activity {each['id']} {each['office']} times"


def _differences(
    what: str, due: Counter[tuple[Any, ...]], found: Counter[tuple[Any, ...]]
) -> Iterator[str]:
    for many, verdict in ((due - found, "missing"), (found - due, "too many")):
        if many:
            first = ", ".join(map(str, next(iter(many))))
            yield f"{many.total()} {what} {verdict}; the first: {first}"


async def _row(connection: "Connection[Record]", query: str, *arguments: object) -> Record:
    row = await connection.fetchrow(query, *arguments)
    if row is None:
        raise LookupError("A query of aggregates always returns a row.")
    return row
