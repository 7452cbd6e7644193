"""The last hour, minute by minute: rows arrived, done, failed and waiting, in all and by lane.

Promises: None, never 0, stands for arrived or waiting rows of a minute without a sample. Known
limit: a lane that a sample leaves out counts as 0 in its minute.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from inboxd.store import samples, statistics
from inboxd.store.session import Session

MINUTES: Final = 60
TABLES: Final = ("events", "commands")
_MINUTE: Final = timedelta(minutes=1)


# Lanes with the same key are one trend.
LaneKey = Callable[[Mapping[str, Any]], tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class LaneTrends:
    """Waiting rows of lanes by key. without_rows: the trend of a lane that no sample has."""

    without_rows: list[int | None]
    by: dict[tuple[str, ...], list[int | None]]

    def of(self, *key: str) -> list[int | None]:
        return self.by.get(key, self.without_rows)


async def lane_trends(
    session: Session, minutes: Sequence[datetime], taken: Iterable[datetime], key: LaneKey
) -> LaneTrends:
    """taken: the times of samples. Trends of lanes with the same key are added up."""
    without_rows: list[int | None] = [None] * len(minutes)
    for at in taken:
        without_rows[(at - minutes[0]) // _MINUTE] = 0
    found: dict[tuple[str, ...], list[int | None]] = {}
    for row in await samples.lanes_series(session, minutes[0]):
        trend = found.setdefault(key(row), [*without_rows])
        for minute, waiting in enumerate(row["waiting"]):
            place = (row["hour"] + minute * _MINUTE - minutes[0]) // _MINUTE
            if waiting is not None and 0 <= place < len(minutes):
                trend[place] = (trend[place] or 0) + waiting
    return LaneTrends(without_rows, found)


def _one_lane(row: Mapping[str, Any]) -> tuple[str, ...]:
    return row["kind"], row["place"], row["type"]


@dataclass(slots=True)
class Hour:
    """Each list has a number for each of `minutes`; None: unknown.

    parts: of events and of commands. lanes: by kind, topic or queue, and type.
    """

    minutes: list[datetime]
    arrived: list[float | None] = field(default_factory=list)
    done: list[float | None] = field(default_factory=list)
    failed: list[float | None] = field(default_factory=list)
    waiting: list[float | None] = field(default_factory=list)
    parts: dict[tuple[str, str], list[float | None]] = field(default_factory=dict)
    lanes: LaneTrends = field(default_factory=lambda: LaneTrends([], {}))

    def of(self, what: str) -> dict[str, list[float | None]]:
        return {table: self.parts[what, table] for table in TABLES}


async def last_hour(session: Session, now: datetime) -> Hour:
    """The current minute is left out, since it would look like a fall."""
    end = now.replace(second=0, microsecond=0)
    since = end - MINUTES * _MINUTE
    hour = Hour([since + n * _MINUTE for n in range(MINUTES)])
    await _add_done(session, hour, end)
    await _add_samples(session, hour, end)
    taken = [
        minute
        for minute, waiting in zip(hour.minutes, hour.waiting, strict=True)
        if waiting is not None
    ]
    hour.lanes = await lane_trends(session, hour.minutes, taken, _one_lane)
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


def _place(hour: Hour, at: datetime | None) -> int:
    since = hour.minutes[0]
    return min(max(((at or since) - since) // _MINUTE, 0), MINUTES - 1)


def rate(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
