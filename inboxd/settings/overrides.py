"""What applies to one queue, one topic, one type or one schedule, and to retries.

Owns the tables of the settings that are named: `[queues.NAME]`, `[topics.NAME]`, `[types."NAME"]`,
`[schedules."NAME"]`; and `[retry]`. Known limit: retry overrides are only shaped like a table here,
and what a plugin declares is not known; both are checked when the plugins are loaded.
"""

from datetime import timedelta
from typing import Annotated, Any, Literal, Self

from pydantic import Field, SerializerFunctionWrapHandler, field_validator, model_serializer

from inboxd.settings.base import Section, seconds
from inboxd.settings.processing import Unhandled
from inboxd.settings.values import BY_DAYS, Duration, NamesOrCount, RateLimit, at_least


class Queue(Section):
    """Limits of one queue, and what its ordering keys mean."""

    concurrency: int | None = Field(
        None,
        ge=1,
        le=10_000,
        description="Most commands of this queue in flight in one worker process; unset: only "
        "commands.concurrency bounds it. Set it when its commands crowd out others, or need much "
        "memory or processor.",
    )
    total_concurrency: int | None = Field(
        None,
        ge=1,
        le=10_000,
        description="Most commands of this queue in flight in all workers together; unset: as "
        "many as they can. Set it when what they call bears only so many at a time. Give all "
        "workers the same.",
    )
    rate: RateLimit | None = Field(
        None,
        description="Most commands of this queue that all workers claim in any second, minute or "
        'hour: "10/s", "600/m", "5000/h"; unset: as many as they can. Set it when what they call '
        "counts calls. They start when they are claimed, as far as the worker has time.",
    )
    priority: int = Field(
        0,
        ge=-(2**15),
        lt=2**15,
        description="Added to the priority of each of its commands: what is smaller goes first. "
        "Lower it when they must not wait behind those of other queues.",
    )
    key_concurrency: int = Field(
        1,
        ge=1,
        le=10_000,
        description="Most commands of one ordering key in flight in all workers together; 1: one "
        "after the other, in order. Raise it where keys are for fair shares, not for order.",
    )
    key_rate: RateLimit | None = Field(
        None,
        description="Most commands of one ordering key that start in any second, minute or hour, "
        'evenly: "10/m" is one each six seconds; unset: as many as they can. Set it where each '
        "customer has a rate of its own. Only where key_concurrency is 1.",
    )
    on_failure: Literal["block", "skip"] = Field(
        "block",
        description="What a dead letter does to its ordering key. block: the key waits until it "
        "is replayed or dismissed; skip: the next one goes on. Choose skip where a delay is worse "
        "than a gap. Only where key_concurrency is 1; with more there is no order to keep.",
    )
    breaker: str | None = Field(
        None,
        min_length=1,
        max_length=200,
        description="Breaker that all its commands need, beside those that their handlers declare; "
        "unset: none. Set it when all of them call one target. Give all workers the same.",
    )

    def over(self, below: Self) -> Self:
        """What is set here, and of the rest what `below` says."""
        return below.model_copy(
            update={name: getattr(self, name) for name in self.model_fields_set}
        )


class TopicOverride(Section):
    """A topic of events; under the name of a plugin's topic, what changes there.

    What is set to None takes away what the plugin says; TOML, which has no null, says "" or [].
    """

    mode: Literal["single", "sequential", "batch"] | None = Field(
        None,
        description="single: each event by itself; sequential: those of one ordering key in "
        "order; batch: many as one chunk. Unset: as the plugin declares it, or single.",
    )
    key: str | None = Field(
        None,
        description="JSON pointer to the ordering key in the payload, for producers that give "
        "none; in batch mode, what a chunk has in common.",
    )
    on_failure: Literal["block", "skip"] | None = Field(
        None,
        description="What a dead letter does to its ordering key. block, if unset: the key waits "
        "until it is replayed or dismissed; skip: the next one goes on. Choose skip where a delay "
        "is worse than a gap. Sequential only.",
    )
    page_rows: int | None = Field(
        None,
        ge=1,
        le=10_000,
        description="Most of its events in one transaction; in batch mode, in one portion of a "
        "long chunk. Set it when its handlers are slower, or lock more, than others.",
    )
    poll_interval: Duration | None = Field(
        None,
        description="Longest sleep without a look at it, if shorter than worker.poll_interval: "
        "for a topic that must not be late when wake-ups are lost.",
    )
    retry: dict[str, Any] | None = Field(
        None,
        description="Keys of a retry policy, laid over the handlers' own. Set it when what they "
        "depend on fails more often, or for longer.",
    )
    total_concurrency: int | None = Field(
        None,
        ge=1,
        le=64,
        description="Most transactions that process it at the same time in all workers together; "
        "unset: as many as they can. Set it when its handlers wait for each other's locks. Give "
        "all workers the same.",
    )
    count: int | None = Field(
        None,
        ge=1,
        le=1_000_000,
        description="Batch: a chunk is due, and full, with this many events.",
    )
    age: Duration | None = Field(
        None,
        description="Batch: a chunk is due when its oldest event is this old; with `expect`, the "
        "deadline.",
    )
    cron: str | None = Field(
        None, description="Batch: a chunk is due at these times, with what came before them."
    )
    zone: str | None = Field(
        None, description="The time zone of `cron`, such as Europe/Berlin; unset: UTC."
    )
    expect: NamesOrCount = Field(
        None,
        description="Batch: a chunk is due with an event of each of these types, or this many.",
    )
    dedup: str | None = Field(
        None,
        description='The dedup key of events whose producer gives none: "event_id", or a JSON '
        "pointer into the payload.",
    )
    dedup_window: Duration | None = Field(
        None,
        description="How long its dedup keys are kept; unset: that of [dedup]. Set it where "
        "producers send again later, or sooner, than others.",
    )

    @field_validator("*", mode="before")
    @classmethod
    def _taken_away(cls, value: object) -> object:
        return None if value in ("", []) else value

    @model_serializer(mode="wrap")
    def _shown(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        # As it was written, so that a reload tells what is taken away from what is not said.
        shown: dict[str, Any] = dump(self)
        return {
            key: "" if value is None and key in self.model_fields_set else value
            for key, value in shown.items()
        }


class RetryDefaults(Section):
    """The policy of handlers that declare none."""

    kind: Literal["exponential", "linear", "fixed"] = Field(
        "exponential",
        description="How the waits grow. Choose linear or fixed where failures pass soon.",
    )
    base: Duration = Field(
        seconds(2), description="The first wait. Lower it when most failures pass within a moment."
    )
    factor: float = Field(
        2,
        ge=1,
        le=100,
        description="What each wait is multiplied by (exponential only). Lower it for more "
        "attempts in the same time.",
    )
    cap: Duration = Field(
        timedelta(hours=1),
        description="The longest wait. Lower it when rows still wait long after an outage is over.",
    )
    attempts: int = Field(
        15,
        ge=1,
        le=1000,
        description="Executions in all, the first one included. Raise it to outlast longer "
        "outages; lower it to see dead letters sooner.",
    )
    jitter: Literal["full", "half", "none"] = Field(
        "full",
        description="full: a random part of the wait, so that retries do not march in step; half: "
        "at least half of it; none: where waits must be foreseen. Unset, the kind fixed has none.",
    )


class TypeOverride(Section):
    """What an operator changes for one type, without a new release of the plugin."""

    timeout: Duration | None = Field(
        None,
        description="What its handler gets. Raise it when good runs are cut off; lower it to be "
        "rid of hanging ones sooner.",
    )
    queue: str | None = Field(
        None,
        min_length=1,
        description="Queue of new commands of the type: to give it limits or workers of its own.",
    )
    retry: dict[str, Any] | None = Field(
        None,
        description="Keys of a retry policy, laid over the handler's own. Set it when what it "
        "depends on fails more often, or for longer.",
    )
    unhandled: Unhandled | None = Field(
        None,
        description="What becomes of its events while no living worker handles them: keep, dead "
        "or ignore; unset: events.unhandled. For types that no plugin declares, too.",
    )
    retention: Annotated[Duration | None, at_least(1, BY_DAYS)] = Field(
        None,
        description="How long its settled rows are kept, where that is shorter than what "
        "[history] has: for a type that fills history.",
    )


class ScheduleOverride(Section):
    """What is sent at certain times; under the name of a plugin's schedule, what changes there."""

    cron: str | None = Field(
        None,
        description="When: minute, hour, day of month, month, day of week. Needed, unless it is a "
        "plugin's schedule.",
    )
    zone: str | None = Field(
        None, description="The time zone of `cron`, such as Europe/Berlin; unset: UTC."
    )
    event: str | None = Field(None, description="The event type to emit; this or `command`.")
    command: str | None = Field(None, description="The command type to send.")
    payload: dict[str, Any] | None = Field(None, description="The payload; unset: {}.")
    time_field: str | None = Field(
        None, description="The field of the payload that gets the time of the run."
    )
    topic: str | None = Field(
        None,
        description="Topic of the event; unset: those that its type is subscribed to, or default.",
    )
    queue: str | None = Field(None, description="Queue of the command; unset: the declared one.")
    priority: int | None = Field(
        None, description="Priority of the command, smaller first; unset: the declared one."
    )
    tenant: str | None = Field(None, description="Tenant of what is sent.")
    missed: Literal["skip", "once", "all"] | None = Field(
        None,
        description="Runs that no worker could send within a minute. skip: dropped; once, if "
        "unset: one in place of all of them; all: each, at most the newest 1,000.",
    )
