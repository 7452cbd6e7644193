"""The five steps that set up an institution, each a command with a transaction of its own.

Owns the steps. Promises: a step starts when the one before has succeeded, and sees what that wrote;
a step that fails can be run again, since it wrote nothing.
"""

from pydantic import BaseModel

from inboxd import CommandContext, Handlers

CLASSES = 3
_LESSONS = 2


class SeedBasicData(BaseModel):
    """The teachers."""

    institution_id: int


class SeedUsers(BaseModel):
    """The students."""

    institution_id: int
    students: int


class SeedClasses(BaseModel):
    """A class for each teacher."""

    institution_id: int


class SeedEnrolments(BaseModel):
    """The students, spread evenly over the classes."""

    institution_id: int


class SeedAttendances(BaseModel):
    """The first lessons, attended by everybody."""

    institution_id: int


def add_to(handlers: Handlers) -> None:
    """Declare the steps."""
    handlers.command("school.seed_basic_data")(seed_basic_data)
    handlers.command("school.seed_users")(seed_users)
    handlers.command("school.seed_classes")(seed_classes)
    handlers.command("school.seed_enrolments")(seed_enrolments)
    handlers.command("school.seed_attendances")(seed_attendances)


async def seed_basic_data(command: SeedBasicData, ctx: CommandContext) -> list[int]:
    """Returns the teachers' ids, for the step that gives them classes."""
    rows = await ctx.connection.fetch(
        """
        INSERT INTO school.teachers (institution_id, name)
        SELECT $1, 'Teacher ' || n FROM generate_series(1, $2::integer) n RETURNING id
        """,
        command.institution_id,
        CLASSES,
    )
    return [row["id"] for row in rows]


async def seed_users(command: SeedUsers, ctx: CommandContext) -> int:
    """Returns how many students there are."""
    await ctx.connection.execute(
        """
        INSERT INTO school.students (institution_id, address)
        SELECT $1, 'student' || n || '@school.example' FROM generate_series(1, $2::integer) n
        """,
        command.institution_id,
        command.students,
    )
    return command.students


async def seed_classes(command: SeedClasses, ctx: CommandContext) -> None:
    """Reads what the first step returned."""
    teachers = await ctx.result("basic data")
    await ctx.connection.execute(
        """
        INSERT INTO school.classes (institution_id, teacher_id, name)
        SELECT $1, teacher, 'Class ' || n FROM unnest($2::bigint[]) WITH ORDINALITY AS t(teacher, n)
        """,
        command.institution_id,
        teachers,
    )


async def seed_enrolments(command: SeedEnrolments, ctx: CommandContext) -> None:
    """Class by class, in turn."""
    await ctx.connection.execute(
        """
        WITH class AS (
            SELECT id, row_number() OVER (ORDER BY id) - 1 AS n, count(*) OVER () AS classes
              FROM school.classes WHERE institution_id = $1
        )
        INSERT INTO school.enrolments (class_id, student_id)
        SELECT class.id, student.id
          FROM school.students student JOIN class ON class.n = student.id % class.classes
         WHERE student.institution_id = $1
        """,
        command.institution_id,
    )


async def seed_attendances(command: SeedAttendances, ctx: CommandContext) -> None:
    """Everybody was there."""
    await ctx.connection.execute(
        """
        INSERT INTO school.attendances (class_id, student_id, lesson)
        SELECT class_id, student_id, lesson
          FROM school.enrolments JOIN school.classes ON classes.id = class_id
         CROSS JOIN generate_series(1, $2::integer) lesson
         WHERE institution_id = $1
        """,
        command.institution_id,
        _LESSONS,
    )
