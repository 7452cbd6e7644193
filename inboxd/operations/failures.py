"""Dead letters read as problems: groups of equal failures.

Promises: ten thousand dead letters with three causes are three groups, each with its count, types,
times and the newest error; counting them reads an index, not the rows.
An archived group is told as such as long as it has no more rows, and no newer one, than then.
Known limit: what is equal is the exception's type and place, a line of the plugin
(`inboxd.model.outcome`), so one line that fails for two reasons with one type of exception is one
group; and what failed under an older release keeps the group that it was given.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from inboxd.errors import NotFound, UsageError
from inboxd.store import operations as store
from inboxd.store.connections import Row
from inboxd.store.operations import Match
from inboxd.store.session import Session
from inboxd.store.wakeups import HotTable

_PAIRS = 10_000  # of fingerprint and type
SAMPLE = 10  # rows of a group
# Of a group: its newest rows that are asked whose they are, its first ones, how many types of it,
# and how many names of each are told.
LOOKED, FIRST, TYPES, NAMES = 500, 20, 10, 10
HOURS = 24
_WHAT = ("release", "host", "tenant")
# Seconds: what had a dead letter so lately goes on.
_LATELY = 3600

Counted = dict[str, list[dict[str, Any]]]


@dataclass(frozen=True, slots=True)
class ArchivedGroup:
    """When, by whom and why a group was archived."""

    at: datetime
    actor: str
    reason: str | None


@dataclass(frozen=True, slots=True)
class Group:
    """Dead letters that failed alike. kind: event or command. types: how many of each.

    first_at, last_at: when the oldest and the newest row of it became dead letters. last_id: the
    newest. error: that of the newest. archived: None: it is not, or has grown since.
    """

    kind: str
    fingerprint: str | None
    count: int
    types: Mapping[str, int]
    first_at: datetime
    last_at: datetime
    last_id: int
    error: str | None
    archived: ArchivedGroup | None = None

    def goes_on(self, now: datetime) -> bool:
        """Whether there was a dead letter of it in the last hour."""
        return (now - self.last_at).total_seconds() < _LATELY

    @property
    def table(self) -> HotTable:
        """Where its rows are."""
        return "events" if self.kind == "event" else "commands"


@dataclass(frozen=True, slots=True)
class Spread:
    """Whose the dead letters of a group are, by each one's last attempt.

    looked: how many of the newest are told of. newest, began: of these, and of the first that are
    still there, how many each release, host and tenant has, most first. hours: how many came in
    each of the last 24 hours, the running one last; None: more than were looked at.
    """

    looked: int
    began: Counted
    newest: Counted
    hours: Sequence[int | None]

    def told(self, part: Counted, what: str) -> str:
        """Whose, as a line: one name alone, or each with its count."""
        names = part.get(what, [])
        if len(names) == 1:
            return names[0]["name"] or "none"
        return ", ".join(f"{each['name'] or 'none'} ({each['count']:,})" for each in names)


async def whole_name(session: Session, group: str) -> str:
    """The fingerprint of the failure group that is called so, or whose name begins so.

    Raises NotFound when nothing fails so any more, UsageError for a beginning of several.
    """
    found = await store.groups_from(session, group)
    if group in found:
        return group
    if not found:
        raise NotFound(f"no dead letter is in group {group!r}: `inboxd failures list` has them")
    if len(found) > 1:
        several = ", ".join(sorted(found))
        raise UsageError(
            f"several groups begin with {group!r}, such as {several}: write more of it"
        )
    return found.pop()


async def failures(session: Session, group: str | None = None) -> list[Group]:
    """The groups of dead letters, the largest first; with `group`, those of one fingerprint.

    Raises NotFound and UsageError as `whole_name` does.
    """
    if group is not None:
        group = await whole_name(session, group)
    found: dict[tuple[str, str | None], list[Row]] = {}
    for row in [
        *await store.failures(session, "events", group, _PAIRS),
        *await store.failures(session, "commands", group, _PAIRS),
    ]:
        found.setdefault((row["kind"], row["fingerprint"]), []).append(row)
    groups = [_group(kind, fingerprint, rows) for (kind, fingerprint), rows in found.items()]
    return sorted(groups, key=lambda each: (-each.count, each.kind, each.fingerprint or ""))


async def rows_of(
    session: Session, group: Group, *, above: int = 0, limit: int = SAMPLE
) -> list[dict[str, Any]]:
    """The next rows of a group, in the order of ids."""
    wanted = Match(["failed"], fingerprint=group.fingerprint)
    ids = await store.matching(session, group.table, wanted, above, group.last_id, limit)
    return [dict(row) for row in await store.sample(session, group.table, ids)]


async def spread_of(session: Session, group: Group) -> Spread | None:
    """Whose they are; None: they have no group. What the role may not read is left out."""
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
    return Spread(looked, began, newest, _hours(hours, whole=looked >= group.count))


def _known(counted: Counted) -> Counted:
    """Without what none of the rows tells."""
    return {
        what: counted[what]
        for what in _WHAT
        if any(each["name"] is not None for each in counted.get(what, []))
    }


def _hours(counts: list[int], *, whole: bool) -> list[int | None]:
    """Of hours before the oldest row that was looked at nothing is known, unless all were."""
    if whole or not any(counts):
        return [*counts]
    begin = next(place for place, count in enumerate(counts) if count)
    return [None] * begin + counts[begin:]


def document(group: Group, rows: list[dict[str, Any]], spread: Spread | None) -> dict[str, Any]:
    """A group with the first of its rows, for JSON."""
    told = None if spread is None else asdict(spread)
    return {**asdict(group), "spread": told, "sample": rows[:SAMPLE]}


def _group(kind: str, fingerprint: str | None, rows: list[Row]) -> Group:
    newest = max(rows, key=lambda row: row["last_id"])
    count = sum(row["count"] for row in rows)
    return Group(
        kind,
        fingerprint,
        count,
        {row["type"]: row["count"] for row in rows},
        min(row["first_at"] for row in rows),
        newest["last_at"],
        newest["last_id"],
        newest["error"],
        _archived(newest, count),
    )


def _archived(newest: Row, count: int) -> ArchivedGroup | None:
    """None: the group never was, or has grown since."""
    if newest["archived_at"] is None:
        return None
    if count > newest["archived_count"] or newest["last_id"] > newest["archived_last_id"]:
        return None
    at, actor, reason = (newest[f"archived_{name}"] for name in ("at", "by", "because"))
    return ArchivedGroup(at, actor, reason)
