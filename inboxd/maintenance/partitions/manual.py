"""Operators make, export and drop partitions by hand.

Each action has a line in the audit, written before it begins; the current day is never touched.
Known limit: the session must be patient (`open_session(..., patient=True)`).
"""

from collections.abc import Sequence
from datetime import timedelta

from inboxd.errors import Conflict, NotFound
from inboxd.maintenance.partitions.export import Exporter
from inboxd.maintenance.partitions.removal import PartitionRemoval
from inboxd.model.wording import plural
from inboxd.store import operations as audit
from inboxd.store import partitions
from inboxd.store.partitions import BODIES, RECEIPTS, Partition
from inboxd.store.retention import pins
from inboxd.store.session import Session

_OVER = timedelta(days=1).total_seconds()


async def make(session: Session, days: int, *, actor: str, reason: str | None = None) -> int:
    """Returns how many were made. Raises Conflict, after the others, if a table is in the way."""
    async with session.transaction():
        made = await partitions.make(session, days)
        await audit.record(session, actor, "make", f"partitions {days} days ahead", reason, made)
        apart = await partitions.apart(session)
    for each in apart:
        if 0 <= each.ahead <= days:
            raise Conflict(
                f"made {plural(made, 'partition')}, but {each.part} is there, detached: attach it "
                f"again: {each.attach} or give it another name: {each.rename}"
            )
    return made


async def chosen(session: Session, names: Sequence[str], *, to_drop: bool) -> list[Partition]:
    """History first. Raises NotFound, and Conflict if one cannot be exported or dropped."""
    found = await partitions.listed(session, sizes=True)
    known = {each.part: each for each in found}
    if unknown := [name for name in names if name not in known]:
        raise NotFound(f"there is no partition {', '.join(unknown)}: see `inboxd history list`")
    wanted = sorted((known[name] for name in names), key=lambda each: each.parent == BODIES)
    rest = [each for each in found if each.part not in names]
    for each in wanted:
        _judge(each, rest, to_drop=to_drop)
    return wanted


def _judge(partition: Partition, rest: Sequence[Partition], *, to_drop: bool) -> None:
    if partition.age < _OVER:
        raise Conflict(f"{partition.part} is not over for a day yet: nothing was done")
    if not to_drop:
        if partition.parent == RECEIPTS:
            raise Conflict(f"{partition.part}: only history is exported, not receipts")
        if partition.parent == BODIES:
            raise Conflict(f"{partition.part}: payloads are exported with the rows they belong to")
        if partition.state != "attached":
            raise Conflict(f"{partition.part} is {partition.state}: it is being dropped")
    elif needing := pins(partition, rest):
        raise Conflict(
            f"{partition.part} has payloads of history that is kept: drop {needing[0]}"
            f"{f' and {len(needing) - 1} more' if needing[1:] else ''} before"
        )


async def export(
    session: Session,
    partition: Partition,
    exporter: Exporter,
    *,
    actor: str,
    reason: str | None = None,
) -> int:
    """Write a partition to a file; returns its rows. Raises ExportError."""
    target = f"partition {partition.part}"
    entry = await audit.record(session, actor, "export", target, reason, 0)
    rows, _ = await exporter.write(session, partition)
    await audit.record_more(session, entry, rows)
    return rows


async def drop(
    session: Session,
    partition: Partition,
    exporter: Exporter | None,
    *,
    actor: str,
    reason: str | None = None,
) -> bool:
    """False: it is still needed. Raises ExportError, and PartitionBusy: a worker continues."""
    target = f"partition {partition.part}"
    entry = await audit.record(session, actor, "drop", target, reason, 0)
    gone = await PartitionRemoval(session, exporter).go(partition)
    if gone:
        await audit.record_more(session, entry, partition.exported or partition.rows or 0)
    return gone
