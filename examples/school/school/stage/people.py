"""The school's own side: its tables, its people, and the publishing of activities.

Owns what a service would do in its own code. Promises: an activity and its event are written in one
transaction, with plain SQL, so that neither exists without the other.
"""

from importlib.resources import files

from asyncpg import Connection, Record

_CLASSES = 3


async def found_school(connection: "Connection[Record]", students: int) -> None:
    """Make the tables, three classes, and the students, spread evenly over the classes."""
    await connection.execute(files("school").joinpath("schema.sql").read_text(encoding="utf-8"))
    await connection.execute(
        "INSERT INTO school.classes (name) SELECT 'Class ' || n FROM generate_series(1, $1) n",
        _CLASSES,
    )
    await connection.execute(
        """
        WITH student AS (
            INSERT INTO school.students (address)
            SELECT 'student' || n || '@school.example' FROM generate_series(1, $1::bigint) n
            RETURNING id
        )
        INSERT INTO school.enrolments (class_id, student_id) SELECT 1 + id % $2, id FROM student
        """,
        students,
        _CLASSES,
    )
    await connection.execute("ANALYZE school.students, school.enrolments")


async def publish(connection: "Connection[Record]", activities: int) -> None:
    """Publish activities, for one class after the other."""
    for number in range(1, activities + 1):
        async with connection.transaction():
            activity_id = await connection.fetchval(
                "INSERT INTO school.activities (class_id, title) VALUES ($1, $2) RETURNING id",
                1 + number % _CLASSES,
                f"Exercise {number}",
            )
            await connection.execute(
                """
                INSERT INTO inboxd.events (type, source, entity_type, entity_id, payload)
                VALUES ('activity.published', 'school', 'activity', $1::bigint::text,
                        jsonb_build_object('activity_id', $1::bigint))
                """,
                activity_id,
            )
