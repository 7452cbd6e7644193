"""Dead letters in groups of equal failures.

Failures are equal if they have one type of exception and one line of the plugin
(`inboxd.model.outcome`). Promises: counting reads at most `COUNTED` entries of an index for each
table; a group stays archived until it has more rows, or a newer one. Known limits: one line that
fails for two reasons is one group; a row of an older release keeps its group; a group that is
larger than its share when it is archived comes back for a newer row only.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from inboxd.errors import NotFound, UsageError
from inboxd.store import operations as store
from inboxd.store.connections import Row
from inboxd.store.operations import Match
from inboxd.store.session import Session
from inboxd.store.wakeups import HotTable

_PAIRS = 10_000  # pairs of fingerprint and type
# The most rows that are counted of one pair, and of all pairs of a table, which share it evenly.
COUNTED_EACH, COUNTED = 10_000, 20_000
SAMPLE = 10  # rows of a group
# For the spread of a group: the most rows that are counted, of the newest and of the first ones;
# the most types that are searched; the most names that are returned.
LOOKED, FIRST, TYPES, NAMES = 500, 20, 10, 10
HOURS = 24
# For the trends of all groups of a list: the most pairs of group and type; the most newest rows
# that are counted.
_TREND_PAIRS, _TREND_ROWS = 200, 600
_WHAT = ("release", "host", "tenant")
# A group with a dead letter in this time is still growing.
_RECENT_SECONDS = 3600

Counted = dict[str, list[dict[str, Any]]]


@dataclass(frozen=True, slots=True)
class ArchivedGroup:
    at: datetime
    actor: str
    reason: str | None


@dataclass(frozen=True, slots=True)
class Group:
    """Dead letters with equal failures. types: number of rows of each.

    at_least: it may have more rows than `count`. first_at, last_at: when rows became dead letters.
    last_id, error: of the newest. archived: None, too, if it has grown since.
    """

    kind: str
    fingerprint: str | None
    count: int
    at_least: bool
    types: Mapping[str, int]
    first_at: datetime
    last_at: datetime
    last_id: int
    error: str | None
    archived: ArchivedGroup | None = None

    def goes_on(self, now: datetime) -> bool:
        """Whether the group got a dead letter in the last hour."""
        return (now - self.last_at).total_seconds() < _RECENT_SECONDS

    @property
    def table(self) -> HotTable:
        return "events" if self.kind == "event" else "commands"


@dataclass(frozen=True, slots=True)
class Spread:
    """The releases, hosts and tenants of a group's dead letters, by their last attempts.

    newest, began: numbers of the `looked` newest and of the first remaining rows. hours: of the
    last 24, the current one last; None: unknown, before the oldest row that was looked at.
    """

    looked: int
    began: Counted
    newest: Counted
    hours: Sequence[int | None]

    def told(self, part: Counted, what: str) -> str:
        names = part.get(what, [])
        if len(names) == 1:
            return names[0]["name"] or "none"
        return ", ".join(f"{each['name'] or 'none'} ({each['count']:,})" for each in names)


async def whole_name(session: Session, group: str) -> str:
    """Raises NotFound; UsageError if several names have this beginning."""
    found = await store.groups_from(session, group)
    if group in found:
        return group
    if not found:
        raise NotFound(f"no dead letter is in group {group!r}: see `inboxd failures list`")
    if len(found) > 1:
        several = ", ".join(sorted(found))
        raise UsageError(
            f"the names of several groups begin with {group!r}, such as {several}: give more of it"
        )
    return found.pop()


async def failures(session: Session, group: str | None = None) -> list[Group]:
    """Largest first. Raises NotFound and UsageError as `whole_name` does."""
    if group is not None:
        group = await whole_name(session, group)
    found: dict[tuple[str, str | None], list[Row]] = {}
    for row in [
        *await store.failures(session, "events", group, _PAIRS, COUNTED_EACH, COUNTED),
        *await store.failures(session, "commands", group, _PAIRS, COUNTED_EACH, COUNTED),
    ]:
        found.setdefault((row["kind"], row["fingerprint"]), []).append(row)
    groups = [_group(kind, fingerprint, rows) for (kind, fingerprint), rows in found.items()]
    return sorted(groups, key=lambda each: (-each.count, each.kind, each.fingerprint or ""))


async def rows_of(
    session: Session, group: Group, *, above: int = 0, limit: int = SAMPLE
) -> list[dict[str, Any]]:
    """The rows come by ascending id."""
    wanted = Match(["failed"], fingerprint=group.fingerprint)
    ids = await store.matching(session, group.table, wanted, above, group.last_id, limit)
    return [dict(row) for row in await store.sample(session, group.table, ids)]


async def spread_of(session: Session, group: Group) -> Spread | None:
    """It has what the role can read; None without a fingerprint."""
    if group.fingerprint is None:
        return None
    types = list(group.types)[:TYPES]
    rows = await store.spread(
        *(session, group.table, group.fingerprint, types),
        newest=-(-LOOKED // max(1, len(types))),
        first=FIRST,
        limit=NAMES,
    )
    parts: dict[str, Counted] = {"newest": {}, "first": {}}
    hours, looked = [0] * HOURS, 0
    for row in rows:
        if row["what"] == "hour":
            hours[HOURS - 1 - int(row["name"])] = row["count"]
        elif row["what"] != "rows":
            named = {"name": row["name"], "count": row["count"]}
            parts[row["part"]].setdefault(row["what"], []).append(named)
        elif row["part"] == "newest":
            looked = row["count"]
    began, newest = (_known(parts[part]) for part in ("first", "newest"))
    return Spread(looked, began, newest, _hours(hours, whole=_is_whole(group, looked)))


async def trends_of(
    session: Session, groups: Iterable[Group]
) -> dict[tuple[str, str | None], list[int | None]]:
    """The numbers of the last 24 hours, as in `Spread`, by two statements.

    It leaves out groups without a fingerprint or with more than `TYPES` types, and groups at the
    end of a list with more than `_TREND_PAIRS` types in all.
    """
    parts: dict[HotTable, list[tuple[str, str]]] = {"events": [], "commands": []}
    counted: list[Group] = []
    pairs = 0
    for group in groups:
        if group.fingerprint is None or len(group.types) > TYPES:
            continue
        pairs += len(group.types)
        if pairs > _TREND_PAIRS:
            break
        parts[group.table] += [(group.fingerprint, type_) for type_ in group.types]
        counted.append(group)
    counts: dict[tuple[str, str | None], list[int]] = {}
    looked = Counter[tuple[str, str | None]]()
    newest = _TREND_ROWS // max(1, sum(map(len, parts.values())))
    for table, these in parts.items():
        if not these:
            continue
        for row in await store.failure_trends(session, table, these, newest):
            key = (table.removesuffix("s"), row["fingerprint"])
            looked[key] += row["count"]
            if row["hour"] is not None:
                counts.setdefault(key, [0] * HOURS)[HOURS - 1 - row["hour"]] = row["count"]
    return {
        key: _hours(counts.get(key, [0] * HOURS), whole=_is_whole(group, looked[key]))
        for group in counted
        for key in ((group.kind, group.fingerprint),)
    }


def _is_whole(group: Group, looked: int) -> bool:
    return looked >= group.count and not group.at_least


def _known(counted: Counted) -> Counted:
    """Leave out dimensions that no row has."""
    return {
        what: counted[what]
        for what in _WHAT
        if any(each["name"] is not None for each in counted.get(what, []))
    }


def _hours(counts: list[int], *, whole: bool) -> list[int | None]:
    """Replace counts by None before the oldest row, unless all rows were looked at."""
    if whole or not any(counts):
        return [*counts]
    begin = next(place for place, count in enumerate(counts) if count)
    return [None] * begin + counts[begin:]


def document(group: Group, rows: list[dict[str, Any]], spread: Spread | None) -> dict[str, Any]:
    spread_ = None if spread is None else asdict(spread)
    return {**asdict(group), "spread": spread_, "sample": rows[:SAMPLE]}


def _group(kind: str, fingerprint: str | None, rows: list[Row]) -> Group:
    newest = max(rows, key=lambda row: row["last_id"])
    count = sum(row["count"] for row in rows)
    return Group(
        kind,
        fingerprint,
        count,
        any(row["count"] >= row["counted_to"] for row in rows),
        {row["type"]: row["count"] for row in rows},
        min(row["first_at"] for row in rows),
        newest["last_at"],
        newest["last_id"],
        newest["error"],
        _archived(newest, count),
    )


def _archived(newest: Row, count: int) -> ArchivedGroup | None:
    """Return the archiving; None if the group was never archived, or has grown since."""
    if newest["archived_at"] is None:
        return None
    if count > newest["archived_count"] or newest["last_id"] > newest["archived_last_id"]:
        return None
    at, actor, reason = (newest[f"archived_{name}"] for name in ("at", "by", "because"))
    return ArchivedGroup(at, actor, reason)
