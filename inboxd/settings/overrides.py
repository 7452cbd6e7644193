"""Settings of one queue, topic, type or schedule, and of retries.

Owns the named tables of the settings: `[queues.NAME]`, `[topics.NAME]`, `[types."NAME"]`,
`[schedules."NAME"]`; and `[retry]`. Known limit: here a retry override is only known to be a table,
and the names that plugins declare are unknown; both are checked when the plugins are loaded.
"""

from datetime import timedelta
from typing import Annotated, Any, Literal, Self

from pydantic import Field, SerializerFunctionWrapHandler, field_validator, model_serializer

from inboxd.settings.base import Section, seconds
from inboxd.settings.processing import Unhandled
from inboxd.settings.values import BY_DAYS, Duration, NamesOrCount, RateLimit, at_least


class Queue(Section):
    """Limits of one queue, and the meaning of its ordering keys."""

    concurrency: int | None = Field(
        None,
        ge=1,
        le=10_000,
        description="Maximum commands of this queue in flight in one worker process; unset: only "
        "commands.concurrency limits them. Set it when its commands crowd out others, or need "
        "much memory or processor.",
    )
    total_concurrency: int | None = Field(
        None,
        ge=1,
        le=10_000,
        description="Maximum commands of this queue in flight in all workers together; unset: no "
        "limit. Set it when the service that they call cannot serve more at a time. Give all "
        "workers the same value.",
    )
    rate: RateLimit | None = Field(
        None,
        description="Maximum rate at which all workers together claim commands of this queue, in "
        'any second, minute or hour: "10/s", "600/m", "5000/h"; unset: no limit. Set it when the '
        "service that they call limits the rate of its callers. A claimed command starts when its "
        "worker has time.",
    )
    priority: int = Field(
        0,
        ge=-(2**15),
        lt=2**15,
        description="Number added to the priority of each of its commands; smaller numbers are "
        "claimed first. Lower it when they must not wait behind commands of other queues.",
    )
    key_concurrency: int = Field(
        1,
        ge=1,
        le=10_000,
        description="Maximum commands of one ordering key in flight in all workers together; 1: "
        "one after the other, in order. Raise it if keys are for fair shares, not for order.",
    )
    key_rate: RateLimit | None = Field(
        None,
        description="Maximum rate at which commands of one ordering key start, in any second, "
        'minute or hour, evenly spaced: "10/m" is one every six seconds; unset: no limit. Set it '
        "if each customer has a rate of its own. Only if key_concurrency is 1.",
    )
    on_failure: Literal["block", "skip"] = Field(
        "block",
        description="Effect of a dead letter on its ordering key. block: the key waits until the "
        "dead letter is replayed or dismissed; skip: the next command continues. Choose skip if a "
        "delay is worse than a gap. Only if key_concurrency is 1, since more keep no order.",
    )
    breaker: str | None = Field(
        None,
        min_length=1,
        max_length=200,
        description="Breaker of all its commands, besides the breakers that their handlers "
        "declare; unset: none. Set it when all of them call one target. Give all workers the same "
        "value.",
    )

    def over(self, below: Self) -> Self:
        """These settings; for each unset one, the value of `below`."""
        return below.model_copy(
            update={name: getattr(self, name) for name in self.model_fields_set}
        )


class TopicOverride(Section):
    """A topic of events. If a plugin declares it, these values override the plugin's.

    An empty value ("" or []) removes what the plugin declares.
    """

    mode: Literal["single", "sequential", "batch"] | None = Field(
        None,
        description="single: each event by itself; sequential: events of one ordering key in "
        "order; batch: many events as one chunk. Unset: as the plugin declares it, or single.",
    )
    key: str | None = Field(
        None,
        description="JSON pointer to the ordering key in the payload, for producers that give "
        "none; in batch mode, all events of a chunk have the same key.",
    )
    on_failure: Literal["block", "skip"] | None = Field(
        None,
        description="Effect of a dead letter on its ordering key. block, if unset: the key waits "
        "until the dead letter is replayed or dismissed; skip: the next event continues. Choose "
        "skip if a delay is worse than a gap. Sequential only.",
    )
    page_rows: int | None = Field(
        None,
        ge=1,
        le=10_000,
        description="Maximum events of the topic in one transaction; in batch mode, in one portion "
        "of a long chunk. Set it when its handlers are slower, or lock more rows, than other "
        "handlers.",
    )
    poll_interval: Duration | None = Field(
        None,
        description="Longest time between two polls of the topic, if shorter than "
        "worker.poll_interval: for a topic that must not be late when wake-ups are lost.",
    )
    retry: dict[str, Any] | None = Field(
        None,
        description="Keys of a retry policy that override the handlers' own policies. Set it when "
        "the services that they depend on fail more often, or for longer.",
    )
    total_concurrency: int | None = Field(
        None,
        ge=1,
        le=64,
        description="Maximum transactions that process the topic at a time in all workers "
        "together; unset: no limit. Set it when its handlers wait for each other's locks. Give "
        "all workers the same value.",
    )
    count: int | None = Field(
        None,
        ge=1,
        le=1_000_000,
        description="Batch: maximum events of a chunk; a chunk with this number is due.",
    )
    age: Duration | None = Field(
        None,
        description="Batch: age of its oldest event at which a chunk is due; with `expect`, the "
        "deadline.",
    )
    cron: str | None = Field(
        None, description="Batch: times at which a chunk is due, with all earlier events."
    )
    zone: str | None = Field(
        None, description="Time zone of `cron`, such as Europe/Berlin; unset: UTC."
    )
    expect: NamesOrCount = Field(
        None,
        description="Batch: a chunk is due with an event of each of these types, or with this "
        "number of events.",
    )
    dedup: str | None = Field(
        None,
        description='Dedup key of events whose producer gives none: "event_id", or a JSON pointer '
        "into the payload.",
    )
    dedup_window: Duration | None = Field(
        None,
        description="Retention of the topic's dedup keys; unset: dedup.window. Set it if its "
        "producers repeat events later, or sooner, than other producers.",
    )

    @field_validator("*", mode="before")
    @classmethod
    def _taken_away(cls, value: object) -> object:
        return None if value in ("", []) else value

    @model_serializer(mode="wrap")
    def _shown(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        # Keeps what was written, so that a reload can tell a removal from an unset value.
        shown: dict[str, Any] = dump(self)
        return {
            key: "" if value is None and key in self.model_fields_set else value
            for key, value in shown.items()
        }


class RetryDefaults(Section):
    """The policy of handlers that declare none."""

    kind: Literal["exponential", "linear", "fixed"] = Field(
        "exponential",
        description="How the wait grows with each attempt. Choose linear or fixed if failures pass "
        "soon.",
    )
    base: Duration = Field(
        seconds(2), description="The first wait. Lower it when most failures pass within a moment."
    )
    factor: float = Field(
        2,
        ge=1,
        le=100,
        description="Factor by which each wait is multiplied (exponential only). Lower it for "
        "more attempts in the same time.",
    )
    cap: Duration = Field(
        timedelta(hours=1),
        description="The longest wait. Lower it when rows still wait long after an outage is over.",
    )
    attempts: int = Field(
        15,
        ge=1,
        le=1000,
        description="Number of executions in all, including the first. Raise it to outlast longer "
        "outages; lower it to see dead letters sooner.",
    )
    jitter: Literal["full", "half", "none"] = Field(
        "full",
        description="full: a random part of the wait, so that retries spread over time; half: at "
        "least half of the wait; none: the exact wait. The kind fixed has none unless this is set.",
    )


class TypeOverride(Section):
    """An operator's changes to one type, without a new release of the plugin."""

    timeout: Duration | None = Field(
        None,
        description="Time limit of the handler. Raise it when it stops useful runs; lower it to "
        "end hanging runs sooner.",
    )
    queue: str | None = Field(
        None,
        min_length=1,
        description="Queue of new commands of the type: to give it limits or workers of its own.",
    )
    retry: dict[str, Any] | None = Field(
        None,
        description="Keys of a retry policy that override the handler's own policy. Set it when "
        "a service that the handler calls fails more often, or for longer.",
    )
    unhandled: Unhandled | None = Field(
        None,
        description="How events of the type are treated while no living worker handles them: "
        "keep, dead or ignore; unset: events.unhandled. Also for types that no plugin declares.",
    )
    retention: Annotated[Duration | None, at_least(1, BY_DAYS)] = Field(
        None,
        description="Retention of settled rows of the type, if shorter than in [history]: for a "
        "type that fills history.",
    )


class ScheduleOverride(Section):
    """A schedule. If a plugin declares it, these values override the plugin's."""

    cron: str | None = Field(
        None,
        description="Cron expression: minute, hour, day of month, month, day of week. Required, "
        "unless a plugin declares the schedule.",
    )
    zone: str | None = Field(
        None, description="Time zone of `cron`, such as Europe/Berlin; unset: UTC."
    )
    event: str | None = Field(None, description="The event type to emit; set this or `command`.")
    command: str | None = Field(None, description="The command type to send.")
    payload: dict[str, Any] | None = Field(None, description="The payload; unset: {}.")
    time_field: str | None = Field(None, description="Payload field that gets the time of the run.")
    topic: str | None = Field(
        None,
        description="Topic of the event; unset: the topics that subscribe to its type, or default.",
    )
    queue: str | None = Field(None, description="Queue of the command; unset: the declared queue.")
    priority: int | None = Field(
        None, description="Priority of the command, smaller first; unset: the declared priority."
    )
    expires_after: Duration | None = Field(
        None,
        description="Time after a run at which its command is cancelled, unless it has started; "
        "unset: never. Set it if a late run is worse than none.",
    )
    tenant: str | None = Field(None, description="Tenant of the event or command.")
    missed: Literal["skip", "once", "all"] | None = Field(
        None,
        description="Treatment of missed runs, which no worker could send within a minute. skip: "
        "they are dropped; once, if unset: one run is sent in place of all; all: each is sent, at "
        "most the newest 1,000.",
    )
