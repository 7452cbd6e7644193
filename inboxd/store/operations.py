"""Writes of operators' actions: replays, dismissals, cancellations, the audit.

Promises that a row is locked before its status is judged (promise 8). Known limit: all statements
that change rows must run in one transaction, the caller's.
*See:* `operations/rows.py`, before it.
"""

from collections.abc import Collection, Sequence
from dataclasses import astuple, dataclass
from datetime import datetime
from typing import Final, Literal
from uuid import UUID

from inboxd.store.connections import Row
from inboxd.store.finding import When
from inboxd.store.producing import refusals
from inboxd.store.session import Session
from inboxd.store.wakeups import HotTable

# Dead letters that `matching` reads per round. The first statement of a round reads at least
# _FEWEST, each further one _MORE times as many.
_LOOK: Final = 20_000
_FEWEST, _MORE = 100, 4


@dataclass(frozen=True, slots=True)
class Match:
    """None matches any. since, until, by: as in `store.finding.Filter`; by None: created."""

    statuses: Collection[str]
    type: str | None = None
    lane: str | None = None
    tenants: Collection[str] | None = None
    since: datetime | None = None
    error: str | None = None
    fingerprint: str | None = None
    batches: Sequence[int] | None = None
    until: datetime | None = None
    entity_type: str | None = None
    entity_id: str | None = None
    by: When | None = None

    def arguments(self) -> list[object]:
        return [
            list(self.statuses),
            *(self.type, self.lane, None if self.tenants is None else list(self.tenants)),
            *(self.since, self.error, self.fingerprint, self.batches),
            *(self.until, self.entity_type, self.entity_id, self.by),
        ]


async def lock(
    session: Session,
    table: HotTable,
    ids: Sequence[int],
    uuids: Sequence[UUID],
    *,
    ending: bool = False,
) -> list[Row]:
    """Lock the hot rows among these until the transaction ends.

    ending: also lock the rows that wait for these commands, in one order. The buckets of events in
    lines are locked first, as workers do, so that no page holds the events.
    """
    if table == "events":
        await session.execute("hold_buckets_of", ids, uuids)
    elif ending:
        await session.execute("hold_ending", ids, uuids, ["cancelled"])
    return await session.fetch(f"lock_{table}", ids, uuids)


async def settled(
    session: Session, table: HotTable, ids: Sequence[int], uuids: Sequence[UUID]
) -> list[Row]:
    return await session.fetch(f"settled_{table}", ids, uuids)


async def replay_in_place(
    session: Session, table: HotTable, ids: Sequence[int], actor: str, reason: str | None
) -> list[Row]:
    """Events, and commands with an ordering key. Locks all unique keys for `replay_as_new`."""
    if table == "events":
        return await session.fetch("replay_events", ids, actor, reason)
    await session.fetchval("hold_unique_keys", ids)
    return await session.fetch("replay_commands_in_place", ids, actor, reason)


async def replay_as_new(
    session: Session, ids: Sequence[int], actor: str, reason: str | None
) -> list[Row]:
    return await session.fetch("replay_commands", ids, actor, reason)


async def replace_payload(session: Session, id: int, payload: str) -> None:
    """Needs a replay of this transaction. Raises UsageError if the database refuses the payload."""
    with refusals():
        await session.fetchval("replace_payload", id, payload)


async def edit_payload(session: Session, id: int, payload: str) -> bool:
    """False: a worker has run the row. Raises UsageError if the database refuses the payload."""
    with refusals():
        return await session.fetchval("edit_payload", id, payload) is not None


async def edited(session: Session, id: int) -> Row:
    return await session.one("edited_command", id)


async def dismiss(session: Session, table: HotTable, ids: Sequence[int]) -> list[int]:
    rows = await session.fetch(f"dismiss_{table}", ids)
    return [row["id"] for row in rows]


async def cancel(session: Session, ids: Sequence[int]) -> list[int]:
    """Move commands that do not run into history; returns the ids that were moved."""
    rows = await session.fetch("cancel_commands", ids)
    return [row["id"] for row in rows]


async def request_cancel(session: Session, ids: Sequence[int]) -> list[int]:
    rows = await session.fetch("request_cancel", ids)
    return [row["id"] for row in rows]


async def reschedule(
    session: Session, table: HotTable, ids: Sequence[int], run_at: datetime
) -> list[int]:
    """Set `run_at` of waiting rows; returns the ids that were changed."""
    rows = await session.fetch(f"reschedule_{table}", ids, run_at)
    return [row["id"] for row in rows]


async def reprioritize(session: Session, ids: Sequence[int], priority: int) -> list[int]:
    rows = await session.fetch("reprioritize_commands", ids, priority)
    return [row["id"] for row in rows]


async def consequences(session: Session, ids: Sequence[int]) -> list[Row]:
    return await session.fetch("consequences", ids)


async def count_consequences(
    session: Session,
    ids: Sequence[int],
    counted_to: int,
    skipping: Sequence[str],
    at_once: Sequence[str],
) -> Row:
    """skipping: queues whose dead letters hold no key. at_once: queues that keep no order."""
    return await session.one("count_consequences", ids, counted_to, skipping, at_once)


async def count_line_of_events(session: Session, ids: Sequence[int], counted_to: int) -> Row:
    return await session.one("count_line_of_events", ids, counted_to)


async def ability(session: Session) -> Row:
    """Whether operators' actions can be written: standby, read_only, may."""
    return await session.one("ability")


# ------------------------------------------------------------------------------ many rows at once


@dataclass(frozen=True, slots=True)
class MatchedAhead:
    """Matching rows of a range. to: the last id that was looked at; end: the range is finished."""

    ids: Sequence[int]
    to: int
    end: bool


async def matching(
    session: Session, table: HotTable, wanted: Match, above: int, last: int, limit: int
) -> list[int]:
    """Dead letters are found by their own index, in several steps; other commands by id."""
    if set(wanted.statuses) != {"failed"}:
        async with session.transaction():
            await session.execute("order_by_index")
            rows = await session.fetch(f"match_{table}", *wanted.arguments(), above, last, limit)
        return [row["id"] for row in rows]
    found = MatchedAhead((), above, end=False)
    ids = list[int]()
    while not found.end and len(ids) < limit:
        found = await dead_ahead(session, table, wanted, found.to, last, limit - len(ids), _LOOK)
        ids += found.ids
    return ids


async def dead_ahead(
    session: Session, table: HotTable, wanted: Match, above: int, last: int, limit: int, look: int
) -> MatchedAhead:
    ids, rows = list[int](), max(_FEWEST, 2 * limit)
    async with session.transaction():
        await session.execute("order_by_index")
        while look > 0:
            rows = min(rows, look)
            arguments = (*wanted.arguments(), above, last, limit - len(ids), rows)
            row = await session.one(f"match_dead_{table}", *arguments)
            ids += row["ids"]
            if len(ids) == limit:
                return MatchedAhead(ids, ids[-1], end=False)
            above = row["reached"]
            if above >= last:
                return MatchedAhead(ids, above, end=True)
            # Few rows match, so the next statement reads more.
            look, rows = look - rows, _MORE * rows
    return MatchedAhead(ids, above, end=False)


async def still_matching(
    session: Session, table: HotTable, wanted: Match, held: Collection[Row]
) -> list[Row]:
    ids = [row["id"] for row in held]
    rows = await session.fetch(f"still_match_{table}", *wanted.arguments(), ids) if ids else []
    found = {row["id"] for row in rows}
    return [row for row in held if row["id"] in found]


async def count(session: Session, table: HotTable, wanted: Match) -> tuple[int, int]:
    """The number of matching rows, and their largest id."""
    row = await session.one(f"count_{table}", *wanted.arguments())
    return row["count"], row["last"]


async def sample(session: Session, table: HotTable, ids: Sequence[int]) -> list[Row]:
    return await session.fetch(f"sample_{table}", ids)


async def types_and_tenants(
    session: Session, table: HotTable, ids: Sequence[int], limit: int
) -> list[Row]:
    return await session.fetch(f"types_and_tenants_{table}", ids, limit)


async def failures(
    session: Session, table: HotTable, group: str | None, limit: int, each: int, all_: int
) -> list[Row]:
    """limit: the most pairs. each, all_: the most rows that are counted of a pair, and of all."""
    return await session.fetch(f"failures_{table}", group, limit, each, all_)


async def spread(
    session: Session,
    table: HotTable,
    group: str,
    types: Sequence[str],
    *,
    newest: int,
    first: int,
    limit: int,
) -> list[Row]:
    """How a group's newest and first dead letters spread over tenants, hosts, releases: see SQL."""
    return await session.fetch(f"spread_{table}", group, list(types), newest, first, limit)


async def failure_trends(
    session: Session, table: HotTable, parts: Sequence[tuple[str, str]], newest: int
) -> list[Row]:
    """The newest dead letters of groups, counted by hour. parts: fingerprints with types."""
    fingerprints, types = (list(each) for each in zip(*parts, strict=True))
    return await session.fetch(f"failure_trends_{table}", fingerprints, types, newest)


async def groups_from(session: Session, beginning: str) -> set[str]:
    """The first fingerprints of failure groups with this beginning, to see if it is unique."""
    rows = await session.fetch("groups_from", beginning)
    return {row["fingerprint"] for row in rows if row["fingerprint"].startswith(beginning)}


async def archive(
    session: Session,
    kind: str,
    fingerprint: str,
    actor: str,
    reason: str | None,
    *,
    count: int,
    last_id: int,
) -> None:
    await session.execute("keep_archived", kind, fingerprint, actor, reason, count, last_id)


async def unarchive(session: Session, fingerprint: str) -> bool:
    """End the archiving of a group; False: it was not archived."""
    return bool(await session.fetch("remove_archived", fingerprint))


async def forget_archived(session: Session) -> None:
    await session.execute("forget_archived")


async def batches_within(session: Session, batch: int | UUID) -> list[int]:
    """The ids of a batch and of all batches nested in it; empty if there is no such batch."""
    uuid, number = (batch, None) if isinstance(batch, UUID) else (None, batch)
    rows = await session.fetch("batches_within", uuid, number)
    return [row["id"] for row in rows]


# ------------------------------------------------------------------------------------- the audit

# Every action of operators, as the first word of an audit entry's action.
Audited = Literal[
    "abort",
    "accept",
    "add",
    "archive",
    "auto",
    "cancel",
    "change",
    "close",
    "disable",
    "discard",
    "dismiss",
    "drain",
    "drop",
    "edit",
    "emit",
    "enable",
    "erase",
    "export",
    "flush",
    "force closed",
    "force open",
    "make",
    "metrics only",
    "pause",
    "prioritize",
    "refuse",
    "remove",
    "replay",
    "reschedule",
    "resend",
    "reset",
    "resume",
    "rotate",
    "run",
    "send",
    "unarchive",
    "unsubscribe",
    "view",
]


async def record(
    session: Session,
    actor: str,
    action: Audited,
    target: str,
    reason: str | None,
    count: int,
    *,
    to: str | None = None,
) -> int:
    """Write an audit entry and return its id. to: the new value, written after the action."""
    what = action if to is None else f"{action} to {to}"
    return int(await session.fetchval("record_action", actor, what, target, reason, count))


async def newest_entry(session: Session, action: Audited, target: str, look: int) -> int:
    """Look for an action on a target with this end in the newest `look` entries; 0: none."""
    return int(await session.fetchval("newest_entry", action, target, look))


async def hold_target(session: Session, target: str) -> None:
    """Let other holders of the same target wait until the transaction ends."""
    await session.execute("hold_target", target)


async def record_more(session: Session, entry: int, count: int) -> None:
    await session.execute("record_more", entry, count)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFilter:
    """actor, target: a part of them. action: the whole, or its first word. below: of ids."""

    actor: str | None = None
    action: str | None = None
    target: str | None = None
    since: datetime | None = None
    below: int | None = None
    limit: int = 20


async def audit(session: Session, wanted: AuditFilter, look: int) -> list[Row]:
    return await session.fetch("list_audit", *astuple(wanted), look)


async def acts_on_row(
    session: Session,
    table: HotTable,
    id: int,
    since: datetime,
    until: datetime | None,
    *,
    look: int,
    limit: int,
) -> list[Row]:
    return await session.fetch("acts_on_row", table, id, since, until, look, limit)
