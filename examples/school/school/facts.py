"""What happens at the school: the payloads of its events, for those who emit and who handle them.

Owns the classes. Each names its type, so that `emit` takes the payload alone.
"""

from typing import ClassVar

from pydantic import BaseModel


class InstitutionCreated(BaseModel):
    """A school signed up."""

    inboxd_event: ClassVar[str] = "institution.created"

    institution_id: int
    students: int


class ActivityPublished(BaseModel):
    """A teacher published an activity."""

    inboxd_event: ClassVar[str] = "activity.published"

    activity_id: int


class ActivityDelivered(BaseModel):
    """Everybody in the class has been told of the activity."""

    inboxd_event: ClassVar[str] = "activity.delivered"

    activity_id: int


class AnswerGiven(BaseModel):
    """A student answered a question of an activity."""

    inboxd_event: ClassVar[str] = "answer.given"

    activity_id: int
    student_id: int
    answer: int
    text: str
