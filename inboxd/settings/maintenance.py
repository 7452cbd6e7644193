"""What is kept, and the tasks beside the processing: `[history]`, `[dedup]`, `[maintenance]`."""

from datetime import timedelta
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from inboxd.settings.base import Section, seconds
from inboxd.settings.values import BY_DAYS, Duration, Retention, at_least


class History(Section):
    """Where settled rows go, and how long they stay there."""

    events: Annotated[Retention, at_least(1, BY_DAYS)] = Field(
        timedelta(days=30),
        description='How long settled events are kept, at least a day; or "forever". Days go as a '
        "whole, and large payloads with the longer of both tables. Shorten it when the disk "
        "fills; lengthen it to replay older ones.",
    )
    commands: Annotated[Retention, at_least(1, BY_DAYS)] = Field(
        timedelta(days=90),
        description="How long settled commands are kept, and with them ended batches, at least "
        'a day; or "forever". Shorten it when the disk fills; lengthen it to replay older ones.',
    )
    receipts: Annotated[Retention, at_least(1, BY_DAYS)] = Field(
        timedelta(days=30),
        description="How long webhooks are kept as they came (body, headers, address), at least a "
        'day; or "forever". Those of events that are not settled stay longer. Shorten it when the '
        "disk fills, or addresses may not be kept; lengthen it to prove later what was sent.",
    )
    days_ahead: int = Field(
        14,
        ge=4,
        le=366,
        description="For how many days ahead partitions are made, from 4 to 366: the time to "
        "notice that making them fails. Lower it where the number of tables matters.",
    )
    indexes: bool = Field(
        default=False,
        description="Whether days of history that are over get indexes by type, tenant and entity, "
        "about a quarter more disk. Switch it on where lists shall find rare rows of long ago at "
        "once; without it they are looked for, and lists say how far they came.",
    )
    stats: Annotated[Duration, at_least(3)] = Field(
        timedelta(days=7),
        description="How long the statistics per minute are kept, at least three days. Shorten it "
        "when many types make them large; lengthen it to look closely at what was long ago.",
    )
    stats_hours: Annotated[Duration, at_least(15)] = Field(
        timedelta(days=90),
        description="How long the statistics per hour are kept, also those of tenants, at least 15 "
        "days. Shorten it when they grow large; lengthen it for charts by local days of long ago.",
    )
    stats_days: Annotated[Retention, at_least(30)] = Field(
        None,
        description="How long the statistics per day are kept, at least 30 days; unset or "
        '"forever": for ever. They are small; set it where names of tenants may not be kept.',
    )
    stats_tenants: int = Field(
        100,
        ge=0,
        le=10_000,
        description="How many tenants have statistics of their own; later ones are counted "
        "together as (other); 0: none has. Lower it when tenants make the statistics large; raise "
        "it when those that matter are among the others.",
    )
    samples: Duration = Field(
        timedelta(days=14),
        description="How long samples of the backlog are kept. Shorten it when many lanes make "
        "them large; lengthen it to compare with longer ago.",
    )
    audit: Annotated[Retention, at_least(30)] = Field(
        None,
        description='How long the audit is kept, at least 30 days; unset or "forever": for ever. '
        "People write it, so it stays small; set it where names may not be kept for so long.",
    )
    export: Path | None = Field(
        None,
        description="Folder where a day of history is written before it is dropped; unset: "
        "nowhere. What cannot be written is not dropped. Set it when rows must outlast the "
        "database.",
    )
    export_format: Literal["jsonl", "csv"] = Field(
        "jsonl",
        description="JSON lines or CSV, compressed by gzip. Choose what the readers of the files "
        "load.",
    )


class DedupSource(Section):
    """What one source's events need."""

    window: Duration = Field(
        description="How long the dedup keys of this source are kept; a topic's longer one "
        "counts. Set it where a source sends again later, or sooner, than others.",
    )


class Dedup(Section):
    """How long it is remembered which events there were."""

    window: Duration = Field(
        timedelta(days=30),
        description="How long a dedup key is kept: longer than the longest time after which a "
        "producer sends again. Shorten it when the keys take too much room.",
    )
    sources: dict[str, DedupSource] = Field(
        default_factory=dict,
        description="The same for single sources, by the name that their events carry.",
    )


class Maintenance(Section):
    """Maintenance tasks, most of which one elected worker runs for all."""

    interval: Duration = Field(
        seconds(30),
        description="How often old rows, partitions and dead sessions are looked after. Shorten it "
        "when something is to be noticed sooner; lengthen it when many workers weigh on the "
        "server.",
    )
    samples: Duration = Field(
        seconds(10),
        description="How often the backlog is counted, once for all workers; not more rarely than "
        "`interval`. Lengthen it when counting weighs on the server; shorten it for fresher "
        "metrics.",
    )

    @property
    def sampling(self) -> timedelta:
        """The time between two samples of the backlog."""
        return min(self.interval, self.samples)
