"""What an operator's actions write: replays, dismissals, cancellations, the audit.

Owns the statements behind `inboxd.operations`. Promises that a row is locked before its status is
judged, and that a statement changes only rows of the status it is meant for (promise 8).
Known limit: all that changes rows must run inside one transaction, the caller's.
*See:* `operations/rows.py`, before it.
"""

from collections.abc import Collection, Sequence
from dataclasses import astuple, dataclass
from datetime import datetime
from typing import Final, Literal
from uuid import UUID

from inboxd.store.connections import Row
from inboxd.store.producing import refusals
from inboxd.store.session import Session
from inboxd.store.wakeups import HotTable

# Dead letters that are looked at until something is told; and that the first statement looks at, at
# least, and how many times as many the next one.
_LOOK: Final = 20_000
_FEWEST, _MORE = 100, 4


@dataclass(frozen=True, slots=True)
class Match:
    """Which rows an action on many is meant for; None takes any. `lane`: topic or queue."""

    statuses: Collection[str]
    type: str | None = None
    lane: str | None = None
    tenants: Collection[str] | None = None
    since: datetime | None = None
    error: str | None = None
    fingerprint: str | None = None
    batches: Sequence[int] | None = None

    def arguments(self) -> list[object]:
        """As the statements take them."""
        return [
            list(self.statuses),
            *(self.type, self.lane, None if self.tenants is None else list(self.tenants)),
            *(self.since, self.error, self.fingerprint, self.batches),
        ]


async def lock(
    session: Session,
    table: HotTable,
    ids: Sequence[int],
    uuids: Sequence[UUID],
    *,
    ending: bool = False,
) -> list[Row]:
    """The hot rows among these, held until the transaction ends.

    ending: commands are to end, so what waits for them is held with them, in one order. id, uuid,
    status, hot, tenant, updated_at. Of events topic and mode too; of those in lines, their buckets
    first, as workers do: no page has them then.
    """
    if table == "events":
        await session.execute("hold_buckets_of", ids, uuids)
    elif ending:
        await session.execute("hold_ending", ids, uuids, ["cancelled"])
    return await session.fetch(f"lock_{table}", ids, uuids)


async def settled(
    session: Session, table: HotTable, ids: Sequence[int], uuids: Sequence[UUID]
) -> list[Row]:
    """Those among these that are in history: id, uuid, status, hot, tenant, updated_at."""
    return await session.fetch(f"settled_{table}", ids, uuids)


async def replay_in_place(
    session: Session, table: HotTable, ids: Sequence[int], actor: str, reason: str | None
) -> list[Row]:
    """Let dead letters run again: events, commands with an ordering key; their old_id, new_id.

    Of all these commands the unique keys are held: `replay_as_new` may come behind it.
    """
    if table == "events":
        return await session.fetch("replay_events", ids, actor, reason)
    await session.fetchval("hold_unique_keys", ids)
    return await session.fetch("replay_commands_in_place", ids, actor, reason)


async def replay_as_new(
    session: Session, ids: Sequence[int], actor: str, reason: str | None
) -> list[Row]:
    """Let new rows take the places of dead letters; their old_id, new_id."""
    return await session.fetch("replay_commands", ids, actor, reason)


async def replace_payload(session: Session, id: int, payload: str) -> None:
    """Another payload (JSON text) for a row that this transaction has made as a replay.

    Raises UsageError for what the database does not take.
    """
    with refusals():
        await session.fetchval("replace_payload", id, payload)


async def edit_payload(session: Session, id: int, payload: str) -> bool:
    """Another payload (JSON text) for a row that is held; False: a worker has had it.

    Raises UsageError for what the database does not take.
    """
    with refusals():
        return await session.fetchval("edit_payload", id, payload) is not None


async def edited(session: Session, id: int) -> Row:
    """What of a command that is held may be edited, but its payload; and its type and queue."""
    return await session.one("edited_command", id)


async def dismiss(session: Session, table: HotTable, ids: Sequence[int]) -> list[int]:
    """Move dead letters into history; returns the ids of those that were."""
    rows = await session.fetch(f"dismiss_{table}", ids)
    return [row["id"] for row in rows]


async def cancel(session: Session, ids: Sequence[int]) -> list[int]:
    """Move commands that do not run into history; returns the ids of those that did not."""
    rows = await session.fetch("cancel_commands", ids)
    return [row["id"] for row in rows]


async def request_cancel(session: Session, ids: Sequence[int]) -> list[int]:
    """Ask for the end of commands that run; returns the ids of those that do."""
    rows = await session.fetch("request_cancel", ids)
    return [row["id"] for row in rows]


async def reschedule(
    session: Session, table: HotTable, ids: Sequence[int], run_at: datetime
) -> list[int]:
    """Give rows that wait another time; returns the ids of those that did."""
    rows = await session.fetch(f"reschedule_{table}", ids, run_at)
    return [row["id"] for row in rows]


async def reprioritize(session: Session, ids: Sequence[int], priority: int) -> list[int]:
    """Give commands that wait another priority; returns the ids of those that did."""
    rows = await session.fetch("reprioritize_commands", ids, priority)
    return [row["id"] for row in rows]


async def consequences(session: Session, ids: Sequence[int]) -> list[Row]:
    """What an action on commands brings about for each of them: see its SQL."""
    return await session.fetch("consequences", ids)


async def count_consequences(
    session: Session,
    ids: Sequence[int],
    counted_to: int,
    skipping: Sequence[str],
    at_once: Sequence[str],
) -> Row:
    """How many other rows it brings on: waiting, more_waiting, behind, more_behind.

    skipping, at_once: queues whose dead letters hold no key, and those that keep no order.
    """
    return await session.one("count_consequences", ids, counted_to, skipping, at_once)


async def ability(session: Session) -> Row:
    """Whether what operators do can be written: standby, read_only, may."""
    return await session.one("ability")


# ------------------------------------------------------------------------------ many rows at once


@dataclass(frozen=True, slots=True)
class MatchedAhead:
    """The rows that match among the next ones. to: up to which all were looked at; end: no more."""

    ids: Sequence[int]
    to: int
    end: bool


async def matching(
    session: Session, table: HotTable, wanted: Match, above: int, last: int, limit: int
) -> list[int]:
    """The ids of the next rows that match.

    Dead letters are looked up by their own index, some at a time; other commands by a walk along
    the ids.
    """
    if set(wanted.statuses) != {"failed"}:
        async with session.connection.transaction():
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
    """The next dead letters that match, among about so many."""
    ids, rows = list[int](), max(_FEWEST, 2 * limit)
    async with session.connection.transaction():
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
            # Where few match, more are looked at.
            look, rows = look - rows, _MORE * rows
    return MatchedAhead(ids, above, end=False)


async def still_matching(
    session: Session, table: HotTable, wanted: Match, held: Collection[Row]
) -> list[Row]:
    """Those among rows that this transaction holds that match; in their order."""
    ids = [row["id"] for row in held]
    rows = await session.fetch(f"still_match_{table}", *wanted.arguments(), ids) if ids else []
    found = {row["id"] for row in rows}
    return [row for row in held if row["id"] in found]


async def count(session: Session, table: HotTable, wanted: Match) -> tuple[int, int]:
    """How many rows match, and the largest id of them."""
    row = await session.one(f"count_{table}", *wanted.arguments())
    return row["count"], row["last"]


async def sample(session: Session, table: HotTable, ids: Sequence[int]) -> list[Row]:
    """What rows look like: id, type, lane, status, tenant, created_at, error."""
    return await session.fetch(f"sample_{table}", ids)


async def failures(session: Session, table: HotTable, group: str | None, limit: int) -> list[Row]:
    """Dead letters counted by fingerprint and type, the most frequent first."""
    return await session.fetch(f"failures_{table}", group, limit)


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
    """Of the newest of each type of a group, and of the first, whose they are: see its SQL."""
    return await session.fetch(f"spread_{table}", group, list(types), newest, first, limit)


async def groups_from(session: Session, beginning: str) -> set[str]:
    """The first failure groups whose names begin so: none, one, or two and more."""
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
    """Note that a group is archived with so many dead letters."""
    await session.execute("keep_archived", kind, fingerprint, actor, reason, count, last_id)


async def unarchive(session: Session, fingerprint: str) -> bool:
    """Let a group be archived no more; False: it was not."""
    return bool(await session.fetch("remove_archived", fingerprint))


async def forget_archived(session: Session) -> None:
    """Remove what is noted of groups that have no dead letter any more."""
    await session.execute("forget_archived")


async def batches_within(session: Session, batch: int | UUID) -> list[int]:
    """The number of a batch and of all that are nested in it; empty: there is none."""
    uuid, number = (batch, None) if isinstance(batch, UUID) else (None, batch)
    rows = await session.fetch("batches_within", uuid, number)
    return [row["id"] for row in rows]


# ------------------------------------------------------------------------------------- the audit

# All that operators do: the first word of a line's action.
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
    """Write one line of the audit; returns its id. to: what it was changed to, after the action."""
    what = action if to is None else f"{action} to {to}"
    return int(await session.fetchval("record_action", actor, what, target, reason, count))


async def record_more(session: Session, entry: int, count: int) -> None:
    """So many rows more, in a line of the audit."""
    await session.execute("record_more", entry, count)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFilter:
    """Which entries of the audit, the newest first; None takes any.

    actor and target: a part of it. action: the whole of it, or its first word. below: only entries
    before this one, for the next page.
    """

    actor: str | None = None
    action: str | None = None
    target: str | None = None
    since: datetime | None = None
    below: int | None = None
    limit: int = 20


async def audit(session: Session, wanted: AuditFilter, look: int) -> list[Row]:
    """What operators did, among so many entries at most: see `list_audit.sql`."""
    return await session.fetch("list_audit", *astuple(wanted), look)
