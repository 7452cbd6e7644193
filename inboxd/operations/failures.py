"""Dead letters read as problems: groups of equal failures.

Promises: ten thousand dead letters with three causes are three groups, each with its count, types,
times and the newest error; counting them reads an index, not the rows.
Known limit: what is equal is the exception's type and place, a line of the plugin
(`inboxd.model.outcome`), so one line that fails for two reasons with one type of exception is one
group; and what failed under an older release keeps the group that it was given.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from inboxd.errors import NotFound, UsageError
from inboxd.store import operations as store
from inboxd.store.connections import Row
from inboxd.store.session import Session

_PAIRS = 10_000  # of fingerprint and type


@dataclass(frozen=True, slots=True)
class Group:
    """Dead letters that failed alike. kind: event or command. types: how many of each.

    first_at, last_at: when the oldest and the newest row of it became dead letters. last_id: the
    newest. error: that of the newest.
    """

    kind: str
    fingerprint: str | None
    count: int
    types: Mapping[str, int]
    first_at: datetime
    last_at: datetime
    last_id: int
    error: str | None


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


def _group(kind: str, fingerprint: str | None, rows: list[Row]) -> Group:
    newest = max(rows, key=lambda row: row["last_id"])
    return Group(
        kind,
        fingerprint,
        sum(row["count"] for row in rows),
        {row["type"]: row["count"] for row in rows},
        min(row["first_at"] for row in rows),
        newest["last_at"],
        newest["last_id"],
        newest["error"],
    )
