"""The school's handlers: a published activity becomes one e-mail for each student of its class.

Owns one event and two commands. Promises: a student gets each e-mail once, although mail servers
fail now and then: the commands are written with the settlement of what sent them, the row in
`school.deliveries` with the settlement of the e-mail, and every attempt carries the same
Message-ID, by which the mail server knows a repetition.
Known limit: a mail server that does not look at Message-IDs may deliver twice, when the worker dies
between its answer and the commit.
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
from school.mail import Mail, deliver

handlers = Handlers("school")


class ActivityPublished(BaseModel):
    """A teacher published an activity."""

    activity_id: int


class AnnounceActivity(BaseModel):
    """Tell the class about an activity."""

    activity_id: int


class SendEmail(BaseModel):
    """Send one e-mail to one student."""

    activity_id: int
    student_id: int
    address: str
    subject: str


@handlers.event("activity.published")
async def on_activity_published(event: Event[ActivityPublished], ctx: EventContext) -> None:
    """Answer the fact with work: events are handled a thousand to a transaction, so stay quick."""
    ctx.send(AnnounceActivity(activity_id=event.payload.activity_id))


@handlers.command("school.announce_activity")
async def announce_activity(command: AnnounceActivity, ctx: CommandContext) -> int:
    """Send a command for each student: all of them, or none if this fails. Returns how many."""
    students = await ctx.connection.fetch(
        """
        SELECT student.id, student.address, activity.title
          FROM school.activities activity
          JOIN school.enrolments enrolment USING (class_id)
          JOIN school.students student ON student.id = enrolment.student_id
         WHERE activity.id = $1
        """,
        command.activity_id,
    )
    for student in students:
        email = SendEmail(
            activity_id=command.activity_id,
            student_id=student["id"],
            address=student["address"],
            subject=f"New activity: {student['title']}",
        )
        ctx.send(email)
    return len(students)


@handlers.command(
    "school.send_email", queue="email", timeout="30s", retry=Exponential(base="2s", attempts=15)
)
def send_email(command: SendEmail, ctx: BlockingCommandContext) -> None:
    """Send the e-mail, then note it. A sync function: it runs in a thread, where it may block."""
    deliver(Mail(key=ctx.idempotency_key, to=command.address, subject=command.subject))
    # Only now: the transaction opens at the first use, and so is not held while the server thinks.
    ctx.connection.execute(
        "INSERT INTO school.deliveries (activity_id, student_id) VALUES ($1, $2)",
        command.activity_id,
        command.student_id,
    )
