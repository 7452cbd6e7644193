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
    stats: Duration = Field(
        timedelta(days=90),
        description="How long the statistics per minute are kept. Shorten it when many types make "
        "them large.",
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
        description="How often the backlog is counted, and old rows, partitions and dead sessions "
        "are looked after. Lengthen it when counting weighs on the server; shorten it for fresher "
        "metrics.",
    )
