"""The last hour, minute by minute: rows arrived, done, failed and waiting, in all and by lane.

Known limit: arrived and waiting rows are known only for minutes with a sample.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from inboxd.store import samples, statistics
from inboxd.store.session import Session

MINUTES: Final = 60
TABLES: Final = ("events", "commands")
_MINUTE: Final = timedelta(minutes=1)


@dataclass(slots=True)
class Hour:
    """Each list has a number for each of `minutes`; None: unknown.

    parts: of events and of commands. lanes: waiting rows by kind, topic or queue, and type.
    """

    minutes: list[datetime]
    arrived: list[float | None] = field(default_factory=list)
    done: list[float | None] = field(default_factory=list)
    failed: list[float | None] = field(default_factory=list)
    waiting: list[float | None] = field(default_factory=list)
    parts: dict[tuple[str, str], list[float | None]] = field(default_factory=dict)
    lanes: dict[tuple[str, str, str], list[int | None]] = field(default_factory=dict)

    def of(self, what: str) -> dict[str, list[float | None]]:
        return {table: self.parts[what, table] for table in TABLES}


async def last_hour(session: Session, now: datetime) -> Hour:
    """The current minute is left out, since it would look like a fall."""
    end = now.replace(second=0, microsecond=0)
    since = end - MINUTES * _MINUTE
    hour = Hour([since + n * _MINUTE for n in range(MINUTES)])
    await _add_done(session, hour, end)
    await _add_samples(session, hour, end)
    for row in await samples.lanes_series(session, since):
        _add_lane(hour, row)
    return hour


async def _add_done(session: Session, hour: Hour, end: datetime) -> None:
    parts = {(what, table): [0] * MINUTES for what in ("done", "failed") for table in TABLES}
    for each in await statistics.read(
        *(session, "minutes", hour.minutes[0], end), apart=("at", "kind")
    ):
        place, table = _place(hour, each.at), f"{each.kind}s"
        parts["done", table][place] += each.outcome("succeeded")
        parts["failed", table][place] += each.outcome("failed") + each.outcome("retried")
    hour.parts |= {key: [*values] for key, values in parts.items()}
    for what, whole in (("done", hour.done), ("failed", hour.failed)):
        whole += [sum(both) for both in zip(*(parts[what, table] for table in TABLES), strict=True)]


async def _add_samples(session: Session, hour: Hour, end: datetime) -> None:
    hour.arrived, hour.waiting = [None] * MINUTES, [None] * MINUTES
    hour.parts |= {("waiting", table): [None] * MINUTES for table in TABLES}
    for row in await samples.series(session, hour.minutes[0], end, MINUTES):
        place, minutes = _place(hour, row["at"]), row["seconds"] and row["seconds"] / 60
        hour.waiting[place] = sum(row[f"{table}_waiting"] for table in TABLES)
        if minutes:
            arrived = sum(row[f"{table}_arrived"] for table in TABLES)
            hour.arrived[place] = round(arrived / minutes, 1)
        for table in TABLES:
            hour.parts["waiting", table][place] = row[f"{table}_waiting"]


def _add_lane(hour: Hour, row: dict[str, Any]) -> None:
    """Minutes without a sample at its end are missing in the row."""
    lane = hour.lanes.setdefault((row["kind"], row["place"], row["type"]), [None] * MINUTES)
    for minute, waiting in enumerate(row["waiting"]):
        place = (row["hour"] + minute * _MINUTE - hour.minutes[0]) // _MINUTE
        if 0 <= place < MINUTES:
            lane[place] = waiting


def _place(hour: Hour, at: datetime | None) -> int:
    since = hour.minutes[0]
    return min(max(((at or since) - since) // _MINUTE, 0), MINUTES - 1)


def rate(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
