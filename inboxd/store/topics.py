"""The tables of topics and subscriptions, which complete producers' inserts.

Declarations apply to every insert after a worker's start; the last worker decides on a topic. A
subscription outlives its workers for a week.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypedDict, cast

import orjson

from inboxd.api.topics import Topic
from inboxd.store.listing import COUNTED, lanes
from inboxd.store.session import Session


class ChangedMode(TypedDict):
    name: str
    mode: str
    was: str


class Subscription(TypedDict):
    topic: str
    type: str


async def declare(
    session: Session, topics: Iterable[Topic], subscriptions: Sequence[tuple[str, str]]
) -> list[ChangedMode]:
    given = sorted(topics, key=lambda topic: topic.name)
    changed = await session.fetch(
        "declare_topics",
        [topic.name for topic in given],
        [topic.mode for topic in given],
        [_json(topic.key_path) for topic in given],
        [_json(topic.dedup_path) for topic in given],
        [_json(topic.rules()) for topic in given],
        [topic.source for topic in given],
        [topic.relay for topic in given],
    )
    await session.execute(
        "declare_subscriptions",
        [topic for topic, _ in subscriptions],
        [type_ for _, type_ in subscriptions],
    )
    return cast("list[ChangedMode]", changed)


async def modes(session: Session) -> dict[str, str]:
    return {row["name"]: row["mode"] for row in await session.fetch("topic_modes")}


async def of_types(session: Session, types: Sequence[str]) -> set[str]:
    """The topics to which events of these types go, if their producer names none."""
    return {row["topic"] for row in await session.fetch("topics_of_types", types)}


async def served(session: Session) -> set[str]:
    """The topics with handlers in a worker that lives, or ended less than a week ago."""
    return {row["topic"] for row in await session.fetch("served_topics")}


async def mark_undeclared(session: Session) -> tuple[list[str], list[Subscription]]:
    """Mark topics and subscriptions that no living worker declares; returns the newly marked."""
    topics = await session.fetch("mark_topics")
    subscriptions = await session.fetch("mark_subscriptions")
    return (
        [row["name"] for row in topics if row["name"] is not None],
        cast("list[Subscription]", [row for row in subscriptions if row["topic"] is not None]),
    )


async def forget_undeclared(session: Session) -> tuple[list[str], list[Subscription]]:
    """Delete topics and subscriptions that were undeclared for a week; returns them."""
    subscriptions = await session.fetch("forget_subscriptions")
    topics = await session.fetch("forget_topics")
    return [row["name"] for row in topics], cast("list[Subscription]", subscriptions)


async def try_slots(session: Session, topics: Sequence[str], slots: Sequence[int]) -> set[str]:
    """Lock a slot of each topic until the transaction ends; returns topics that had a free one."""
    rows = await session.fetch("try_slots", topics, slots)
    return {row["topic"] for row in rows}


async def unsubscribe(session: Session, topic: str, type_: str | None) -> list[str]:
    """Delete subscriptions of a topic that no living worker declares; returns their types."""
    return [row["type"] for row in await session.fetch("unsubscribe", topic, type_)]


async def listed(
    session: Session,
    in_lanes: Sequence[Mapping[str, Any]] | None = None,
    in_lines: Sequence[Mapping[str, Any]] | None = None,
    *,
    after: str | None = None,
    rows: int | None = None,
) -> list[dict[str, Any]]:
    """Topics by name that are declared or have unsettled events; counts stop at COUNTED per lane.

    All of them, or at most `rows` after a name.

    pending: events in lanes; arrived and lined_up: in lines; blocked: lines behind a dead letter,
    the first for `blocked_for` seconds; kept: pending events and heads without a handler; held_for:
    seconds since the declaration whose intake is not finished; oldest: seconds that the oldest due
    event with a handler has waited. in_lanes, in_lines: None: count now.
    """
    if in_lanes is None:
        in_lanes = await lanes(session, "events")
    if in_lines is None:
        in_lines = await lines(session)
    found: dict[str, dict[str, Any]] = {}
    with_rows = {row["topic"] for row in (*in_lanes, *in_lines)}
    for row in await session.fetch("list_topics", after, rows, [*with_rows]):
        found[row["topic"]] = empty(row["topic"]) | {
            **dict(row),
            "mode": row["mode"] or "single",
            "rules": orjson.loads(row["rules"] or "{}"),
        }
    for lane in in_lanes:
        if (topic := found.get(lane["topic"])) is None:
            continue
        topic["pending"] += lane["pending"]
        topic["failed"] += lane["failed"]
        topic["kept"] += lane["pending"] if lane["kept"] else 0
        age = 0.0 if lane["kept"] else lane["oldest"] or 0.0
        topic["oldest"] = max(age, topic["oldest"] or 0.0) or None
    for line in in_lines:
        if (topic := found.get(line["topic"])) is None:
            continue
        oldest = max(line["oldest"] or 0.0, topic["oldest"] or 0.0) or None
        topic |= {**line, "kept": line["kept"] + topic["kept"], "oldest": oldest}
        del topic["kept_for"]
    return [*found.values()]


async def lines(session: Session) -> list[dict[str, Any]]:
    return [dict(row) for row in await session.fetch("status_lines", COUNTED)]


async def waiting(session: Session, names: Sequence[str], type_: str | None = None) -> int:
    """Without dead letters; counts at most `listing.COUNTED` of each kind in a topic."""
    return int(await session.fetchval("count_waiting", names, type_, COUNTED))


def empty(name: str) -> dict[str, Any]:
    nothing: dict[str, Any] = dict.fromkeys(
        ("key_path", "dedup_path", "source", "undeclared_at", "oldest", "blocked_for", "held_for")
    )
    counts = dict.fromkeys(("pending", "arrived", "lined_up", "blocked", "kept", "failed"), 0)
    lists: dict[str, Any] = {"types": [], "undeclared": []}
    return {"topic": name, "mode": "single", "rules": {}, **lists, **nothing, **counts}


def _json(value: object) -> str | None:
    return None if value is None else orjson.dumps(value).decode()
