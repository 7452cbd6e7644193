"""The school's own side: its tables, its people, and the publishing of activities.

Owns what a service would do in its own code. Promises: an institution, or an activity, and its
event are written in one transaction, with plain SQL, so that neither exists without the other.
"""

from importlib.resources import files

from asyncpg import Connection, Record

from school.seeding import CLASSES


async def found_school(connection: "Connection[Record]", students: int) -> None:
    """Make the tables, and sign an institution up: the daemon sets it up from there."""
    await connection.execute(files("school").joinpath("schema.sql").read_text(encoding="utf-8"))
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


async def publish(connection: "Connection[Record]", activities: int) -> None:
    """Publish activities, for one class after the other."""
    for number in range(1, activities + 1):
        async with connection.transaction():
            activity_id = await connection.fetchval(
                "INSERT INTO school.activities (class_id, title) VALUES ($1, $2) RETURNING id",
                1 + number % CLASSES,
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
