"""The people of the school, and what they do.

Owns what other services of a school would do. Promises: an institution and its event are written in
one transaction, with plain SQL, so neither exists without the other. Activities are published
through the service (`school.api`).
"""

from asyncpg import Connection, Record

from inboxd.client import Inbox
from school.facts import AnswerGiven
from school.stage.service import Service


async def found_school(connection: "Connection[Record]", students: int) -> None:
    """Save an institution and its event; the daemon sets it up."""
    async with connection.transaction():
        institution_id = await connection.fetchval(
            "INSERT INTO school.institutions (name) VALUES ('Example School') RETURNING id"
        )
        await connection.execute(
            """
            INSERT INTO inboxd.events (type, source, entity_type, entity_id, payload)
            VALUES ('institution.created', 'school', 'institution', $1::bigint::text,
                    jsonb_build_object('institution_id', $1::bigint, 'students', $2::integer))
            """,
            institution_id,
            students,
        )


async def publish(service: Service, connection: "Connection[Record]", activities: int) -> None:
    """Publish activities through the school's service, for the classes in turn."""
    classes = await connection.fetch("SELECT id FROM school.classes ORDER BY id")
    for number in range(1, activities + 1):
        class_id = classes[number % len(classes)]["id"]
        await service.post("/activities", {"class_id": class_id, "title": f"Exercise {number}"})


async def answer(connection: "Connection[Record]", answers: int) -> None:
    """Hand in answers of the students in turn: one event for each, all in one transaction."""
    asked = await connection.fetch(
        """
        SELECT activity.id AS activity_id, student_id
          FROM school.activities activity JOIN school.enrolments USING (class_id) ORDER BY 1, 2
        """
    )
    given = (
        AnswerGiven(**asked[n % len(asked)], answer=n // len(asked), text="because " * (1 + n % 12))
        for n in range(answers)
    )
    async with connection.transaction():
        await Inbox().emit_many(connection, given)
