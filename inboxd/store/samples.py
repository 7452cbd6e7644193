"""Samples: waiting, running and blocked rows, counted once for all readers.

Promises that reading the newest takes one probe, and a chart of a day some 200 blocks; that no
sample is written after a newer one, so that two leaders do no harm; and that counting stops at a
bound. Arrivals are differences of the server's insert counters, without those around a crash or
failover. Known limits: a sample has at most `LANES` lanes for each table and state (waiting,
running, suspect, dead, unhandled), the longest waiting first; the totals count all lanes. Running
events are counted by the workers' last heartbeats.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from time import monotonic
from typing import Any, NamedTuple, TypedDict

import orjson

from inboxd.settings import Queue, Settings
from inboxd.store import intakes, lines, queues, receipts, schedules, suspects
from inboxd.store.connections import Row
from inboxd.store.listing import COUNTED
from inboxd.store.session import Session
from inboxd.telemetry.metrics import CommandBacklog, EventBacklog

# Lanes in a sample: of events and of commands, waiting ones and each state in _APART. The bound is
# needed, since producers may invent types.
LANES = 500
_APART = ("running", "suspect", "failed", "kept")
# Points of a series; and the shortest step of a lane's series.
MOST_POINTS = 1_000
_MINUTE = timedelta(minutes=1)
_LARGEST = 2**31 - 1
_LINES = ""  # the type under which the lines of a topic are sampled


class CountedTo(NamedTuple):
    """Where counting stops: waiting rows per lane, and dead letters per type."""

    waiting: int
    failed: int


FAR = CountedTo(100_000, 10_000)  # dead letters are read row by row, so their bound is lower
NEAR = CountedTo(10_000, 1_000)
OF_OPERATORS = CountedTo(COUNTED, COUNTED)
# Seconds between two counts of a reader without a fresh sample.
_AGAIN_SECONDS = 30.0
# A sample is stale after this many sampling intervals.
STALE = 3


class Counts(TypedDict):
    """events, commands, lines: rows of `lanes_{table}.sql` and `status_lines.sql`.

    left_out: the number of omitted lanes. blocked_…: topic or queue, held_by, keys, seconds.
    """

    counted_to: int
    failed_counted_to: int
    events: list[dict[str, Any]]
    commands: list[dict[str, Any]]
    lines: list[dict[str, Any]]
    left_out: int
    suspects: dict[str, Any]
    blocked_keys: list[tuple[str, str, int, float]]
    blocked_lines: list[tuple[str, str, int, float]]
    held_topics: int
    held_receipts: list[dict[str, Any]]
    schedules: dict[str, str]
    totals: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Sample:
    """A sample: when counting began, its age in seconds when it was read, and the counts."""

    at: datetime
    age: float
    counts: Counts

    def is_fresh(self, settings: Settings) -> bool:
        return self.age < STALE * settings.maintenance.sampling.total_seconds()


async def count(
    session: Session, settings: Mapping[str, Queue], to: CountedTo, limit: timedelta
) -> Sample:
    """Needs a transaction; limit: the time limit of each statement."""
    known = await session.one("begin_sample", f"{limit.total_seconds():.3f}s")
    events = _plain(await session.fetch("lanes_events", *to))
    commands = _plain(await session.fetch("lanes_commands", *to))
    in_lines = _plain(await session.fetch("status_lines", to.waiting))
    kept_events, kept_commands = _bounded(events), _bounded(commands)
    counts: Counts = {
        "counted_to": to.waiting,
        "failed_counted_to": to.failed,
        "events": kept_events,
        "commands": kept_commands,
        "lines": in_lines[:LANES],
        "left_out": len(events) - len(kept_events) + len(commands) - len(kept_commands),
        "suspects": await suspects.count(session, COUNTED),
        "blocked_keys": [(*each,) for each in await queues.blocked(session, settings)],
        "blocked_lines": [(*each,) for each in await lines.count_blocked(session)],
        "held_topics": await intakes.held(session),
        "held_receipts": [
            {**each, "held_at": each["held_at"].isoformat()}
            for each in await receipts.held(session)
        ],
        "schedules": {
            name: at.isoformat() for name, at in (await schedules.last_runs(session)).items()
        },
        "totals": {},
    }
    counts["totals"] = _totals(known, counts, events, commands, in_lines)
    return Sample(known["at"], 0.0, counts)


async def write(session: Session, sample: Sample, newer_by: timedelta) -> bool:
    """In the counting transaction; once a minute also per lane. False: a newer one exists."""
    of_minute: bool | None = await session.fetchval(
        "write_sample",
        sample.at,
        newer_by,
        orjson.dumps(sample.counts).decode(),
        orjson.dumps(sample.counts["totals"]).decode(),
    )
    if of_minute:
        noted = list(_lanes(sample.counts))
        if noted:
            columns = [list(column) for column in zip(*noted, strict=True)]
            await session.execute("write_sampled_lanes", sample.at, *columns)
    return of_minute is not None


def is_cut_off(counts: Counts) -> bool:
    """Whether some lane has more rows than were counted."""
    rows = [*counts["events"], *counts["commands"]]
    dead = (row["rows"] for row in rows if row["state"] == "failed")
    waiting = (row["rows"] for row in rows if row["state"] != "failed")
    in_lines = (max(row["arrived"], row["lined_up"]) for row in counts["lines"])
    return (
        max(dead, default=0) >= counts["failed_counted_to"]
        or max((*waiting, *in_lines), default=0) >= counts["counted_to"]
    )


async def newest(session: Session, known: datetime | None = None) -> Sample | None:
    """The newest sample; None if no sample exists, or its time is `known`."""
    row = await session.fetchrow("newest_sample", known)
    return None if row is None else Sample(row["at"], row["age"], orjson.loads(row["counts"]))


class Current(NamedTuple):
    """The current counts. taken: they are the newest sample; newest_age: its age in seconds."""

    sample: Sample
    taken: bool
    newest_age: float | None


class CurrentCounts:
    """Without a fresh sample it counts by itself, but only every _AGAIN_SECONDS."""

    def __init__(self) -> None:
        self._counted: Sample | None = None
        self._counted_at = float("-inf")

    async def read(self, session: Session, settings: Settings) -> Current:
        taken = await newest(session)
        if taken is not None and taken.is_fresh(settings):
            return Current(taken, taken=True, newest_age=taken.age)
        if self._counted is None or monotonic() - self._counted_at >= _AGAIN_SECONDS:
            async with session.transaction():
                self._counted = await count(
                    *(session, settings.all_queues, OF_OPERATORS),
                    settings.database.statement_timeout,
                )
            self._counted_at = monotonic()
        counted = replace(self._counted, age=monotonic() - self._counted_at)
        return Current(counted, taken=False, newest_age=None if taken is None else taken.age)


async def series(
    session: Session, since: datetime, until: datetime, points: int
) -> list[dict[str, Any]]:
    """At most `points` steps; those without a sample are omitted."""
    step = (until - since) / min(points, MOST_POINTS)
    return [dict(row) for row in await session.fetch("sample_series", since, until, step)]


async def lane_series(
    session: Session,
    lane: tuple[str, str, str | None],
    since: datetime,
    until: datetime,
    points: int,
) -> list[dict[str, Any]]:
    """A step is at least a minute; steps without waiting rows are omitted."""
    step = max(_MINUTE, (until - since) / min(points, MOST_POINTS))
    rows = await session.fetch("lane_series", *lane, since, until, step)
    return [dict(row) for row in rows]


async def lanes_series(session: Session, since: datetime) -> list[dict[str, Any]]:
    """All lanes per minute from the hour of `since` on, which must be within the last hours."""
    return [dict(row) for row in await session.fetch("lanes_series", since)]


# ------------------------------------------------------------------------------ what metrics show


def event_backlog(counts: Counts) -> Iterator[EventBacklog]:
    for row in counts["events"]:
        if row["state"] != "failed":
            lane = (row["topic"], row["type"], row["state"])
            yield EventBacklog(*lane, row["rows"], _age(row), row["breaker"])
    for type_, rows in _failed(counts["events"]):
        yield EventBacklog("", type_, "failed", rows, None)
    for row in counts["lines"]:
        topic = row["topic"]
        yield EventBacklog(topic, "", "arrived", row["arrived"], row["late"])
        if row["breaker"] is not None:  # its events are counted among the arrived ones
            waits = row["breaker_for"]
            yield EventBacklog(topic, "", "arrived", None, waits, row["breaker"])
        yield EventBacklog(topic, "", "in_line", row["lined_up"], None)
        if row["kept"]:  # its events are counted among those in line
            yield EventBacklog(topic, "", "kept", None, row["kept_for"])


def command_backlog(counts: Counts) -> Iterator[CommandBacklog]:
    """The unsettled commands per lane; running ones and suspects as one number each."""
    together = {"suspect": 0, "running": 0}
    for row in counts["commands"]:
        if row["state"] in together:
            together[row["state"]] += row["rows"]
        elif row["state"] != "failed":
            lane = (row["queue"], row["type"], row["priority"])
            yield CommandBacklog(*lane, row["state"], row["rows"], _age(row), row["breaker"])
    for type_, rows in _failed(counts["commands"]):
        yield CommandBacklog("", type_, "", "failed", rows, None)
    for state, rows in together.items():
        yield CommandBacklog("", "", "", state, rows, None)


def _failed(rows: Iterable[Mapping[str, Any]]) -> Iterable[tuple[str, int]]:
    failed = Counter[str]()
    for row in rows:
        if row["state"] == "failed":
            failed[row["type"]] += row["rows"]
    return failed.items()


# -------------------------------------------------------------------------------- what is written


def _plain(rows: Iterable[Row]) -> list[dict[str, Any]]:
    return [dict(row) for row in rows]


def _bounded(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """At most LANES lanes of each group, in their order; only the totals count the others."""
    seen = Counter[str]()
    kept = set[int]()
    for place, row in sorted(
        enumerate(rows), key=lambda each: (-(_age(each[1]) or 0.0), -each[1]["rows"])
    ):
        group = row["state"] if row["state"] in _APART else "waiting"
        seen[group] += 1
        if seen[group] <= LANES:
            kept.add(place)
    return [row for place, row in enumerate(rows) if place in kept]


def _age(row: Mapping[str, Any]) -> float | None:
    """Seconds that the oldest due row of a lane has waited; None: none is due, or it is paused."""
    age: float | None = None if row["paused"] else row["oldest"]
    return age


def _late(row: Mapping[str, Any]) -> float | None:
    """`_age`, but None too if a breaker or a missing handler is the reason for waiting."""
    return None if row["breaker"] is not None or row["state"] == "kept" else _age(row)


def _totals(
    known: Row,
    counts: Counts,
    events: list[dict[str, Any]],
    commands: list[dict[str, Any]],
    in_lines: list[dict[str, Any]],
) -> dict[str, Any]:
    waiting = [row for row in events if row["state"] != "failed"]
    asked = [row for row in commands if row["state"] not in ("failed", "running")]
    kept = [row for row in waiting if row["state"] == "kept"]
    lined = sum(row["arrived"] + row["lined_up"] for row in in_lines)
    sums = {
        "events_waiting": _sum(waiting) + lined,
        "events_paused": _sum(row for row in waiting if row["paused"]),
        "events_kept": _sum(kept) + sum(row["kept"] for row in in_lines),
        "events_failed": _sum(row for row in events if row["state"] == "failed"),
        "events_running": known["events_running"],
        "commands_waiting": _sum(asked),
        "commands_paused": _sum(row for row in asked if row["paused"]),
        "commands_failed": _sum(row for row in commands if row["state"] == "failed"),
        "commands_running": _sum(row for row in commands if row["state"] == "running"),
        "suspects": counts["suspects"]["waiting"] + counts["suspects"]["running"],
        "blocked_keys": sum(each[2] for each in counts["blocked_keys"]),
        "blocked_lines": sum(each[2] for each in counts["blocked_lines"]),
        "held_topics": counts["held_topics"],
        "held_receipts": sum(each["receipts"] for each in counts["held_receipts"]),
        "workers": known["workers"],
    }
    late = [*map(_late, waiting), *(row["late"] for row in in_lines)]
    return {
        "events_written": known["events_written"],
        "commands_written": known["commands_written"],
        **{name: min(number, _LARGEST) for name, number in sums.items()},
        "events_oldest": max((age for age in late if age is not None), default=None),
        "commands_oldest": max((a for a in map(_late, asked) if a is not None), default=None),
    }


def _sum(rows: Iterable[Mapping[str, Any]]) -> int:
    return sum(row["rows"] for row in rows)


def _lanes(counts: Counts) -> Iterator[tuple[str, str, str, int, int, int | None]]:
    """Per topic or queue and type: waiting, failed, seconds that the oldest has waited."""
    found: dict[tuple[str, str, str], list[Any]] = {}
    for kind, place, rows in (("event", "topic", "events"), ("command", "queue", "commands")):
        for row in counts[rows]:  # type: ignore[literal-required]
            if row["state"] == "running":
                continue
            lane = found.setdefault((kind, row[place], row["type"]), [0, 0, None])
            lane[row["state"] == "failed"] += row["rows"]
            if row["state"] != "failed" and (age := _late(row)) is not None:
                lane[2] = max(int(age), lane[2] or 0)
    for row in counts["lines"]:
        lane = found.setdefault(("event", row["topic"], _LINES), [0, 0, None])
        lane[0] = row["arrived"] + row["lined_up"]
        lane[1] = row["blocked"]
        lane[2] = None if row["late"] is None else int(row["late"])
    for (kind, place, type_), (waiting, failed, oldest) in found.items():
        yield kind, place, type_, min(waiting, _LARGEST), min(failed, _LARGEST), oldest
