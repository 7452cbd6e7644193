"""The school's handlers: set up an institution, announce activities to classes, grade answers.

Owns four events and the commands that follow from them (`school.seeding` has the steps). Promises:
a student gets each e-mail once, although the mail server fails now and then; the teacher is told
only after every student of the class got the e-mail, and the office if some e-mail cannot be sent.
That rests on three rules: a command is written with the settlement of the event or command that
sends it; the rows of a handler commit with its settlement; every attempt carries the same
Message-ID, by which the mail server recognizes a repetition.
Known limit: a mail server that ignores Message-IDs may deliver twice, if the worker dies between
the server's answer and the commit.
"""

from pydantic import BaseModel

from inboxd import (
    BlockingCommandContext,
    CommandContext,
    Event,
    EventContext,
    Exponential,
    Handlers,
)
from school import seeding
from school.facts import ActivityDelivered, ActivityPublished, AnswerGiven, InstitutionCreated
from school.mail import Mail, deliver

handlers = Handlers("school")
seeding.add_to(handlers)


class GradeAnswer(BaseModel):
    """Give an answer its points."""

    activity_id: int
    student_id: int
    answer: int
    text: str


class AnnounceActivity(BaseModel):
    """Announce an activity to its class."""

    activity_id: int


class SendEmail(BaseModel):
    """Send one e-mail to one student."""

    activity_id: int
    student_id: int
    address: str
    subject: str


class TellTeacher(BaseModel):
    """Tell the teacher that the whole class has its e-mail."""

    activity_id: int


class TellOffice(BaseModel):
    """Tell the office that some e-mail could not be sent."""

    activity_id: int


@handlers.event("institution.created")
async def on_institution_created(event: Event[InstitutionCreated], ctx: EventContext) -> None:
    """Start five steps, each after the success of the previous one."""
    number, students = event.payload.institution_id, event.payload.students
    workflow = ctx.workflow(f"set up institution {number}")
    basics = workflow.step("basic data", seeding.SeedBasicData(institution_id=number))
    users = workflow.step(
        "users", seeding.SeedUsers(institution_id=number, students=students), after=basics
    )
    classes = workflow.step("classes", seeding.SeedClasses(institution_id=number), after=users)
    enrolments = workflow.step(
        "enrolments", seeding.SeedEnrolments(institution_id=number), after=classes
    )
    today = event.created_at.date()
    workflow.step(
        "attendances",
        seeding.SeedAttendances(institution_id=number, today=today),
        after=enrolments,
    )


@handlers.event("activity.published")
async def on_activity_published(event: Event[ActivityPublished], ctx: EventContext) -> None:
    """Send a command for the slow work: one transaction handles up to a thousand events."""
    ctx.send(AnnounceActivity(activity_id=event.payload.activity_id))


@handlers.event("answer.given")
async def on_answer_given(event: Event[AnswerGiven], ctx: EventContext) -> None:
    """Send one command for each answer."""
    ctx.send(GradeAnswer(**event.payload.model_dump()))


@handlers.command("school.grade_answer")
async def grade_answer(command: GradeAnswer, ctx: CommandContext) -> int:
    """Give a point for each word, at most ten. Returns the points."""
    points = min(10, len(command.text.split()))
    await ctx.connection.execute(
        "INSERT INTO school.grades (activity_id, student_id, answer, points) "
        "VALUES ($1, $2, $3, $4)",
        command.activity_id,
        command.student_id,
        command.answer,
        points,
    )
    return points


@handlers.command("school.announce_activity")
async def announce_activity(command: AnnounceActivity, ctx: CommandContext) -> int:
    """Write a notification and send an e-mail for each student; returns their number."""
    students = await ctx.connection.fetch(
        """
        WITH notified AS (
            INSERT INTO school.notifications (activity_id, student_id)
            SELECT activity.id, enrolment.student_id
              FROM school.activities activity
              JOIN school.enrolments enrolment USING (class_id)
             WHERE activity.id = $1
            RETURNING activity_id, student_id
        )
        SELECT student.id, student.address, activity.title
          FROM notified
          JOIN school.students student ON student.id = student_id
          JOIN school.activities activity ON activity.id = activity_id
        """,
        command.activity_id,
    )
    number = command.activity_id
    emails = ctx.batch(name=f"e-mails of activity {number}")
    for student in students:
        email = SendEmail(
            activity_id=number,
            student_id=student["id"],
            address=student["address"],
            subject=f"New activity: {student['title']}",
        )
        emails.add(email)
    emails.then(TellTeacher(activity_id=number)).otherwise(TellOffice(activity_id=number))
    return len(students)


@handlers.command(
    "school.send_email", queue="email", timeout="30s", retry=Exponential(base="2s", attempts=15)
)
def send_email(command: SendEmail, ctx: BlockingCommandContext) -> None:
    """Send the e-mail, then write it down. A sync function runs in a thread, where it may block."""
    deliver(Mail(key=ctx.idempotency_key, to=command.address, subject=command.subject))
    # Only now: the transaction opens at the first use, so it does not wait for the mail server.
    ctx.connection.execute(
        "INSERT INTO school.deliveries (activity_id, student_id) VALUES ($1, $2)",
        command.activity_id,
        command.student_id,
    )


@handlers.command("school.tell_teacher")
async def tell_teacher(command: TellTeacher, ctx: CommandContext) -> None:
    """Runs after the last e-mail of the class, and emits an event about it."""
    await _write(ctx, command.activity_id, "teacher")
    ctx.emit(ActivityDelivered(activity_id=command.activity_id))


@handlers.event("activity.delivered")
async def note_delivery(event: Event[ActivityDelivered], ctx: EventContext) -> None:
    """Mark the activity: the whole class has its e-mail."""
    await ctx.connection.execute(
        "UPDATE school.activities SET reached_at = $2 WHERE id = $1",
        event.payload.activity_id,
        event.occurred_at,
    )


@handlers.command("school.tell_office")
async def tell_office(command: TellOffice, ctx: CommandContext) -> None:
    """Runs after a batch with a dead letter: the office should look at it."""
    await _write(ctx, command.activity_id, "office")


async def _write(ctx: CommandContext, activity_id: int, reader: str) -> None:
    await ctx.connection.execute(
        "INSERT INTO school.messages (activity_id, reader) VALUES ($1, $2)", activity_id, reader
    )
