"""The commands table: survey, claim, settle, requeue, insert.

Promises that every write states the claim (worker and fence) on which it depends, and returns or
raises by the rows that it changed (promise 3).
*See:* `commands/sources/lanes.py`, which leases; `commands/settler.py`, which settles.
"""

from collections.abc import Mapping, Sequence
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple, cast
from uuid import UUID

import asyncpg

from inboxd.api.drafts import CommandDraft
from inboxd.errors import LeaseLost, UniqueKeyTaken
from inboxd.model.lane import Lane, Sighting
from inboxd.model.row_columns import columns_of
from inboxd.store.arrays import columns, cursors, filled, sparse
from inboxd.store.connections import Row
from inboxd.store.pages import pages
from inboxd.store.rows import ClaimedCommand
from inboxd.store.session import Session
from inboxd.store.settlements import EXPIRED, Parent, Requeue, Settlement

_LEASE_LOST = "IB001"
_UNIQUE_KEY_TAKEN = "IB006"
# The columns of drafts that insert_commands.sql takes as they are, in its order.
_OF_DRAFTS = tuple(
    name
    for name in columns_of("command")
    if name
    not in ("command_id", "payload", "run_at", "correlation_id", "causation_id", "traceparent")
)
NO_BATCHES: Mapping[UUID, int] = {}


class Suspected(NamedTuple):
    group: UUID
    queue: str
    type: str
    alone: bool
    keyed: bool
    oldest: float | None
    next: float | None
    since: float


async def survey(session: Session) -> list[Sighting]:
    """Every lane of pending commands; suspects: a lane per queue and type, with priority None."""
    rows = await session.fetch("survey_commands")
    return [Sighting((row[0], row[1], row[2]), *row[3:]) for row in rows]


async def claim(
    session: Session, worker: UUID, room: dict[str, int], lanes: Sequence[Lane], rows: int
) -> list[ClaimedCommand]:
    """Lease at most `rows` due commands, and of each queue at most its room."""
    claimed = await session.fetch(
        "claim_commands", worker, list(room), list(room.values()), *cursors(lanes, 0, 1, 2), rows
    )
    claimed.sort(key=lambda row: (row["lane"], row["run_at"], row["id"]))
    return cast("list[ClaimedCommand]", claimed)


async def find_suspects(session: Session) -> list[Suspected]:
    """Waiting groups of suspects by queue and type, the group that crashed first comes first."""
    return [Suspected(*row) for row in await session.fetch("find_suspects")]


async def claim_suspects(
    session: Session,
    worker: UUID,
    group: UUID,
    types: Sequence[str],
    room: Mapping[str, int],
    rows: int,
    *,
    alone: bool = False,
) -> list[ClaimedCommand]:
    """alone: no other command runs on this worker."""
    claimed = await session.fetch(
        "claim_suspects", worker, group, types, list(room), list(room.values()), rows, alone
    )
    claimed.sort(key=itemgetter("run_at", "id"))
    return cast("list[ClaimedCommand]", claimed)


async def end_alone(session: Session, worker: UUID, id_: int, fence: int) -> None:
    """End a suspect's time alone: from now on other commands may run beside it."""
    await session.execute("end_alone", id_, fence, worker)


async def end(
    session: Session, worker: UUID, ended: Sequence[Settlement], requeues: Sequence[Requeue]
) -> set[int]:
    """Returns the ids whose claim still held.

    One transaction; it locks all waiting rows first if several ends may release some: no deadlock.
    """
    dead = [each.id for each in requeues if each.status == "failed"]
    if len(dead) > 1 or (requeues and ended):
        outcomes = {each.id: "failed" if each.status == "failed" else None for each in requeues}
        outcomes |= {e.id: "cancelled" if e.status == EXPIRED else e.status for e in ended}
        await session.execute("hold_ending", list(outcomes), [], list(outcomes.values()))
    held = await settle(session, worker, ended)
    return held | (await requeue(session, worker, requeues) if requeues else set())


async def settle(session: Session, worker: UUID, ended: Sequence[Settlement]) -> set[int]:
    """Returns the ids whose claim still held.

    Sorted by id, the order in which all code locks commands without dependencies: no deadlock.
    """
    if not ended:
        return set()
    ended = sorted(ended, key=itemgetter(0))
    ids, fences, statuses, seconds, results = map(list, zip(*ended, strict=True))
    rows = await session.fetch(
        "settle_commands", ids, fences, statuses, seconds, filled(results), worker
    )
    return {row[0] for row in rows}


async def settle_own(session: Session, worker: UUID, ended: Settlement, ending: str) -> None:
    """One round trip without a result; `ending` commits. After LeaseLost nothing was committed."""
    id_, fence, _, seconds, result = ended
    try:
        if result is None:
            call = f"{session.sql['settle_command']}({id_:d}, {fence:d}, '{worker}', {seconds:.9f})"
            await session.connection.execute(f"{call}; {ending}")
        else:
            await session.execute("settle_with_result", id_, fence, worker, seconds, result)
            await session.connection.execute(ending)
    except asyncpg.PostgresError as error:
        if error.sqlstate == _LEASE_LOST:
            raise LeaseLost(f"command {ended.id}: {error}") from error
        raise


async def requeue(session: Session, worker: UUID, requeues: Sequence[Requeue]) -> set[int]:
    """Returns the ids whose claim held; sorted by id, as in `settle`."""
    requeues = sorted(requeues, key=attrgetter("id"))
    rows = await session.fetch(
        "requeue_commands",
        *columns(requeues, "id", "fence", "status", "spent", "delay", "run_at"),
        *columns(requeues, "error", "fingerprint"),
        worker,
        *columns(requeues, "unrun"),
    )
    return {row[0] for row in rows}


async def insert(
    session: Session,
    sent: Sequence[tuple[CommandDraft, Parent]],
    batches: Mapping[UUID, int] = NO_BATCHES,
) -> None:
    """Omits a command whose unique key is taken; raises UniqueKeyTaken if it is to be rejected."""
    if any(draft.unique_key is not None for draft, _ in sent):
        sent = await _free_of_others(session, sent)
    for cut in pages(len(draft.payload) for draft, _ in sent):
        page = sent[cut]
        drafts = [draft for draft, _ in page]
        parents = [parent for _, parent in page]
        await session.execute(
            "insert_commands",
            *columns(drafts, "command_id", "payload"),
            *sparse(drafts, "run_at", "delay"),
            *columns(parents, "kind", "id", "lineage.correlation_id", "lineage.causation_id"),
            *sparse(parents, "lineage.traceparent"),
            *_grouped(drafts, batches),
            *sparse(drafts, *_OF_DRAFTS),
        )


async def _free_of_others(
    session: Session, sent: Sequence[tuple[CommandDraft, Parent]]
) -> list[tuple[CommandDraft, Parent]]:
    """The commands to insert; locks their unique keys until this transaction ends."""
    unique = [draft for draft, _ in sent if draft.unique_key is not None]
    try:
        stays = await session.fetchval(
            "resolve_unique_keys", *columns(unique, "type", "unique_key", "on_conflict")
        )
    except asyncpg.PostgresError as error:
        if error.sqlstate == _UNIQUE_KEY_TAKEN:
            raise UniqueKeyTaken(f'{error}; on_conflict="keep" keeps that command.') from error
        raise
    kept = {draft.command_id for draft, stay in zip(unique, stays, strict=True) if stay}
    taken = set[tuple[str, str]]()
    free = []
    for draft, parent in sent:
        key = None if draft.unique_key is None else (draft.type, draft.unique_key)
        if draft.command_id in kept or key in taken:
            continue
        if key is not None:
            taken.add(key)
        free.append((draft, parent))
    return free


def _grouped(drafts: Sequence[CommandDraft], batches: Mapping[UUID, int]) -> Sequence[list[Any]]:
    if not batches:
        return [], [], []
    return (
        [None if d.batch is None else batches[d.batch] for d in drafts],
        [d.needs for d in drafts],
        [d.awaited for d in drafts],
    )


async def expired(session: Session, after: Row | None, rows: int) -> list[Row]:
    """A page of commands that have expired. after: the last one of the page before."""
    expires_at, id_ = (None, 0) if after is None else (after["expires_at"], after["id"])
    return await session.fetch("expired_commands", expires_at, id_, rows)


async def expire(session: Session, ids: Sequence[int]) -> list[Row]:
    """Cancel those that have expired and are free. Returns their numbers, by queue and type."""
    return await session.fetch("expire_commands", ids)


async def write_progress(
    session: Session, worker: UUID, told: Sequence[tuple[int, int, str]]
) -> set[int]:
    """Write (id, fence, JSON object) for running commands; returns the ids whose claim held."""
    ids, fences, texts = zip(*told, strict=True)
    rows = await session.fetch("write_progress", worker, ids, fences, texts)
    return {row[0] for row in rows}


async def release(session: Session, worker: UUID, but: Sequence[int] = ()) -> int:
    return len(await session.fetch("release_commands", worker, but))
