"""The payloads of the school's events, for the code that emits and the code that handles them.

Owns the classes. Each names its event type, so `emit` takes the payload alone.
"""

from typing import ClassVar

from pydantic import BaseModel


class InstitutionCreated(BaseModel):
    """An institution signed up, with this number of students."""

    inboxd_event: ClassVar[str] = "institution.created"

    institution_id: int
    students: int


class ActivityPublished(BaseModel):
    """A teacher published an activity."""

    inboxd_event: ClassVar[str] = "activity.published"

    activity_id: int


class ActivityDelivered(BaseModel):
    """Every student of the class got the e-mail about the activity."""

    inboxd_event: ClassVar[str] = "activity.delivered"

    activity_id: int


class AnswerGiven(BaseModel):
    """A student answered a question of an activity."""

    inboxd_event: ClassVar[str] = "answer.given"

    activity_id: int
    student_id: int
    answer: int
    text: str
