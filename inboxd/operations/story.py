"""The story of a row: its ancestors and all their descendants.

Promises: it reads a bounded number of rows; the tree has all rows between the top and the row that
was asked for; if not all children fit, dead letters come first. Known limit: it is not one
snapshot; a row that moves is shown where it was read first.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import orjson

from inboxd.errors import Conflict, NotFound
from inboxd.model.lifecycle import Status
from inboxd.model.story import RECEIPT, Key, Member, Sketch, StoryNode
from inboxd.model.story_drawing import as_json
from inboxd.model.story_times import RowTimes, Waterfall, times_of, waterfall
from inboxd.store import receipts
from inboxd.store import story as store
from inboxd.store.connections import Row
from inboxd.store.session import Session
from inboxd.store.wakeups import HotTable

_LEVELS = 100
_PARENTS = 100  # rows whose children are read in one statement
_LOOK = 1_000  # the most children of a row that are counted
_CHILDREN = 100
_WAITS = 1_000
_REPLAYS = 10
# A child ends after its parent was created, unless a clock was set back in between.
_SLACK = timedelta(hours=1)
_COLUMNS = {each.name for each in fields(Member)} - {"seconds", "counts"}


@dataclass(frozen=True, slots=True)
class Story:
    """earlier: the top has ancestors that were not read. now: the time when `times` were read."""

    asked: Key
    top: StoryNode
    times: Mapping[Key, RowTimes]
    now: datetime
    earlier: bool = False

    def document(self) -> dict[str, Any]:
        """Each row comes after its parent."""
        rows = as_json(self.top, self.times)
        return {"asked": self.asked, "earlier": self.earlier, "rows": rows}

    def waterfall(self, *, to_now: bool = True) -> Waterfall:
        return waterfall(self.top, self.times, self.now, to_now=to_now)


async def trace(
    session: Session, id: int | UUID, *, kind: str | None = None, rows: int = 200, each: int = 10
) -> Story:
    """rows: the most in the tree; each: the most children of one row.

    Raises NotFound; Conflict if rows of several kinds have the number and `kind` is not given.
    """
    way = await _way(session, id, kind)
    asked, top = way[0], way[-1]
    sketch = Sketch(top)
    # The ancestors first, so that the tree has them even if other rows are left out.
    for parent, child in zip(way[:0:-1], way[-2::-1], strict=True):
        sketch.add(parent.key, [child])
    await _grow(session, sketch, [member.key for member in reversed(way)], rows, each)
    replays = await store.replays(session, list(sketch.members), _REPLAYS)
    await _note(session, sketch, replays)
    times, now = await _times(session, sketch, replays)
    earlier = len(way) >= _LEVELS and (top.batch_id or top.causation_id) is not None
    return Story(asked.key, sketch.draw(), times, now, earlier)


async def _way(session: Session, id: int | UUID, kind: str | None) -> list[Member]:
    """Return the row that was asked for, its parent, and so on up to the top."""
    if kind in (None, RECEIPT) or isinstance(id, UUID):
        asked = await _find(session, id, kind)
        if asked.kind == RECEIPT:
            return [asked]
        kind, id = asked.kind, asked.id
    way = _straight(await store.up(session, kind, id, _LEVELS))
    if not way:
        raise _nowhere(kind, id)
    return [*way, *await _receipt_of(session, way[-1])]


def _nowhere(kind: str | None, id: int | UUID) -> NotFound:
    moved = kind in (None, "event") and isinstance(id, int)
    return NotFound(
        f"there is no {kind or 'event, command, batch or receipt'} {id}: look the id up with "
        "`inboxd events list` or `inboxd commands list`"
        + ("; an event whose topic was declared later has a new id" if moved else "")
    )


async def created_by(
    session: Session, kind: str, id: int, uuid: UUID, created_at: datetime
) -> list[Member]:
    """Return at most 100 created rows."""
    rows = await store.down(
        session, [(kind, id, uuid)], created_at - _SLACK, _LOOK, _CHILDREN, members=False
    )
    return [_member(row) for row in rows]


async def origin_of(
    session: Session, kind: str, id: int, created_at: datetime, finished_at: datetime | None = None
) -> Member | None:
    """None if the row was settled at a very different time."""
    until = max(created_at, finished_at or created_at) + timedelta(days=1)
    row = await store.member(session, kind, id, created_at - _SLACK, until)
    return None if row is None else _member(row)


async def replays_of(session: Session, kind: str, id: int) -> list[dict[str, Any]]:
    """Oldest first: time, actor and new row."""
    rows = await store.replays(session, [(kind, id)], _CHILDREN)
    return [dict(row) for row in rows]


async def mark_replayed(session: Session, table: HotTable, rows: Sequence[dict[str, Any]]) -> None:
    """Add `replayed_as` to each command of a list: the new row of a dead letter's last replay."""
    if table == "events":
        return  # events are replayed in place
    dead = [("command", row["id"]) for row in rows if row["status"] == Status.FAILED]
    replays = await store.replays(session, dead, 1) if dead else []
    news = {row["old_id"]: row["new_id"] for row in replays}
    for row in rows:
        new = news.get(row["id"])
        row["replayed_as"] = None if new == row["id"] else new


async def waits_of(session: Session, uuid: UUID) -> list[dict[str, Any]]:
    """Each has condition, kind, id, type, status."""
    rows = await store.waits(session, [uuid], _CHILDREN)
    return [
        {name: row[name] for name in ("condition", "kind", "id", "type", "status")} for row in rows
    ]


async def _find(session: Session, id: int | UUID, kind: str | None) -> Member:
    found = [_member(row) for row in await store.find(session, id)]
    if not found and isinstance(id, UUID):
        found = await _receipt(session, id)
    found = [member for member in found if kind in (None, member.kind)]
    if not found:
        raise _nowhere(kind, id)
    if len(found) > 1:
        kinds = " and ".join(member.kind for member in found)
        raise Conflict(f"{kinds} have the number {id}: give the kind too, `{found[0].kind} {id}`")
    return found[0]


async def _receipt_of(session: Session, top: Member) -> list[Member]:
    if top.origin_kind != RECEIPT or top.causation_id is None:
        return []
    return await _receipt(session, top.causation_id)


async def _receipt(session: Session, receipt_id: UUID) -> list[Member]:
    row = await receipts.one(session, receipt_id)
    if row is None:
        return []
    outcome, at = row["outcome"], row["received_at"]
    return [Member(RECEIPT, 0, receipt_id, row["source"], row["source"], outcome, 0, at)]


def _straight(rows: Sequence[Row]) -> list[Member]:
    """Stop at a row that occurs twice."""
    way: dict[Key, Member] = {}
    for member in map(_member, rows):
        if member.key in way:
            break
        way[member.key] = member
    return list(way.values())


async def _grow(
    session: Session, sketch: Sketch, level: Sequence[Key], rows: int, each: int
) -> None:
    since = sketch.top.created_at - _SLACK
    for _ in range(_LEVELS):
        following: list[Key] = []
        for first in range(0, len(level), _PARENTS):
            parents = [sketch.members[key] for key in level[first : first + _PARENTS]]
            if len(sketch.members) >= rows:
                return
            given = [(*parent.key, parent.uuid) for parent in parents]
            found: dict[Key, list[Row]] = {}
            for row in await store.down(session, given, since, _LOOK, each):
                found.setdefault((row["parent_kind"], row["parent_id"]), []).append(row)
            for parent in parents:
                following += _add(sketch, parent.key, found.get(parent.key, []), rows)
        if not (level := following):
            return


def _add(sketch: Sketch, parent: Key, found: Sequence[Row], rows: int) -> list[Key]:
    room = max(rows - len(sketch.members), 0)
    new = sketch.add(parent, map(_member, found[:room]))
    if found:
        looked = orjson.loads(found[0]["looked"])
        sketch.looked[parent] = looked
        if sum(looked.values()) >= _LOOK:
            sketch.unsure.add(parent)
    return [member.key for member in new]


async def _note(session: Session, sketch: Sketch, replays: Sequence[Row]) -> None:
    """Add the rows they wait for, their workflow steps, and their replays."""
    members = sketch.members
    by_uuid = {member.uuid: member.key for member in members.values()}
    in_batches = [member.uuid for member in members.values() if member.batch_id is not None]
    named = await store.steps(session, in_batches) if in_batches else {}
    for uuid, name in named.items():
        sketch.note(by_uuid[uuid], f"step {name!r}")
    for member in members.values():
        if member.replay_of is not None:
            sketch.note(member.key, f"replay of {member.kind} {member.replay_of}")
        if member.source is not None:  # a producer, or "schedule nightly"
            sketch.note(member.key, f"from {member.source}")
    for row in replays:
        again = row["new_id"] == row["old_id"]
        how = "in place" if again else f"as {row['kind']} {row['new_id']}"
        sketch.note((row["kind"], row["old_id"]), f"replayed {how} by {row['actor']}")
    waiting = [member.uuid for member in members.values() if member.status == "waiting"]
    for row in await store.waits(session, waiting, _WAITS) if waiting else []:
        what = f"{row['kind']} {row['id']} ({row['type']}): {row['condition']}"
        sketch.note(by_uuid[row["waiting"]], f"waits for {what}")


async def _times(
    session: Session, sketch: Sketch, replays: Sequence[Row]
) -> tuple[dict[Key, RowTimes], datetime]:
    # A row without a newest error has no failed attempt.
    asked = [
        (*member.key, member.finished_at)
        for member in sketch.members.values()
        if member.kind in ("event", "command") and member.error is not None
    ]
    found, now = await store.attempts(session, asked)
    again: dict[Key, list[datetime]] = {}
    for row in replays:
        if row["new_id"] == row["old_id"]:
            again.setdefault((row["kind"], row["old_id"]), []).append(row["at"])
    return {
        key: times_of(member, found.get(key, ()), again.get(key, ()))
        for key, member in sketch.members.items()
    }, now


def _member(row: Row) -> Member:
    duration, counts = row["duration"], row["counts"]
    return Member(
        **{name: row[name] for name in _COLUMNS},
        seconds=None if duration is None else duration.total_seconds(),
        counts=None if counts is None else orjson.loads(counts),
    )
