"""The state of an inbox: workers, receivers, lanes, running commands, throughput.

Promises: waiting rows come from the leader's last sample, so that any number of viewers counts
nothing; without a fresh sample they are counted here, up to a bound. Known limit: statistics are
some seconds old.
"""

from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Any

from inboxd.model.durations import Durations
from inboxd.model.wording import LINES, breaker_word
from inboxd.operations.figures import Flow
from inboxd.operations.labels import type_labels
from inboxd.operations.messages import streams, streams_read
from inboxd.operations.throughput import RANKS, percentiles
from inboxd.settings import Settings
from inboxd.store import (
    breakers,
    controls,
    listing,
    receivers,
    statistics,
)
from inboxd.store.samples import Current, CurrentCounts, Sample
from inboxd.store.session import Session
from inboxd.store.statistics import Figures

_OUTCOMES = ("succeeded", "retried", "deferred", "failed", "cancelled", "ignored")
MOST_PAUSES = 1000
_MOST_WORKERS = 1000
_MOST_RECEIVERS = 1000
_MOST_PROGRESS = 50
_OF_WORKERS = (
    *("id", "name", "process", "host", "state", "leads", "in_flight", "events_in_flight"),
    *("commands_in_flight", "silence", "started_at"),
)


async def overview(
    session: Session,
    minutes: int,
    settings: Settings,
    completed: Sequence[dict[str, Any]],
    hour: Sequence[Flow],
    current: Current | None = None,
) -> dict[str, Any]:
    """completed, hour, current: from a caller that reads the state again and again."""
    if current is None:
        current = await CurrentCounts().read(session, settings)
    sample, taken, newest_age = current
    counts = sample.counts
    paused, pauses_left_out = await controls.first(session, MOST_PAUSES)
    stopped = [
        {**row}
        for row in await breakers.listed(session)
        if breaker_word(row) not in ("closed", "metrics only")
    ]
    living = await listing.workers(session, ended=False, limit=_MOST_WORKERS)
    receiving = await receivers.listed(session, settings.worker.lease, _MOST_RECEIVERS)
    told = await streams(session)
    lanes = _lanes(sample)
    of_lanes = paused
    if pauses_left_out:
        places = ("type", "topic", "queue")
        names = {lane[place] for lane in lanes for place in places if place in lane}
        of_lanes = await controls.read(session, names)
    shown: dict[str, Any] = {
        "sample": {
            "at": sample.at,
            "age": sample.age,
            "counted_by": "leader" if taken else "status",
            "newest_age": newest_age,
            "lanes_left_out": counts["left_out"],
            "failed_counted_to": counts["failed_counted_to"],
        },
        "counted_to": counts["counted_to"],
        "paused": [dict(row) for row in paused],
        "paused_left_out": pauses_left_out,
        "breakers": stopped,
        "lanes": _marked(lanes, of_lanes, stopped),
        "suspects": counts["suspects"],
        "workers": [{name: row[name] for name in _OF_WORKERS} for row in living],
        "receivers": [dict(row) for row in receiving],
        "messages": streams_read(told["streams"], told["readers"]),
        "streams_left_out": told["streams_left_out"],
        "progress": await listing.progress(session, _MOST_PROGRESS),
        "completed": list(completed),
        "throughput": await _throughput(session, minutes),
        "last_hour": [_flow(each) for each in hour],
    }
    named = [*shown["lanes"], *shown["completed"], *shown["throughput"]]
    await _title(session, named, shown["progress"])
    return shown


async def _title(
    session: Session, named: list[dict[str, Any]], running: list[dict[str, Any]]
) -> None:
    """The lines of a topic have no type."""
    for kind in ("event", "command"):
        rows = [each for each in named if each["kind"] == kind and each["type"] != LINES]
        rows += running if kind == "command" else []
        labels = await type_labels(session, kind, {row["type"] for row in rows})
        for row in rows:
            row["title"] = labels[row["type"]].title


def _flow(flow: Flow) -> dict[str, Any]:
    return {
        "kind": flow.kind,
        "since": flow.span.since,
        "arrived": flow.arrived,
        "ended": flow.ended,
    }


def _lanes(sample: Sample) -> list[dict[str, Any]]:
    """Events come first; the lines of a topic are one lane."""
    nothing = {"running": None, "in_line": None, "unmet": None}
    counts = sample.counts
    return [
        *(
            {"kind": "event", **row, **nothing}
            for row in listing.by_type("events", counts["events"])
        ),
        *map(_in_lines, counts["lines"]),
        *({"kind": "command", **row} for row in listing.by_type("commands", counts["commands"])),
    ]


def _marked(
    lanes: list[dict[str, Any]],
    paused: Iterable[controls.Control],
    stopped: Iterable[dict[str, Any]],
) -> list[dict[str, Any]]:
    names = {(each["kind"], each["name"]) for each in paused}
    shut = {u for each in stopped if breaker_word(each) != "forced closed" for u in each["uses"]}
    for lane in lanes:
        place = "topic" if lane["kind"] == "event" else "queue"
        uses = {f"{lane['kind']} {lane['type']}"}
        if lane["kind"] == "command":
            uses.add(f"queue {lane['queue']}")
        lane["breaker"] = not uses.isdisjoint(shut)
        lane["paused"] = not names.isdisjoint({("type", lane["type"]), (place, lane[place])})
    return lanes


async def completed(session: Session) -> list[dict[str, Any]]:
    """Return successes, and outcomes after retries and replays, of the last hour and day."""
    found = []
    for hours in (1, 24):
        back = timedelta(hours=hours)
        lately = await statistics.lately(session, back)
        found += [_completion(each, hours) for each in _in_order(lately.figures) if each.executed]
    return found


def _completion(each: Figures, hours: int) -> dict[str, Any]:
    succeeded = each.succeeded
    return {
        "hours": hours,
        "kind": each.kind,
        "type": each.type,
        "completed": succeeded,
        **_took(each.completion, succeeded),
        "attempts": each.attempts,
        "reprocessed": each.reprocessed,
        "after_retry": each.outcome("succeeded", "retry"),
        "after_replay": each.outcome("succeeded", "replay"),
        "failed_again": each.outcome("failed", "retry", "replay"),
    }


async def _throughput(session: Session, minutes: int) -> list[dict[str, Any]]:
    back = timedelta(minutes=minutes)
    lately = await statistics.lately(session, back)
    seconds = (lately.until - lately.since).total_seconds()
    return [
        {
            "kind": each.kind,
            "type": each.type,
            "seconds": seconds,
            **{name: each.outcome(name) for name in _OUTCOMES},
            **_took(each.run, each.executed),
        }
        for each in _in_order(lately.figures)
        if any(each.outcome(name) for name in _OUTCOMES)
    ]


def _took(durations: Durations, count: int) -> dict[str, float | None]:
    found = percentiles(durations, count)
    took: dict[str, float | None] = {"mean": found.mean, "maximum": found.longest}
    return took | {rank: getattr(found, rank) for rank in RANKS}


def _in_order(figures: Sequence[Figures]) -> list[Figures]:
    return sorted(figures, key=lambda each: (each.kind != "event", each.type))


def _in_lines(row: dict[str, Any]) -> dict[str, Any]:
    """The lines of a topic hold events of any type."""
    waiting = row["arrived"] + row["lined_up"]
    zeros = dict.fromkeys(("running", "unmet"))
    return {
        "kind": "event",
        "topic": row["topic"],
        "type": LINES,
        **zeros,
        "pending": waiting,
        "in_line": waiting,
        "due": row["arrived"],
        "failed": row["blocked"],
        "oldest": row["oldest"],
        "kept": row["kept"] > 0,
    }
