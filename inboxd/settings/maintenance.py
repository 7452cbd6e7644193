"""Retention and maintenance tasks: `[history]`, `[dedup]`, `[maintenance]`."""

from datetime import timedelta
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from inboxd.settings.base import Section, seconds
from inboxd.settings.values import BY_DAYS, Duration, Retention, at_least


class History(Section):
    """The retention and export of settled rows."""

    events: Annotated[Retention, at_least(1, BY_DAYS)] = Field(
        timedelta(days=30),
        description='Retention of settled events, at least a day; or "forever". History is '
        "dropped in whole days, and a large payload stays for the longer of `events` and "
        "`commands`. Shorten it when the disk fills; lengthen it to replay older events.",
    )
    commands: Annotated[Retention, at_least(1, BY_DAYS)] = Field(
        timedelta(days=90),
        description="Retention of settled commands, and with them of ended batches, at least a "
        'day; or "forever". Shorten it when the disk fills; lengthen it to replay older commands.',
    )
    receipts: Annotated[Retention, at_least(1, BY_DAYS)] = Field(
        timedelta(days=30),
        description="Retention of webhooks as they were received (body, headers, address), at "
        'least a day; or "forever". Webhooks of unsettled events stay longer. Shorten it when the '
        "disk fills, or when addresses must not be kept; lengthen it to prove later what was sent.",
    )
    days_ahead: int = Field(
        14,
        ge=4,
        le=366,
        description="Number of days, 4 to 366, for which partitions are made in advance: the time "
        "in which you must notice that making them fails. Lower it if the number of tables "
        "matters.",
    )
    indexes: bool = Field(
        default=False,
        description="Whether days of history that are over get indexes by type, tenant and entity, "
        "which need about a quarter more disk. Set it to true if lists must find rare old rows at "
        "once; without the indexes a list searches, and reports how far it came.",
    )
    stats: Annotated[Duration, at_least(3)] = Field(
        timedelta(days=7),
        description="Retention of the statistics per minute, at least three days. Shorten it when "
        "many types make them large; lengthen it to look closely at older times.",
    )
    stats_hours: Annotated[Duration, at_least(15)] = Field(
        timedelta(days=90),
        description="Retention of the statistics per hour, including tenants' statistics, at least "
        "15 days. Shorten it when they grow large; lengthen it for older charts by local days.",
    )
    stats_days: Annotated[Retention, at_least(30)] = Field(
        None,
        description='Retention of the statistics per day, at least 30 days; unset or "forever": no '
        "limit. They are small; set it only if names of tenants must not be kept for longer.",
    )
    stats_tenants: int = Field(
        100,
        ge=0,
        le=10_000,
        description="Maximum tenants with statistics of their own; later ones are counted together "
        "as (other); 0: no tenant has its own. Lower it when tenants make the statistics large; "
        "raise it when important tenants are counted as (other).",
    )
    samples: Duration = Field(
        timedelta(days=14),
        description="Retention of the samples of the backlog. Shorten it when many lanes make "
        "them large; lengthen it to compare with older times.",
    )
    audit: Annotated[Retention, at_least(30)] = Field(
        None,
        description='Retention of the audit, at least 30 days; unset or "forever": no limit. It '
        "records actions of people, so it stays small; set it if names must not be kept for "
        "longer.",
    )
    export: Path | None = Field(
        None,
        description="Folder to which a day of history is written before it is dropped; unset: no "
        "export. A day that cannot be written is not dropped. Set it when rows must outlast the "
        "database.",
    )
    export_format: Literal["jsonl", "csv"] = Field(
        "jsonl",
        description="JSON lines or CSV, compressed by gzip. Choose the format that your tools "
        "load; import CSV into a spreadsheet as text, since cells are unchanged and may begin "
        "with `=`.",
    )


class DedupSource(Section):
    """The dedup keys of one source's events."""

    window: Duration = Field(
        description="Retention of the dedup keys of this source; if its topic has a longer window, "
        "the topic's counts. Set it if a source repeats events later, or sooner, than other "
        "sources.",
    )


class Dedup(Section):
    """How long dedup keys are kept."""

    window: Duration = Field(
        timedelta(days=30),
        description="Retention of the dedup keys. It must exceed the longest time after which a "
        "producer repeats an event. Shorten it when the keys take too much space.",
    )
    sources: dict[str, DedupSource] = Field(
        default_factory=dict,
        description="Windows of single sources, by the `source` of their events.",
    )


class Maintenance(Section):
    """Maintenance tasks, most of which one elected worker runs for all."""

    interval: Duration = Field(
        seconds(30),
        description="Interval at which old rows, partitions and dead sessions are cleaned up. "
        "Shorten it to notice changes sooner; lengthen it when many workers burden the server.",
    )
    samples: Duration = Field(
        seconds(10),
        description="Interval at which the backlog is counted, once for all workers; if "
        "`interval` is shorter, `interval` counts. Lengthen it when counting burdens the server; "
        "shorten it for fresher metrics.",
    )

    @property
    def sampling(self) -> timedelta:
        """The time between two samples of the backlog."""
        return min(self.interval, self.samples)
