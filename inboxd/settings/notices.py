"""What is worth waking somebody for: `[notices]`."""

from pydantic import Field

from inboxd.settings.base import Section, seconds
from inboxd.settings.values import Duration


class Notices(Section):
    """Events that tell of what is worth waking somebody for, one when it begins, one when it ends.

    Off unless `topic` is set. A relay, an endpoint of webhooks or a handler carries them further.
    """

    topic: str | None = Field(
        None,
        min_length=1,
        max_length=255,
        description="The topic of the events `inboxd.notice_began` and `inboxd.notice_ended`. "
        "Without one, nothing is told.",
    )
    dead_letters: bool = Field(default=True, description="Tell when a type has dead letters.")
    blocked_keys: bool = Field(
        default=True,
        description="Tell when ordering keys of a topic or queue stand still, behind a dead "
        "letter or something that waits for its next attempt.",
    )
    breakers: bool = Field(
        default=True, description="Tell when a breaker opens, or is forced open."
    )
    backlog_rows: int | None = Field(
        None,
        ge=1,
        le=100_000,
        description="Tell when so many rows are due in a topic or queue. What is paused does not "
        "count.",
    )
    backlog_age: Duration | None = Field(
        None,
        description="Tell when the oldest due row of a topic or queue has waited so long. What is "
        "paused does not count.",
    )
    settled: Duration = Field(
        seconds(60),
        description="How long a cause must be gone until that is told. Lengthen it when something "
        "that comes and goes tells too often.",
    )
