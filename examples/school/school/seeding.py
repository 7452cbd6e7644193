"""The five steps that set up an institution, each a command with a transaction of its own.

Owns the steps. Promises: each step starts after the success of the previous one and sees its rows;
a failed step can run again, since it wrote nothing.
"""

from datetime import date, timedelta
from typing import NamedTuple

from pydantic import BaseModel

from inboxd import CommandContext, Handlers

_CAMPUSES = ("North Campus", "South Campus")


class _Course(NamedTuple):
    name: str
    campus: str
    # In the order of the terms; each term has two.
    disciplines: tuple[str, ...]


_COURSES = (
    _Course(
        "Computing",
        "North Campus",
        ("Algebra", "Programming", "Databases", "Networks", "Statistics", "Compilers"),
    ),
    _Course("Physics", "North Campus", ("Algebra", "Mechanics", "Statistics", "Optics")),
    _Course("History", "South Campus", ("Antiquity", "Sources", "Middle Ages", "Statistics")),
)
_DISCIPLINES_PER_TERM = 2
CLASSES = 6
TERMS = CLASSES // _DISCIPLINES_PER_TERM
_LESSONS = 4  # given so far: one each week

# The classes of an institution.
_CLASSES = """
    SELECT class.*
      FROM school.classes class
      JOIN school.courses course ON course.id = course_id
      JOIN school.campuses campus ON campus.id = campus_id
     WHERE institution_id = $1
"""


class SeedBasicData(BaseModel):
    """Campuses, courses, disciplines, and the curricula: the disciplines of each course."""

    institution_id: int


class SeedUsers(BaseModel):
    """The teachers, and the students of all courses."""

    institution_id: int
    students: int


class SeedClasses(BaseModel):
    """The first six classes of one course."""

    institution_id: int


class SeedEnrolments(BaseModel):
    """The students of that course, each in the classes of the student's term."""

    institution_id: int


class SeedAttendances(BaseModel):
    """The lessons given so far, and which students attended."""

    institution_id: int
    today: date


def add_to(handlers: Handlers) -> None:
    """Declare the handlers of the steps."""
    handlers.command("school.seed_basic_data")(seed_basic_data)
    handlers.command("school.seed_users")(seed_users)
    handlers.command("school.seed_classes")(seed_classes)
    handlers.command("school.seed_enrolments")(seed_enrolments)
    handlers.command("school.seed_attendances")(seed_attendances)


async def seed_basic_data(command: SeedBasicData, ctx: CommandContext) -> list[int]:
    """Returns the courses' ids, for the step that creates students."""
    await ctx.connection.execute(
        "INSERT INTO school.campuses (institution_id, name) SELECT $1, unnest($2::text[])",
        command.institution_id,
        list(_CAMPUSES),
    )
    await ctx.connection.execute(
        "INSERT INTO school.disciplines (institution_id, name) SELECT $1, unnest($2::text[])",
        command.institution_id,
        sorted({name for course in _COURSES for name in course.disciplines}),
    )
    return [await _seed_course(command.institution_id, course, ctx) for course in _COURSES]


async def _seed_course(institution_id: int, course: _Course, ctx: CommandContext) -> int:
    number: int = await ctx.connection.fetchval(
        """
        INSERT INTO school.courses (campus_id, name)
        SELECT id, $3 FROM school.campuses WHERE institution_id = $1 AND name = $2 RETURNING id
        """,
        institution_id,
        course.campus,
        course.name,
    )
    await ctx.connection.execute(
        """
        INSERT INTO school.curricula (course_id, discipline_id, term)
        SELECT $1, discipline.id, 1 + (n - 1) / $2
          FROM unnest($3::text[]) WITH ORDINALITY AS taught(name, n)
          JOIN school.disciplines discipline USING (name)
         WHERE discipline.institution_id = $4
        """,
        number,
        _DISCIPLINES_PER_TERM,
        list(course.disciplines),
        institution_id,
    )
    return number


async def seed_users(command: SeedUsers, ctx: CommandContext) -> list[int]:
    """Returns the teachers' ids: one for each class."""
    rows = await ctx.connection.fetch(
        """
        INSERT INTO school.teachers (institution_id, name)
        SELECT $1, 'Teacher ' || n FROM generate_series(1, $2::integer) n RETURNING id
        """,
        command.institution_id,
        CLASSES,
    )
    # Spread evenly over the courses, and within a course over its terms.
    await ctx.connection.execute(
        """
        INSERT INTO school.students (course_id, term, address)
        SELECT ($1::bigint[])[1 + n % cardinality($1)], 1 + n / cardinality($1) % $2::integer,
               'student' || n + 1 || '@school.example'
          FROM generate_series(0, $3::integer - 1) n
        """,
        await ctx.result("basic data"),
        TERMS,
        command.students,
    )
    return [row["id"] for row in rows]


async def seed_classes(command: SeedClasses, ctx: CommandContext) -> None:
    """A class for each discipline of the institution's first course, with a teacher of its own."""
    await ctx.connection.execute(
        """
        WITH course AS (
            SELECT course.id
              FROM school.courses course JOIN school.campuses campus ON campus.id = campus_id
             WHERE institution_id = $1 ORDER BY 1 LIMIT 1
        ), taught AS (
            SELECT course.id AS course_id, discipline_id, discipline.name,
                   row_number() OVER (ORDER BY term, discipline_id) AS n
              FROM course
              JOIN school.curricula ON course_id = course.id
              JOIN school.disciplines discipline ON discipline.id = discipline_id
        )
        INSERT INTO school.classes (course_id, discipline_id, teacher_id, name)
        SELECT course_id, discipline_id, teacher.id, name
          FROM taught JOIN unnest($2::bigint[]) WITH ORDINALITY AS teacher(id, n) USING (n)
        """,
        command.institution_id,
        await ctx.result("users"),
    )


async def seed_enrolments(command: SeedEnrolments, ctx: CommandContext) -> None:
    """Each student joins the classes of the student's course and term."""
    await ctx.connection.execute(
        f"""
        INSERT INTO school.enrolments (class_id, student_id)
        SELECT class.id, student.id
          FROM ({_CLASSES}) class
          JOIN school.curricula USING (course_id, discipline_id)
          JOIN school.students student USING (course_id, term)
        """,
        command.institution_id,
    )


async def seed_attendances(command: SeedAttendances, ctx: CommandContext) -> None:
    """One lesson a week until today; about nine of ten students attended, by chance."""
    await ctx.connection.execute(
        f"""
        WITH given AS (
            INSERT INTO school.lessons (class_id, held_on)
            SELECT id, unnest($2::date[]) FROM ({_CLASSES}) class
            RETURNING id, class_id
        )
        INSERT INTO school.attendances (lesson_id, student_id, present)
        SELECT given.id, student_id, random() < 0.9
          FROM given JOIN school.enrolments USING (class_id)
        """,
        command.institution_id,
        [command.today - timedelta(weeks=week) for week in range(_LESSONS)],
    )
