"""Notices of trouble: `[notices]`."""

from pydantic import Field

from inboxd.settings.base import Section, seconds
from inboxd.settings.values import Duration


class Notices(Section):
    """Events that report trouble: one when it begins, one when it ends.

    Off unless `topic` is set. A relay, an endpoint of webhooks or a handler passes them on.
    """

    topic: str | None = Field(
        None,
        min_length=1,
        max_length=255,
        description="The topic of the events `inboxd.notice_began` and `inboxd.notice_ended`. "
        "Unset: no notices.",
    )
    dead_letters: bool = Field(default=True, description="Notify when a type has dead letters.")
    blocked_keys: bool = Field(
        default=True,
        description="Notify when ordering keys of a topic or queue are blocked, by a dead letter "
        "or by a row that waits for its next attempt.",
    )
    breakers: bool = Field(
        default=True, description="Notify when a breaker opens, or is forced open."
    )
    backlog_rows: int | None = Field(
        None,
        ge=1,
        le=100_000,
        description="Notify when this number of rows is due in a topic or queue. Paused rows do "
        "not count.",
    )
    backlog_age: Duration | None = Field(
        None,
        description="Notify when the oldest due row of a topic or queue has waited this long. "
        "Paused rows do not count.",
    )
    settled: Duration = Field(
        seconds(60),
        description="Time for which a cause must be gone before the end of its notice is emitted. "
        "Lengthen it when a cause that comes and goes makes too many notices.",
    )
