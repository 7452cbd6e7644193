"""Batches: inserting what handlers planned, folding, expiry, results of steps.

Promises that a plan needs a fixed number of statements per 5,000 of its rows and level of nesting,
and that batches are locked in one order, so that pages do not deadlock. A batch that accepts no
more members raises Conflict with the database's message.
*See:* `commands/settler.py`, before it; `engine/batch_folder.py`, after it.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple, TypedDict, cast
from uuid import UUID

import asyncpg
import orjson

from inboxd.api.drafts import CommandDraft
from inboxd.api.groups import BatchDraft, EdgeDraft, Plan, StepDraft
from inboxd.errors import Conflict, NotFound
from inboxd.model.lineage import Lineage
from inboxd.store import commands
from inboxd.store.arrays import columns
from inboxd.store.connections import Row
from inboxd.store.session import Session
from inboxd.store.settlements import Parent

_ROWS_PER_STATEMENT = 5_000
# SQLSTATEs that our functions raise: the batch does not exist, or has ended.
_UNKNOWN, _ENDED = "IB004", "IB005"

Sent = Sequence[tuple[CommandDraft, Parent]]


class Planned(NamedTuple):
    plan: Plan
    parent: Parent


class Folded(NamedTuple):
    """A batch after its fold; parent: the batch that must be folded next."""

    id: int
    status: str
    unsettled: int
    more: bool
    parent: int | None


class ExpiredBatch(TypedDict):
    id: int
    name: str | None
    size: int
    expires_at: datetime


async def write(session: Session, sent: Sent, planned: Sequence[Planned]) -> list[int]:
    """Insert sent commands and planned batches; returns the batches to fold after the commit."""
    if not planned:
        if sent:
            await commands.insert(session, sent)
        return []
    ids, waiting, fold = await _open(session, planned)
    within = [_within(draft, parent, ids, waiting) for draft, parent in sent]
    await commands.insert(session, within, ids)
    edges = [edge for plan, _ in planned for edge in plan.edges]
    await _insert_edges(session, edges)
    steps = [step for plan, _ in planned for step in plan.steps]
    await _insert_steps(session, steps, edges, ids)
    for batch_id in sorted({one for plan, _ in planned for one in plan.closed}):
        fold += await close(session, batch_id)
    return fold


async def _open(
    session: Session, planned: Sequence[Planned]
) -> tuple[dict[UUID, int], set[UUID], list[int]]:
    """Insert new batches and lock those that get members: ids by uuid, waiting batches, to fold."""
    ids: dict[UUID, int] = {}
    todo = [(draft, parent) for plan, parent in planned for draft in plan.batches]
    while todo:
        ready = [each for each in todo if each[0].parent is None or each[0].parent in ids]
        for start in range(0, len(ready), _ROWS_PER_STATEMENT):
            ids |= await _insert(session, ready[start : start + _ROWS_PER_STATEMENT], ids)
        todo = [each for each in todo if each[0].batch_id not in ids]
    fold = [
        ids[draft.batch_id]
        for plan, _ in planned
        for draft in plan.batches
        if draft.size == 0 and draft.expires is None
    ]
    added: dict[UUID, int] = {}
    for plan, _ in planned:
        for batch_id, count in plan.added.items():
            added[batch_id] = added.get(batch_id, 0) + count
    waiting = set()
    for batch_id in sorted(added):
        row = await _asked(session, "hold_open_batch", batch_id, added[batch_id])
        ids[batch_id] = row["id"]
        fold.append(row["id"])
        if row["waits"]:
            waiting.add(batch_id)
    return ids, waiting, fold


async def _insert(
    session: Session, page: Sequence[tuple[BatchDraft, Parent]], ids: dict[UUID, int]
) -> dict[UUID, int]:
    drafts = [draft for draft, _ in page]
    parents = [parent for _, parent in page]
    rows = await session.fetch(
        "insert_batches",
        *columns(drafts, "batch_id", "kind", "name"),
        [None if d.parent is None else ids[d.parent] for d in drafts],
        *columns(drafts, "tenant", "size", "needs", "awaited", "expires"),
        *columns(parents, "kind", "id", "lineage.correlation_id", "lineage.causation_id"),
        *columns(parents, "lineage.traceparent"),
        *columns(drafts, "type"),
    )
    return {row["batch_id"]: row["id"] for row in rows}


def _within(
    draft: CommandDraft, parent: Parent, ids: dict[UUID, int], waiting: set[UUID]
) -> tuple[CommandDraft, Parent]:
    """Make a batch the parent of its continuation; members of a waiting batch wait as well."""
    if draft.batch in waiting:
        draft = draft._replace(needs=1)
    if draft.origin is None:
        return draft, parent
    of_row = parent.lineage
    lineage = Lineage(of_row.correlation_id, draft.origin, of_row.traceparent)
    return draft, Parent("batch", ids[draft.origin], lineage)


async def _insert_edges(session: Session, edges: Sequence[EdgeDraft]) -> None:
    for start in range(0, len(edges), _ROWS_PER_STATEMENT):
        page = edges[start : start + _ROWS_PER_STATEMENT]
        await session.execute(
            "insert_dependencies", *columns(page, "needs", "waiting", "condition")
        )


async def _insert_steps(
    session: Session, steps: Sequence[StepDraft], edges: Sequence[EdgeDraft], ids: dict[UUID, int]
) -> None:
    """Insert step names with their dependencies; the rows of edges are deleted as they are met."""
    names = {step.member: step.name for step in steps}
    after: dict[UUID, list[str]] = {}
    for needs, waiting, condition in edges:
        if needs in names:
            after.setdefault(waiting, []).append(f"{names[needs]} {condition}")
    for start in range(0, len(steps), _ROWS_PER_STATEMENT):
        page = steps[start : start + _ROWS_PER_STATEMENT]
        await session.execute(
            "insert_steps",
            [ids[step.workflow] for step in page],
            *columns(page, "name", "member"),
            [orjson.dumps(after.get(step.member, [])).decode() for step in page],
        )


async def close(session: Session, batch_id: UUID) -> list[int]:
    """Returns the batches to fold after the commit. Raises NotFound or Conflict."""
    row = await _asked(session, "close_batch", batch_id)
    return [one for one in (row["id"], row["parent_id"]) if one is not None]


async def _asked(session: Session, statement: str, batch_id: UUID, *rest: Any) -> Row:
    try:
        row = await session.fetchrow(statement, batch_id, *rest)
    except asyncpg.PostgresError as error:
        text = f"{error.args[0]}: {getattr(error, 'hint', None) or 'see `inboxd batches show`'}"
        if error.sqlstate == _UNKNOWN:
            raise NotFound(text) from error
        if error.sqlstate == _ENDED:
            raise Conflict(text) from error
        raise
    if row is None:
        raise NotFound(f"there is no batch {batch_id}")
    return row


async def fold(session: Session, ids: Sequence[int], patience: str | None = None) -> list[Folded]:
    """patience: the lock timeout of a background folder, which does not wait for the WAL flush."""
    rows = await session.fetch("fold_batches", ids, patience)
    return [Folded(*row) for row in rows]


async def unfolded(session: Session, seconds: float) -> list[int]:
    """Batches with progress that has waited for a fold for at least `seconds`."""
    return [row[0] for row in await session.fetch("unfolded_batches", seconds)]


async def expire(session: Session) -> list[ExpiredBatch]:
    return cast("list[ExpiredBatch]", await session.fetch("expire_batches"))


async def step_result(session: Session, batch: int, step: str) -> Any:
    """The result of a step of the batch's workflow; raises NotFound with the reason."""
    row = await session.fetchrow("step_result", batch, step)
    if row is None:
        raise NotFound(f"there is no result of {step!r}: this command is in no workflow")
    if row["member"] is None:
        raise NotFound(f"workflow {row['workflow']} has no step {step!r}")
    if row["is_batch"]:
        raise NotFound(f"the step {step!r} is a batch, which has no result of its own")
    if row["status"] is None:
        raise NotFound(f"the result of {step!r} is not kept any more: its row has left the history")
    if row["status"] != "succeeded":
        raise NotFound(f"the step {step!r} has no result: it is {row['status']}")
    return None if row["result"] is None else orjson.loads(row["result"])
