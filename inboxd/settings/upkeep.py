"""What is kept, and the duties beside the processing: `[history]`, `[upkeep]`.

Owns how long and how often. Promises the bounds of each value. Known limit: none of its own.
"""

from datetime import timedelta

from pydantic import Field

from inboxd.settings.section import Section, seconds
from inboxd.settings.values import Duration


class History(Section):
    """Where settled rows go."""

    partitions_ahead: Duration = Field(
        timedelta(days=14),
        description="How far ahead partitions are made: the time to notice that making them fails.",
    )


class Upkeep(Section):
    """Duties that one elected worker does for all."""

    interval: Duration = Field(
        seconds(30), description="How often partitions, reaping and purging are looked after."
    )
    stats_interval: Duration = Field(
        seconds(5), description="How often counts are written to the stats table."
    )
