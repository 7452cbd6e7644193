"""Queues and topics: waiting rows, recent work, limits, and blocked keys.

Counts stop at a limit. Known limit: limits come from the given settings, not the workers'.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from inboxd.errors import UnknownName
from inboxd.model.spelling import did_you_mean
from inboxd.operations.figures import Part, hour_document, last_hour, parts_by_type
from inboxd.operations.labels import LabelsOf, type_labels
from inboxd.settings import Queue, Settings
from inboxd.store import breakers, listing, queues, topics
from inboxd.store.queues import Blocked
from inboxd.store.session import Session
from inboxd.store.statistics import Lately


@dataclass(frozen=True, slots=True)
class CountedLanes:
    """Counts that the caller has, up to `to`; None: not counted yet."""

    to: int = listing.COUNTED
    lanes: Sequence[Mapping[str, Any]] | None = None
    blocked: Sequence[Blocked] | None = None
    lines: Sequence[Mapping[str, Any]] | None = None

    def of(self, place: str) -> list[Mapping[str, Any]] | None:
        return None if self.lanes is None else [lane for lane in self.lanes if place in lane]


NOTHING_COUNTED = CountedLanes()


@dataclass(frozen=True, slots=True)
class KnownLane:
    """used: it exists, even if undeclared and empty. hour: by type; None: read the statistics."""

    used: bool = False
    hour: Lately | None = None


NOTHING_KNOWN = KnownLane()
Shown = tuple[dict[str, Any], list[Part]]


async def queue_list(
    session: Session, settings: Settings, counted: CountedLanes = NOTHING_COUNTED
) -> dict[str, Any]:
    found = await queues.listed(session, settings.all_queues, counted.of("queue"), counted.blocked)
    for row in found:
        row["limits"] = _limits(settings.all_queues.get(row["queue"]))
    return {"counted_to": counted.to, "queues": found}


async def one_queue(
    session: Session,
    settings: Settings,
    name: str,
    keys: int,
    counted: CountedLanes = NOTHING_COUNTED,
    known: KnownLane = NOTHING_KNOWN,
    labels_of: LabelsOf = type_labels,
) -> Shown:
    """Return at most `keys` blocked keys. Raises UnknownName."""
    listed = await queue_list(session, settings, counted)
    rows = {row["queue"]: row for row in listed["queues"]}
    if name not in rows and known.used:
        rows[name] = queues.empty(name) | {"limits": {}}
    if name not in rows:
        hint = did_you_mean(name, rows) or "; `inboxd queues list` has the names."
        raise UnknownName(
            f"there is no queue {name!r}: no plugin and no settings declare it, and it has no "
            f"unsettled commands{hint}"
        )
    own = settings.all_queues.get(name) or Queue()
    blocked = await queues.blocked_keys(session, name, own, keys)
    hour = known.hour or await last_hour(session, "command", name)
    types = {each.type or "" for each in hour.figures} | {key["type"] for key in blocked}
    labels = await labels_of(session, "command", types)
    for key in blocked:
        key["title"] = labels[key["type"]].title
    done = parts_by_type(hour, labels)
    more = {"blocked_keys": blocked, "last_hour": hour_document(done)}
    return {"counted_to": counted.to, **rows[name], **more}, done


async def topic_list(session: Session, counted: CountedLanes = NOTHING_COUNTED) -> dict[str, Any]:
    found = await topics.listed(session, counted.of("topic"), counted.lines)
    return {"counted_to": counted.to, "topics": found}


async def one_topic(
    session: Session,
    name: str,
    counted: CountedLanes = NOTHING_COUNTED,
    known: KnownLane = NOTHING_KNOWN,
    labels_of: LabelsOf = type_labels,
) -> Shown:
    """Raises UnknownName for an unknown topic."""
    found = (await topic_list(session, counted))["topics"]
    topic = next((each for each in found if each["topic"] == name), None)
    if topic is None and known.used:
        topic = topics.empty(name)
    if topic is None:
        hint = did_you_mean(name, [each["topic"] for each in found]) or "."
        raise UnknownName(
            f"there is no topic {name!r}: it is not declared, and no event waits in it{hint}"
        )
    needed = await breakers.listed(session, uses=[f"topic {name}"])
    hour = known.hour or await last_hour(session, "event", name)
    types = {each.type or "" for each in hour.figures} | set(topic["types"])
    labels = await labels_of(session, "event", types)
    done = parts_by_type(hour, labels)
    more = {
        "breakers": [dict(each) for each in needed],
        "titles": {type_: labels[type_].title for type_ in topic["types"]},
        "last_hour": hour_document(done),
    }
    return {"counted_to": counted.to, **topic, **more}, done


def _limits(queue: Queue | None) -> dict[str, Any]:
    """Return the settings of a queue, without default values."""
    return {} if queue is None else queue.model_dump(mode="json", exclude_unset=True)
